"""f64 arithmetic in exact rational numbers, an element at a time, for what error-free transformations do not reach:
results near overflow and underflow, and directed rounding, which in f64 hardly occurs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from compiler.emulate.numeric.rounding import Array, Rounding


def nearest(value: Fraction) -> float:
    """The f64 nearest to `value`, ties to even; infinite where f64 overflows. Zero is +0."""
    try:
        return value.numerator / value.denominator  # dividing two ints rounds once, in Python
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _directed(r: float, above: bool, below: bool, mode: Rounding) -> float:
    """Moves the nearest f64 `r` of an exact value that lies `above` or `below` it."""
    down = below and (mode == "rm" or (mode == "rz" and r > 0))
    up = above and (mode == "rp" or (mode == "rz" and r < 0))
    return math.nextafter(r, -math.inf) if down else math.nextafter(r, math.inf) if up else r


def _rounded(value: Fraction, negative_zero: bool, mode: Rounding) -> float:
    r = nearest(value)
    if r == 0:
        r = -0.0 if value < 0 or (value == 0 and negative_zero) else 0.0
    if math.isinf(r):
        return _directed(r, above=r < 0, below=r > 0, mode=mode)
    held = Fraction(r)
    return _directed(r, above=value > held, below=value < held, mode=mode)


def _is_negative(x: float) -> bool:
    return math.copysign(1.0, x) < 0


def _fma(a: float, b: float, c: float, mode: Rounding) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    if not math.isfinite(c):
        return c
    product_sign = _is_negative(a) != _is_negative(b)
    both, either = product_sign and _is_negative(c), product_sign or _is_negative(c)
    is_sum_of_zeros = a == 0 or b == 0  # then both signs count; a product that is not zero cancels against c
    negative_zero = either if mode == "rm" else both and is_sum_of_zeros
    return _rounded(Fraction(a) * Fraction(b) + Fraction(c), negative_zero, mode)


def _divide(a: float, b: float, mode: Rounding) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return float(np.float64(a) / np.float64(b))
    return _rounded(Fraction(a) / Fraction(b), False, mode)


def _root(a: float, mode: Rounding) -> float:
    if not math.isfinite(a) or a <= 0:
        return float(np.sqrt(np.float64(a)))
    r = math.sqrt(a)
    square = Fraction(r) ** 2
    return _directed(r, above=Fraction(a) > square, below=Fraction(a) < square, mode=mode)


def _each(function: Callable[..., float], mode: Rounding, *operands: Array) -> Array:
    arrays = np.broadcast_arrays(*operands)
    values = [function(*(float(x) for x in xs), mode) for xs in zip(*(a.flat for a in arrays), strict=True)]
    return np.array(values, np.float64).reshape(arrays[0].shape)


def fma(a: Array, b: Array, c: Array, mode: Rounding) -> Array:
    """a * b + c."""
    return _each(_fma, mode, a, b, c)


def add(a: Array, b: Array, mode: Rounding) -> Array:
    """a + b."""
    return _each(_fma, mode, a, np.ones(()), b)


def multiply(a: Array, b: Array, mode: Rounding) -> Array:
    """a * b; a zero added in the product's sign leaves a zero product as it is."""
    return _each(_fma, mode, a, b, np.copysign(np.float64(0.0), np.copysign(1.0, a) * np.copysign(1.0, b)))


def divide(a: Array, b: Array, mode: Rounding) -> Array:
    """a / b."""
    return _each(_divide, mode, a, b)


def square_root(a: Array, mode: Rounding) -> Array:
    """The square root of a."""
    return _each(_root, mode, a)
