"""Launches a kernel artifact on a device. The measuring child uses the same class: what is timed is what users run."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from fusetune.errors import GuardFailed, LaunchFailed, WrongArguments
from fusetune.launch.clusters import cluster_config, is_in_clusters, refuse_clusters_without_room
from fusetune.launch.driver import check, current_context, driver
from fusetune.launch.guards import CallFacts, check_guards
from fusetune.launch.indices import choices_of, named, remember
from fusetune.launch.module import acquire_module, release_module
from fusetune.launch.params import Numbers, PackedParams, pack_params
from fusetune.launch.tensor_map import driver_encoder
from fusetune.wire.artifact import KernelArtifact, LaunchSpec

PACKED_CALLS_KEPT = 256
"""Sets of addresses whose parameters stay packed; a training loop has a handful, a timing run one a buffer set."""

_CLUSTER_CONFIGS_KEPT = 16


class Launcher:
    """One artifact on one device. `launch` neither synchronises nor allocates device memory, so graphs may capture it.

    Raises NoDevice, InvalidKernel or LaunchFailed where the code cannot be loaded, NoDevice too where the device has no
    room for a cluster of it. Not for concurrent use by several threads: give each its own.
    """

    def __init__(self, artifact: KernelArtifact, device: int = 0) -> None:
        self.artifact = artifact
        self.device = device
        self._module = acquire_module(artifact, device)
        try:
            with current_context(device):
                self._functions = tuple(self._module.function(launch) for launch in artifact.launches)
                for spec, function in zip(artifact.launches, self._functions, strict=True):
                    if is_in_clusters(spec):
                        refuse_clusters_without_room(spec, function)
        except BaseException:
            release_module(self._module)
            raise
        specs = (*artifact.inputs, *artifact.outputs)
        self._aligns = tuple(spec.align for spec in specs)
        self._sizes = tuple(spec.shape for spec in specs)
        self._strides = tuple(spec.strides for spec in specs)
        self._packed: OrderedDict[tuple[tuple[int, ...], tuple[int, ...]], tuple[PackedParams, ...]] = OrderedDict()
        self._configs: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._choices = choices_of(artifact)

    def launch(
        self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...] = (), numbers: Numbers = ()
    ) -> None:
        """Enqueues every launch of the artifact on `stream` (a CUstream's value; 0 is the default stream).

        `pointers` are device addresses of inputs in order, then outputs, `scratch` those of `artifact.scratch`; sizes
        and strides are the artifact's own. `numbers` are the values of its scalars; a graph that captures the launch
        keeps them. Raises WrongArguments, GuardFailed, InvalidKernel, LaunchFailed, and IndexOutOfRange where a kernel
        before it has met an index that is.
        """
        try:
            self._launch(pointers, stream, scratch, numbers)
        except LaunchFailed as error:
            raise named(error) from None
        remember(self._choices)

    def wait(self, stream: int) -> None:
        """Until everything on `stream` is done. Raises LaunchFailed, IndexOutOfRange."""
        try:
            with current_context(self.device):
                check("cuStreamSynchronize", driver().cuStreamSynchronize(stream))
        except LaunchFailed as error:
            raise named(error) from None

    def _launch(self, pointers: tuple[int, ...], stream: int, scratch: tuple[int, ...], numbers: Numbers) -> None:
        key = (pointers, scratch)
        packed = self._packed.get(key)
        if packed is None:
            packed = self._prepare(pointers, scratch)
        if len(numbers) != len(self.artifact.scalars):
            raise WrongArguments(
                "scalars", str(len(numbers)), str(len(self.artifact.scalars)), "Pass one number for each, in order."
            )
        with current_context(self.device):
            for address, spec in zip(scratch, self.artifact.scratch, strict=True):
                if spec.init == "zero":
                    check("cuMemsetD8Async", driver().cuMemsetD8Async(address, 0, spec.bytes, stream))
            for index, params in enumerate(packed):
                params.tell(numbers)
                self._enqueue(index, params, stream)

    def close(self) -> None:
        """Gives up the code; graphs that captured a launch become invalid once no launcher of it is left."""
        self._packed.clear()
        release_module(self._module)

    def _prepare(self, pointers: tuple[int, ...], scratch: tuple[int, ...]) -> tuple[PackedParams, ...]:
        """Checks and packs a set of addresses seen for the first time."""
        artifact = self.artifact
        if len(pointers) != len(self._aligns) or len(scratch) != len(artifact.scratch):
            raise WrongArguments(
                "addresses",
                found=f"{len(pointers)} tensors and {len(scratch)} scratch buffers",
                expected=f"{len(self._aligns)} and {len(artifact.scratch)}",
                fix="Pass inputs in order, then outputs.",
            )
        for position, (pointer, align) in enumerate(zip(pointers, self._aligns, strict=True)):
            if pointer % align:
                raise GuardFailed(
                    f"ptr[{position}] % {align} == 0",
                    f"tensor {position} is at {pointer:#x}; the kernel was tuned for addresses divisible by {align}",
                )
        check_guards(artifact.guards, CallFacts(pointers, self._sizes, self._strides))
        encode = driver_encoder() if _uses_tensor_maps(artifact) else _no_tensor_maps
        with current_context(self.device):  # the driver encodes for the device of the current context
            packed = tuple(pack_params(launch.args, pointers, scratch, encode) for launch in artifact.launches)
        self._packed[(pointers, scratch)] = packed
        if len(self._packed) > PACKED_CALLS_KEPT:
            self._packed.popitem(last=False)
        return packed

    def _enqueue(self, index: int, params: PackedParams, stream: int) -> None:
        cuda = driver()
        spec, function = self.artifact.launches[index], self._functions[index]
        if not is_in_clusters(spec):
            (status,) = cuda.cuLaunchKernel(
                function, *spec.grid, *spec.block, spec.dynamic_smem_bytes, stream, params.address, 0
            )
        else:
            (status,) = cuda.cuLaunchKernelEx(self._cluster_config(index, spec, stream), function, params.address, 0)
        if status.value != 0:
            raise _failed(spec, status)

    def _cluster_config(self, index: int, spec: LaunchSpec, stream: int) -> Any:
        config = self._configs.get((index, stream))
        if config is None:
            config = self._configs[(index, stream)] = cluster_config(spec, stream)
            if len(self._configs) > _CLUSTER_CONFIGS_KEPT:
                self._configs.popitem(last=False)
        return config


def _failed(spec: LaunchSpec, status: Any) -> LaunchFailed:
    shape = f"grid {spec.grid}, block {spec.block}, cluster {spec.cluster}, {spec.dynamic_smem_bytes} B smem"
    return LaunchFailed(f"launch of {spec.entry} ({shape})", status.name, int(status.value), "")


def _uses_tensor_maps(artifact: KernelArtifact) -> bool:
    return any(arg.kind == "tensor_map" for launch in artifact.launches for arg in launch.args)


def _no_tensor_maps(*_: object) -> None:
    raise AssertionError("an artifact without tensor maps asked for one")
