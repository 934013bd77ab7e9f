"""Joins loops that take the maximum or minimum of 16-bit floats into one fold of pairs.

    for k < 4: for u < 8: m = amax with x[k * 8 + u]   ->   m = amax with x[0 +: 32]

The order does not matter to a maximum, and a pair takes one instruction (PTX ISA, max.bf16x2).
"""

from __future__ import annotations

from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.expr import Expr
from compiler.ir.ops import EXTREMES
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Elected, If, Loop, Stmt

_HALVES = (DType.F16, DType.BF16)


def pack_folds(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such loop replaced."""
    return tuple(_packed(s) for s in body)


def _packed(s: Stmt) -> Stmt:
    match s:
        case Loop():
            inner = replace(s, body=pack_folds(s.body))
            return _joined(inner) or inner
        case If():
            return replace(s, then=pack_folds(s.then), orelse=pack_folds(s.orelse))
        case Elected():
            return replace(s, body=pack_folds(s.body))
        case _:
            return s


def _joined(loop: Loop) -> AccumulateRun | None:
    """The whole loop as one run, if it is unrolled and each turn folds the elements that follow those of the last."""
    if not (loop.unroll and loop.trip.is_const and len(loop.body) == 1):
        return None
    turns = loop.trip.const
    match loop.body[0]:
        case Accumulate(kind=kind, target=target, source=source, guards=()) if (
            kind in EXTREMES and source.dtype in _HALVES and target.dtype is source.dtype
        ):
            width = 1
        case AccumulateRun(kind=kind, target=target, source=source, width=width):
            pass
        case _:
            return None
    if loop.var in target.offset.variables or turns * width % 2:
        return None
    first = source.offset.substitute({loop.var: Expr()})
    if turns > 1 and source.offset - first != Expr(((loop.var, width),)):
        return None
    return AccumulateRun(kind, target, replace(source, offset=first), turns * width)
