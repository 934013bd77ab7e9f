"""Exact functions of operators that take more than an expression: of arrays of numpy or torch, f64, i64 or bool."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def each_element(xp: Any, name: str, f: Callable[[float], float], x: Any) -> Any:
    """A function that torch has and numpy has not: there one element after the other, by the standard library's."""
    return getattr(xp, name)(x) if hasattr(xp, name) else xp.asarray(xp.frompyfunc(f, 1, 1)(x), dtype=xp.float64)


def exact_gelu_erf(xp: Any, x: Any) -> Any:
    """x times the share of the normal distribution below x, by erfc, which does not cancel where x is negative."""
    return 0.5 * x * each_element(xp, "erfc", math.erfc, x * -math.sqrt(0.5))


def exact_pow(xp: Any, x: Any, y: Any) -> Any:
    """C's function, of arrays alone: numpy and torch write roots and squares for some lone numbers."""
    x, y = (x, xp.broadcast_to(y, x.shape)) if x.shape else (xp.broadcast_to(x, y.shape), y)
    return xp.pow(x, y) if x.dtype == xp.float64 else _whole_power(xp, x, y)


def _whole_power(xp: Any, x: Any, y: Any) -> Any:
    """Of integers, by squares, which wrap; to less than 0 of 1 and -1 what it is, and 0 of all others."""
    found, square, left = xp.ones_like(x), x, xp.where(y < 0, xp.zeros_like(y), y)
    while bool((left > 0).any()):
        found = xp.where((left & 1) == 1, found * square, found)
        square, left = square * square, left >> 1
    sign = xp.where((y & 1) == 1, x, xp.ones_like(x))
    return xp.where(y < 0, xp.where(xp.abs(x) == 1, sign, xp.zeros_like(x)), found)


def _shift_within(xp: Any, by: Any) -> Any:
    """An amount that is one, and 63 where it is less than 0 or more than that."""
    return xp.where((by < 0) | (by > 63), xp.full_like(by, 63), by)


def exact_left_shift(xp: Any, x: Any, by: Any) -> Any:
    """By less than 0, or more bits than there are: 0. Bits of narrower types leave at their own width."""
    return (x << _shift_within(xp, by)) * xp.asarray((by >= 0) & (by < 64), dtype=xp.int64)


def exact_right_shift(xp: Any, x: Any, by: Any) -> Any:
    """Filled with the sign: nothing else is left of it by less than 0, or more bits than there are."""
    return x >> _shift_within(xp, by)


def exact_floor_divide(xp: Any, x: Any, y: Any) -> Any:
    """Rounded down. Of integers -1 by zero, and the least one by -1 wraps to itself."""
    if x.dtype == xp.float64:
        return _whole_quotient(xp, x, y)
    plain = xp.where((y == 0) | (y == -1), xp.ones_like(y), y)
    return xp.where(y == 0, xp.full_like(x, -1), xp.where(y == -1, -x, xp.floor_divide(x, plain)))


def _left(xp: Any, x: Any, y: Any) -> Any:
    """What a quotient of floats rounded to zero leaves. Of torch on a CPU by its loop over strided elements: the one
    over vectors gives NaN where the quotient is larger than f64 can be."""
    if getattr(x, "is_cpu", False):
        x, y = (xp.stack([a, a], -1)[..., 0] for a in (x, y))
    return xp.fmod(x, y)


def _whole_quotient(xp: Any, x: Any, y: Any) -> Any:
    """Of floats, by what is left of them, so that a quotient just below a whole number is not rounded up to it. By zero
    as a quotient."""
    rest = _left(xp, x, y)
    found = (x - rest) / y
    found = xp.where((rest != 0) & ((y < 0) != (rest < 0)), found - 1.0, found)
    down = xp.floor(found)
    down = xp.where(found - down > 0.5, down + 1.0, down)  # a quotient that is whole, rounded
    down = xp.where(found == 0, xp.copysign(xp.zeros_like(found), x / y), down)
    return xp.where(y == 0, x / y, down)


def exact_remainder(xp: Any, x: Any, y: Any) -> Any:
    """What the quotient that is rounded down leaves; it has the sign of `y`. By zero -1 of integers, NaN of floats."""
    if x.dtype == xp.float64:
        rest = _left(xp, x, y)
        return xp.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
    plain = xp.where((y == 0) | (y == -1), xp.ones_like(y), y)
    return xp.where(y == 0, xp.full_like(x, -1), xp.remainder(x, plain))


def exact_product(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """Of all elements along the axes, which stay with size 1."""
    for axis in axes:  # torch folds one at a time
        x = xp.prod(x, axis=axis, keepdims=True)
    return x


def exact_gelu(xp: Any, x: Any) -> Any:
    """x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3) (Hendrycks and Gimpel, "Gaussian Error Linear Units",
    2016), as x / (1 + exp(-2u)), which does not cancel where x is negative."""
    return x / (1.0 + xp.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def exact_prefix_sum(xp: Any, x: Any, axis: int, is_exclusive: bool) -> Any:
    """Of the elements up to each along an axis, or of those before it."""
    sums = xp.cumsum(x, axis)
    if not is_exclusive:
        return sums
    first = [slice(None)] * x.ndim
    first[axis] = slice(0, 1)
    rest = [slice(None)] * x.ndim
    rest[axis] = slice(0, -1)
    return xp.concatenate((xp.zeros_like(sums[tuple(first)]), sums[tuple(rest)]), axis=axis)


def exact_matmul(xp: Any, x: Any, y: Any) -> Any:
    """The product of matrices, the last two dimensions of each. torch on CUDA has none of integers: sums of products of
    8 bits are exact in f64 too."""
    if x.dtype != xp.int64:
        return xp.matmul(x, y)
    wide = xp.matmul(xp.asarray(x, dtype=xp.float64), xp.asarray(y, dtype=xp.float64))
    return xp.asarray(wide, dtype=xp.int64)
