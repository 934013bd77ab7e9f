"""Between which ends an operator's result lies, where each operand lies between two (Moore, Interval Analysis, 1966).

A rule takes the exact function, the ends of every operand and the array module, and gives both ends of the result, not
rounded yet; of a comparison, whether it holds for sure and whether it may hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

Array = Any
"""A numpy.ndarray or a torch.Tensor."""

Pair = tuple[Array, Array]
"""The least and the greatest value."""

Ends = Callable[[Callable[..., Array], Sequence[Pair], Any], Pair]
"""A rule: the exact function of the operands, their ends, the array module."""

_FURTHER = 1 + 2.0**-20

_EXACT_INTEGER = 2.0**53
"""Up to here f64 holds every integer."""

_MOST_TURNS = 2.0**26
"""Up to here it is told in f64 where a sine has its peaks."""


def rising(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a function that rises with every operand."""
    if _are_known(operands):
        return _once(f(*(low for low, _ in operands)))
    return f(*(low for low, _ in operands)), f(*(high for _, high in operands))


def falling(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a function that falls with every operand."""
    return f(*(high for _, high in operands)), f(*(low for low, _ in operands))


def in_unit(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a number drawn from [0, 1) by operands that are not known."""
    some = xp.zeros_like(sum(low * 0.0 for low, _ in operands))
    return some, some + 1.0


def difference(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a function, or a comparison, that rises with its first operand and falls with its second."""
    (xl, xh), (yl, yh) = operands
    return _once(f(xl, yl)) if _are_known(operands) else (f(xl, yh), f(xh, yl))


def lowest_at(where: float, bottom: float) -> Ends:
    """Of a function that falls up to `where` and rises from there. `bottom`: what it is there, or a little more."""

    def ends(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
        ((low, high),) = operands
        if _are_known(operands):
            return _once(f(low))
        at_low, at_high = f(low), f(high)
        lower = _lesser(at_low, at_high, xp)
        inside = (low < where) & (high > where)
        return xp.where(inside, bottom * _FURTHER, lower), _greater(at_low, at_high, xp)

    return ends


def sizes(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of an absolute value."""
    ((low, high),) = operands
    a, b = xp.abs(low), xp.abs(high)
    smaller = xp.where((low < 0) & (high > 0), xp.zeros_like(a), xp.minimum(a, b))
    return smaller, xp.maximum(a, b)


def squares(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a square."""
    smaller, larger = sizes(f, operands, xp)
    return smaller * smaller, larger * larger


def products(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a product: at one of the corners."""
    for x, y in (operands, operands[::-1]):
        if not _are_known((x, y)) and _is_positive(y, xp):
            return x[0] * xp.where(x[0] >= 0, *y), x[1] * xp.where(x[1] >= 0, *y[::-1])
    x, y = operands
    return _hull([a * b for a, b in product(_distinct(x), _distinct(y))], xp)


def fused(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a product, exact in f64 where it is one of f32, and a sum that f64 may round before f32 does."""
    x, y, z = operands
    low, high = products(f, (x, y), xp)
    return _sum(low, z[0], -1.0, xp), _sum(high, z[1], 1.0, xp)


def quotients(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a quotient: anything beside a pole."""
    x, y = operands
    if _are_known(operands):
        return _once(x[0] / y[0])
    if _is_positive(y, xp):
        if bool(xp.amin(x[0]) >= 0):  # then the upper ends are no less
            return x[0] / y[1], x[1] / y[0]
        return x[0] / xp.where(x[0] >= 0, *y[::-1]), x[1] / xp.where(x[1] >= 0, *y)
    low, high = _hull([a / b for a, b in product(_distinct(x), _distinct(y))], xp)
    pole = (y[0] <= 0) & (y[1] >= 0) & (y[0] != y[1])
    return xp.where(pole, -math.inf, low), xp.where(pole, math.inf, high)


def whole_quotients(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a quotient of floats that is rounded down: at the corners, anything beside a pole."""
    x, y = operands
    low, high = _hull([f(a, b) for a, b in product(_distinct(x), _distinct(y))], xp)
    return _beside_a_pole(low, high, y, xp)


def remainders(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of what such a quotient leaves: between 0 and the divisor, and at the ends where the quotient is one number."""
    x, y = operands
    is_one = (y[0] == y[1]) & (xp.floor(x[0] / y[0]) == xp.floor(x[1] / y[1])) & (xp.abs(x[1]) < _EXACT_INTEGER)
    at_low, at_high = f(x[0], y[0]), f(x[1], y[1])
    is_one = (is_one & (at_low <= at_high)) | ((y[0] == y[1]) & ((x[0] == x[1]) | (y[0] == 0)))
    none = xp.zeros_like(y[0])
    low, high = xp.where(is_one, at_low, xp.minimum(y[0], none)), xp.where(is_one, at_high, xp.maximum(y[1], none))
    return _beside_a_pole(low, high, y, xp)


def _beside_a_pole(low: Array, high: Array, y: Pair, xp: Any) -> Pair:
    """Anything where a divisor may be zero."""
    pole = (y[0] <= 0) & (y[1] >= 0) & ((y[0] != y[1]) | (xp.signbit(y[0]) != xp.signbit(y[1])))
    return xp.where(pole, xp.full_like(low, -math.inf), low), xp.where(pole, xp.full_like(high, math.inf), high)


def reciprocals(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of one divided by the operand."""
    (x,) = operands
    one = xp.ones_like(x[0])
    return quotients(f, ((one, one), x), xp)


def powers(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a power. Of a positive base it is exp(y log x), which lies between its corners. Of a base that may be negative
    it has an order where the exponent is one integer, but for the pole of a negative one, and none elsewhere."""
    (xl, xh), (yl, yh) = operands
    low, high = _hull([f(a, b) for a, b in product((xl, xh), (yl, yh))], xp)
    is_crossed = xp.signbit(xl) & ~xp.signbit(xh)
    at_zero = f(xp.zeros_like(xl), yl)
    low = xp.where(is_crossed, _lesser(low, at_zero, xp), low)
    high = xp.where(is_crossed, _greater(high, at_zero, xp), high)
    is_one = yl == yh
    is_ordered = is_one & (xp.floor(yl) == yl) & ~(is_crossed & (yl < 0))
    is_nan = is_one & (xl > -math.inf) & (xh < 0)
    is_open = xp.signbit(xl) & ~is_ordered & ~is_nan & ((xl != xh) | ~is_one)
    return xp.where(is_open, xp.full_like(low, -math.inf), low), xp.where(is_open, xp.full_like(high, math.inf), high)


def waves(peak: float) -> Ends:
    """Of a sine whose greatest value, 1, is at `peak` and every turn from there."""

    def ends(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
        ((low, high),) = operands
        at_low, at_high = f(low), f(high)
        one = xp.ones_like(at_low)
        # A turn and its peaks are known to 53 bits: what lies so near to one is taken to have it.
        beside = xp.maximum(xp.abs(low), xp.abs(high)) * 2.0**-50 + 2.0**-50
        far = (high - low >= 2.0 * math.pi) | ~(beside < _MOST_TURNS * 2.0**-50)

        def passes(where: float) -> Array:
            turns = [xp.floor((x - where) / (2.0 * math.pi)) for x in (low - beside, high + beside)]
            return (low < high) & (far | (turns[0] != turns[1]))

        lower, upper = _lesser(at_low, at_high, xp), _greater(at_low, at_high, xp)
        return xp.where(passes(peak + math.pi), -one, lower), xp.where(passes(peak), one, upper)

    return ends


def unordered(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a function of integers, or of bools, whose bits follow no order: known where its operands are."""
    known = operands[0][0] == operands[0][0]
    for low, high in operands:
        known = known & (low == high)
    if known.dtype == operands[0][0].dtype:  # bools
        found = f(*(low for low, _ in operands))
        return found & known, found | ~known
    for low, _ in operands:
        known = known & (xp.abs(low) < _EXACT_INTEGER)
    held = (xp.where(known, low, xp.zeros_like(low)) for low, _ in operands)
    found = xp.asarray(f(*(xp.asarray(x, dtype=xp.int64) for x in held)), dtype=xp.float64)
    known = known & (xp.abs(found) < _EXACT_INTEGER)
    return xp.where(known, found, xp.full_like(found, -math.inf)), xp.where(known, found, xp.full_like(found, math.inf))


def inverse_roots(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of one divided by a root: it falls, but for -0, of which it is -inf."""
    ((low, high),) = operands
    if _are_known(operands):
        return _once(f(low))
    at_low, at_high = f(low), f(high)
    is_open = xp.signbit(low) & ~xp.signbit(high)
    return xp.where(is_open, -math.inf, at_high), xp.where(is_open, math.inf, at_low)


def equal(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of an equality."""
    (xl, xh), (yl, yh) = operands
    return (xl == xh) & (yl == yh) & (xl == yl), (xl <= yh) & (yl <= xh)


def unequal(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of an inequality."""
    sure, possible = equal(f, operands, xp)
    return ~possible, ~sure


def below(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a comparison that holds the more the less the first operand is, and the greater the second."""
    (xl, xh), (yl, yh) = operands
    return f(xh, yl), f(xl, yh)


def _are_known(operands: Sequence[Pair]) -> bool:
    """Whether each operand has one array for both ends."""
    return all(low is high for low, high in operands)


def _once(found: Array) -> Pair:
    return found, found


def _distinct(x: Pair) -> tuple[Array, ...]:
    return x[:1] if x[0] is x[1] else x


def _is_positive(x: Pair, xp: Any) -> bool:
    """Whether all between the ends is finite and above zero wherever it is a number, so that one end of what it is
    beside decides. What is made of a NaN is NaN at every corner."""
    low, high = map(_unrepeated, x)
    return bool((((low > 0) & xp.isfinite(high)) | (xp.isnan(low) & xp.isnan(high))).all())


def _unrepeated(x: Array) -> Array:
    """An array without the dimensions along which it was broadcast."""
    strides = x.stride() if hasattr(x, "stride") else x.strides
    return x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]


def _hull(corners: Sequence[Array], xp: Any) -> Pair:
    low = high = corners[0]
    for corner in corners[1:]:
        low, high = _lesser(low, corner, xp), _greater(high, corner, xp)
    return low, high


def _lesser(a: Array, b: Array, xp: Any) -> Array:
    """The lesser of two, of zeros the negative one: which of them `minimum` gives is not said."""
    return xp.where(a == b, xp.where(xp.signbit(a), a, b), xp.minimum(a, b))


def _greater(a: Array, b: Array, xp: Any) -> Array:
    """The greater of two, of zeros the positive one."""
    return xp.where(a == b, xp.where(xp.signbit(a), b, a), xp.maximum(a, b))


def _sum(x: Array, y: Array, outward: float, xp: Any) -> Array:
    """x + y, moved outward by as much as f64 may have lost, if it has (Knuth, TAOCP 4.2.2, Theorem B)."""
    total = x + y
    part = total - x
    lost = (x - (total - part)) + (y - part)
    return xp.where((lost == 0) | ~xp.isfinite(lost), total, total + outward * xp.abs(total) * 2.0**-52)
