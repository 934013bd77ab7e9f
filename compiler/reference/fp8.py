"""8-bit floats as their bits, which numpy has no type for: sign, exponent, mantissa, as IEEE 754 orders them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtypes import FLOAT_FORMATS, DType
from compiler.reference.floats import quiet, round_to

_SIGN, _NAN = 0x80, 0x7F


def fp8_bits(x: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.uint8]:
    """Numbers as the bits (uint8) of `dtype`, rounded as `round_to` does. NaN is 0x7F."""
    with quiet(np):
        values = round_to(np.asarray(x, np.float64), dtype, np)
    codes = np.searchsorted(_magnitudes(dtype), np.abs(values)) | np.where(np.signbit(values), _SIGN, 0)
    return np.where(np.isnan(values), _NAN, codes).astype(np.uint8)


def fp8_values(bits: npt.NDArray[np.uint8], dtype: DType) -> npt.NDArray[np.float32]:
    """The numbers (f32) that bits of `dtype` stand for."""
    table: npt.NDArray[np.float32] = _values(dtype)[bits]
    return table


@cache
def _magnitudes(dtype: DType) -> npt.NDArray[np.float64]:
    """The numbers of the codes 0, 1, 2, … up to the last that is not NaN: they ascend."""
    form = FLOAT_FORMATS[dtype]
    exponent, steps = np.divmod(np.arange(_NAN), 1 << form.precision - 1)
    normal = exponent > 0
    steps = np.where(normal, steps + (1 << form.precision - 1), steps)
    found = np.ldexp(steps.astype(np.float64), np.where(normal, exponent - 1, 0)) * form.smallest
    kept = found[found <= form.largest]
    return kept if form.saturates else np.append(kept, np.inf)


@cache
def _values(dtype: DType) -> npt.NDArray[np.float32]:
    positive = np.full(_SIGN, np.nan)
    positive[: len(_magnitudes(dtype))] = _magnitudes(dtype)
    return np.concatenate([positive, -positive]).astype(np.float32)
