"""Rounding to the formats of floats, on arrays of f64."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from compiler.dtypes import FLOAT_FORMATS, FP8, DType

Array = Any
"""A numpy.ndarray or a torch.Tensor."""


def round_to(x: Array, dtype: DType, xp: Any) -> Array:
    """`x` (f64) as `dtype` stores it, still in f64: to nearest, ties to even; infinite past the largest, or that one.

    To 8 bits by way of f32, as torch converts (contracts, "Fusion").
    """
    if dtype is DType.F64:
        return x
    if dtype is DType.F32:  # the processor's own conversion rounds so
        with quiet(xp):
            return xp.asarray(xp.asarray(xp.asarray(x), dtype=xp.float32), dtype=xp.float64)
    form = FLOAT_FORMATS[dtype]
    if dtype in FP8:
        x = round_to(x, DType.F32, xp)
    with quiet(xp):
        mantissa, _ = xp.frexp(x)
        # x / mantissa is the power of two above |x|, exactly. Zero, NaN and infinities are put back at the end.
        quantum = xp.abs(x / mantissa) * form.unit_roundoff
        quantum = xp.where(quantum > form.smallest, quantum, scalar(form.smallest, quantum, xp))
        rounded = xp.round(x / quantum) * quantum
        # The second test is for the last binade of f64, whose power of two overflows.
        over = (xp.abs(rounded) > form.largest) | (xp.abs(x) > 2.0 * form.largest)
        beyond = scalar(form.largest if form.saturates else math.inf, x, xp)
        rounded = xp.where(over, xp.copysign(beyond, x), rounded)
        return xp.where((xp.isfinite(x) | (form.saturates & xp.isinf(x))) & (x != 0), rounded, x)


def rounded(x: Array, dtype: DType, xp: Any) -> Array:
    """What an operator on `dtype` makes of its result `x` (f64), still in f64: halves are computed in f32, and that is
    rounded to them (docs/contracts.md, "Bits")."""
    if dtype is DType.F64:
        return x
    if dtype in FP8:
        return round_to(x, dtype, xp)
    with quiet(xp):
        return xp.asarray(narrowed(x, dtype, xp), dtype=xp.float64)


def narrowed(x: Array, dtype: DType, xp: Any) -> Array:
    """What `rounded` makes of floats `x` for f32, f16 and bf16: in that type, or in f32 where `xp` lacks it."""
    with quiet(xp):
        single = xp.asarray(xp.asarray(x), dtype=xp.float32)
        if dtype is DType.BF16:
            return _bf16_of(single, xp)
        return xp.asarray(single, dtype=xp.float16) if dtype is DType.F16 else single


def _bf16_of(x: Array, xp: Any) -> Array:
    """f32 rounded to nearest even of its upper half; numpy has no such type, and keeps the bits in an f32."""
    if hasattr(xp, "bfloat16"):
        return xp.asarray(x, dtype=xp.bfloat16)
    bits = xp.ascontiguousarray(x).view(xp.uint32)
    up = xp.uint32(0x7FFF) + ((bits >> xp.uint32(16)) & xp.uint32(1))
    kept = ((bits + up) & xp.uint32(0xFFFF0000)).view(xp.float32)
    return xp.where(xp.isnan(x), x, kept).reshape(x.shape)


def scalar(value: int | float, like: Array, xp: Any) -> Array:
    """`value` as an array without dimensions, of the type and on the device of `like`."""
    return xp.full_like(like[(0,) * len(like.shape)], value)


def quiet(xp: Any) -> contextlib.AbstractContextManager[None]:
    """numpy warns of overflow and of invalid operands; here both are answers."""
    errstate = getattr(xp, "errstate", None)
    return errstate(all="ignore") if errstate is not None else contextlib.nullcontext()
