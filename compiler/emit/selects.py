"""Conditions as selections: folds that are made in any case, and forgotten where they are not wanted.

    if (in) for lane: s = s + f(x[lane])   ->   before = s; for lane: s = s + f(x[lane]); s = in ? s : before

A branch would end the block of instructions within which ptxas orders loads by their latency: a load in front of it
goes behind the folds of those before it, and a row then waits for memory twice (logsumexp of 32000 columns on an H200:
150 us instead of 118).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Compute, Convert, Declare, If, Index, Loop, Stmt
from compiler.lower.operands import Reg


def folded_under(s: If) -> tuple[Reg, ...]:
    """The registers that the body of a condition folds into, if it does nothing else that outlives it; else none."""
    if s.orelse:
        return ()
    declared = {x.name for x in _statements(s.then) if isinstance(x, Declare)}
    found: list[Reg] = []
    for x in _statements(s.then):
        match x:
            case Accumulate(target=target) | AccumulateRun(target=target) if not target.offset.variables:
                found.append(target)
            case Compute(OpKind.FMA, target, (*_, total)) if total == target and not target.offset.variables:
                found.append(target)
            case Compute() | Convert() | Index() if x.target.name in declared:
                pass
            case Declare():
                pass
            case Loop(unroll=True):
                pass
            case _:
                return ()
    return tuple(dict.fromkeys(found))


def _statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from _statements(s.body)
