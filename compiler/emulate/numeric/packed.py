"""Words of two halves by shifts, for conversions; `integer.parts` views a word as its elements instead."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric.rounding import Array


def join(high: Array, low: Array, dtype: npt.DTypeLike, bits: int) -> Array:
    """Unsigned words of type `dtype` with `low` in the low `bits` bits and `high` above them."""
    wide = np.dtype(dtype).type
    joined: Array = (high.astype(wide) << wide(bits)) | low.astype(wide)
    return joined


def split(words: Array, bits: int) -> tuple[Array, Array]:
    """What stands above the low `bits` bits of unsigned words, and what stands in them."""
    kind = words.dtype.type
    return words >> kind(bits), words & kind((1 << bits) - 1)
