"""Elements of products: random ones of a type, as the words that hold them."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric import minifloat

Array = npt.NDArray[Any]

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f32": 32, "s32": 32}
"""Sizes of elements."""

_LARGEST = 3.0
"""Of random floats, so that sums have a bound."""


def bits_of(kind: str, values: Array) -> Array:
    """The bits of numbers that a type has, or has nearly: unsigned words of its size."""
    x = np.asarray(values, np.float64)
    match kind:
        case "f16":
            return x.astype(np.float16).view(np.uint16)
        case "bf16":
            return (x.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        case "f32" | "tf32":
            return x.astype(np.float32).view(np.uint32)
        case "s32":
            return x.astype(np.int64).astype(np.int32).view(np.uint32)
        case "s8" | "u8":
            return x.astype(np.int64).astype(np.uint8)
        case _:
            return minifloat.encode(minifloat.FORMATS[kind], x)


def drawn(kind: str, words: int, data: str, name: str) -> npt.NDArray[np.uint32]:
    """Random words full of elements, by the name of what they are for.

    `whole`: small whole numbers, of which sums are exact everywhere. `any`: any bits of integers; floats of a normal
    distribution, cut at three, of tf32 with bits that are not looked at.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    count = words * 32 // BITS[kind]
    if data == "whole":
        low = 0 if kind == "u8" else -4
        bits = bits_of(kind, rng.integers(low, 5, count))
    elif kind in ("s8", "u8", "s32"):
        return np.frombuffer(rng.bytes(4 * words), np.uint32)
    else:
        bits = bits_of(kind, np.clip(rng.standard_normal(count), -_LARGEST, _LARGEST))
    return np.ascontiguousarray(bits).view(np.uint32)
