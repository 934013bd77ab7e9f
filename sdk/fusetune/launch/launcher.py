"""Launches a kernel artifact on a device. The measuring child uses the same class: what is timed is what users run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
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
from fusetune.wire.lists import ListRow, chunks_of, pieces
from fusetune.wire.op_check import ITEM_BYTES

ListTable = tuple[PackedParams, tuple[int, int, int]]
"""One launch over lists: its parameters, with the table of its tensors, and its grid."""

PACKED_CALLS_KEPT = 256
"""Sets of addresses whose parameters stay packed; a training loop has a handful, a timing run one a buffer set."""

_CLUSTER_CONFIGS_KEPT = 16


_OF_ANOTHER_CONTEXT = frozenset({201, 400})
"""CUDA_ERROR_INVALID_CONTEXT: a thread without one; CUDA_ERROR_INVALID_HANDLE: the function is of another."""


class Launcher:
    """One artifact on one device. `launch` neither synchronises nor allocates device memory, so graphs may capture it.

    Raises NoDevice, InvalidKernel or LaunchFailed where the code cannot be loaded, NoDevice too where the device has no
    room for a cluster of it. Several threads may share it: their launches are enqueued one after the other.
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
        self._calls: tuple[Any, ...] = tuple(map(_call, artifact.launches, self._functions))
        self._enqueued = None if artifact.scalars or artifact.scratch or None in self._calls else self._calls
        specs = (*artifact.inputs, *artifact.outputs)
        self._aligns = tuple(spec.align for spec in specs)
        self._sizes = tuple(spec.shape for spec in specs)
        self._strides = tuple(spec.strides for spec in specs)
        self._packed: OrderedDict[tuple[tuple[int, ...], tuple[int, ...]], tuple[PackedParams, ...]] = OrderedDict()
        self._again: dict[tuple[int, ...], tuple[tuple[Any, int, PackedParams], ...]] = {}
        self._success = _success()
        self._configs: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._choices = choices_of(artifact)
        self._lists = artifact.lists
        self._list_grid: tuple[int, int, int] | None = None
        # Between telling a launch its numbers and enqueuing it, nobody else may tell it others.
        self._lock = threading.Lock()
        if self._lists is not None:
            rows = self._rows_of((0,) * len(self._aligns))
            self._list_grid = (chunks_of(rows, self._lists.tile), 1, 1)

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
            with self._lock:
                self._launch(pointers, stream, scratch, numbers)
        except LaunchFailed as error:
            raise named(error) from None
        if self._choices:
            remember(self._choices)

    def launch_again(self, pointers: tuple[int, ...], stream: int) -> bool:
        """`launch` for addresses that were launched with before, where the device's context is current: nothing else is
        looked at. False, with nothing enqueued, where it is not that simple: other addresses, another context, scratch
        memory, scalars, clusters. Raises LaunchFailed, IndexOutOfRange."""
        known = self._again.get(pointers)
        if known is None:
            return False
        enqueue, success = driver().cuLaunchKernel, self._success
        for call, address, _ in known:  # which keeps alive what lies at the address
            (status,) = enqueue(*call, stream, address, 0)
            if status is success or status.value == 0:
                continue
            if call is known[0][0] and status.value in _OF_ANOTHER_CONTEXT:
                return False
            raise named(_failed(self.artifact.launches[self._calls.index(call)], status)) from None
        return True

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
            for address, spec in zip(scratch, self.artifact.scratch, strict=True) if scratch else ():
                if spec.init == "zero":
                    check("cuMemsetD8Async", driver().cuMemsetD8Async(address, 0, spec.bytes, stream))
            for index, params in enumerate(packed):
                params.tell(numbers)
                self._enqueue(index, params, stream, self._list_grid)

    def close(self) -> None:
        """Gives up the code; graphs that captured a launch become invalid once no launcher of it is left."""
        self._packed.clear()
        self._again.clear()
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
        for position, pointer in enumerate(pointers):
            self._check_aligned(position, pointer)
        check_guards(artifact.guards, CallFacts(pointers, self._sizes, self._strides))
        encode = driver_encoder() if _uses_tensor_maps(artifact) else _no_tensor_maps
        rows = self._rows_of(pointers)
        with current_context(self.device):  # the driver encodes for the device of the current context
            packed = tuple(pack_params(launch.args, pointers, scratch, encode, rows) for launch in artifact.launches)
        self._packed[(pointers, scratch)] = packed
        if self._enqueued is not None:
            calls = zip(self._enqueued, packed, strict=True)
            self._again[pointers] = tuple((call, params.address, params) for call, params in calls)
        if len(self._packed) > PACKED_CALLS_KEPT:
            (gone, _), _ = self._packed.popitem(last=False)
            self._again.pop(gone, None)
        return packed

    def launch_lists(
        self, rows: Sequence[ListRow], pointers: Mapping[int, int], stream: int, numbers: Numbers = ()
    ) -> None:
        """Enqueues a kernel over lists on these tensors, none of them empty, in as few launches as its table has room
        for. `pointers`: by position, the tensors beside the lists. Raises what `launch` raises."""
        self.launch_tables(self.tables(rows, pointers, numbers), stream)

    def tables(
        self, rows: Sequence[ListRow], pointers: Mapping[int, int], numbers: Numbers = ()
    ) -> tuple[ListTable, ...]:
        """What `launch_lists` enqueues, for as long as the tensors stay where they are. Raises GuardFailed."""
        arg = self._lists
        assert arg is not None, "an artifact over lists"
        for position, pointer in pointers.items():
            self._check_aligned(position, pointer)
        for row in rows:
            for position, pointer in zip(arg.positions, row.addresses, strict=True):
                self._check_aligned(position, pointer)
        every = tuple(pointers.get(position, 0) for position in range(len(self._aligns)))
        (spec,) = self.artifact.launches
        made = []
        for first in range(0, len(rows), arg.rows):
            some = rows[first : first + arg.rows]
            params = pack_params(spec.args, every, (), _no_tensor_maps, some)
            params.tell(numbers)
            made.append((params, (chunks_of(some, arg.tile), 1, 1)))
        return tuple(made)

    def launch_tables(self, tables: Sequence[ListTable], stream: int) -> None:
        """Enqueues what `tables` has made. Raises what `launch` raises."""
        with current_context(self.device):
            for params, grid in tables:
                self._enqueue(0, params, stream, grid)

    def _rows_of(self, pointers: tuple[int, ...]) -> tuple[ListRow, ...]:
        """Flat tensors as lists of their parts, where the kernel is over lists."""
        arg = self._lists
        if arg is None:
            return ()
        specs = (*self.artifact.inputs, *self.artifact.outputs)
        nbytes = [0 if p in arg.single else ITEM_BYTES[specs[p].dtype] for p in arg.positions]
        return tuple(
            ListRow(tuple(pointers[p] + start * n for p, n in zip(arg.positions, nbytes, strict=True)), elems)
            for start, elems in pieces(self._sizes[arg.sized][0], arg.tile, arg.step)
        )

    def _check_aligned(self, position: int, pointer: int) -> None:
        align = self._aligns[position]
        if pointer % align:
            raise GuardFailed(
                f"ptr[{position}] % {align} == 0",
                f"tensor {position} is at {pointer:#x}; the kernel was tuned for addresses divisible by {align}",
            )

    def _enqueue(self, index: int, params: PackedParams, stream: int, grid: tuple[int, int, int] | None = None) -> None:
        cuda, call = driver(), self._calls[index]
        if call is not None and grid is None:
            (status,) = cuda.cuLaunchKernel(*call, stream, params.address, 0)
            if status.value != 0:
                raise _failed(self.artifact.launches[index], status)
            return
        spec, function = self.artifact.launches[index], self._functions[index]
        spec = spec if grid is None else spec.model_copy(update={"grid": grid})
        if not is_in_clusters(spec):
            (status,) = cuda.cuLaunchKernel(*_plain_call(spec, function), stream, params.address, 0)
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


def _success() -> Any:
    """The driver's answer where nothing went wrong: to know it takes less than to ask for its number."""
    return getattr(getattr(driver(), "CUresult", None), "CUDA_SUCCESS", None)


def _call(spec: LaunchSpec, function: Any) -> tuple[Any, ...] | None:
    """What every launch of it passes to the driver; None of a launch in clusters, which passes a configuration."""
    return None if is_in_clusters(spec) else _plain_call(spec, function)


def _plain_call(spec: LaunchSpec, function: Any) -> tuple[Any, ...]:
    return (function, *spec.grid, *spec.block, spec.dynamic_smem_bytes)


def _failed(spec: LaunchSpec, status: Any) -> LaunchFailed:
    shape = f"grid {spec.grid}, block {spec.block}, cluster {spec.cluster}, {spec.dynamic_smem_bytes} B smem"
    return LaunchFailed(f"launch of {spec.entry} ({shape})", status.name, int(status.value), "")


def _uses_tensor_maps(artifact: KernelArtifact) -> bool:
    return any(arg.kind == "tensor_map" for launch in artifact.launches for arg in launch.args)


def _no_tensor_maps(*_: object) -> None:
    raise AssertionError("an artifact without tensor maps asked for one")
