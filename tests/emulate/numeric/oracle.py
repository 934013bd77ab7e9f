"""Exact arithmetic to judge the emulator's: rationals, rounded to any binary format by integer division.

It shares nothing with the code under test: no error-free transformation, no float operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Format:
    """An IEEE binary format; `digits` counts the leading one. `dtype` holds its bits."""

    name: str
    digits: int
    exponent_bits: int
    dtype: type[np.unsignedinteger[Any]]

    @property
    def bits(self) -> int:
        return self.digits + self.exponent_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << (self.digits - 1)

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)


F16 = Format("f16", 11, 5, np.uint16)
BF16 = Format("bf16", 8, 8, np.uint16)
F32 = Format("f32", 24, 8, np.uint32)
F64 = Format("f64", 53, 11, np.uint64)
FORMATS = {f.name: f for f in (F16, BF16, F32, F64)}


def value(fmt: Format, bits: int) -> Fraction | None:
    """What finite bits stand for; None for infinities and NaN."""
    size = bits & (fmt.sign - 1)
    if size >= fmt.infinity:
        return None
    exponent, mantissa = size >> (fmt.digits - 1), size & ((1 << (fmt.digits - 1)) - 1)
    if exponent:
        mantissa |= 1 << (fmt.digits - 1)
    result = Fraction(*_times_two_to_the(max(exponent, 1) - fmt.bias - fmt.digits + 1, mantissa, 1))
    return -result if bits & fmt.sign else result


def rounded(fmt: Format, exact: Fraction, mode: str, zero_sign: bool = False) -> int:
    """The bits nearest to `exact` in the direction `mode`; `zero_sign` is the sign of an exact zero."""
    if exact == 0:
        return fmt.sign if zero_sign else 0
    negative, size = exact < 0, abs(exact)
    above, below = size.numerator, size.denominator
    exponent = above.bit_length() - below.bit_length()
    most, one = _times_two_to_the(-exponent, above, below)
    if one > most:
        exponent -= 1
    exponent = max(exponent, 1 - fmt.bias)
    above, below = _times_two_to_the(fmt.digits - 1 - exponent, above, below)
    steps, rest = divmod(above, below)
    twice = 2 * rest
    up = {
        "rn": twice > below or (twice == below and steps % 2 == 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[mode]
    steps += up
    bits = steps + ((exponent + fmt.bias - 1) << (fmt.digits - 1))
    if bits >= fmt.infinity:
        to_infinity = mode == "rn" or mode == ("rm" if negative else "rp")
        bits = fmt.infinity if to_infinity else fmt.infinity - 1
    return bits | (fmt.sign if negative else 0)


def _times_two_to_the(power: int, above: int, below: int) -> tuple[int, int]:
    """A quotient times a power of two, in integers: powers of fractions take ten times as long."""
    return (above << power, below) if power >= 0 else (above, below << -power)


def is_nan(fmt: Format, bits: int) -> bool:
    return bits & (fmt.sign - 1) > fmt.infinity


def random_bits(fmt: Format, rng: np.random.Generator, count: int) -> Array:
    """Bit patterns: uniform ones, ones of close exponents (sums cancel and tie), and the notable ones."""
    kinds = rng.integers(0, 4, count)
    uniform = rng.integers(0, 1 << fmt.bits, count, dtype=np.uint64)
    exponent = rng.integers(fmt.bias - 4, fmt.bias + 4, count, dtype=np.uint64) << np.uint64(fmt.digits - 1)
    top = rng.integers(0, 8, count, dtype=np.uint64) << np.uint64(fmt.digits - 4)
    sign = rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(fmt.bits - 1)
    full = rng.integers(0, 1 << (fmt.digits - 1), count, dtype=np.uint64)
    one = fmt.bias << (fmt.digits - 1)
    least = 1 << (fmt.digits - 1)  # the smallest normal number
    half_step = (fmt.bias - fmt.digits) << (fmt.digits - 1)
    notable = np.array(
        [
            0,
            1,
            2,
            least - 1,
            least,
            half_step,
            one - 1,
            one,
            one + 1,
            *range(fmt.infinity - 1, fmt.infinity + 2),
            fmt.sign - 1,
        ],
        np.uint64,
    )
    picked = notable[rng.integers(0, len(notable), count)] | sign
    return np.choose(kinds, [uniform, sign | exponent | top, sign | exponent | full, picked]).astype(fmt.dtype)


def fused(fmt: Format, a: int, b: int, c: int, mode: str) -> int | None:
    """The bits of a * b + c; None where an operand is no finite number."""
    x, y, z = value(fmt, a), value(fmt, b), value(fmt, c)
    if x is None or y is None or z is None:
        return None
    signs = [bool((a ^ b) & fmt.sign), bool(c & fmt.sign)]
    is_sum_of_zeros = x * y == 0 and z == 0
    zero_sign = any(signs) if mode == "rm" else all(signs) and is_sum_of_zeros
    return rounded(fmt, x * y + z, mode, zero_sign)


def root(fmt: Format, a: int, mode: str) -> int | None:
    """The bits of the square root; None below zero and for what is no finite number."""
    x = value(fmt, a)
    if x is None or x < 0:
        return None
    if x == 0:
        return a
    shift = 4 * fmt.digits + 2 * fmt.bias + 64
    scaled = (x.numerator << (2 * shift)) // x.denominator
    low = math.isqrt(scaled)
    exact = low * low == scaled and (x.numerator << (2 * shift)) % x.denominator == 0
    # A root that is no rational lies between two of a grid far finer than the format: any point between them serves.
    return rounded(fmt, Fraction(2 * low + (0 if exact else 1), 1 << (shift + 1)), mode)
