"""Correct rounding of exact results to f16, bf16, f32 and f64, in the four directions of PTX.

A result that f64 cannot hold exactly is carried as a pair: `s`, its nearest f64, and `e`, the exact rest (an error-free
transformation: Knuth, "The Art of Computer Programming", volume 2, 4.2.2; Dekker, "A Floating-Point Technique for
Extending the Available Precision", 1971). From the pair every narrower format is rounded once: directed modes need only
the sign of what rounding to nearest left over; to nearest, a pair is first rounded to odd, which keeps what decides a
tie (Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to Odd",
2008).

Everything here takes arrays or NumPy scalars, and wants floating-point warnings switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Rounding = Literal["rn", "rz", "rm", "rp"]
"""To nearest even, towards zero, towards minus infinity, towards plus infinity (PTX ISA, "Rounding Modifiers")."""

ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

F16_NAN = np.uint16(0x7FFF)
BF16_NAN = np.uint16(0x7FFF)
F32_NAN = np.uint32(0x7FFFFFFF).view(np.float32)
"""The NaN that an instruction makes (PTX ISA, "Floating-Point Instructions": NaN payloads are not kept in f32; "Half
Precision Floating-Point Instructions" names 0x7FFF the canonical NaN)."""

F64_NAN = np.uint64(0xFFF8000000000000).view(np.float64)
"""The NaN that an f64 instruction makes where no operand is one (measured on an H200)."""

_QUIET_F64 = np.uint64(1 << 51)

_F32_TINY = 2.0**-126
"""Smallest normal f32."""

_BELOW_F32 = np.int64((1 << 29) - 1)
_HALF_OF_F32 = np.int64(1 << 28)
"""The 29 bits that an f64 has more than an f32, and what stands there at the middle between two normal f32."""

_LOW16 = np.uint32(0xFFFF)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b in f64 as (nearest, rest); the rest is NaN where the sum overflows or an input is not finite."""
    s = a + b
    b_part = s - a
    return s, (a - (s - b_part)) + (b - b_part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b in f64 as (nearest, rest), for |a|, |b| < 2^990 and |a * b| in [2^-960, 2^1020]."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(x: Array) -> tuple[Array, Array]:
    """x as a sum of two f64 of at most 26 bits each."""
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def to_odd(s: Array, e: Array) -> Array:
    """s + e in f64, rounded to odd: the neighbour whose last bit is set, unless the sum is an f64."""
    bits = s.view(np.int64)
    step = np.where((e > 0) == (s > 0), np.int64(1), np.int64(-1))
    return np.where((np.abs(e) > 0) & (bits & 1 == 0), bits + step, bits).view(np.float64)


def nudge(r: Array, rest: Array, mode: Rounding) -> Array:
    """Turns `r`, the exact result to nearest, into the directed rounding; `rest` has the sign of (exact result - r).

    An infinite `r` with a finite exact result has the rest of opposite sign, and comes back to the largest finite
    number where the mode says so.
    """
    inf = r.dtype.type(np.inf)
    match mode:
        case "rn":
            return r
        case "rz":
            past = ((rest < 0) & (r > 0)) | ((rest > 0) & (r < 0))
            return np.where(past, np.nextafter(r, r.dtype.type(0)), r)
        case "rm":
            return np.where(rest < 0, np.nextafter(r, -inf), r)
        case "rp":
            return np.where(rest > 0, np.nextafter(r, inf), r)


def _rest(s: Array, e: Array | None, r: Array) -> Array:
    """A number with the sign of s + e - r, where r is a rounding of s."""
    rest = s - r.astype(np.float64)
    return rest if e is None else rest + e


def to_f64(s: Array, e: Array | None, mode: Rounding) -> Array:
    """s + e as f64."""
    return s if e is None else nudge(s, e, mode)


def to_f32(s: Array, e: Array | None, mode: Rounding) -> Array:
    """s + e as f32. NaNs are not made canonical."""
    if mode == "rn":
        return (s if e is None else to_odd(s, e)).astype(np.float32)
    r = s.astype(np.float32)
    return nudge(r, _rest(s, e, r), mode)


def sum_to_f32(a: Array, b: Array, mode: Rounding) -> Array:
    """a + b, two f64 that are multiples of 2^-298 below 2^512 (products of f32, say), as f32, rounded once."""
    if mode == "rn":
        s = a + b
        bits = s.view(np.int64)
        small = np.abs(s)
        doubtful = ((bits & _BELOW_F32) == _HALF_OF_F32) | ((small < _F32_TINY) & (small > 0))
        if not doubtful.any():  # no sum lies at the middle of two f32, so rounding twice is rounding once
            return s.astype(np.float32)
        return to_odd(*two_sum(a, b)).astype(np.float32)
    s, e = two_sum(a, b)
    r = to_f32(s, e, mode)
    # IEEE 754, 6.3: a sum that cancels, or of zeros with two signs, is -0 only when rounding down.
    if mode == "rm":
        r = np.where((s == 0) & (np.signbit(a) | np.signbit(b)), np.float32(-0.0), r)
    return r


def to_f16(s: Array, e: Array | None, mode: Rounding) -> Array:
    """s + e as the bits of f16 (uint16); NaN is 0x7FFF."""
    if mode == "rn":
        r = (s if e is None else to_odd(s, e)).astype(np.float16)
    else:
        r = s.astype(np.float16)
        r = nudge(r, _rest(s, e, r), mode)
    bits = r.view(np.uint16)
    bad = np.isnan(s)
    return np.where(bad, F16_NAN, bits) if bad.any() else bits


def to_bf16(s: Array, e: Array | None, mode: Rounding) -> Array:
    """s + e as the bits of bf16 (uint16); NaN is 0x7FFF.

    An f32 rounded to odd has 16 bits more than bf16 and its exponents, and so decides every mode.
    """
    r = s.astype(np.float32)
    rest = _rest(s, e, r)
    odd = nudge(r, rest, "rz").view(np.uint32) | (np.abs(rest) > 0)
    return f32_bits_to_bf16(odd, np.isnan(s), mode)


def f32_bits_to_bf16(bits: Array, bad: Array, mode: Rounding) -> Array:
    """The bits of f32 as the bits of bf16 (uint16), rounded; NaN, where `bad` is set, is 0x7FFF."""
    kept = bits >> 16
    match mode:
        case "rn":
            kept = (bits + (np.uint32(0x7FFF) + (kept & 1))) >> 16
        case "rz":
            pass
        case "rm":
            kept = kept + (((bits & _LOW16) != 0) & (bits >> 31 == 1))
        case "rp":
            kept = kept + (((bits & _LOW16) != 0) & (bits >> 31 == 0))
    result = kept.astype(np.uint16)
    return np.where(bad, BF16_NAN, result) if bad.any() else result


def canonical(r: Array) -> Array:
    """f32 results with every NaN made 0x7FFFFFFF; f64 results as they are."""
    if r.dtype != np.float32:
        return r
    bad = np.isnan(r)
    return np.where(bad, F32_NAN, r) if bad.any() else r


def operand_nan(result: Array, operands: Sequence[Array]) -> Array:
    """f64 results with every NaN made that of the first of `operands` that is one, quieted, its sign kept; F64_NAN
    where none is.

    PTX says that f64 keeps payloads, not whose; see floating.NAN_ORDER.
    """
    bad = np.isnan(result)
    if not bad.any():
        return result
    found: Array = np.asarray(F64_NAN)
    for x in reversed(operands):
        found = np.where(np.isnan(x), (x.view(np.uint64) | _QUIET_F64).view(np.float64), found)
    return np.where(bad, found, result)


def flush(x: Array) -> Array:
    """f32 with subnormal numbers made zeros of their sign (`.ftz`): operands, and results that are exact down there."""
    return np.multiply(x, np.abs(x) >= np.float32(_F32_TINY))


def flush_result(result: Array, scaled: Callable[[float], Array]) -> Array:
    """f32 results made zeros of their sign where they are tiny; `scaled` gives them times a power of two."""
    smallest, scale = np.float32(_F32_TINY), 2.0**32
    return np.multiply(result, ~is_tiny(np.abs(result), smallest, lambda: np.abs(scaled(scale)) < smallest * scale))


def is_tiny(size: Array, smallest: Any, is_tiny_unbounded: Callable[[], Array]) -> Array:
    """Which results `.ftz` makes zeros: those that lie below the smallest normal number after they are rounded as if
    exponents had no lower bound, to as many digits as normal numbers have.

    `size` are magnitudes of results, `smallest` is the smallest normal number among them. Rounding to the coarser steps
    of subnormal numbers may bring a tiny result up to it, and only these are in doubt: `is_tiny_unbounded` is asked
    where there is one. PTX leaves it open ("Subnormal numbers"). Measured on an H200: an f32 product that is 2^-24 of
    itself short of 2^-126 becomes zero under .rn, a sum of a product that is 2^-46 short becomes 2^-126, and so in f16.
    """
    tiny: Array = size < smallest
    edge = size == smallest
    return tiny | (edge & is_tiny_unbounded()) if edge.any() else tiny


def saturate(x: Array) -> Array:
    """Floats clamped to [+0, 1], NaN to +0 (`.sat`)."""
    clamped: Array = np.fmin(np.fmax(x, x.dtype.type(0)), x.dtype.type(1)) + x.dtype.type(0)  # -0 + 0 is +0
    return clamped
