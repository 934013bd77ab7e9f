"""Formats of 4, 6 and 8 bits, and tf32 (PTX ISA, "Alternate Floating-Point Data Formats").

Conversions to them round to nearest even and saturate to the largest finite number; ue8m0, a bare exponent, rounds
towards zero or plus infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.emulate.numeric import rounding
from compiler.emulate.numeric.rounding import Array


@dataclass(frozen=True)
class Minifloat:
    """Sign, exponent (with its bias) and mantissa. `largest` is the largest finite value; `nan` the bits of the NaN, or
    None where there is none: then NaN becomes the largest value. `infinity`: whether the top exponent is IEEE's."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    largest: float
    nan: int | None
    has_infinity: bool = False

    @property
    def bias(self) -> int:
        """What the stored exponent exceeds the exponent by."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.exponent_bits + self.mantissa_bits)


FORMATS = {
    fmt.name: fmt
    for fmt in (
        Minifloat("e4m3", 4, 3, 448.0, 0x7F),
        Minifloat("e5m2", 5, 2, 57344.0, 0x7F, has_infinity=True),
        Minifloat("e2m3", 2, 3, 7.5, None),
        Minifloat("e3m2", 3, 2, 28.0, None),
        Minifloat("e2m1", 2, 1, 6.0, None),
    )
}


TF32_NAN = np.uint32(0x7FFFE000)
"""The canonical NaN of f32 with the low 13 bits clear: a tensor map of tf32 brings it in place of any (seen on an
H200), and conversions are believed to."""


def encode(fmt: Minifloat, x: Array, relu: bool = False) -> Array:
    """The bits (uint8) of f64 values: to nearest even, saturated to the finite range (`.satfinite`)."""
    size = np.minimum(np.abs(x), fmt.largest)
    size = np.where(np.isnan(x), 0.0, size)
    least = 1 - fmt.bias  # the exponent of subnormal numbers, and of zero
    exponent = np.where(size == 0, least, np.maximum(np.frexp(size)[1] - 1, least))
    steps = np.rint(np.ldexp(size, fmt.mantissa_bits - exponent)).astype(np.int64)
    # The leading one of a normal number carries into the exponent; a mantissa that rounds up to the next binade too.
    bits = steps + ((exponent + (fmt.bias - 1)).astype(np.int64) << fmt.mantissa_bits)
    negative = np.signbit(x)
    bits = np.where(negative, 0 if relu else bits | fmt.sign, bits)
    largest = fmt.nan if fmt.nan is not None else fmt.sign - 1
    return np.where(np.isnan(x), largest, bits).astype(np.uint8)


def _values(fmt: Minifloat) -> Array:
    """What each of the 256 bytes means, as f64; bits above the sign count for nothing."""
    bits = np.arange(256)
    mantissa = bits & ((1 << fmt.mantissa_bits) - 1)
    exponent = (bits & (fmt.sign - 1)) >> fmt.mantissa_bits
    steps = np.where(exponent > 0, mantissa + (1 << fmt.mantissa_bits), mantissa)
    values: Array = np.ldexp(steps.astype(np.float64), np.maximum(exponent, 1) - fmt.bias - fmt.mantissa_bits)
    if fmt.has_infinity:
        values = np.where(exponent == (1 << fmt.exponent_bits) - 1, np.where(mantissa == 0, np.inf, np.nan), values)
    elif fmt.nan is not None:
        values = np.where((bits & (fmt.sign - 1)) == fmt.nan, np.nan, values)
    return np.where(bits & fmt.sign != 0, -values, values)


_VALUES = {name: _values(fmt) for name, fmt in FORMATS.items()}


def decode(fmt: Minifloat, bits: Array) -> Array:
    """The f64 values of bits (uint8)."""
    values: Array = _VALUES[fmt.name][bits]
    return values


def encode_ue8m0(bits: Array, up: bool, satfinite: bool) -> Array:
    """The exponents (uint8) of f32, given as bits (uint32): |x| rounded to a power of two, down or `up`.

    Zero and what lies below 2^-127 become 2^-127; NaN and, without `.satfinite`, what exceeds 2^127 become 0xFF.
    """
    size = bits & np.uint32(0x7FFFFFFF)
    exponent = size >> 23
    if up:
        exponent = exponent + (((size & np.uint32(0x7FFFFF)) != 0) & (size > 0x00400000) & (size < 0x7F800000))
    if satfinite:
        exponent = np.where(size <= 0x7F800000, np.minimum(exponent, 0xFE), exponent)
    return exponent.astype(np.uint8)


def decode_ue8m0(bits: Array) -> Array:
    """bf16 (uint16) of exponents (uint8): 2^(x - 127), which for 0 is subnormal; 0xFF is NaN."""
    power = np.where(bits == 0, np.uint16(0x0040), bits.astype(np.uint16) << np.uint16(7))
    return np.where(bits == 0xFF, rounding.BF16_NAN, power)


def to_tf32(x: Array, mode: str, satfinite: bool = False, relu: bool = False) -> Array:
    """tf32 (uint32 with the low 13 bits clear) of f32, by `rn`, `rz` or `rna` (to nearest, ties away from zero).

    NaN becomes the canonical one, but for `rna`, which cuts its payload off: what is left may be an infinity (measured
    on an H200; the assembler makes of it an integer addition, for numbers only, and a mask).
    """
    bits = x.view(np.uint32)
    if mode == "rna":
        bits = np.where(np.isnan(x), bits, bits + np.uint32(1 << 12))
    elif mode == "rn":
        bits = bits + (np.uint32((1 << 12) - 1) + ((bits >> 13) & 1))
    bits = bits & np.uint32(0xFFFFE000)
    if satfinite:
        infinite = (bits & np.uint32(0x7FFFFFFF)) == 0x7F800000
        bits = np.where(infinite, (bits & np.uint32(0x80000000)) | np.uint32(0x7F7FE000), bits)
    if relu:
        bits = np.where(bits >= 0x80000000, np.uint32(0), bits)
    return bits if mode == "rna" else np.where(np.isnan(x), TF32_NAN, bits)
