"""The ends of values where all of them are finite numbers, in half the passes over memory.

Most input sets have neither infinities nor NaN, and most fusions make none of what they have. Then nothing has to be
asked of each element but whether it is finite, ends are kept as the floats that they are, and the values between them
are not worked out, since floats alone are made of them. What comes of it is equal to the bit. The first end that is not
finite, and whatever else this does not tell of, raises `NotFinite`: `OnlineIntervals` works it out then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Number, Op
from compiler.ir.ops import COMPARE, CONTRACTIONS, EXTREMES, FOLDS, RANDOM, SCANS, SUMS, VIEWS, OpKind
from compiler.reference import narrowed
from search.proof.verify.arrays import Array
from search.proof.verify.functions import error_of, widen
from search.proof.verify.glances import are_alike, are_coarse, finite_span
from search.proof.verify.intervals import Bounded, Intervals
from search.proof.verify.online_sums import OnlineIntervals
from search.proof.verify.relations import Relation, holds

_FLOATS = frozenset({DType.F32, DType.F16, DType.BF16})
_MOVES = VIEWS | {OpKind.COPY, OpKind.CAST, OpKind.CAT}
_ASKS_FOR_VALUES = (
    COMPARE | CONTRACTIONS | RANDOM | SCANS
    | {OpKind.WHERE, OpKind.TAKE, OpKind.GATHER, OpKind.IOTA, OpKind.PAD, OpKind.FULL}
)  # fmt: skip


class NotFinite(Exception):
    """An end is infinite or NaN, or something else has to be known that `FiniteIntervals` does not work out."""


def are_all_floats(fusion: Fusion) -> bool:
    """Whether `FiniteIntervals` can work out the fusion: floats alone are made, and none is chosen by another."""
    return all(value.dtype in _FLOATS for value in fusion.values) and all(map(_is_known, fusion.ops))


def _is_known(op: Op) -> bool:
    if op.kind in FOLDS:
        return op.kind in SUMS | EXTREMES
    return op.kind in _MOVES or (op.kind not in _ASKS_FOR_VALUES and op.kind.row.ends is not None)


class _FiniteEnds(Intervals):
    """Of a value with ends `value` is the lower one: a number between them, of the right shape."""

    def __init__(self, xp: Any, related: Mapping[str, Relation]) -> None:
        super().__init__(xp, related)
        self._widened: dict[tuple[int, int], tuple[Array, ...]] = {}

    def forget(self) -> None:
        """Gives back what is kept for speed alone."""
        self._widened.clear()

    def ends(self, x: Bounded) -> tuple[Array, Array]:
        if x.low is None or x.high is None:
            return super().ends(x)
        key = id(x.low), id(x.high)
        if key not in self._widened:  # beside the arrays whose ids these are
            self._widened[key] = (*self._alike(x.low, x.high, self._wide), x.low, x.high)
        low, high, *_ = self._widened[key]
        return low, high

    def moved(self, x: Bounded, view: Callable[[Array], Array]) -> Bounded:
        return replace(super().moved(x, view), least=x.least)

    def cast(self, x: Bounded, source: DType, target: DType) -> Bounded:
        if source is target or holds(target, source):
            return x
        if x.low is None or x.high is None:
            return super().cast(x, source, target)
        low, high = self._alike(x.low, x.high, lambda end: narrowed(end, target, self.xp))
        return self._collapsed(self._settled(low, low, high, ()))

    def pointwise(self, op: Op, operands: Sequence[Bounded | Number], dtype: DType) -> Bounded:
        known = all(isinstance(x, Number) or x.is_known for x in operands)
        error = error_of(op.kind, dtype, op.grade)
        if known and error is None and op.kind is not OpKind.FMA:
            return super().pointwise(op, operands, dtype)
        if op.kind is OpKind.SUB and op.inputs[0] == op.inputs[1]:
            raise NotFinite
        like = next(self.ends(x)[0] for x in reversed(operands) if isinstance(x, Bounded))
        args = [Bounded(self.values.number(op.kind, x, like, dtype)) if isinstance(x, Number) else x for x in operands]
        low, high = self._ends_of(op, like, args, dtype)
        if error is not None:
            size = low  # unread
            if error.argument or error.of_operand:
                ends = self.ends(args[0])
                size = ends[0] if ends[0] is ends[1] else self._largest(*ends)
            below = widen(error, low, size, self.xp, are_finite=True)
            above = below if low is high else widen(error, high, size, self.xp, are_finite=True)
            low, high = low - below, high + above
        low, high = self._alike(low, high, lambda end: narrowed(end, dtype, self.xp))
        return self._collapsed(self._settled(low, low, high, args))

    def fold(self, kind: OpKind, x: Bounded, axes: tuple[int, ...], dtype: DType) -> Bounded:
        if x.low is None or x.high is None:
            return super().fold(kind, x, axes, dtype)
        xp = self.xp
        if kind not in SUMS:
            low, high = (self.values.fold(kind, end, axes, dtype) for end in (x.low, x.high))
            return self._settled(low, low, high, ())
        low, high = self.ends(x)
        coarse = are_coarse(low, xp, low, high)
        least, most = (xp.sum(end, axis=axes, keepdims=True) for end in (low, high))
        if x.least is not None and x.least >= 0.0:
            terms = xp.abs(most)
        else:
            terms = xp.sum(self._largest(low, high), axis=axes, keepdims=True)
        return replace(self._settled(least, least, most, ()), terms=terms, is_coarse=coarse)

    def _settled(
        self, value: Array, low: Array, high: Array, args: Sequence[Bounded], folded: tuple[int, ...] = ()
    ) -> Bounded:
        span = finite_span(low, self.xp)
        if span is None or (low is not high and finite_span(high, self.xp) is None):
            raise NotFinite
        return Bounded(low, low, high, least=span[0])

    def _collapsed(self, x: Bounded) -> Bounded:
        low, high = x.value, x.high
        if low is not high and not are_alike(low, high, self.xp):
            return x
        if not bool((low != 0).all()):  # it may have been a zero of the other sign
            raise NotFinite
        return Bounded(self._wide(low))


class FiniteIntervals(OnlineIntervals, _FiniteEnds):
    """`OnlineIntervals` of finite numbers; raises NotFinite."""
