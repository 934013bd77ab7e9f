"""Special registers (PTX ISA, "Special Registers"), computed from the geometry of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.machine import Machine
from compiler.emulate.memory.windows import SHARED_BASE
from compiler.emulate.threads import WARP, Threads

Array = npt.NDArray[Any]
Values = Callable[[Threads], Any]
"""The values of a register for every lane of a batch, or one for all."""

SMS = 132
"""Streaming multiprocessors that `%nsmid` tells of, and over which `%smid` deals out the blocks: those of an H200."""

MAX_WARPS = 64
"""Warps that fit on a multiprocessor, `%nwarpid` (CUDA guide, compute capabilities: 64 for 9.0 and 10.0)."""

CYCLES_A_READ = 64
"""What a clock moves on when it is read. Clocks do nothing else: the emulator has no notion of time."""

NANOSECONDS_A_READ = 32
"""What `%globaltimer` moves on when it is read."""


def special(name: str, wanted: np.dtype[Any]) -> Callable[[Active], Array] | None:
    """A reader of special register `name` (`%tid.x`) as `wanted`; None for an unknown one."""
    register, _, component = name.removeprefix("%").partition(".")
    axis = "xyzw".find(component) if component else None
    if axis is not None and axis >= 0 and register in _VECTORS:
        return _cached(lambda threads: _VECTORS[register](threads, axis), wanted)
    if axis is None and register in _SCALARS:
        return _cached(_SCALARS[register], wanted)
    if axis is None and register in _CLOCKS:
        step, shift = _CLOCKS[register]
        return lambda active: wide_as((_ticks(active.machine) * step) >> shift, wanted)
    if axis is None and register in _SHARED_SIZES:
        size = _SHARED_SIZES[register]
        return lambda active: wide_as(size(active.machine), wanted)
    if axis is None and register.startswith("envreg"):
        return _cached(lambda threads: 0, wanted)
    return None


def _cached(values: Values, wanted: np.dtype[Any]) -> Callable[[Active], Array]:
    """A reader that computes the values once a batch: they depend on the geometry alone."""
    known: tuple[Threads | None, Array] = (None, np.zeros((), wanted))

    def read(active: Active) -> Array:
        nonlocal known
        threads = active.machine.threads
        if known[0] is not threads:
            known = (threads, wide_as(values(threads), wanted))
        found = known[1]
        return found if active.full or not found.ndim else found[active.lanes]

    return read


def wide_as(values: Any, wanted: np.dtype[Any]) -> Array:
    """Whole numbers as `wanted`, the low bits where it is narrower; predicates as they are."""
    given = np.asarray(values)
    return given.astype(wanted) if wanted == np.bool_ else given.astype(np.int64).astype(wanted)


def _unflattened(linear: Array, size: tuple[int, int, int], axis: int) -> Any:
    """Component x, y or z (axis 0, 1, 2) of linear indices; 0 for axis 3."""
    if axis == 3:
        return 0
    below = int(np.prod(size[:axis], dtype=np.int64))
    return linear // below % size[axis]


def _block_axis(threads: Threads, axis: int) -> Any:
    blocks = np.array(threads.blocks, np.int64)
    return _unflattened(blocks[threads.slot], threads.grid, axis)


def _size_axis(size: tuple[int, int, int], axis: int) -> int:
    return size[axis] if axis < 3 else 1


def _rank(threads: Threads) -> Array:
    return threads.slot % threads.cluster_blocks


def _cluster_counts(threads: Threads) -> tuple[int, int, int]:
    x, y, z = (g // c for g, c in zip(threads.grid, threads.cluster, strict=True))
    return x, y, z


def _lane(threads: Threads) -> Array:
    return threads.thread % WARP


def _bit(threads: Threads) -> Array:
    return np.int64(1) << _lane(threads)


_VECTORS: dict[str, Callable[[Threads, int], Any]] = {
    "tid": lambda t, axis: _unflattened(t.thread, t.block, axis),
    "ntid": lambda t, axis: _size_axis(t.block, axis),
    "ctaid": _block_axis,
    "nctaid": lambda t, axis: _size_axis(t.grid, axis),
    "clusterid": lambda t, axis: 0 if axis == 3 else _block_axis(t, axis) // t.cluster[axis],
    "nclusterid": lambda t, axis: _size_axis(_cluster_counts(t), axis),
    "cluster_ctaid": lambda t, axis: _unflattened(_rank(t), t.cluster, axis),
    "cluster_nctaid": lambda t, axis: _size_axis(t.cluster, axis),
}

_SCALARS: dict[str, Values] = {
    "laneid": _lane,
    "warpid": lambda t: t.thread // WARP,
    "nwarpid": lambda t: MAX_WARPS,
    "smid": lambda t: np.array(t.blocks, np.int64)[t.slot] % SMS,
    "nsmid": lambda t: SMS,
    "gridid": lambda t: 1,
    "cluster_ctarank": _rank,
    "cluster_nctarank": lambda t: t.cluster_blocks,
    "is_explicit_cluster": lambda t: t.cluster_blocks > 1,
    "lanemask_eq": _bit,
    "lanemask_lt": lambda t: _bit(t) - 1,
    "lanemask_le": lambda t: 2 * _bit(t) - 1,
    "lanemask_gt": lambda t: 0xFFFFFFFF & ~(2 * _bit(t) - 1),
    "lanemask_ge": lambda t: 0xFFFFFFFF & ~(_bit(t) - 1),
    "current_graph_exec": lambda t: 0,
    "reserved_smem_offset_begin": lambda t: 0,
    "reserved_smem_offset_cap": lambda t: SHARED_BASE,
    "reserved_smem_offset_0": lambda t: 0,
    "reserved_smem_offset_1": lambda t: SHARED_BASE // 2,
}

_CLOCKS: dict[str, tuple[int, int]] = {
    "clock": (CYCLES_A_READ, 0),
    "clock64": (CYCLES_A_READ, 0),
    "clock_hi": (CYCLES_A_READ, 32),
    "globaltimer": (NANOSECONDS_A_READ, 0),
    "globaltimer_lo": (NANOSECONDS_A_READ, 0),
    "globaltimer_hi": (NANOSECONDS_A_READ, 32),
}


def _total_smem(machine: Machine) -> int:
    """Static and dynamic shared memory, in whole units of 128 bytes (measured on an H200)."""
    return -(-machine.memory.addresses.shared.size // 128) * 128


def _aggregate_smem(machine: Machine) -> int:
    return machine.memory.addresses.shared.size + SHARED_BASE


def _dynamic_smem(machine: Machine) -> int:
    return machine.launch.dynamic_smem


_SHARED_SIZES: dict[str, Callable[[Machine], int]] = {
    "total_smem_size": _total_smem,
    "aggr_smem_size": _aggregate_smem,
    "dynamic_smem_size": _dynamic_smem,
}

_READS: WeakKeyDictionary[Machine, int] = WeakKeyDictionary()


def _ticks(machine: Machine) -> int:
    """Clock reads of a batch so far, this one included: clocks never stand still, so that timed loops end."""
    count = _READS.get(machine, 0) + 1
    _READS[machine] = count
    return count
