"""What a right kernel may compute, element by element: an interval around every value of the reference.

Kernels agree on the bits of elementwise values (docs/contracts.md, "Bits"): sums, products, quotients and roundings of
known numbers are known numbers. What is open is the order of a sum and how near a function comes; so each element has
two ends between which a right kernel's value lies, worked out operator by operator with the rounding of each (Moore,
Interval Analysis, 1966; rounding to nearest is monotone, so the ends are rounded as the value is).

No ends at all say that the value is known. Ends at both infinities say that any answer is right, NaN included: beside a
pole, out of an integer's range, where an overflow depends on rounding. Of a comparison, ends that differ say that it is
undecided; comparisons of a value with itself and with its own maximum are told apart (`search.proof.verify.relations`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from compiler.dtypes import DType
from compiler.ir.fusion import Number, Op
from compiler.ir.ops import COMPARE, CONTRACTIONS, SUMS, OpKind
from compiler.reference import FLOAT_FORMATS, Values, rounded
from compiler.reference.floats import scalar
from compiler.reference.operators import exact
from search.proof.verify.arrays import Array
from search.proof.verify.contractions import ends_in_tf32, ends_of_products
from search.proof.verify.functions import error_of, sum_error, widen
from search.proof.verify.glances import are_alike, are_coarse
from search.proof.verify.products import Factors, ends_of_product, factors, merged
from search.proof.verify.relations import Relation, holds

_EXACT_SUM = 2.0**22
_EXACT_INTEGER = 2.0**53
_LOST_PRODUCT = 2.0**-126
"""Of a product below the normal numbers of f32 nothing may be left."""


class SumRole(Enum):
    """What values are to a sum that may be folded along with a maximum (`search.proof.verify.online_sums`)."""

    OTHER = "other"
    MAXIMUM = "maximum"
    DISTANCE = "distance to a maximum"
    EXPONENTIAL = "exponential of a distance to a maximum"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Of a `where` by a comparison with an extreme of `axes`: which elements may be the chosen ones, of which every run
    along the axes has one, and between which ends they lie."""

    axes: tuple[int, ...]
    possible: Array
    low: Array
    high: Array


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values and the ends of each, None where all are known: f64, and bools for bools.

    Of a fold: `terms`, the sum of |x|; `is_coarse`, whether all x are multiples of 1/2; `factors`, of a product;
    `candidates`, how many elements may be the extreme one; `best`, the end nearer to the extreme that one of the chosen
    elements reaches in any case.
    Of a comparison: `axes` along which it holds for one element at least, if none is NaN.
    `least`: the least end, where it was looked for.
    """

    value: Array
    low: Array | None = None
    high: Array | None = None
    terms: Array | None = None
    factors: Factors | None = None
    is_coarse: Array | None = None
    candidates: Array | None = None
    best: Array | None = None
    axes: tuple[int, ...] = ()
    chosen: Chosen | None = None
    role: SumRole = SumRole.OTHER
    least: float | None = None

    @property
    def is_known(self) -> bool:
        """True where no element has ends."""
        return self.low is None


class Intervals:
    """The arithmetic of `compiler.reference.Walk` on values with ends. `related`: comparisons by their results."""

    def __init__(self, xp: Any, related: Mapping[str, Relation]) -> None:
        self.xp = xp
        self.related = related
        self.values = Values(xp)

    def tensor(self, x: Array, dtype: DType) -> Bounded:
        return Bounded(self.values.tensor(x, dtype))

    def moved(self, x: Bounded, view: Callable[[Array], Array]) -> Bounded:
        kept = (x.low, x.high, x.candidates)
        low, high, candidates = (None if part is None else view(part) for part in kept)
        return Bounded(view(x.value), low, high, candidates=candidates)

    def joined(self, parts: Sequence[Bounded], axis: int) -> Bounded:
        def join(every: Sequence[Array]) -> Array:
            return self.values.joined(every, axis)

        value = join([part.value for part in parts])
        low = high = candidates = None
        if any(not part.is_known for part in parts):
            low, high = (join(each) for each in zip(*map(self.ends, parts), strict=True))
            if any(part.candidates is not None for part in parts):
                candidates = join([self._candidates(part) for part in parts])
        made = Bounded(value, low, high, candidates=candidates)
        if parts[0].terms is not None:
            made = replace(
                made,
                terms=join([part.terms for part in parts]),
                is_coarse=self._all([part.is_coarse for part in parts]),
            )
        bests = [part.best for part in parts]
        return replace(made, best=join(bests)) if all(best is not None for best in bests) else made

    def indices(self, x: Bounded) -> Array:
        assert x.is_known, "integers of integers alone choose elements (compiler.ir.index_ranges)"
        return x.value

    def cast(self, x: Bounded, source: DType, target: DType) -> Bounded:
        xp = self.xp
        value = self.values.cast(x.value, source, target)
        if source is target:
            return x
        if target is DType.BOOL:
            if x.is_known:
                return Bounded(value)
            low, high = self.ends(x)
            return Bounded(value, (low > 0) | (high < 0), (low != 0) | (high != 0))
        if target.is_float:
            return self._cast_to_float(x, value, source, target)
        if source.is_float:
            # trunc(x) is in range above the least integer less one; in f64 that is told up to 53 bits.
            low, high = (xp.trunc(end) for end in self.ends(x))
            inside = _is_in_range(low, high, target)
            if target is DType.U8:  # out of range the low bits, of what is known
                wraps = (low == high) & _is_in_range(low, high, DType.I64)
                low, high = (xp.where(wraps, self._wide(value), end) for end in (low, high))
                inside = inside | wraps
            return self._in_range(value, low, high, inside)
        if x.is_known:
            return Bounded(value)
        low, high = (self._wide(end) for end in self.ends(x))  # sums of bools would be bools
        return self._unwrapped(value, low, high, target)

    def pointwise(self, op: Op, operands: Sequence[Bounded | Number], dtype: DType) -> Bounded:
        kind = op.kind
        plain = [x if isinstance(x, Number) else x.value for x in operands]
        value = self.values.pointwise(op, plain, dtype)
        like = next(x.value for x in reversed(operands) if isinstance(x, Bounded))
        args = [Bounded(self.values.number(kind, x, like, dtype)) if isinstance(x, Number) else x for x in operands]
        error = error_of(kind, dtype, op.grade) if dtype.is_float else None
        if all(x.is_known for x in args) and error is None and kind is not OpKind.FMA:
            return Bounded(value)
        if kind is OpKind.WHERE:
            return self._where(value, *args)
        if kind in COMPARE:
            return self._compared(op, value, *args)
        if dtype is DType.BOOL:
            # What holds for one element at least still does where more may hold.
            axes = next((x.axes for x in args if x.axes), ()) if kind is OpKind.MAXIMUM else ()
            low, high = self._rule(kind, [self.ends(x) for x in args])
            return Bounded(value, low, high, axes=axes)
        low, high = self._ends_of(op, value, args, dtype)
        if error is not None:
            size = self._largest(*self.ends(args[0])) if error.argument or error.of_operand else low  # else unread
            below = widen(error, low, size, self.xp)
            low, high = low - below, high + (below if low is high else widen(error, high, size, self.xp))
        if not dtype.is_float:
            return self._unwrapped(value, low, high, dtype)
        low, high = self._alike(low, high, lambda end: rounded(end, dtype, self.xp))
        return self._collapsed(self._settled(value, low, high, args))

    def fold(self, kind: OpKind, x: Bounded, axes: tuple[int, ...], dtype: DType) -> Bounded:
        value = self.values.fold(kind, x.value, axes, dtype)
        if kind is OpKind.PROD:
            known = factors(*self.ends(x), axes, self.xp) if dtype.is_float else None
            return Bounded(value, factors=known) if known is not None or x.is_known else self._anything(value)
        if kind not in SUMS:
            return self._extreme(kind, value, x, axes, dtype)
        xp = self.xp
        wide = self._wide(x.value)
        if x.is_known:
            coarse = are_coarse(wide, xp) if dtype.is_float else None
            return Bounded(value, terms=xp.sum(xp.abs(wide), axis=axes, keepdims=True), is_coarse=coarse)
        low, high = self.ends(x)
        coarse = are_coarse(wide, xp, low, high) if dtype.is_float else None
        terms = xp.sum(self._largest(low, high), axis=axes, keepdims=True)
        low, high = (xp.sum(end, axis=axes, keepdims=True) for end in (low, high))
        return replace(self._settled(value, low, high, ()), terms=terms, is_coarse=coarse)

    def contract(self, kind: OpKind, x: Bounded, y: Bounded, dtype: DType) -> Bounded:
        """As of a sum, whose terms are products."""
        xp, value = self.xp, self.values.contract(kind, x.value, y.value, dtype)
        ends = self.ends(x), self.ends(y)
        if kind is OpKind.MATMUL_TF32:
            ends = ends_in_tf32(ends[0], xp), ends_in_tf32(ends[1], xp)
        terms = xp.matmul(*(self._largest(*of) for of in ends))
        if not dtype.is_float:
            return Bounded(value, terms=terms) if x.is_known and y.is_known else self._anything(value)
        # Products of multiples of 1/2 are multiples of 1/4, which as many bits hold up to the same sum.
        coarse = are_coarse(ends[0][0], xp, *ends[0]) & are_coarse(ends[1][0], xp, *ends[1])
        if x.is_known and y.is_known and all(are_alike(*of, xp) for of in ends):
            return Bounded(value, terms=terms, is_coarse=coarse)
        made = self._settled(value, *ends_of_products(*ends, xp), ())
        return replace(made, terms=terms, is_coarse=coarse)

    def merge(self, kind: OpKind, x: Bounded, y: Bounded) -> Bounded:
        value = self.values.merge(kind, x.value, y.value)
        known = x.is_known and y.is_known
        if x.factors is not None and y.factors is not None:
            return Bounded(value, factors=merged(x.factors, y.factors))
        if kind is OpKind.PROD and not known:
            return self._anything(value)
        if x.terms is not None:
            low, high = (None, None) if known else self._sums_of_ends(x, y)
            coarse = self._all([x.is_coarse, y.is_coarse])
            return Bounded(value, low, high, terms=x.terms + y.terms, is_coarse=coarse)
        if known:
            return Bounded(value)
        (xl, xh), (yl, yh) = self.ends(x), self.ends(y)
        low, high = (self.values.merge(kind, a, b) for a, b in ((xl, yl), (xh, yh)))
        ours, theirs = (xh >= low, yh >= low) if kind is OpKind.AMAX else (xl <= high, yl <= high)
        candidates = self._candidates(x) * ours + self._candidates(y) * theirs
        best = None if x.best is None or y.best is None else self._nearer(kind, x.best, y.best)
        return Bounded(value, low, high, candidates=candidates, best=best)

    def finish(self, op: Op, x: Bounded, count: int, dtype: DType) -> Bounded:
        xp, kind = self.xp, op.kind
        value = self.values.finish(op, x.value, count, dtype)
        if x.factors is not None:
            ends = ends_of_product(x.value, x.factors, count, DType.F64 if dtype is DType.F64 else DType.F32, xp)
            low, high = (rounded(end, dtype, xp) for end in ends)
            return self._collapsed(self._settled(value, low, high, ()))
        if x.terms is None:
            return self._with_best(kind, replace(x, value=value))
        if not dtype.is_float:
            return Bounded(value) if x.is_known else self._unwrapped(value, *self.ends(x), dtype)
        accumulator = FLOAT_FORMATS[DType.F64 if dtype is DType.F64 else DType.F32]
        low, high = self.ends(x)
        error = _products_error(count) if kind in CONTRACTIONS else sum_error(count, accumulator.unit_roundoff)
        error = error * x.terms + (_LOST_PRODUCT * count if kind in CONTRACTIONS else 0.0)
        if x.is_coarse is not None:
            # Every partial sum, in any order, is a multiple of 1/2 that the accumulator holds.
            error = xp.where(x.is_coarse & (x.terms <= _EXACT_SUM), 0.0, error)
        # A partial sum may leave the range of the accumulator, or not.
        over = xp.isfinite(self._wide(x.value)) & (x.terms > accumulator.largest)
        error = xp.where(over, math.inf, error)
        error = xp.where(xp.isfinite(error) | over, error, 0.0)  # infinite terms: of every order
        low, high = low - error, high + error
        if kind is OpKind.MEAN:
            low, high = (end / scalar(count, end, xp) for end in (low, high))
            quotient = error_of(kind, dtype, op.grade)
            if quotient is not None:
                low, high = low - widen(quotient, low, low, xp), high + widen(quotient, high, high, xp)
        low, high = (rounded(end, dtype, xp) for end in (low, high))
        return self._settled(value, low, high, ())

    def scan(self, op: Op, x: Bounded, dtype: DType) -> Bounded:
        """As of a sum, with the count of the terms that each element has."""
        xp, (axis,) = self.xp, op.dims
        value = self.values.scan(op, x.value, dtype)

        def along(part: Array) -> Array:
            sums: Array = exact(op.kind, [part, axis, bool(op.start)], xp)
            return sums

        low, high = self.ends(x)
        if not dtype.is_float:
            return Bounded(value) if x.is_known else self._unwrapped(value, along(low), along(high), dtype)
        terms = along(self._largest(low, high))
        accumulator = FLOAT_FORMATS[dtype]
        counts = [sum_error(n + (not op.start), accumulator.unit_roundoff) for n in range(x.value.shape[axis])]
        shape = [1] * len(x.value.shape)
        shape[axis] = -1
        error = xp.asarray(counts, dtype=xp.float64, device=terms.device).reshape(shape) * terms
        halves = xp.asarray((low != high) | (low * 2.0 != xp.round(low * 2.0)), dtype=xp.float64)
        coarse = exact(op.kind, [halves, axis, bool(op.start)], xp) == 0
        error = xp.where(coarse & (terms <= _EXACT_SUM), 0.0, error)
        over = xp.isfinite(self._wide(value)) & (terms > accumulator.largest)
        error = xp.where(over, math.inf, error)
        error = xp.where(xp.isfinite(error) | over, error, 0.0)
        low, high = (rounded(end, dtype, xp) for end in (along(low) - error, along(high) + error))
        return self._settled(value, low, high, ())

    def ends(self, x: Bounded) -> tuple[Array, Array]:
        """Both ends, f64; bools as they are."""
        if x.low is None or x.high is None:
            wide = x.value if self._is_bool(x.value) else self._wide(x.value)
            return wide, wide
        return x.low, x.high

    # Elementwise -----------------------------------------------------------------------------------------------------

    def _ends_of(self, op: Op, value: Array, args: Sequence[Bounded], dtype: DType) -> tuple[Array, Array]:
        """The least and the greatest result for operands between their ends, not rounded yet."""
        kind, ends = op.kind, [self.ends(x) for x in args]
        if len(args) == 2 and kind in (OpKind.SUB, OpKind.MUL) and op.inputs[0] == op.inputs[1]:
            if kind is OpKind.SUB:
                return self._wide(value), self._wide(value)
            kind, ends = OpKind.SQUARE, ends[:1]
        low, high = self._rule(kind, ends, of_integers=not dtype.is_float)
        if kind is OpKind.FMA and dtype is DType.F64:  # the product too was rounded, and the sum may leave little of it
            lost = self._largest(*ends[0]) * self._largest(*ends[1]) * FLOAT_FORMATS[dtype].unit_roundoff
            low, high = low - lost, high + lost
        return low, high

    def _rule(
        self, kind: OpKind, ends: Sequence[tuple[Array, Array]], *, of_integers: bool = False
    ) -> tuple[Array, Array]:
        """What the operator's row says of operands between these ends."""
        rule = (kind.row.ends_of_integers if of_integers else None) or kind.row.ends
        assert rule is not None, f"{kind} has no ends"
        return rule(lambda *x: exact(kind, x, self.xp), ends, self.xp)

    def _where(self, value: Array, condition: Bounded, x: Bounded, y: Bounded) -> Bounded:
        xp = self.xp
        (xl, xh), (yl, yh) = self.ends(x), self.ends(y)
        sure, possible = self.ends(condition)
        low, high = xp.where(sure, xl, yl), xp.where(sure, xh, yh)
        if not condition.is_known:
            open_, bools = sure != possible, self._is_bool(xl)
            either = (xl & yl, xl | yl) if bools else (xp.minimum(xl, yl), xp.maximum(xh, yh))
            low, high = (xp.where(open_, end, known) for end, known in zip(either, (low, high), strict=True))
        chosen = Chosen(condition.axes, possible, xl, xh) if condition.axes and not self._is_bool(xl) else None
        made = Bounded(value, low, high) if self._is_bool(low) else self._settled(value, low, high, ())
        return replace(made, chosen=chosen)

    def _compared(self, op: Op, value: Array, x: Bounded, y: Bounded) -> Bounded:
        related = self.related.get(op.output)
        if related is not None:
            return self._compared_to_own(op.kind, value, (x, y), related)
        return Bounded(value, *self._rule(op.kind, [self.ends(x), self.ends(y)]))

    def _compared_to_own(self, kind: OpKind, value: Array, sides: tuple[Bounded, Bounded], how: Relation) -> Bounded:
        """A comparison of a value with itself, or with its own maximum or minimum."""
        x, extreme = sides[1 - how.side], sides[how.side]
        free = self._is_free(x) | self._is_free(extreme)
        if how.extreme is None:
            return Bounded(value, value & ~free, value | free)
        (xl, xh), (el, eh) = self.ends(x), self.ends(extreme)
        is_top = how.extreme is OpKind.AMAX
        possible = (xh >= el) if is_top else (xl <= eh)
        sure = possible & (self._candidates(extreme) == 1)
        # `x kind extreme`: an element is the extreme one, or lies on its inner side. NaN is neither.
        number = ~self.xp.isnan(self._wide(x.value)) & ~self.xp.isnan(self._wide(extreme.value))
        kind = kind if how.side == 1 else OpKind(kind.row.mirrored)
        reaches, inside = (OpKind.GE, OpKind.LT) if is_top else (OpKind.LE, OpKind.GT)
        axes: tuple[int, ...] = ()
        if kind in (OpKind.EQ, reaches):
            low, high, axes = sure & number, possible & number, how.axes
        elif kind is OpKind.NE:
            low, high = ~(possible & number), ~(sure & number)
        elif kind is inside:
            low, high = ~possible & number, ~sure & number
        else:  # never beyond it, or always up to it
            low = high = value
        return Bounded(value, low & ~free, high | free, axes=axes)

    # Folds -----------------------------------------------------------------------------------------------------------

    def _extreme(self, kind: OpKind, value: Array, x: Bounded, axes: tuple[int, ...], dtype: DType) -> Bounded:
        if x.is_known:
            return Bounded(value)
        xp = self.xp
        low, high = (self.values.fold(kind, end, axes, dtype) for end in self.ends(x))
        if dtype is DType.BOOL:
            return Bounded(value, low, high)
        xl, xh = self.ends(x)
        may = (xh >= low) if kind is OpKind.AMAX else (xl <= high)
        candidates = xp.sum(xp.asarray(may, dtype=xp.int64), axis=axes, keepdims=True)
        made = replace(self._settled(value, low, high, (x,), axes), candidates=candidates)
        chosen = x.chosen
        if chosen is None or chosen.axes != axes:
            return made
        if kind is OpKind.AMIN:  # one of the chosen is there: the least is no more than the most that one may be
            reached = xp.where(chosen.possible, chosen.high, -math.inf)
            return replace(made, best=xp.amax(reached, axis=axes, keepdims=True))
        reached = xp.where(chosen.possible, chosen.low, math.inf)
        return replace(made, best=xp.amin(reached, axis=axes, keepdims=True))

    def _with_best(self, kind: OpKind, x: Bounded) -> Bounded:
        """An extreme of chosen elements, of which there is one at least: its ends as far as that tells."""
        if x.best is None or x.low is None or x.high is None:
            return x
        known = self.xp.isfinite(x.best)
        if kind is OpKind.AMIN:
            return replace(x, high=self.xp.where(known, self.xp.minimum(x.high, x.best), x.high), best=None)
        return replace(x, low=self.xp.where(known, self.xp.maximum(x.low, x.best), x.low), best=None)

    def _nearer(self, kind: OpKind, x: Array, y: Array) -> Array:
        return self.xp.maximum(x, y) if kind is OpKind.AMIN else self.xp.minimum(x, y)

    def _sums_of_ends(self, x: Bounded, y: Bounded) -> tuple[Array, Array]:
        (xl, xh), (yl, yh) = self.ends(x), self.ends(y)
        return xl + yl, xh + yh

    def _candidates(self, x: Bounded) -> Array:
        """How many elements may be the extreme one; two where it was not counted."""
        if x.candidates is not None:
            return x.candidates
        return self.xp.full_like(self._wide(x.value), 1.0 if x.is_known else 2.0)

    # Ends ------------------------------------------------------------------------------------------------------------

    def _cast_to_float(self, x: Bounded, value: Array, source: DType, target: DType) -> Bounded:
        if x.is_known and source is not DType.I64:
            return Bounded(value)
        low, high = self.ends(x)
        if self._is_bool(low):
            return Bounded(value, self._wide(low), self._wide(high))
        if not source.is_float:  # f64 may have rounded before
            lost = self.xp.where(self.xp.abs(high) + self.xp.abs(low) >= _EXACT_INTEGER, 2.0**-52, 0.0)
            low, high = low - self.xp.abs(low) * lost, high + self.xp.abs(high) * lost
        low, high = self._alike(low, high, lambda end: self.values.converted(end, source, target))
        widened = x.candidates if source.is_float and holds(target, source) else None
        return self._collapsed(replace(self._settled(value, low, high, (x,)), candidates=widened))

    def _collapsed(self, x: Bounded) -> Bounded:
        """Without ends where they tell nothing: later operators are then worked out once, not three times."""
        low, high = self.ends(x)
        return Bounded(x.value, role=x.role) if low is high or are_alike(low, high, self.xp) else x

    def _settled(
        self, value: Array, low: Array, high: Array, args: Sequence[Bounded], folded: tuple[int, ...] = ()
    ) -> Bounded:
        """Ends at both infinities where an operand may be anything, or where NaN is possible and not sure."""
        xp = self.xp
        is_nan = xp.isnan(self._wide(value))
        open_ = xp.isnan(low) != is_nan
        if low is not high:
            open_ = open_ | (xp.isnan(high) != is_nan)
        for free in (self._is_free(x) for x in args if not x.is_known):
            open_ = open_ | (xp.amax(free, axis=folded, keepdims=True) if folded else free)
        if not bool(open_.any()):
            return Bounded(value, low, high)
        return Bounded(value, xp.where(open_, -math.inf, low), xp.where(open_, math.inf, high))

    def _unwrapped(self, value: Array, low: Array, high: Array, dtype: DType) -> Bounded:
        """Ends of integers: near those of its range an error may become one of the whole range."""
        exact = (low >= -_EXACT_INTEGER) & (high < _EXACT_INTEGER)
        return self._in_range(value, low, high, _is_in_range(low, high, dtype) & exact)

    def _in_range(self, value: Array, low: Array, high: Array, inside: Array) -> Bounded:
        xp = self.xp
        return Bounded(value, xp.where(inside, low, -math.inf), xp.where(inside, high, math.inf))

    def _anything(self, value: Array) -> Bounded:
        """Whatever a kernel has is right."""
        wide = self._wide(value)
        return Bounded(value, self.xp.full_like(wide, -math.inf), self.xp.full_like(wide, math.inf))

    def _is_free(self, x: Bounded) -> Array:
        """Where any answer is right."""
        low, high = self.ends(x)
        return (low == -math.inf) & (high == math.inf)

    def _largest(self, low: Array, high: Array) -> Array:
        return self.xp.abs(low) if low is high else self.xp.maximum(self.xp.abs(low), self.xp.abs(high))

    def _alike(self, low: Array, high: Array, made: Callable[[Array], Array]) -> tuple[Array, Array]:
        """What is made of each end, once where they are one array."""
        below = made(low)
        return below, below if low is high else made(high)

    def _wide(self, x: Array) -> Array:
        return self.xp.asarray(self.xp.asarray(x), dtype=self.xp.float64)

    def _is_bool(self, x: Array) -> bool:
        return bool(x.dtype == self.xp.bool)

    def _all(self, flags: Sequence[Array | None]) -> Array | None:
        found = flags[0]
        for flag in flags[1:]:
            found = None if found is None or flag is None else found & flag
        return found


def _products_error(count: int) -> float:
    """Of sums of products, as a share of the sizes of all of them: tensor cores truncate where they align what they
    add, an error of up to two units roundoff (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor
    cores", PeerJ CS 7, 2021)."""
    return sum_error(count, 2.0 * FLOAT_FORMATS[DType.F32].unit_roundoff)


def _is_in_range(low: Array, high: Array, dtype: DType) -> Array:
    """Where an integer type holds all between these ends."""
    least, greatest = dtype.integer_range
    return (low >= float(least)) & (high < float(greatest + 1))
