"""Reference values with bounds on how far a right kernel may be from them: running error analysis, element by element.

Where a fusion has reductions, comparisons, choices or integers, one tolerance for a whole output cannot be right: terms
of a sum cancel, and the least error may turn a comparison over. So every operator's error is worked out beside its
value (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3, "Running Error Analysis"):

    error of a result = what the errors of its operands can make of it + the error of the operator itself

An infinite error says that any answer is right: beside a pole, a float out of an integer's range, an overflow that
depends on rounding. None says that there is no error at all, whatever the data. What a half holds between operators may
be rounded to it or not, so the rounding is an error.

A sum of n terms is off by at most sqrt(n) u sum|x| (u: the unit roundoff of the accumulator). That is not the bound of
the worst case, (n-1) u sum|x| (Higham, section 4.2, eq. 4.4), but what rounding errors reach that are as good as
independent (section 2.8 there; Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci.
Comput. 41, 2019). Measured with NumPy, f32 sums of up to a million values one after the other stay four times below it
in the root mean square; sums in blocks, as kernels make them, do by far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.ir.fusion import Literal
from compiler.ir.ops import COMPARE, OpKind
from compiler.reference import FLOAT_FORMATS, Values, round_to
from search.verify.arrays import Array

_BITS = {DType.I8: 8, DType.I32: 32, DType.I64: 64}

_ROUNDED_ONCE = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.SQUARE})
_NOT_ROUNDED = frozenset({OpKind.NEG, OpKind.ABS, OpKind.RELU, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.WHERE})
_FUNCTION_ERROR = {
    OpKind.DIV: 2.0**-21,
    OpKind.RECIPROCAL: 2.0**-21,
    OpKind.SQRT: 2.0**-21,
    OpKind.RSQRT: 2.0**-21,
    OpKind.LOG: 2.0**-20,
    OpKind.TANH: 2.0**-20,
    OpKind.EXP: 2.0**-16,
    OpKind.SIGMOID: 2.0**-16,
    OpKind.SILU: 2.0**-16,
    OpKind.GELU: 2.0**-14,
}
"""Relative errors in f32, with approximate instructions, at least twice those of compiler/emit/math_forms.py. The
argument of an exponential is rounded too, which its result has the more of the larger it is."""

_LOG_NEAR_ONE = 2.0**-20
"""Absolute: lg2.approx is off by 2^-22 where its result is near 0 (PTX ISA, "lg2")."""

_F64_ERROR = 2.0**-46
_STEEPEST = {OpKind.GELU: 1.13, OpKind.SILU: 1.1}
"""The largest slope of the functions that are not monotone, rounded up."""

_SMALLEST_NORMAL = 2.0**-126
_EXACT_SUM = 2.0**22


class Role(Enum):
    """What values are to a sum that may be folded along with a maximum (`search.verify.online_sums`)."""

    OTHER = "other"
    MAXIMUM = "maximum"
    DISTANCE = "distance to a maximum"
    EXPONENTIAL = "exponential of a distance to a maximum"


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values and the error of each, None where all are exact. Of a fold: `terms`, the sum of |x|, and `is_coarse`,
    whether all x are multiples of 1/2."""

    value: Array
    error: Array | None = None
    terms: Array | None = None
    is_coarse: Array | None = None
    role: Role = Role.OTHER


@dataclass(frozen=True, slots=True)
class _Operand:
    """Values in f64, bools and integers too, each with an error."""

    value: Array
    error: Array


