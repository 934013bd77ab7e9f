"""Divisions by what no turn of the loop around them changes: one reciprocal serves all turns, each of which multiplies.

ptxas moves the reciprocal of an approximate division out of a loop (SASS of sm_90a: rows over their sums).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.ops import MathGrade, OpKind
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Reg
from compiler.lower.traversal import registers_set


def invariant_divisions(body: tuple[k.Stmt, ...]) -> frozenset[int]:
    """Of the divisions in loops, the identities of those whose divisor no turn sets of the innermost loop, or of an
    unrolled one around it."""
    return frozenset(id(s) for s in _in_loops(body, ()))


def _in_loops(body: tuple[k.Stmt, ...], loops: tuple[k.Loop, ...]) -> Iterator[k.Compute]:
    for s in body:
        match s:
            case k.Loop():
                yield from _in_loops(s.body, (*(loop for loop in loops if loop.unroll), s))
            case k.If():
                yield from _in_loops(s.then, loops)
                yield from _in_loops(s.orelse, loops)
            case k.Elected():
                yield from _in_loops(s.body, loops)
            case k.Compute(kind=OpKind.DIV, operands=(_, Reg() as by)) if s.grade is not MathGrade.EXACT:
                if any(_is_same(by, loop) for loop in loops):
                    yield s
            case _:
                pass


def _is_same(operand: Reg, loop: k.Loop) -> bool:
    """Whether all turns of the loop read the same."""
    return loop.var not in operand.offset.variables and operand.name not in set(registers_set(loop.body))
