"""What the order of events hands out and takes: kinds of access, asynchronous operations, tokens, conflicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import MemoryRegion
from compiler.emulate.ptx.module import PtxInstruction

Ints = npt.NDArray[np.int32]

Clocks = npt.NDArray[np.int32]
"""A vector clock: for each column (a thread or an operation of one cluster) the clock up to which it is known."""


class Access(IntEnum):
    """What an access does."""

    READ = 0
    WRITE = 1
    ATOMIC = 2


class Layer(IntEnum):
    """Four things that a thread can know of another's accesses, each with clocks of its own.

    SEEN     they happen before what the thread does next
    PROXY    they do, and a proxy fence stands on the way: they come before what the async proxy does next
    DEVICE   they do, and a fence of gpu scope stands on the way: a strong write may publish them to the grid
    BLOCK    they do, and a fence of any scope stands on the way: a strong write may publish them to its block
    """

    SEEN = 0
    PROXY = 1
    DEVICE = 2
    BLOCK = 3


@dataclass(slots=True, eq=False)
class View:
    """What each of a batch's lanes (or a single operation) knows: arrays (layers, lanes).

    `rows` are rows of the table of vector clocks; a row is shared by all lanes that know the same. A lane's own column
    is kept apart, so that lanes can share: `own` is its own clock, `copied` the clock of its own asynchronous copies
    (`cp.async`) that it waited for. `worlds` number what is known of other clusters.
    """

    rows: Ints
    own: Ints
    copied: Ints
    worlds: Ints


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Actor:
    """An asynchronous operation, as one more thread: it knows what its issuer knew, and it ends when observed.

    `slot` is the block of its issuer, `lane`. `issued` is the time (`Order.time`) of its issue. `uses_async_proxy`:
    its accesses go through the async proxy, and come after ordinary ones only by a proxy fence.

    A single operation has one column of its cluster's clocks: what it reads bears clock `clocks[0]`, what it writes the
    next. An operation of many `lanes` at once (`cp.async`) has a column a lane, and a clock for each lane of the batch.
    """

    number: int
    slot: int
    lane: int
    issued: int
    uses_async_proxy: bool
    column: int
    clocks: Ints
    view: View
    lanes: npt.NDArray[np.intp] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Floor:
    """What all threads of a cluster, and all its operations under way, know: (clusters, columns) of clocks.

    `seen`: what has happened before anything that comes now; `proxy`: what the async proxy sees too, None if the kernel
    has no operation of the async proxy.
    """

    seen: Clocks
    proxy: Clocks | None


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """What one side of a synchronisation hands to the other: all that the releasing lanes and actors did and saw.

    By layer, then by cluster (its first block's linear index): vector clocks, which nobody changes.
    """

    layers: dict[Layer, dict[int, Clocks]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conflict:
    """An operation and a thread that race: the thread's access, and its time (see `Order.time`)."""

    actor: Actor
    actor_insn: PtxInstruction
    lane: int
    lane_insn: PtxInstruction
    lane_time: int
    region: MemoryRegion
    offset: int


OnRace = Callable[[Conflict], bool]
"""Told of a race between an operation and a thread before it is reported; True if it reported the fault itself."""
