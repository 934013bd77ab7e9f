"""Runs a launch on a card: the tensors of the emulator's own description, copied there and back."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.launch import Argument, EmulatedTensor, EmulatedTensorMap, Launch, TensorArgument
from fusetune.launch.driver import check, current_context, driver

Bytes = npt.NDArray[np.uint8]

DATA_TYPES = {
    name: value
    for value, name in enumerate(
        (
            "u8",
            "u16",
            "u32",
            "i32",
            "u64",
            "i64",
            "f16",
            "f32",
            "f64",
            "bf16",
            "FLOAT32_FTZ",
            "TFLOAT32",
            "TFLOAT32_FTZ",
        )
    )
}
"""CUDA driver API, CUtensorMapDataType in order of declaration."""

SWIZZLES = {
    name: value
    for value, name in enumerate(
        ("NONE", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
    )
}
"""CUDA driver API, CUtensorMapSwizzle."""

_INTERLEAVES = {"NONE": 0, "16B": 1, "32B": 2}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_MAP_BYTES, _MAP_ALIGN = 128, 64
_MIN_DRIVER = 12000
_DEFAULT_SMEM = 48 * 1024

_ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, *(ctypes.c_void_p,) * 5, *(ctypes.c_int,) * 4
)


class Refused(Exception):
    """The driver's encoder did not take a tensor map; carries its CUresult."""

    def __init__(self, status: int) -> None:
        super().__init__(f"cuTensorMapEncodeTiled answered {status}")
        self.status = status


def card_name() -> str:
    """Device 0, and the CUDA version of its driver, as in `NVIDIA H200, CUDA 13.0`."""
    cuda = driver()
    with current_context(0):
        device = check("cuCtxGetDevice", cuda.cuCtxGetDevice())
        name = check("cuDeviceGetName", cuda.cuDeviceGetName(64, device))
        version = int(check("cuDriverGetVersion", cuda.cuDriverGetVersion()))
    return f"{name.rstrip(bytes(1)).decode()}, CUDA {version // 1000}.{version % 1000 // 10}"


@contextmanager
def loaded(cubin: bytes) -> Iterator[Any]:
    """The cubin as a module of device 0, unloaded at the end. Raises LaunchFailed."""
    cuda = driver()
    with current_context(0):
        module = check("cuModuleLoadData", cuda.cuModuleLoadData(cubin))
        try:
            yield module
        finally:
            cuda.cuModuleUnload(module)


def run(module: Any, launch: Launch) -> dict[str, Bytes]:
    """The bytes of every tensor after the launch. Raises LaunchFailed (a fault poisons the context), Refused."""
    cuda = driver()
    with current_context(0):
        addresses = {name: _allocate(tensor) for name, tensor in launch.tensors.items()}
        try:
            _launch(module, launch, addresses)
            check("cuCtxSynchronize", cuda.cuCtxSynchronize())
            return {name: _fetch(addresses[name], tensor) for name, tensor in launch.tensors.items()}
        finally:
            for address in addresses.values():
                cuda.cuMemFree(address)


def launch_only(module: Any, launch: Launch, addresses: dict[str, int]) -> None:
    """Enqueues the launch over tensors that lie at `addresses`."""
    _launch(module, launch, addresses)


def _allocate(tensor: EmulatedTensor) -> int:
    cuda = driver()
    address = int(check("cuMemAlloc", cuda.cuMemAlloc(max(len(tensor.data), 16))))
    if len(tensor.data):
        check("cuMemcpyHtoD", cuda.cuMemcpyHtoD(address, tensor.data.ctypes.data, len(tensor.data)))
    return address


def _fetch(address: int, tensor: EmulatedTensor) -> Bytes:
    found = np.empty(len(tensor.data), np.uint8)
    if len(found):
        check("cuMemcpyDtoH", driver().cuMemcpyDtoH(found.ctypes.data, address, len(found)))
    return found


def _launch(module: Any, launch: Launch, addresses: dict[str, int]) -> None:
    cuda = driver()
    function = check("cuModuleGetFunction", cuda.cuModuleGetFunction(module, launch.entry.encode()))
    if launch.dynamic_smem > _DEFAULT_SMEM:
        name = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        check("cuFuncSetAttribute", cuda.cuFuncSetAttribute(function, name, launch.dynamic_smem))
    values = [_value(a, addresses) for a in launch.args]
    pointers = (ctypes.c_void_p * max(len(values), 1))(*(address for address, _ in values))
    config = cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.dynamic_smem
    if launch.cluster != (1, 1, 1):
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = launch.cluster
        config.attrs = [attribute]
        config.numAttrs = 1
    check("cuLaunchKernelEx", cuda.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))


def _value(argument: Argument, addresses: dict[str, int]) -> tuple[int, Any]:
    """Where the argument's value lies on the host, and what keeps it alive."""
    match argument:
        case TensorArgument(tensor, offset):
            word = ctypes.c_uint64(addresses[tensor] + offset)
            return ctypes.addressof(word), word
        case EmulatedTensorMap():
            return encoded(argument, addresses[argument.tensor] + argument.offset_bytes)
        case _:
            buffer = ctypes.create_string_buffer(argument.data, len(argument.data))
            return ctypes.addressof(buffer), buffer


def encoded(tensor_map: EmulatedTensorMap, address: int) -> tuple[int, Any]:
    """The 128 bytes of a map of the tensor at `address`: where they lie, and what keeps them. Raises Refused."""
    buffer = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGN)
    target = -(-ctypes.addressof(buffer) // _MAP_ALIGN) * _MAP_ALIGN
    rank = len(tensor_map.dims)
    dims = (ctypes.c_uint64 * rank)(*tensor_map.dims)
    strides = (ctypes.c_uint64 * max(rank - 1, 1))(*tensor_map.strides_bytes)
    box = (ctypes.c_uint32 * rank)(*tensor_map.box)
    steps = (ctypes.c_uint32 * rank)(*tensor_map.element_strides)
    status = _encoder()(
        target,
        DATA_TYPES[tensor_map.dtype],
        rank,
        address,
        ctypes.addressof(dims),
        ctypes.addressof(strides),
        ctypes.addressof(box),
        ctypes.addressof(steps),
        _INTERLEAVES[tensor_map.interleave],
        SWIZZLES[tensor_map.swizzle],
        _PROMOTIONS[tensor_map.l2_promotion],
        int(tensor_map.oob_fill == "nan"),
    )
    if status:
        raise Refused(status)
    return target, buffer


@cache
def _encoder() -> Any:
    # By address, not through the bindings: what they allocate is aligned to 16 bytes only, the driver asks for 64.
    address, _ = check("cuGetProcAddress", driver().cuGetProcAddress(b"cuTensorMapEncodeTiled", _MIN_DRIVER, 0))
    return _ENCODE(int(address))
