"""Elements of products by type: numbers to the bits that hold them, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric import minifloat

Array = npt.NDArray[Any]


def _minifloat(name: str) -> Callable[[Array], Array]:
    return lambda x: minifloat.encode(minifloat.FORMATS[name], np.asarray(x, np.float64))


ENCODE: Mapping[str, Callable[[Array], Array]] = {
    "f16": lambda x: np.asarray(x, np.float16).view(np.uint16),
    "bf16": lambda x: (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16),
    "tf32": lambda x: np.asarray(x, np.float32).view(np.uint32) | np.uint32(0x1ABC),  # bits that are not looked at
    "e4m3": _minifloat("e4m3"),
    "e5m2": _minifloat("e5m2"),
    "s8": lambda x: np.asarray(x, np.int64).astype(np.int8).view(np.uint8),
    "u8": lambda x: np.asarray(x, np.int64).astype(np.uint8),
    "f32": lambda x: np.asarray(x, np.float32).view(np.uint32),
    "s32": lambda x: np.asarray(x, np.int64).astype(np.int32).view(np.uint32),
}
"""Bits of numbers that the type holds (bf16 and tf32 are cut, not rounded), as unsigned words of its size."""

SIZE: Mapping[str, int] = {k: f(np.zeros(1)).itemsize for k, f in ENCODE.items()}


def small(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Integers that every sum of a few thousand products of them has in each accumulator; f64."""
    low, high = (0, 5) if kind == "u8" else (-4, 5)
    return rng.integers(low, high, shape).astype(np.float64)