class Errors:
    """The arithmetic of `compiler.reference.Walk` on values with errors."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.values = Values(xp)

    def tensor(self, x: Array, dtype: DType) -> Bounded:
        value = self.values.tensor(x, dtype)
        if dtype.is_float and not _is_float(x):  # positions, which a half may not hold
            return Bounded(value, self.xp.abs(value - round_to(value, dtype, self.xp)))
        return Bounded(value)

    def moved(self, x: Bounded, view: Callable[[Array], Array]) -> Bounded:
        return Bounded(view(x.value), None if x.error is None else view(x.error))

    def joined(self, parts: Sequence[Bounded], axis: int) -> Bounded:
        value = self.values.joined([part.value for part in parts], axis)
        error = None
        if any(part.error is not None for part in parts):
            error = self.values.joined([self._error(part) for part in parts], axis)
        if parts[0].terms is None:
            return Bounded(value, error)
        terms = self.values.joined([part.terms for part in parts], axis)
        return Bounded(value, error, terms, self._all([part.is_coarse for part in parts]))

    def cast(self, x: Bounded, source: DType, target: DType) -> Bounded:
        xp = self.xp
        value = self.values.cast(x.value, source, target)
        if target.is_float:
            if source is DType.BOOL or source is target:
                return Bounded(value, x.error)
            if _holds(target, source):
                return Bounded(value, None if x.error is None else self._within(x, source))
            return Bounded(value, self._rounded(value, [self._operand(x, source)], target))
        if target is DType.BOOL:
            if x.error is None:
                return Bounded(value)
            error = self._within(x, source)
            unsure = ((xp.abs(self._wide(x.value)) <= error) & (error > 0)) | xp.isinf(error)
            return Bounded(value, self._wide(unsure))
        if source.is_float:
            return Bounded(value, self._truncated(x, source, target))
        return Bounded(value, None if x.error is None else self._wraps(x.value, x.error, target))

    def pointwise(self, kind: OpKind, operands: Sequence[Bounded | Literal], dtype: DType) -> Bounded:
        plain = [x if isinstance(x, Literal) else x.value for x in operands]
        value = self.values.pointwise(kind, plain, dtype)
        like = next(x.value for x in reversed(operands) if isinstance(x, Bounded))
        known = [self._number(x, like, dtype) if isinstance(x, Literal) else x for x in operands]
        if kind is OpKind.WHERE:
            condition, chosen, other = known
            return Bounded(value, self._chosen(condition, chosen, other))
        is_function = dtype.is_float and kind not in _NOT_ROUNDED and kind not in COMPARE
        if all(x.error is None for x in known) and not is_function:
            return Bounded(value)
        args = [self._operand(x, dtype) for x in known]
        if kind in COMPARE:
            return Bounded(value, self._wide(self._undecided(*args)))
        if dtype is DType.BOOL:
            return Bounded(value, self.xp.maximum(args[0].error, args[1].error))
        error = self._propagated(kind, args, self._wide(value))
        if not dtype.is_float:
            return Bounded(value, self._wraps(self._unwrapped(kind, args), error, dtype))
        if kind in _ROUNDED_ONCE:
            error = self._rounded(value, args, dtype, error)
        elif kind not in _NOT_ROUNDED:
            error = error + self._of_function(kind, value, dtype)
        return Bounded(value, self._of_nan(args, self._settled(error)))

    def fold(self, kind: OpKind, x: Bounded, axes: tuple[int, ...], dtype: DType) -> Bounded:
        xp = self.xp
        value = self.values.fold(kind, x.value, axes, dtype)
        if kind in (OpKind.AMAX, OpKind.AMIN):
            if x.error is None:
                return Bounded(value)
            error = self._within(x, dtype)
            if dtype is DType.BOOL:
                return Bounded(value, xp.amax(error, axis=axes, keepdims=True))
            wide = self._wide(x.value)
            ends = [self.values.fold(kind, wide + sign * error, axes, DType.F64) for sign in (-1.0, 1.0)]
            return Bounded(value, self._spread(self._wide(value), ends))
        wide = self._wide(x.value)
        terms = xp.sum(xp.abs(wide), axis=axes, keepdims=True)
        if x.error is None:
            coarse = (wide * 2.0 == xp.round(wide * 2.0)).all() if dtype.is_float else None
            return Bounded(value, None, terms, coarse)
        error = self._within(x, dtype)
        coarse = ((error == 0) & (wide * 2.0 == xp.round(wide * 2.0))).all()
        return Bounded(value, xp.sum(error, axis=axes, keepdims=True), terms, coarse)

    def merge(self, kind: OpKind, x: Bounded, y: Bounded) -> Bounded:
        value = self.values.merge(kind, x.value, y.value)
        error = None
        if x.error is not None or y.error is not None:
            ours, theirs = self._error(x), self._error(y)
            error = ours + theirs if x.terms is not None else self.xp.maximum(ours, theirs)
        if x.terms is None:
            return Bounded(value, error)
        return Bounded(value, error, x.terms + y.terms, self._all([x.is_coarse, y.is_coarse]))

    def finish(self, kind: OpKind, x: Bounded, count: int, dtype: DType) -> Bounded:
        xp = self.xp
        value = self.values.finish(kind, x.value, count, dtype)
        if x.terms is None:
            return Bounded(value, x.error)
        if not dtype.is_float:
            return Bounded(value, None if x.error is None else self._wraps(x.terms, x.error, dtype))
        accumulator = FLOAT_FORMATS[DType.F64 if dtype is DType.F64 else DType.F32]
        before = self._error(x)
        error = before + math.sqrt(count) * accumulator.unit_roundoff * x.terms
        if x.is_coarse is not None:
            # Every partial sum, in any order, is a multiple of 1/2 that the accumulator holds.
            error = xp.where(x.is_coarse & (x.terms <= _EXACT_SUM), xp.zeros_like(error), error)
        error = xp.where(xp.isfinite(x.value) & (x.terms > accumulator.largest), xp.full_like(error, math.inf), error)
        # Infinities and NaN among exact terms are those of every order.
        of_others = xp.where(xp.isfinite(before), xp.zeros_like(error), xp.full_like(error, math.inf))
        error = xp.where(xp.isfinite(x.value), self._settled(error), of_others)
        if kind is OpKind.MEAN:  # by a quotient or by a product with the reciprocal
            error = error / count + self._share(value, 2 * accumulator.unit_roundoff)
        return Bounded(value, self._rounded(value, [_Operand(value, error)], dtype))

    def _number(self, x: Literal, like: Array, dtype: DType) -> Bounded:
        """A literal; a float one may be rounded to the dtype that it stands beside, or to f32."""
        value = self.xp.full_like(like[(0,) * len(like.shape)], x.value)
        if not dtype.is_float or not math.isfinite(x.value):
            return Bounded(value)
        lost = abs(x.value - float(round_to(np.float64(x.value), dtype, np)))
        return Bounded(value, self.xp.full_like(value, lost) if lost else None)

    def _operand(self, x: Bounded, dtype: DType) -> _Operand:
        return _Operand(self._wide(x.value), self._within(x, dtype))

    def _within(self, x: Bounded, dtype: DType) -> Array:
        """The error; infinite where the kernel's value may be past the largest number of the dtype, or not."""
        error = self._error(x)
        if not dtype.is_float:
            return error
        reach = self.xp.abs(x.value) + error
        over = self.xp.isfinite(x.value) & (reach > FLOAT_FORMATS[dtype].largest)
        return self.xp.where(over, self.xp.full_like(error, math.inf), error)

    def _error(self, x: Bounded) -> Array:
        return self.xp.zeros_like(self._wide(x.value)) if x.error is None else x.error

    def _wide(self, x: Array) -> Array:
        return self.xp.asarray(self.xp.asarray(x), dtype=self.xp.float64)

    def _all(self, flags: Sequence[Array | None]) -> Array | None:
        found = flags[0]
        for flag in flags[1:]:
            found = None if found is None or flag is None else found & flag
        return found

    def _of_nan(self, args: Sequence[_Operand], error: Array) -> Array:
        """An operand that is NaN for sure makes a NaN, whatever the others are."""
        for x in args:
            error = self.xp.where(self.xp.isnan(x.value) & self.xp.isfinite(x.error), self.xp.zeros_like(error), error)
        return error

    def _settled(self, error: Array) -> Array:
        """Where the error has no value, anything is right."""
        return self.xp.where(self.xp.isnan(error), self.xp.full_like(error, math.inf), error)

    def _share(self, value: Array, relative: float) -> Array:
        """A share of finite values, nothing of others."""
        size = self.xp.abs(value)
        return self.xp.where(self.xp.isfinite(size), size * relative, self.xp.zeros_like(size))

    def _rounded(self, value: Array, args: Sequence[_Operand], dtype: DType, error: Array | None = None) -> Array:
        """With the rounding of an exact operation: none where the operands are exact and the dtype holds the result."""
        xp = self.xp
        form = FLOAT_FORMATS[dtype]
        exact = args[0].error == 0
        for x in args[1:]:
            exact = exact & (x.error == 0)
        if dtype is DType.F64:  # the reference has rounded too, and a kernel that contracts to fma has not
            exact = xp.zeros_like(exact)
        # The share more is for a half's second rounding, after one to f32.
        lost = xp.abs(value - round_to(value, dtype, xp)) * (1 + 2.0**-8)
        bound = self._share(value, 2 * form.unit_roundoff if dtype in (DType.F32, DType.F64) else form.unit_roundoff)
        least = form.smallest / 2 if dtype is DType.F16 else _least(dtype)
        local = xp.where(exact & xp.isfinite(lost), lost, bound + least)
        local = xp.where(xp.isfinite(value), local, xp.zeros_like(local))
        before = args[0].error if error is None else error
        return self._settled(before + local)

    def _of_function(self, kind: OpKind, value: Array, dtype: DType) -> Array:
        """The error of a function's own, in f32 or f64, and the rounding of what is stored."""
        relative = _FUNCTION_ERROR[kind] + (FLOAT_FORMATS[dtype].unit_roundoff if dtype is not DType.F64 else 0.0)
        if dtype is DType.F64:
            relative = _F64_ERROR
        least = FLOAT_FORMATS[DType.F16].smallest / 2 if dtype is DType.F16 else _least(dtype)
        if kind is OpKind.LOG:
            least += _F64_ERROR if dtype is DType.F64 else _LOG_NEAR_ONE
        return self.xp.where(
            self.xp.isfinite(value), self._share(value, relative) + least, self.xp.zeros_like(self._wide(value))
        )

    def _propagated(self, kind: OpKind, args: Sequence[_Operand], value: Array) -> Array:
        """What the errors of the operands can make of the result."""
        xp = self.xp
        x, e = args[0].value, args[0].error
        if len(args) == 1:
            if kind in (OpKind.NEG, OpKind.ABS, OpKind.RELU):
                return e
            if kind is OpKind.SQUARE:
                return 2.0 * self._times(x, e) + e * e
            if kind in _STEEPEST:
                # The reference's gelu, 1 + tanh, cancels far below zero.
                return _STEEPEST[kind] * e + self._share(x, _F64_ERROR if kind is OpKind.GELU else 0.0)
            ends = [self.values.pointwise(kind, [x + sign * e], DType.F64) for sign in (-1.0, 1.0)]
            spread = self._spread(value, ends)
            if kind is OpKind.RECIPROCAL:
                return xp.where((xp.abs(x) <= e) & (e > 0), xp.full_like(e, math.inf), spread)
            return spread
        y, f = args[1].value, args[1].error
        match kind:
            case OpKind.ADD | OpKind.SUB:
                return e + f
            case OpKind.MUL:
                return self._times(x, f) + self._times(y, e) + self._times(e, f)
            case OpKind.DIV:
                room = xp.abs(y) - f
                found = (e + self._times(value, f)) / room
                found = xp.where(e + f == 0, xp.zeros_like(e), found)
                return xp.where((room <= 0) & (f > 0), xp.full_like(e, math.inf), found)
        return xp.maximum(e, f)

    def _times(self, x: Array, error: Array) -> Array:
        """|x| error, nothing where there is no error."""
        return self.xp.where(error == 0, self.xp.zeros_like(error), self.xp.abs(x) * error)

    def _spread(self, value: Array, ends: Sequence[Array]) -> Array:
        """How far a monotone function is from `value` at the ends of its argument's interval."""
        xp = self.xp
        far = xp.zeros_like(value)
        for end in ends:
            same = (end == value) | (xp.isnan(end) & xp.isnan(value))
            far = xp.maximum(far, xp.where(same, xp.zeros_like(value), xp.abs(end - value)))
        return self._settled(far)

    def _undecided(self, x: _Operand, y: _Operand) -> Array:
        """Where a comparison may turn out either way."""
        error = x.error + y.error
        return ((self.xp.abs(x.value - y.value) <= error) & (error > 0)) | self.xp.isinf(error)

    def _chosen(self, condition: Bounded, x: Bounded, y: Bounded) -> Array | None:
        if condition.error is None and x.error is None and y.error is None:
            return None
        xp = self.xp
        ours, theirs = self._error(x), self._error(y)
        error = xp.where(condition.value, ours, theirs)
        if condition.error is None:
            return error
        a, b = self._wide(x.value), self._wide(y.value)
        same = (a == b) | (xp.isnan(a) & xp.isnan(b))
        either = xp.maximum(ours, theirs) + xp.where(same, xp.zeros_like(a - b), xp.abs(a - b))
        return xp.where(condition.error > 0, self._settled(either), error)

    def _truncated(self, x: Bounded, source: DType, target: DType) -> Array:
        """Out of range the result of a cast to integers is undefined."""
        xp = self.xp
        error = self._within(x, source)
        limit = 2.0 ** (_BITS[target] - 1)
        # trunc(x) is in range above -limit - 1; in f64 that is told from -limit up to 53 bits.
        low, high = xp.trunc(x.value - error), xp.trunc(x.value + error)
        inside = (low >= -limit) & (high < limit)
        here = xp.trunc(x.value)
        far = xp.maximum(xp.abs(low - here), xp.abs(high - here))
        return xp.where(inside, far, xp.full_like(far, math.inf))

    def _unwrapped(self, kind: OpKind, args: Sequence[_Operand]) -> Array:
        """The size that an integer result would have had if it did not wrap."""
        return self.values.pointwise(kind, [x.value for x in args], DType.F64)

    def _wraps(self, unwrapped: Array, error: Array, dtype: DType) -> Array:
        """An error of an integer near the ends of its range may become one of the whole range."""
        xp = self.xp
        over = (xp.abs(self._wide(unwrapped)) + error >= 2.0 ** (_BITS[dtype] - 1)) & (error > 0)
        return xp.where(over, xp.full_like(error, math.inf), error)


def _least(dtype: DType) -> float:
    """What a result may lose in absolute terms: subnormals, which approximate instructions take as 0."""
    return FLOAT_FORMATS[DType.F64].smallest if dtype is DType.F64 else _SMALLEST_NORMAL


def _is_float(x: Array) -> bool:
    return "float" in str(x.dtype)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every number of one float type is one of the other."""
    if not narrow.is_float:
        return False
    ours, theirs = FLOAT_FORMATS[wide], FLOAT_FORMATS[narrow]
    return ours.precision >= theirs.precision and ours.max_exponent >= theirs.max_exponent
