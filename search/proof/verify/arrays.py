"""The two array libraries behind one small interface: NumPy without a GPU, torch (imported on first use) with one.

A *storage* is the flat memory of a tensor in its own element type. NumPy has no bf16 and no floats of 8 bits: there a
storage holds the bits as uint16 and uint8. *Values* are floats that computations are done in, f32 or f64; integers and
bools are their own values.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Protocol

import numpy as np

from compiler.dtypes import FLOAT_FORMATS, FP8, DType
from compiler.errors import Unsupported
from compiler.reference import fp8_bits, fp8_values

Array = Any
"""A numpy.ndarray or a torch.Tensor."""


class Arrays(Protocol):
    """What making inputs and comparing outputs needs of an array library."""

    xp: Any

    def normal(self, elems: int, seed: int) -> Array:
        """f32 values of mean 0 and deviation 1; the seed decides them."""

    def uniform(self, elems: int, seed: int) -> Array:
        """f32 values in [0, 1); the seed decides them."""

    def integers(self, low: int, high: int, elems: int, seed: int) -> Array:
        """64-bit integers from `low` to `high`, both included; the seed decides them."""

    def empty(self, elems: int, dtype: DType) -> Array:
        """An uninitialised flat storage."""

    def empty_values(self, shape: tuple[int, ...], wide: bool) -> Array:
        """Uninitialised f32 values, f64 if `wide`."""

    def pick(self, values: tuple[float, ...], which: Array) -> Array:
        """f32 values by number: `which` holds 0 up to len(values), the fraction is dropped."""

    def store(self, values: Array, dtype: DType) -> Array:
        """Rounded to nearest even into an element type. Overflow gives infinity, or the largest number of f8e4m3.
        Integers and bools must fit."""

    def load(self, storage: Array, dtype: DType) -> Array:
        """The exact values of a storage: f64 for f64, f32 for other floats, integers as they are, bools as bytes."""

    def reinterpret(self, flat_bytes: Array, dtype: DType) -> Array:
        """Memory as a storage of `dtype`, sharing it; offset and length are multiples of the element size."""

    def bits(self, storage: Array) -> Array:
        """A storage as integers of the element size, sharing memory."""

    def copy(self, storage: Array) -> Array:
        """The same in memory of its own."""

    def strided(self, storage: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        """A view of a flat storage; strides in elements."""

    def bytes_of(self, storage: Array) -> Array:
        """A flat storage as uint8, sharing memory."""

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """Overflow and invalid operands are answers here, not warnings."""

    def to_host(self, numbers: list[Array]) -> list[float]:
        """Zero-dimensional results as Python numbers: on a GPU the only synchronisation of a check."""


class NumpyArrays:
    """On the host."""

    xp: Any = np

    def normal(self, elems: int, seed: int) -> Array:
        return np.random.default_rng(seed).standard_normal(elems, dtype=np.float32)

    def uniform(self, elems: int, seed: int) -> Array:
        return np.random.default_rng(seed).random(elems, dtype=np.float32)

    def integers(self, low: int, high: int, elems: int, seed: int) -> Array:
        return np.random.default_rng(seed).integers(low, high, elems, np.int64, endpoint=True)

    def empty(self, elems: int, dtype: DType) -> Array:
        return np.empty(elems, _NUMPY[_known(dtype)])

    def empty_values(self, shape: tuple[int, ...], wide: bool) -> Array:
        return np.empty(shape, np.float64 if wide else np.float32)

    def pick(self, values: tuple[float, ...], which: Array) -> Array:
        return np.array(values, np.float32)[which.astype(np.intp)]

    def store(self, values: Array, dtype: DType) -> Array:
        if dtype is DType.BF16:
            return _to_bf16_bits(values)
        if dtype in FP8:
            return fp8_bits(values, dtype)
        with self.quiet():
            return np.asarray(values).astype(_NUMPY[_known(dtype)])

    def load(self, storage: Array, dtype: DType) -> Array:
        if dtype is DType.BF16:
            return (storage.astype(np.uint32) << 16).view(np.float32)
        if dtype in FP8:
            return fp8_values(storage, dtype)
        if dtype is DType.BOOL:
            return storage.view(np.uint8)
        return storage.astype(np.float32) if dtype in (DType.F32, DType.F16) else storage

    def reinterpret(self, flat_bytes: Array, dtype: DType) -> Array:
        return flat_bytes.view(_NUMPY[_known(dtype)])

    def bits(self, storage: Array) -> Array:
        return storage.view(f"u{storage.itemsize}")

    def copy(self, storage: Array) -> Array:
        return storage.copy()

    def strided(self, storage: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        steps = [stride * storage.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(storage, shape, steps)

    def bytes_of(self, storage: Array) -> Array:
        return storage.view(np.uint8)

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        return np.errstate(all="ignore")

    def to_host(self, numbers: list[Array]) -> list[float]:
        return [float(number) for number in numbers]


def torch_dtypes() -> dict[DType, Any]:
    """torch's word for each element type."""
    import torch

    return {
        DType.F64: torch.float64,
        DType.F32: torch.float32,
        DType.F16: torch.float16,
        DType.BF16: torch.bfloat16,
        DType.F8E4M3: torch.float8_e4m3fn,
        DType.F8E5M2: torch.float8_e5m2,
        DType.I8: torch.int8,
        DType.U8: torch.uint8,
        DType.I16: torch.int16,
        DType.I32: torch.int32,
        DType.I64: torch.int64,
        DType.BOOL: torch.bool,
    }


