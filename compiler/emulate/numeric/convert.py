"""`cvt` as pure functions: between integers, between floats, and from one to the other (PTX ISA, "cvt").

Floats are f32 and f64 arrays, and the bits (uint16) of f16 and bf16; all pass through f64, which holds each exactly.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from compiler.emulate.numeric import half, rounding
from compiler.emulate.numeric.rounding import Array, Rounding

IntegerRounding = Literal["rni", "rzi", "rmi", "rpi"]
"""To the nearest integer (even), towards zero, down, up."""

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.uint16),
    "bf16": np.dtype(np.uint16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    **{f"u{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
}
"""The arrays that hold each type."""

_ROUND: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def decode(kind: str, x: Array) -> Array:
    """Floats of a type as f64, exactly."""
    wide: Array = x if kind == "f64" else x.astype(np.float64) if kind == "f32" else half.FORMATS[kind].widen(x)
    return wide.astype(np.float64, copy=False)


def encode(kind: str, s: Array, e: Array | None, mode: Rounding) -> Array:
    """s + e (see `rounding`) as a float type, rounded once; NaN is canonical, but in f64."""
    match kind:
        case "f16":
            return rounding.to_f16(s, e, mode)
        case "bf16":
            return rounding.to_bf16(s, e, mode)
        case "f32":
            return rounding.canonical(rounding.to_f32(s, e, mode))
        case _:
            return rounding.to_f64(s, e, mode)


def float_to_float(x: Array, source: str, to: str, mode: Rounding) -> Array:
    """Floats of one type as another, rounded once; see `encode` for NaN.

    bf16 is the upper half of f32, so that widening it keeps the payload of a NaN, as the shift that ptxas makes of it.
    """
    match source, to:
        case "bf16", "f32":
            return half.BF16.widen(x)
        case "f16", "f32":
            return rounding.canonical(half.F16.widen(x))
        case "f32", "bf16":
            return rounding.f32_bits_to_bf16(x.view(np.uint32), np.isnan(x), mode)
        case "f64", "f32" | "f16" | "bf16":
            return _with_payload(encode(to, x, None, mode), x, to)
        case _:
            return encode(to, decode(source, x), None, mode)


_NAN_PARTS = {"f32": (32, 29, 0x7FC00000), "f16": (48, 42, 0x7E00), "bf16": (48, 45, 0x7FC0)}
"""Where sign and payload of an f64 go to in narrower formats (bits to the right), and their quiet NaN of no payload."""


def _with_payload(result: Array, x: Array, to: str) -> Array:
    """`result` with NaN made of the sign and the upper payload of its f64 `x`: an H200 makes no canonical NaN here."""
    bad = np.isnan(x)
    if not bad.any():
        return result
    sign, payload, quiet = _NAN_PARTS[to]
    word: Any = np.uint32 if to == "f32" else np.uint16
    bits = x.view(np.uint64)
    top = np.uint64(1) << np.uint64(63 - sign)
    kept = (bits >> np.uint64(payload)) & np.uint64(quiet & -quiet) - np.uint64(1)
    found = ((bits >> np.uint64(sign)) & top) | kept | np.uint64(quiet)
    return np.where(bad, found.astype(word), result.view(word)).view(result.dtype)


def integer_to_float(x: Array, kind: str, mode: Rounding) -> Array:
    """Integers of any size as a float type, rounded once."""
    if x.dtype.itemsize < 8:
        return encode(kind, x.astype(np.float64), None, mode)
    high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return encode(kind, *rounding.two_sum(high, low), mode)


def to_integral(x: Array, mode: IntegerRounding) -> Array:
    """f64 rounded to integers, as f64; zeros keep the sign."""
    result: Array = _ROUND[mode](x)
    return result


def float_to_integer(x: Array, kind: str, dtype: np.dtype[Any], mode: IntegerRounding) -> Array:
    """f64 values that came from type `kind` as integers of `dtype`, clamped to its range.

    NaN gives 0 if the source is no f64 and the result has at most 32 bits, else the word with only the top bit set
    (PTX ISA, "cvt": integer notes; cuda_fp16.h documents 0x8000000000000000 for both 64-bit types).
    """
    limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
    whole = to_integral(x, mode)
    if bits < 64:
        clamped = np.clip(whole, limits.min, limits.max)
        result = np.where(np.isnan(clamped), 0.0, clamped).astype(np.int64).astype(dtype)
    else:
        above = whole >= 2.0 ** (63 if dtype.kind == "i" else 64)
        inside = np.where(above | np.isnan(whole), 0.0, np.maximum(whole, float(limits.min)))
        result = np.where(above, dtype.type(limits.max), inside.astype(dtype))
    if kind != "f64" and bits < 64:
        return result
    bad = np.isnan(x)
    return np.where(bad, np.array(1 << (bits - 1), f"u{dtype.itemsize}").view(dtype), result) if bad.any() else result


def integer_to_integer(x: Array, dtype: np.dtype[Any], saturate: bool) -> Array:
    """Integers as another type: truncated, or extended by their own sign; with `.sat` clamped to the range."""
    if saturate:
        own, limits = np.iinfo(x.dtype), np.iinfo(dtype)
        x = np.clip(x, x.dtype.type(max(own.min, limits.min)), x.dtype.type(min(own.max, limits.max)))
    return x.astype(dtype)


def pack_saturated(a: Array, b: Array, c: Array | None, signed: bool, bits: int) -> Array:
    """`cvt.pack.sat`: a and b (int32) clamped to `bits` bits, a above b, and above them the low bits of c (uint32)."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    mask = np.uint32((1 << bits) - 1)
    upper, lower = (np.clip(x, np.int32(low), np.int32(high)).view(np.uint32) & mask for x in (a, b))
    packed = (upper << np.uint32(bits)) | lower
    return packed if c is None else packed | (c << np.uint32(2 * bits))
