"""f32 as unsigned integers in the order of the numbers, so that a reduction may compare them as integers.

-0 comes before +0 (PTX ISA, "min", "max"). NaN comes first of all or last of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[Any]

_SIGN = np.uint32(0x80000000)
_ONES = np.uint32(0xFFFFFFFF)
_INFINITY = np.uint32(0x7F800000)
_NAN = np.uint32(0x7FFFFFFF)


def keys(bits: Bits, nan_is_least: bool) -> Bits:
    """The integers of f32 values given as bits. NaN becomes 0, or all ones: no number does."""
    flipped = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    is_nan = (bits & ~_SIGN) > _INFINITY
    return np.where(is_nan, np.uint32(0) if nan_is_least else _ONES, flipped)


def floats(values: Bits) -> Bits:
    """The bits of the f32 values of `keys`; NaN is 0x7FFFFFFF, PTX's canonical one."""
    bits = np.where(values & _SIGN, values ^ _SIGN, ~values)
    return np.where((values == 0) | (values == _ONES), _NAN, bits)
