"""Element types of tensors and scalars: their bytes, how numbers become them, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SpecElement:
    """An element type. `storage` is the NumPy type of its bytes: the type itself, or unsigned integers for what NumPy
    does not have (bf16 as uint16, fp8 as uint8). `encode` makes storage of f64 values, None where a cast does it.
    """

    name: str
    storage: np.dtype[Any]
    encode: Callable[[npt.NDArray[np.float64]], Array] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return self.storage.itemsize

    @property
    def is_float(self) -> bool:
        """Floating point of any width."""
        return self.encode is not None or self.storage.kind == "f"

    def of(self, values: Array) -> Array:
        """Numbers as elements: floats rounded to the nearest, ties to even; integers keep their low bits."""
        if self.encode is not None:
            return self.encode(np.asarray(values, np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values).astype(self.storage)

    def random(self, shape: tuple[int, ...], seed: int) -> Array:
        """Floats of the standard normal distribution, drawn in f64 and rounded; integers of their whole range."""
        rng = np.random.default_rng(seed)
        if self.is_float:
            return self.of(rng.standard_normal(shape))
        if self.storage.kind == "b":
            return rng.integers(0, 1, shape, self.storage.type, endpoint=True)
        bounds = np.iinfo(self.storage)
        return rng.integers(bounds.min, bounds.max, shape, self.storage.type, endpoint=True)


def bf16_of(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """bf16 bits of f64 values, by way of f32: both steps round to the nearest, ties to even. A NaN becomes 0x7fff.

    0x7fff is the NaN that `cvt.rn.bf16.f32` gives (PTX ISA, "cvt").
    """
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)


@dataclass(frozen=True)
class _Float8:
    """An 8-bit float: `exponent_bits` and `mantissa_bits` of the OCP 8-bit floating point specification."""

    exponent_bits: int
    mantissa_bits: int
    largest_code: int
    nan_code: int

    def magnitudes(self) -> npt.NDArray[np.float64]:
        """The values of the codes 0, 1, 2, … up to the largest finite one: they ascend."""
        codes = np.arange(self.largest_code + 1)
        exponent = codes >> self.mantissa_bits
        fraction = (codes & ((1 << self.mantissa_bits) - 1)) / (1 << self.mantissa_bits)
        bias = (1 << (self.exponent_bits - 1)) - 1
        return np.where(exponent > 0, np.ldexp(1 + fraction, exponent - bias), np.ldexp(fraction, 1 - bias))

    def encode(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
        """The nearest code, ties to the even one; what is too large becomes the largest (as `cvt.rn.satfinite`)."""
        magnitudes = _magnitudes(self)
        middles = (magnitudes[1:] + magnitudes[:-1]) / 2  # exact: f64 has the bits
        size = np.abs(values)
        below = np.searchsorted(middles, size, "left")  # a tie stays with the lower code
        tie = (below < len(middles)) & (size == middles[np.minimum(below, len(middles) - 1)])
        codes = below + (tie & (below % 2 == 1))
        codes = np.where(np.isnan(values), self.nan_code, codes | np.where(np.signbit(values), 0x80, 0))
        return codes.astype(np.uint8)


@cache
def _magnitudes(kind: _Float8) -> npt.NDArray[np.float64]:
    return kind.magnitudes()


_E4M3 = _Float8(exponent_bits=4, mantissa_bits=3, largest_code=0x7E, nan_code=0x7F)
_E5M2 = _Float8(exponent_bits=5, mantissa_bits=2, largest_code=0x7B, nan_code=0x7F)

ELEMENTS = {
    element.name: element
    for element in (
        *(
            SpecElement(name, np.dtype(numpy))
            for name, numpy in (
                ("f64", "<f8"),
                ("f32", "<f4"),
                ("f16", "<f2"),
                ("i8", "<i1"),
                ("i16", "<i2"),
                ("i32", "<i4"),
                ("i64", "<i8"),
                ("u8", "<u1"),
                ("u16", "<u2"),
                ("u32", "<u4"),
                ("u64", "<u8"),
                ("bool", "?"),
            )
        ),
        SpecElement("bf16", np.dtype("<u2"), bf16_of),
        SpecElement("f8e4m3", np.dtype("u1"), _E4M3.encode),
        SpecElement("f8e5m2", np.dtype("u1"), _E5M2.encode),
    )
}
"""Every element type of a SPEC by its name."""

SCALARS = tuple(name for name in ELEMENTS if not name.startswith("f8"))
"""The types of numbers that are passed by value."""
