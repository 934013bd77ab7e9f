"""What `cp.reduce.async.bulk` does to the elements of its destination (PTX ISA, "cp.reduce.async.bulk")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

_DTYPES = {
    "u32": np.uint32,
    "s32": np.int32,
    "b32": np.uint32,
    "u64": np.uint64,
    "s64": np.int64,
    "b64": np.uint64,
    "f16": np.float16,
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

_SUBNORMAL = np.float32(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class Reduction:
    """An operation on elements of a type."""

    operation: str
    type: str

    def combine(self, old: Bytes, given: Bytes, *, in_global: bool) -> Bytes:
        """The new bytes of the destination. Shapes are equal; the last axis is whole elements.

        Sums of f32 in global memory flush subnormal numbers, as `red.global.add.f32` does; f16, bf16 and f64 keep them.
        """
        dtype = _DTYPES[self.type]
        a, b = np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(given).view(dtype)
        flushes = in_global and self.type == "f32"
        result = _combined(self.operation, self.type, _flushed(a) if flushes else a, _flushed(b) if flushes else b)
        return np.ascontiguousarray(_flushed(result) if flushes else result, dtype).view(np.uint8)


def reduction(operation: str, kind: str) -> Reduction | None:
    """The reduction of `cp.reduce.async.bulk`; None if there is none of this operation and type."""
    return Reduction(operation, kind) if kind in _TYPES.get(operation, ()) else None


def tensor_reduction(operation: str, kind: str) -> Reduction | None:
    """The reduction of `cp.reduce.async.bulk.tensor` on map elements of `kind`; None if there is none."""
    return Reduction(operation, kind) if kind in _TENSOR_TYPES.get(operation, ()) else None


def _combined(operation: str, kind: str, a: Array, b: Array) -> Array:
    if kind == "bf16":
        return _bfloat16(_combined(operation, "f32", _widened(a), _widened(b)))
    result: Array = _ON_FLOATS[operation](a, b) if kind.startswith("f") else _ON_INTEGERS[operation](a, b)
    return result


def _flushed(x: Array) -> Array:
    return np.where(np.abs(x) < _SUBNORMAL, np.copysign(np.float32(0), x), x)


def _widened(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _bfloat16(x: Array) -> Array:
    """Bits of bf16, to nearest even; the f32 result of one operation on bf16 rounds as the exact one does, since 24
    significant bits are more than twice 8 and 2. NaN is the canonical one."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _lesser(a: Array, b: Array) -> Array:
    """The smaller number, a number rather than a NaN, -0 rather than +0 (PTX ISA, "min")."""
    return np.where((a == b) & np.signbit(a), a, np.fmin(a, b))


def _greater(a: Array, b: Array) -> Array:
    return np.where((a == b) & np.signbit(b), a, np.fmax(a, b))


def _incremented(a: Array, b: Array) -> Array:
    return np.where(a >= b, np.uint32(0), a + np.uint32(1))


def _decremented(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (a > b), b, a - np.uint32(1))


_ON_FLOATS: dict[str, Callable[[Array, Array], Array]] = {"add": np.add, "min": _lesser, "max": _greater}
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
