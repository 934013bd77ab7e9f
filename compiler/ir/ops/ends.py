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


def rising(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a function that rises with every operand."""
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
    return f(xl, yh), f(xh, yl)


def lowest_at(where: float, bottom: float) -> Ends:
    """Of a function that falls up to `where` and rises from there. `bottom`: what it is there, or a little more."""

    def ends(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
        ((low, high),) = operands
        at_low, at_high = f(low), f(high)
        lower = _lesser(at_low, at_high, xp)
        inside = (low < where) & (high > where)
        return xp.where(inside, xp.full_like(lower, bottom * _FURTHER), lower), _greater(at_low, at_high, xp)

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
    x, y = operands
    if x[0] is x[1] and y[0] is y[1]:
        found = x[0] * y[0]
        return found, found
    return _hull([a * b for a, b in product(x, y)], xp)


def fused(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a product, exact in f64 where it is one of f32, and a sum that f64 may round before f32 does."""
    x, y, z = operands
    low, high = products(f, (x, y), xp)
    return _sum(low, z[0], -1.0, xp), _sum(high, z[1], 1.0, xp)


def quotients(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of a quotient: anything beside a pole."""
    x, y = operands
    low, high = _hull([a / b for a, b in product(x, y)], xp)
    pole = (y[0] <= 0) & (y[1] >= 0) & (y[0] != y[1])
    return xp.where(pole, xp.full_like(low, -math.inf), low), xp.where(pole, xp.full_like(high, math.inf), high)


def reciprocals(f: Callable[..., Array], operands: Sequence[Pair], xp: Any) -> Pair:
    """Of one divided by the operand."""
    (x,) = operands
    one = xp.ones_like(x[0])
    return quotients(f, ((one, one), x), xp)


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
