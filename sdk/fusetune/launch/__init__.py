"""Loading and launching kernels with the CUDA driver. Importing this needs no GPU; CUDA is loaded on first use."""

from __future__ import annotations

from fusetune.errors import GuardFailed, InvalidKernel, KernelError, LaunchFailed, NoDevice, WrongArguments
from fusetune.launch.driver import (
    device_attribute,
    device_memory_bytes,
    device_name,
    device_uuid,
    driver_version,
)
from fusetune.launch.launcher import Launcher

__all__ = [
    "GuardFailed",
    "InvalidKernel",
    "KernelError",
    "LaunchFailed",
    "Launcher",
    "NoDevice",
    "WrongArguments",
    "device_attribute",
    "device_memory_bytes",
    "device_name",
    "device_uuid",
    "driver_version",
]
