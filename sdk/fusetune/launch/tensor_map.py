"""Tensor maps: the 128-byte description of a tensor that TMA reads, encoded for one address by the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from fusetune.errors import InvalidKernel, LaunchFailed
from fusetune.launch.driver import check, driver
from fusetune.wire.artifact import TensorMapArg

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGN = 64
"""CUDA driver API, CUtensorMap: an opaque 128-byte object at an address divisible by 64."""

# CUDA driver API, CUtensorMapDataType in order of declaration. Types of 8 bits move as bytes, i16 as UINT16.
# The FTZ forms are left out: they change values. That of tf32 does, too: it rounds f32 for products that asked for it.
_DATA_TYPES = {
    "bool": 0, "i8": 0, "u8": 0, "f8e4m3": 0, "f8e5m2": 0, "i16": 1,
    "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "tf32": 11,
}  # fmt: skip
# CUtensorMapSwizzle, CUtensorMapL2promotion.
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_INTERLEAVE_NONE = 0
_FILL_ZEROS = 0
_MIN_DRIVER = 12000
_INVALID_VALUE = 1

Encode = Callable[..., int]
"""cuTensorMapEncodeTiled as ctypes calls it; returns a CUresult."""

Encoder = Callable[[TensorMapArg, int, int], None]
"""(map, address of the tensor, address to write the encoded map to)."""

_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,  # tensorMap
    ctypes.c_int,  # tensorDataType
    ctypes.c_uint32,  # tensorRank
    ctypes.c_void_p,  # globalAddress
    ctypes.c_void_p,  # globalDim
    ctypes.c_void_p,  # globalStrides
    ctypes.c_void_p,  # boxDim
    ctypes.c_void_p,  # elementStrides
    ctypes.c_int,  # interleave
    ctypes.c_int,  # swizzle
    ctypes.c_int,  # l2Promotion
    ctypes.c_int,  # oobFill
)


def driver_encoder() -> Encoder:
    """The encoder of this machine's driver. Raises NoDevice without one."""
    encode = _entry_point()
    return lambda arg, pointer, target: encode_tensor_map(encode, arg, pointer, target)


@cache
def _entry_point() -> Encode:
    # By address, not through the bindings' wrapper: its result is aligned to 16 bytes only, the driver asks for 64.
    address, _ = check("cuGetProcAddress", driver().cuGetProcAddress(b"cuTensorMapEncodeTiled", _MIN_DRIVER, 0))
    if not address:
        raise LaunchFailed("cuGetProcAddress", "CUDA_ERROR_NOT_FOUND", 500, "the driver has no cuTensorMapEncodeTiled")
    return _PROTOTYPE(int(address))


def encode_tensor_map(encode: Encode, arg: TensorMapArg, pointer: int, target: int) -> None:
    """Writes the map of the tensor at `pointer` to the 128 bytes at `target` (64-byte aligned).

    Whether the map is legal was decided when the kernel was built; what the driver still refuses raises InvalidKernel
    with the whole map, anything else it answers LaunchFailed.
    """
    if arg.dtype not in _DATA_TYPES:
        raise _invalid(arg, pointer, f"dtype {arg.dtype!r} is not one of {', '.join(_DATA_TYPES)}")
    rank = len(arg.dims)
    if not (len(arg.strides_bytes) == rank - 1 and len(arg.box) == len(arg.element_strides) == rank):
        raise _invalid(
            arg, pointer, "dims, box and element_strides need one entry a dimension, strides_bytes one fewer"
        )
    dims = (ctypes.c_uint64 * rank)(*arg.dims)
    # A tensor of rank 1 has no strides, but the driver is given an array all the same, never a null pointer.
    strides = (ctypes.c_uint64 * max(rank - 1, 1))(*arg.strides_bytes)
    box = (ctypes.c_uint32 * rank)(*arg.box)
    element_strides = (ctypes.c_uint32 * rank)(*arg.element_strides)
    status = encode(
        target,
        _DATA_TYPES[arg.dtype],
        rank,
        pointer,
        ctypes.addressof(dims),
        ctypes.addressof(strides),
        ctypes.addressof(box),
        ctypes.addressof(element_strides),
        _INTERLEAVE_NONE,
        _SWIZZLES[arg.swizzle],
        _L2_PROMOTIONS[arg.l2_promotion],
        _FILL_ZEROS,
    )
    if status == _INVALID_VALUE:
        raise _invalid(arg, pointer, "the driver refuses it (CUDA_ERROR_INVALID_VALUE)")
    if status != 0:
        raise LaunchFailed("cuTensorMapEncodeTiled", f"CUresult {status}", status, "")


def _invalid(arg: TensorMapArg, pointer: int, reason: str) -> InvalidKernel:
    text = ", ".join(f"{name}={value}" for name, value in arg.model_dump(exclude={"kind"}).items())
    fix = "Check that the address is a multiple of 16 bytes; if it is, tune the fusion again."
    return InvalidKernel(f"tensor map ({text}, address {pointer:#x})", reason, fix)
