"""One mbarrier: its counts and phases, who waited for which, and what copies are bound to it.

A phase is complete when no arrivals and no transaction bytes are pending; then the next begins, with all arrivals
pending again (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.order import Order, Token
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.threads import Lanes

MAX_COUNT = (1 << 20) - 1
"""Of arrivals, and of transaction bytes either way (PTX ISA, "Contents of the mbarrier object")."""

NEVER = -2
"""The phase of a thread that has not waited. -1 is the phase before the first, complete on a fresh barrier."""

_HISTORY = 256
"""Waits that are remembered, to say of a race which wait let it happen."""

_STATE = np.uint64(1 << 63)
_PHASE_SHIFT = np.uint64(20)


@dataclass(frozen=True, slots=True, eq=False)
class Coming:
    """A copy bound to a barrier whose bytes are still to come, issued in `phase`."""

    insn: PtxInstruction
    lane: int
    nbytes: int
    phase: int


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """A wait of `lanes` that found `phase` complete. `is_idle`: before anything arrived, or not for the first time."""

    time: int
    lanes: Lanes
    phase: int
    insn: PtxInstruction
    is_idle: npt.NDArray[np.bool_]


@dataclass(eq=False, slots=True)
class LiveBarrier:
    """A live mbarrier.

    `offset` is into the data of shared memory, `base` the first lane of its cluster, and the arrays have an element a
    lane of the cluster. `count` arrivals make a phase, `pending` of them are missing, and so are `tx` bytes: expected
    less delivered, so it may be negative for a while. `tokens` are of what arrived in this phase, `done` of what did in
    all before: an observer of one phase has seen the older ones too, for arrivals are atomic operations on one object.
    `seen` is the newest phase that a thread's wait found complete, `failed` the one that its last wait in vain was for.
    """

    offset: int
    slot: int
    base: int
    count: int
    init_insn: PtxInstruction
    init_lane: int
    seen: npt.NDArray[np.int32]
    failed: npt.NDArray[np.int32]
    is_known: npt.NDArray[np.bool_]
    pending: int = 0
    tx: int = 0
    phase: int = 0
    expected: int = 0
    delivered: int = 0
    expect: tuple[PtxInstruction, int] | None = None
    arrival: tuple[PtxInstruction, int] | None = None
    wait: tuple[PtxInstruction, int] | None = None
    delivery: tuple[PtxInstruction, int] | None = None
    set_up: Token | None = None
    """That it is initialised, apart from all else that its thread did."""
    is_fenced: bool = False
    fenced_lanes: set[int] = field(default_factory=set)
    tokens: list[Token] = field(default_factory=list)
    done: Token | None = None
    coming: list[Coming] = field(default_factory=list)
    observed: int = -1
    passed: deque[Passed] = field(default_factory=lambda: deque(maxlen=_HISTORY))

    @property
    def is_active(self) -> bool:
        """Whether anything was counted in this phase."""
        return self.pending != self.count or self.tx != 0 or self.expected != 0

    def turn(self) -> bool:
        """Completes the phase if nothing is pending; True if it did."""
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.count
        self.expected = self.delivered = 0
        if self.tokens:
            self.done = Order.join(self.tokens if self.done is None else [self.done, *self.tokens])
            self.tokens = []
        return True


def fresh(offset: int, slot: int, lanes: range, count: int, insn: PtxInstruction, lane: int) -> LiveBarrier:
    """A barrier just initialised by `lane`; `lanes` are those of its cluster."""
    number = len(lanes)
    return LiveBarrier(
        offset,
        slot,
        lanes.start,
        count,
        insn,
        lane,
        np.full(number, NEVER, np.int32),
        np.full(number, NEVER, np.int32),
        np.zeros(number, np.bool_),
        pending=count,
    )


def states(phase: int, pending: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The opaque state that an arrival returns: the phase, and the arrivals that were pending before it."""
    return _STATE | (np.uint64(phase) << _PHASE_SHIFT) | pending.astype(np.uint64)


def state_phase(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The phase of a state."""
    return ((state & ~_STATE) >> _PHASE_SHIFT).astype(np.int64)


def state_pending(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """The arrivals that were pending when a state was made (PTX ISA, "mbarrier.pending_count")."""
    return (state & np.uint64(MAX_COUNT)).astype(np.uint32)


def by_value(offsets: Offsets) -> Iterator[tuple[int, Lanes]]:
    """Each different offset, with the positions where it stands."""
    if len(offsets) == 0:
        return
    if (offsets == offsets[0]).all():
        yield int(offsets[0]), np.arange(len(offsets))
        return
    order = np.argsort(offsets, kind="stable")
    ordered = offsets[order]
    cuts = np.flatnonzero(np.diff(ordered)) + 1
    for part in np.split(order, cuts):
        yield int(offsets[part[0]]), part
