"""What `cp.reduce.async.bulk` does to the elements of its destination (PTX ISA, "cp.reduce.async.bulk")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric import half
from compiler.emulate.numeric.rounding import canonical

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

_DTYPES = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": np.uint16,
}
_INTEGERS = ("u32", "s32", "u64", "s64")
_TYPES = {
    "add": (*_INTEGERS, "f16", "bf16", "f32", "f64"),
    "min": (*_INTEGERS, "f16", "bf16"),
    "max": (*_INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
"""Operation -> types of `cp.reduce.async.bulk` (PTX ISA, "cp.reduce.async.bulk": its table of types)."""

_TENSOR_TYPES = {
    "add": (*_INTEGERS, "f16", "bf16", "f32"),
    "min": (*_INTEGERS, "f16", "bf16"),
    "max": (*_INTEGERS, "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": _INTEGERS,
    "or": _INTEGERS,
    "xor": _INTEGERS,
}
"""Operation -> kinds of map elements of `cp.reduce.async.bulk.tensor`. Bitwise ones take integers of either sign."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operation on elements of a type."""

    operation: str
    type: str

    def combine(self, old: Bytes, given: Bytes) -> Bytes:
        """The new bytes of the destination. Shapes are equal; the last axis is whole elements.

        Subnormal numbers are kept, in f32 too, unlike by `red.global.add.f32`; NaN of f32 and 16-bit types is
        canonical (measured on an H200).
        """
        dtype = _DTYPES[self.type]
        a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(given).view(dtype)
        return np.ascontiguousarray(_combined(self.operation, self.type, a, b), dtype).view(np.uint8)


def reduction(operation: str, kind: str) -> Reduction | None:
    """The reduction of `cp.reduce.async.bulk`; None if there is none of this operation and type."""
    return Reduction(operation, kind) if kind in _TYPES.get(operation, ()) else None


def tensor_reduction(operation: str, kind: str) -> Reduction | None:
    """The reduction of `cp.reduce.async.bulk.tensor` on map elements of `kind`; None if there is none."""
    return Reduction(operation, kind) if kind in _TENSOR_TYPES.get(operation, ()) else None


def _combined(operation: str, kind: str, a: Array, b: Array) -> Array:
    if kind in half.FORMATS:
        return _ON_HALVES[operation](half.FORMATS[kind], a, b)
    if kind in ("f32", "f64"):
        return canonical(np.add(a, b))
    return _ON_INTEGERS[operation](a, b)


def _incremented(a: Array, b: Array) -> Array:
    return np.where(a >= b, np.uint32(0), a + np.uint32(1))


def _decremented(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (a > b), b, a - np.uint32(1))


_ON_HALVES = {"add": half.add, "min": half.minimum, "max": half.maximum}
_ON_INTEGERS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "inc": _incremented,
    "dec": _decremented,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
