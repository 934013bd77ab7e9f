"""Runs a launch: prepares the kernel and its memory, then batch after batch of blocks."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.asynchrony import Asynchrony
from compiler.emulate.counters import Counters
from compiler.emulate.launch import Completion, EmulatedOutcome, Launch, Options
from compiler.emulate.machine import Machine
from compiler.emulate.memory.build import (
    BadLaunch,
    LaunchMemory,
    copy_back,
    launch_memory,
    local_region,
    shared_region,
)
from compiler.emulate.memory.places import AddressMap
from compiler.emulate.order.order import GlobalHistory, Order
from compiler.emulate.program import BoundProgram
from compiler.emulate.ptx.inline import inlined
from compiler.emulate.ptx.module import Function, Module
from compiler.emulate.report import Halt, LimitMet, Report
from compiler.emulate.threads import Threads, cluster_order
from compiler.emulate.turns import Starved, Turns

_BATCH_LANES = 16384
"""Threads that run together: enough that the cost of a NumPy call is spread over many lanes."""

_BATCH_SHARED_BYTES = 1 << 28

_MOST_LANES = 1 << 18
"""Threads that a large GPU holds at once; a grid whose blocks wait for one another is run whole up to there."""


def emulate(module: Module, launch: Launch, options: Options | None = None) -> EmulatedOutcome:
    """Runs one launch and changes its tensors' data. Raises BadLaunch where the launch does not fit the kernel."""
    options = options or Options()
    function = _entry(module, launch.entry)
    _expect_geometry(function, launch)
    blocks = _blocks(launch, options)
    lanes = _BATCH_LANES
    while True:
        try:
            return _emulated(module, function, launch, options, blocks, lanes)
        except Starved:  # blocks wait for blocks that have not started: run more of them together, from the start
            lanes *= 8


def _emulated(
    module: Module, function: Function, launch: Launch, options: Options, blocks: list[int], lanes: int
) -> EmulatedOutcome:
    report, counters = Report(), Counters(is_on=options.counts)
    memory = launch_memory(module, function, launch)
    program = _program(module, function, memory.symbols)
    batches = _batches(blocks, launch, memory, lanes)
    history = GlobalHistory()
    instructions, met_limit = 0, False
    with np.errstate(all="ignore"):
        for number, batch in enumerate(batches):
            is_whole = len(batches) == 1 or len(batch) * _threads(launch) >= _MOST_LANES
            threads = Threads(launch.grid, launch.block, launch.cluster, batch)
            asynchrony = Asynchrony(options.completion, options.seed + number, threads.pitch * threads.cluster_blocks)
            order = Order(
                threads,
                report,
                history=history,
                memory_sync=program.synchronises_through_memory,
                async_proxy=program.uses_async_proxy,
            )
            machine = Machine(
                program.function.registers,
                program.checked,
                launch,
                options,
                threads,
                report,
                counters,
                order,
                _addresses(memory, threads),
                asynchrony,
            )
            turns = Turns(machine, program, is_whole_grid=is_whole)
            try:
                turns.run()
            except Halt as halt:
                order.flush()
                met_limit = isinstance(halt, LimitMet)
                break
            finally:
                instructions += turns.spent
    copy_back(memory, launch)
    written = {name: _changed(memory, name) for name in launch.tensors}
    return EmulatedOutcome(report.faults, counters.as_dict(), written, report.dropped, instructions, met_limit)


_PROGRAMS_KEPT = 8
_programs: OrderedDict[tuple[int, str], tuple[Module, dict[str, int], BoundProgram]] = OrderedDict()


def _program(module: Module, function: Function, symbols: dict[str, int]) -> BoundProgram:
    """The kernel bound for running. The last few are kept: a kernel is run in several orders, on several inputs."""
    key = (id(module), function.name)
    kept = _programs.get(key)
    if kept is not None and kept[0] is module and kept[1] == symbols:
        _programs.move_to_end(key)
        return kept[2]
    program = BoundProgram(function, symbols, module.target)
    _programs[key] = (module, symbols, program)
    if len(_programs) > _PROGRAMS_KEPT:
        _programs.popitem(last=False)
    return program


def _addresses(memory: LaunchMemory, threads: Threads) -> AddressMap:
    return AddressMap(
        memory.tensors, shared_region(memory, threads), local_region(memory, threads), memory.param, memory.const
    )


def _changed(memory: LaunchMemory, name: str) -> npt.NDArray[Any]:
    region = memory.by_name[name]
    assert region.changed is not None
    return region.changed[region.lead : region.lead + region.size]


def _entry(module: Module, name: str) -> Function:
    function = module.functions.get(name)
    if function is None or not function.is_entry:
        kernels = ", ".join(f.name for f in module.functions.values() if f.is_entry) or "none"
        raise BadLaunch(f"The PTX has no kernel {name}. Its kernels: {kernels}.")
    return inlined(module, function)


def _threads(launch: Launch) -> int:
    return launch.block[0] * launch.block[1] * launch.block[2]


_MOST_BLOCKS = 1 << 24
"""Blocks of a grid that can be listed; to run them all would take hours."""


def _expect_geometry(function: Function, launch: Launch) -> None:
    """Refuses launches that the driver refuses (CUDA driver API, cuLaunchKernelEx)."""
    threads = _threads(launch)
    if not 1 <= threads <= 1024:
        raise BadLaunch(f"block: {threads} threads, a block has 1 to 1024.")
    if (blocks := launch.grid[0] * launch.grid[1] * launch.grid[2]) > _MOST_BLOCKS:
        raise BadLaunch(f"grid: {blocks} blocks are too many to emulate, {_MOST_BLOCKS} at most. Launch fewer.")
    for axis, (grid, cluster) in enumerate(zip(launch.grid, launch.cluster, strict=True)):
        if grid < 1 or cluster < 1 or grid % cluster:
            raise BadLaunch(f"grid: {grid} blocks along {'xyz'[axis]} are no multiple of the cluster's {cluster}.")
    required = function.directives.get("reqntid")
    if required is not None and tuple((*required, 1, 1)[:3]) != launch.block:
        raise BadLaunch(f"block: {launch.block}, but the kernel is compiled for {tuple(required)} (.reqntid).")
    most = function.directives.get("maxntid")
    if most is not None and threads > int(np.prod(most)):
        raise BadLaunch(f"block: {threads} threads, but the kernel is compiled for at most {int(np.prod(most))}.")
    clusters = function.directives.get("reqnctapercluster")
    if clusters is not None and tuple((*clusters, 1, 1)[:3]) != launch.cluster:
        raise BadLaunch(f"cluster: {launch.cluster}, but the kernel is compiled for {tuple(clusters)}.")


def _blocks(launch: Launch, options: Options) -> list[int]:
    """The blocks to run, whole clusters in a row; in random order the clusters are shuffled."""
    clusters = cluster_order(launch.grid, launch.cluster)
    if options.blocks is not None:
        clusters = clusters[np.isin(clusters, np.array(options.blocks)).any(axis=1)]
    if options.completion is Completion.RANDOM:
        clusters = np.random.default_rng(options.seed).permutation(clusters)
    blocks: list[int] = clusters.reshape(-1).tolist()
    return blocks


def _batches(blocks: list[int], launch: Launch, memory: LaunchMemory, lanes: int) -> list[tuple[int, ...]]:
    cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    shared = max(1, _BATCH_SHARED_BYTES // max(1, memory.shared_bytes))
    count = max(1, min(lanes // _threads(launch), shared) // cluster) * cluster
    return [tuple(blocks[i : i + count]) for i in range(0, len(blocks), count)]