class TorchArrays:
    """On a torch device, `cuda:0` or `cpu`."""

    def __init__(self, device: str) -> None:
        import torch

        self.xp: Any = torch
        self.device = torch.device(device)
        self._dtypes = torch_dtypes()
        self._integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

    def normal(self, elems: int, seed: int) -> Array:
        return self.xp.randn(elems, generator=self._generator(seed), device=self.device)

    def uniform(self, elems: int, seed: int) -> Array:
        return self.xp.rand(elems, generator=self._generator(seed), device=self.device)

    def integers(self, low: int, high: int, elems: int, seed: int) -> Array:
        end = min(high, 2**63 - 2) + 1  # torch's range has no place for one more
        return self.xp.randint(low, end, (elems,), generator=self._generator(seed), device=self.device)

    def empty(self, elems: int, dtype: DType) -> Array:
        return self.xp.empty(elems, dtype=self._dtypes[_known(dtype)], device=self.device)

    def empty_values(self, shape: tuple[int, ...], wide: bool) -> Array:
        return self.xp.empty(shape, dtype=self.xp.float64 if wide else self.xp.float32, device=self.device)

    def pick(self, values: tuple[float, ...], which: Array) -> Array:
        return self.xp.tensor(values, dtype=self.xp.float32, device=self.device)[which.long()]

    def store(self, values: Array, dtype: DType) -> Array:
        if dtype in FP8 and FLOAT_FORMATS[dtype].saturates:  # which torch before 2.13 does not
            values = values.clamp(-FLOAT_FORMATS[dtype].largest, FLOAT_FORMATS[dtype].largest)
        return values.to(self._dtypes[_known(dtype)])

    def load(self, storage: Array, dtype: DType) -> Array:
        if dtype is DType.BOOL:
            return storage.view(self.xp.uint8)
        return storage.float() if dtype.is_float and dtype is not DType.F64 else storage

    def reinterpret(self, flat_bytes: Array, dtype: DType) -> Array:
        return flat_bytes.view(self._dtypes[_known(dtype)])

    def bits(self, storage: Array) -> Array:
        return storage.view(self._integers[storage.element_size()])

    def copy(self, storage: Array) -> Array:
        return storage.clone()

    def strided(self, storage: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
        return storage.as_strided(shape, strides, storage.storage_offset())

    def bytes_of(self, storage: Array) -> Array:
        return storage.view(self.xp.uint8)

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def to_host(self, numbers: list[Array]) -> list[float]:
        wide = [self.xp.as_tensor(number, device=self.device).to(self.xp.float64) for number in numbers]
        return [float(number) for number in self.xp.stack(wide).tolist()]

    def stream(self) -> int:
        """The current CUDA stream as a number; 0 on the host."""
        return int(self.xp.cuda.current_stream(self.device).cuda_stream) if self.device.type == "cuda" else 0

    def _generator(self, seed: int) -> Any:
        return self.xp.Generator(device=self.device).manual_seed(seed)


def _to_bf16_bits(values: Array) -> Array:
    """Round to nearest even by adding half a unit of the kept bits, less one where the last kept bit is zero.

    f64 goes to f32 first. That can round twice, by 2^-24 of the value, which every tolerance for bf16 covers.
    """
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, np.float32)
    bits = narrow.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(narrow), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _known(dtype: DType) -> DType:
    if dtype not in _NUMPY:
        raise Unsupported(f"verifying a tensor of dtype {dtype}", f"Use one of {', '.join(_NUMPY)}.")
    return dtype


def elems_of(shape: tuple[int, ...]) -> int:
    """Elements of a tensor."""
    return math.prod(shape)


_NUMPY: dict[DType, Any] = {
    DType.F64: np.float64,
    DType.F32: np.float32,
    DType.F16: np.float16,
    DType.BF16: np.uint16,
    DType.F8E4M3: np.uint8,
    DType.F8E5M2: np.uint8,
    DType.I8: np.int8,
    DType.U8: np.uint8,
    DType.I16: np.int16,
    DType.I32: np.int32,
    DType.I64: np.int64,
    DType.BOOL: np.bool_,
}
