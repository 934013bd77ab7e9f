"""The CUDA driver, reached through cuda-bindings: imported on first use, every return code checked."""

from __future__ import annotations

import threading
from functools import cache
from types import ModuleType
from typing import Any, cast
from uuid import UUID

from fusetune.errors import LaunchFailed, NoDevice, PackageMissing

_INIT_LOCK = threading.Lock()


@cache
def driver() -> ModuleType:
    """`cuda.bindings.driver`, initialised. Raises NoDevice without libcuda or a GPU, PackageMissing."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise PackageMissing("kernels are launched by the CUDA driver", "cuda-bindings", "gpu") from error
    with _INIT_LOCK:
        try:
            (status,) = bindings.cuInit(0)
        except RuntimeError as error:  # libcuda.so.1 could not be opened
            raise NoDevice(
                f"the CUDA driver cannot be used ({error})", "Run on a machine with an NVIDIA GPU."
            ) from error
    if status != bindings.CUresult.CUDA_SUCCESS:
        raise NoDevice(f"cuInit answered {status.name}", "Run on a machine with an NVIDIA GPU and its driver.")
    return cast(ModuleType, bindings)


def check(call: str, answer: tuple[Any, ...]) -> Any:
    """Unwraps a driver call's (status, values...): None, the value, or a tuple. Raises LaunchFailed."""
    status, *values = answer
    if status.value != 0:
        raise LaunchFailed(call, status.name, int(status.value), _message(status))
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def _message(status: Any) -> str:
    code, text = driver().cuGetErrorString(status)
    return text.decode() if code.value == 0 and text else ""


@cache
def primary_context(device: int) -> Any:
    """The context that torch and the CUDA runtime use on `device`; retained for the life of the process."""
    cuda = driver()
    ordinal = check("cuDeviceGet", cuda.cuDeviceGet(device))
    return check("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ordinal))


@cache
def _primary(device: int) -> tuple[Any, int]:
    """The primary context, and its handle as a number: to make that of it takes as long as to ask for the current."""
    context = primary_context(device)
    return context, int(context)


class current_context:  # noqa: N801 (used like a function)
    """Makes `device`'s primary context current inside the block; does nothing where it already is."""

    __slots__ = ("_device", "_pushed")

    def __init__(self, device: int) -> None:
        self._device = device
        self._pushed = False

    def __enter__(self) -> None:
        context, handle = _primary(self._device)
        if int(check("cuCtxGetCurrent", driver().cuCtxGetCurrent())) != handle:
            check("cuCtxPushCurrent", driver().cuCtxPushCurrent(context))
            self._pushed = True

    def __exit__(self, *_: object) -> None:
        if self._pushed:
            check("cuCtxPopCurrent", driver().cuCtxPopCurrent())


def device_attribute(device: int, name: str) -> int:
    """An attribute of the device, by the end of its name: `CLOCK_RATE` for CU_DEVICE_ATTRIBUTE_CLOCK_RATE."""
    cuda = driver()
    attribute = getattr(cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    ordinal = check("cuDeviceGet", cuda.cuDeviceGet(device))
    return int(check("cuDeviceGetAttribute", cuda.cuDeviceGetAttribute(attribute, ordinal)))


def device_name(device: int) -> str:
    """What the device is called."""
    cuda = driver()
    name: bytes = check("cuDeviceGetName", cuda.cuDeviceGetName(256, check("cuDeviceGet", cuda.cuDeviceGet(device))))
    return name.split(b"\0", 1)[0].decode()


def device_memory_bytes(device: int) -> int:
    """All of its memory."""
    cuda = driver()
    return int(check("cuDeviceTotalMem", cuda.cuDeviceTotalMem(check("cuDeviceGet", cuda.cuDeviceGet(device)))))


def device_uuid(device: int) -> UUID:
    """Its UUID, by which NVML knows it."""
    cuda = driver()
    found = check("cuDeviceGetUuid", cuda.cuDeviceGetUuid(check("cuDeviceGet", cuda.cuDeviceGet(device))))
    return UUID(bytes=bytes(found.bytes))


def driver_version() -> str:
    """The newest CUDA that the driver supports, as `13.0`."""
    version = int(check("cuDriverGetVersion", driver().cuDriverGetVersion()))
    return f"{version // 1000}.{version % 1000 // 10}"
