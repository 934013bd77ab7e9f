"""Joins loops that take the maximum or minimum of 16-bit floats into one fold of pairs.

    for k < 4: for u < 8: m = amax with x[k * 8 + u]   ->   m = amax with x[0 +: 32]
    for u < 8: { a = f32 of x[u]; b = |a|; m = amax with b }   ->   m = amax with sizes of x[0 +: 8]

The order does not matter to a maximum, and a pair takes one instruction (PTX ISA, max.bf16x2). Widening is exact and
keeps it: rows are quantised by their largest size in f32, which is that of their halves.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.expr import Expr
from compiler.ir.ops import EXTREMES, OpKind
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Compute, Declare, Loop, Stmt
from compiler.lower.operands import Reg
from compiler.lower.traversal import with_bodies

_HALVES = (DType.F16, DType.BF16)


def pack_folds(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such loop replaced."""
    return tuple(_packed(s) for s in body)


def _packed(s: Stmt) -> Stmt:
    inner = with_bodies(s, pack_folds)
    return (_joined(inner) if isinstance(inner, Loop) else None) or inner


def _joined(loop: Loop) -> AccumulateRun | None:
    """The whole loop as one run, if it is unrolled and each turn folds the elements that follow those of the last."""
    if not (loop.unroll and loop.trip.is_const):
        return None
    turns = loop.trip.const
    folded = loop.body[0] if len(loop.body) == 1 else _of_sizes(loop.body)
    of_sizes = False
    match folded:
        case Accumulate(kind=kind, target=target, source=source, guards=()) if (
            kind in EXTREMES and source.dtype in _HALVES and target.dtype is source.dtype
        ):
            width = 1
        case AccumulateRun(kind=kind, target=target, source=source, width=width, of_sizes=of_sizes):
            pass
        case _:
            return None
    if loop.var in target.offset.variables or turns * width % 2:
        return None
    first = source.offset.substitute({loop.var: Expr()})
    if turns > 1 and source.offset - first != Expr(((loop.var, width),)):
        return None
    return AccumulateRun(kind, target, replace(source, offset=first), turns * width, of_sizes)


def _of_sizes(body: tuple[Stmt, ...]) -> AccumulateRun | None:
    """A half that is widened, loses its sign and is folded, as a run of one; None for other bodies."""
    match body:
        case (
            Declare(name=wide),
            Compute(kind=OpKind.CAST, target=first, operands=(Reg() as source,)),
            Declare(name=size),
            Compute(kind=OpKind.ABS, target=second, operands=(Reg() as widened,)),
            Accumulate(kind=OpKind.AMAX, target=target, source=folded, guards=()),
        ) if (
            source.dtype in _HALVES
            and {first.dtype, second.dtype, target.dtype} == {DType.F32}
            and first == widened
            and second == folded
            and (first.name, second.name) == (wide, size)
        ):
            return AccumulateRun(OpKind.AMAX, target, source, 1, of_sizes=True)
        case _:
            return None
