"""Errors of sums that a kernel may fold along with their maximum: exponentials of what is less the greatest of it.

Such a sum is scaled whenever the maximum so far rises (`compiler.schedule.online`): by exp(before - after), whose
relative error is that of an exponential, and by a product. The parts of those errors that grow with the argument add up
to what they are for the whole distance of a term, which the exponential's own error counts; what is left is 2^-22 of
ex2.approx (PTX ISA, "ex2") and 2^-24 of a product for each factor that is not 1, nothing for one that is. A term meets
at most a factor for each turn of its thread's loop, and one each in its warp, block and cluster. As errors of a sum's
terms do (`search.proof.verify.functions.sum_error`), they add up as if independent: 2^-17 is what 645 of them come to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.fusion import Number, Op
from compiler.ir.ops import SUMS, OpKind
from search.proof.verify.arrays import Array
from search.proof.verify.intervals import Bounded, Intervals, SumRole

_RESCALED = 2.0**-17
_RESCALED_F64 = 2.0**-46


class OnlineIntervals(Intervals):
    """Ends that follow which values are maxima, distances to them, and exponentials of those."""

    def moved(self, x: Bounded, view: Callable[[Array], Array]) -> Bounded:
        return replace(super().moved(x, view), role=x.role)

    def joined(self, parts: Sequence[Bounded], axis: int) -> Bounded:
        role = parts[0].role if all(part.role is parts[0].role for part in parts) else SumRole.OTHER
        return replace(super().joined(parts, axis), role=role)

    def cast(self, x: Bounded, source: DType, target: DType) -> Bounded:
        return replace(super().cast(x, source, target), role=x.role if target.is_float else SumRole.OTHER)

    def pointwise(self, op: Op, operands: Sequence[Bounded | Number], dtype: DType) -> Bounded:
        roles = [SumRole.OTHER if isinstance(x, Number) else x.role for x in operands]
        return replace(super().pointwise(op, operands, dtype), role=_role(op.kind, roles))

    def fold(self, kind: OpKind, x: Bounded, axes: tuple[int, ...], dtype: DType) -> Bounded:
        found = super().fold(kind, x, axes, dtype)
        if kind is OpKind.AMAX:
            return replace(found, role=SumRole.MAXIMUM)
        if kind not in SUMS or x.role is not SumRole.EXPONENTIAL or found.terms is None:
            return found
        low, high = self.ends(found)
        share = found.terms * (_RESCALED_F64 if dtype is DType.F64 else _RESCALED)
        share = self.xp.where(share < math.inf, share, 0.0)
        return replace(found, low=low - share, high=high + share)

    def merge(self, kind: OpKind, x: Bounded, y: Bounded) -> Bounded:
        return replace(super().merge(kind, x, y), role=x.role)

    def finish(self, op: Op, x: Bounded, count: int, dtype: DType) -> Bounded:
        return replace(super().finish(op, x, count, dtype), role=x.role)


def _role(kind: OpKind, roles: Sequence[SumRole]) -> SumRole:
    """What an operator makes of operands of these roles."""
    match kind:
        case OpKind.SUB if roles[1] is SumRole.MAXIMUM:
            return SumRole.DISTANCE
        case OpKind.EXP if roles[0] is SumRole.DISTANCE:
            return SumRole.EXPONENTIAL
        case OpKind.MAXIMUM if SumRole.MAXIMUM in roles:
            return SumRole.MAXIMUM
        case OpKind.MUL | OpKind.DIV:
            return next((role for role in (SumRole.EXPONENTIAL, SumRole.DISTANCE) if role in roles), SumRole.OTHER)
        case _:
            return SumRole.OTHER
