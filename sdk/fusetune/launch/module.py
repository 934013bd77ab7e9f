"""Machine code on a device: loaded once for each (device, code hash), shared by every launcher in the process."""

from __future__ import annotations

import threading
from typing import Any

from fusetune.errors import InvalidKernel, LaunchFailed, NoDevice
from fusetune.launch.driver import check, current_context, device_attribute, driver
from fusetune.wire.artifact import KernelArtifact, LaunchSpec

DEFAULT_SMEM_BYTES = 48 * 1024
"""CUDA programming guide, "Shared Memory": a block gets more dynamic shared memory only after opting in."""

PORTABLE_CLUSTER = 8
"""CUDA programming guide, "Thread Block Clusters": the largest cluster that needs no opting in."""

_NO_BINARY_FOR_GPU = 209
_DAMAGED = ("CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_SOURCE")


class LoadedModule:
    """A loaded cubin with the functions taken from it. Made by `acquire_module`, ended by `release_module`."""

    def __init__(self, device: int, code_hash: str, handle: Any) -> None:
        self.device = device
        self.code_hash = code_hash
        self.handle = handle
        self.holders = 0
        self._functions: dict[str, Any] = {}
        self._smem_bytes: dict[str, int] = {}

    def function(self, launch: LaunchSpec) -> Any:
        """The function of a launch, loaded, with what the launch needs beyond the defaults granted.

        Loaded now, not at its first launch, so that the first launch may be captured into a CUDA graph.
        """
        cuda = driver()
        if launch.entry not in self._functions:
            status, function = cuda.cuModuleGetFunction(self.handle, launch.entry.encode())
            if status.name == "CUDA_ERROR_NOT_FOUND":
                raise InvalidKernel(
                    f"entry {launch.entry!r}", "the cubin has no such function", "Tune the fusion again."
                )
            check("cuModuleGetFunction", (status, function))
            check("cuFuncLoad", cuda.cuFuncLoad(function))
            self._functions[launch.entry] = function
        function = self._functions[launch.entry]
        # The limit belongs to the function: another launch of it must not lower what an earlier one was granted.
        if launch.dynamic_smem_bytes > self._smem_bytes.get(launch.entry, DEFAULT_SMEM_BYTES):
            _grant_smem(function, launch.dynamic_smem_bytes)
            self._smem_bytes[launch.entry] = launch.dynamic_smem_bytes
        x, y, z = launch.cluster
        if x * y * z > PORTABLE_CLUSTER:
            name = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(f"cuFuncSetAttribute({name.name})", cuda.cuFuncSetAttribute(function, name, 1))
        return function


_LOADED: dict[tuple[int, str], LoadedModule] = {}
_LOCK = threading.Lock()


def acquire_module(artifact: KernelArtifact, device: int) -> LoadedModule:
    """The artifact's code on `device`, loaded if it is not there yet.

    Raises NoDevice (no GPU, or one that cannot run this code), InvalidKernel (damaged code), LaunchFailed.
    """
    key = (device, artifact.code_hash)
    with _LOCK:
        if key not in _LOADED:
            _LOADED[key] = LoadedModule(*key, _load(artifact, device))
        _LOADED[key].holders += 1
        return _LOADED[key]


def release_module(module: LoadedModule) -> None:
    """Gives up one hold on the code; the last one unloads it. Raises LaunchFailed."""
    with _LOCK:
        module.holders -= 1
        if module.holders > 0:
            return
        _LOADED.pop((module.device, module.code_hash), None)
    with current_context(module.device):
        check("cuModuleUnload", driver().cuModuleUnload(module.handle))


def _load(artifact: KernelArtifact, device: int) -> Any:
    cuda = driver()
    with current_context(device):
        status, handle = cuda.cuModuleLoadData(bytes(artifact.cubin))
    if status.value == _NO_BINARY_FOR_GPU:
        have = ".".join(str(device_attribute(device, f"COMPUTE_CAPABILITY_{x}")) for x in ("MAJOR", "MINOR"))
        raise NoDevice(
            f"device {device} (compute capability {have}) cannot run code built for {artifact.arch}",
            "Tune the fusion for this card, or call the kernel on the card it was tuned for.",
            is_absent=True,
        )
    if status.name in _DAMAGED:
        raise InvalidKernel("cubin", f"the driver cannot read it ({status.name})", "Tune the fusion again.")
    return check("cuModuleLoadData", (status, handle))


def _grant_smem(function: Any, smem_bytes: int) -> None:
    cuda = driver()
    name = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    try:
        check(f"cuFuncSetAttribute({name.name}, {smem_bytes})", cuda.cuFuncSetAttribute(function, name, smem_bytes))
    except LaunchFailed as error:
        raise NoDevice(
            f"the device cannot give a block {smem_bytes} bytes of dynamic shared memory ({error.status})",
            "Tune the fusion for this card.",
        ) from error
