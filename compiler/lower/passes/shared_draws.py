"""Lets neighbours that one thread draws share a call of the generator, whose four words are those of four neighbours.

    unrolled loop k { x[k] = rand(element e + k) }   ->   declare words; unrolled loop k { x[k] = rand(…) by words }

where e is a multiple of four, or of two, and all turns have one seed and one offset. Every number is what it was.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.expr import const
from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Compute, Declare, Loop, SharedCall, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import registers_set, with_bodies

WORDS = 4
"""Of a call (Philox 4x32)."""


def share_draws(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such loop."""
    return tuple(made for s in body for made in _shared(s))


def _shared(s: Stmt) -> tuple[Stmt, ...]:
    inner = with_bodies(s, share_draws)
    return _in_loop(inner) if isinstance(inner, Loop) else (inner,)


def _in_loop(loop: Loop) -> tuple[Stmt, ...]:
    """The loop, behind the words of the calls that its turns share."""
    declared: list[Stmt] = []
    inside: list[Stmt] = []
    for s in loop.body:
        if isinstance(s, Compute) and s.kind is OpKind.RAND and s.call is None and (group := _group(s, loop)) > 1:
            name = f"{s.target.name}_words"
            declared.append(Declare(name, DType.I32, WORDS))
            s = replace(s, call=SharedCall(name, group, loop.var))
        inside.append(s)
    return *declared, replace(loop, body=tuple(inside))


def _group(s: Compute, loop: Loop) -> int:
    """How many turns in a row share a call, counted from the first: 4, 2 or 1."""
    if s.element is None or not loop.unroll or not loop.trip.is_const:
        return 1
    states = [x for x in s.operands if isinstance(x, Reg)]
    own = set(registers_set(loop.body))
    if any(loop.var in x.offset.variables or x.name in own for x in states):
        return 1
    first, *others = (s.element.substitute({loop.var: const(k)}) for k in range(loop.trip.const))
    if not others or any(e - first != const(k) for k, e in enumerate(others, 1)):
        return 1
    return next((group for group in (WORDS, 2) if first.divisible_by(group)), 1)
