"""Elements of an explicit schedule's tensors as bytes: inputs to run on, and results as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtypes import FP8, DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Value
from compiler.reference import fp8_bits, fp8_values

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_NUMPY = {
    DType.F64: np.float64,
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.I64: np.int64,
    DType.I32: np.int32,
    DType.I16: np.int16,
    DType.I8: np.int8,
    DType.U8: np.uint8,
    DType.BOOL: np.bool_,
    DType.C64: np.complex64,
    DType.C128: np.complex128,
}
STEPS = 32
"""Inputs are of so many different values on each side of zero: sums and products of them are exact in f32."""


def inputs_of(value: Value, seed: int) -> Array:
    """Numbers of the logical shape that the dtype holds exactly: small integers, or eighths."""
    rng = np.random.default_rng([seed, 0x66757365])
    shape = tuple(1 if s == 0 else n for n, s in zip(value.shape, value.strides, strict=True))
    draws = rng.integers(-STEPS, STEPS, shape)
    match value.dtype:
        case DType.BOOL:
            found: Array = draws > 0
        case DType.U8:
            found = draws + STEPS
        case DType.F8E4M3 | DType.F8E5M2:
            found = fp8_values((draws + STEPS).astype(np.uint8), value.dtype)
        case DType.I64 | DType.I32 | DType.I16 | DType.I8:
            found = draws
        case DType.C64 | DType.C128:
            found = draws / 8.0 + 1j * rng.integers(-STEPS, STEPS, shape)
        case _:
            found = draws / 8.0
    return np.broadcast_to(found, value.shape)


def encoded(x: Array, dtype: DType) -> Bytes:
    """Numbers as the dtype stores them, flat. Raises Unsupported for a dtype of no whole bytes."""
    if dtype in FP8:
        return fp8_bits(x, dtype).reshape(-1)
    if dtype is DType.BF16:
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).reshape(-1).view(np.uint8)
    return np.ascontiguousarray(x).astype(_numpy(dtype)).reshape(-1).view(np.uint8)


def decoded(data: Bytes, dtype: DType) -> Array:
    """Stored elements as numbers, flat: f64, int64, bool, or complex."""
    if dtype in FP8:
        return fp8_values(data, dtype).astype(np.float64)
    if dtype is DType.BF16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    found: Array = data.view(_numpy(dtype))
    wide: Any = {"f": np.float64, "i": np.int64, "u": np.int64}.get(found.dtype.kind, found.dtype)
    return np.asarray(found, wide)


def stored(x: Array, value: Value) -> Bytes:
    """The bytes of a tensor of those elements, at its strides; holes are zero."""
    nbytes = value.dtype.nbytes
    storage = np.zeros((value.storage_elems, nbytes), np.uint8)
    elements = encoded(x, value.dtype).reshape(*value.shape, nbytes)
    _at_strides(storage, value)[...] = elements
    return storage.reshape(-1)


def elements(storage: Bytes, value: Value) -> Array:
    """The numbers of a tensor, of its logical shape."""
    held = _at_strides(storage.reshape(-1, value.dtype.nbytes), value)
    return decoded(np.ascontiguousarray(held).reshape(-1), value.dtype).reshape(value.shape)


def _at_strides(storage: Array, value: Value) -> Array:
    """Elements of [element, byte] at a tensor's strides."""
    step = storage.strides[0]
    shape, strides = (*value.shape, storage.shape[1]), (*(s * step for s in value.strides), 1)
    return np.lib.stride_tricks.as_strided(storage, shape, strides)


def _numpy(dtype: DType) -> Any:
    if dtype not in _NUMPY:
        raise Unsupported(f"running tensors of {dtype}", f"Use one of {', '.join(_NUMPY)}, bf16.")
    return _NUMPY[dtype]
