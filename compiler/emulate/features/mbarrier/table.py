"""Where the live mbarriers of a batch lie: finding them by address, and keeping ordinary accesses off them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.mbarrier.state import LiveBarrier, by_value, fresh
from compiler.emulate.machine import Machine
from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.order import Access, Token
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

BARRIER_BYTES = 8
"""Its size and alignment (PTX ISA, "Size and alignment of mbarrier object")."""

Addresses = npt.NDArray[np.uint64]


class BarrierTable:
    """The live mbarriers, by their offset into the data of shared memory."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._order = machine.order if machine.options.races else None
        self.region = machine.memory.addresses.shared
        self._barriers: dict[int, LiveBarrier] = {}
        self._is_barrier = np.zeros(len(self.region.data) // BARRIER_BYTES + 2, np.bool_)
        self._unfenced: list[LiveBarrier] = []

    def __iter__(self) -> Iterator[LiveBarrier]:
        return iter(tuple(self._barriers.values()))

    def get(self, offset: int) -> LiveBarrier | None:
        """The barrier at an offset."""
        return self._barriers.get(offset)

    def add(self, offset: int, count: int, insn: PtxInstruction, lane: int) -> None:
        """A barrier is initialised, in place of one that may be there. Its bytes count as written from now on: reading
        them is reported as what it is."""
        threads = self._machine.threads
        slot = offset // self.region.pitch
        cluster = threads.cluster_slots(slot)
        lanes = range(cluster.start * threads.pitch, cluster.stop * threads.pitch)
        set_up = self._log_set_up(offset, insn, lane)
        barrier = self._barriers[offset] = fresh(offset, slot, lanes, count, insn, lane)
        barrier.set_up = set_up
        self._unfenced.append(barrier)
        self._mark(offset, True)

    def remove(self, barrier: LiveBarrier, insn: PtxInstruction | None = None, lane: int = 0) -> None:
        """The memory is ordinary again, by instruction `insn` or because the block has ended."""
        if insn is not None:
            self._log_write(barrier.offset, insn, lane)
        del self._barriers[barrier.offset]
        self._unfenced = [b for b in self._unfenced if b is not barrier]
        self._mark(barrier.offset, False)

    def located(
        self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses
    ) -> Iterator[tuple[int, Lanes]]:
        """Each different offset that the addresses (one a lane, or one for all) name, with positions in `active`."""
        for place in self._machine.memory.locate(active, insn, space, addresses, BARRIER_BYTES, BARRIER_BYTES):
            pick = np.arange(len(active)) if place.pick is None else place.pick
            if place.region is not self.region:
                active.where(mask(active, pick)).fault(
                    FaultKind.INVALID_OPERAND,
                    insn,
                    f"The address is in {place.region.name}. An mbarrier lies in shared memory.",
                    tensor=place.region.name,
                )
                continue
            for offset, which in by_value(place.offsets):
                yield offset, pick[which]

    def found(
        self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses
    ) -> Iterator[tuple[LiveBarrier, Lanes]]:
        """The barriers at these addresses, with the positions in `active`; what is none is reported."""
        for offset, which in self.located(active, insn, space, addresses):
            barrier = self._barriers.get(offset)
            if barrier is None:
                active.where(mask(active, which)).fault(
                    FaultKind.MBARRIER_MISUSE,
                    insn,
                    "There is no live mbarrier at this address: it was not initialised, or invalidated since. "
                    "Execute mbarrier.init first, then synchronise.",
                    None,
                    np.array(self.region.address(offset)),
                    self.region.name,
                )
                continue
            self._note_use(barrier, active.lanes[which], insn)
            yield barrier, which

    def touched(self, offsets: Offsets, nbytes: int) -> npt.NDArray[np.bool_] | None:
        """Which of the accesses of `nbytes` bytes at `offsets` touch a live mbarrier; None if none does."""
        if not self._barriers:
            return None
        first, last = offsets >> 3, (offsets + (nbytes - 1)) >> 3
        if nbytes <= 2 * BARRIER_BYTES:
            hit = self._is_barrier[first] | self._is_barrier[last]
        else:
            hit = np.array([self._is_barrier[a : b + 1].any() for a, b in zip(first, last, strict=True)], np.bool_)
        return hit if hit.any() else None

    def fenced(self, lanes: Lanes) -> None:
        """These lanes executed a fence that makes the barriers they initialised visible to copies."""
        if not self._unfenced:
            return
        here = set(lanes.tolist())
        for barrier in self._unfenced:
            barrier.is_fenced = barrier.init_lane in here
            if not barrier.is_fenced:
                barrier.fenced_lanes |= here
        self._unfenced = [b for b in self._unfenced if not b.is_fenced]

    def set_up_by(self, lanes: Lanes) -> dict[int, list[Token]]:
        """For each of these lanes, that the live barriers which it initialised are."""
        found: dict[int, list[Token]] = {}
        here = set(lanes.tolist())
        for barrier in self:
            if barrier.init_lane in here and barrier.set_up is not None:
                found.setdefault(barrier.init_lane, []).append(barrier.set_up)
        return found

    def _log_set_up(self, offset: int, insn: PtxInstruction, lane: int) -> Token | None:
        """Logs the write of an initialisation. In a cluster it is an operation of its own, of which other blocks may
        learn while they learn nothing else of its thread; this is the token that they learn it by."""
        if self._order is None or self._machine.threads.cluster_blocks == 1:
            self._log_write(offset, insn, lane)
            return None
        actor = self._order.start(lane, uses_async_proxy=False)
        self._order.actor_access(actor, self.region, Access.WRITE, insn, np.array([offset]), BARRIER_BYTES)
        token = self._order.finish_alone(actor)
        self._order.acquire(np.array([lane]), token)
        return token

    def _log_write(self, offset: int, insn: PtxInstruction, lane: int) -> None:
        if self._order is not None:
            at, lanes = np.array([offset]), np.array([lane])
            self._order.access(self.region, Access.WRITE, insn, lanes, at, BARRIER_BYTES)

    def _note_use(self, barrier: LiveBarrier, lanes: Lanes, insn: PtxInstruction) -> None:
        """Logs the first use by each thread, which must come after the initialisation."""
        known = barrier.is_known[lanes - barrier.base]
        if known.all():
            return
        new = lanes[~known]
        barrier.is_known[new - barrier.base] = True
        if self._order is not None:
            offsets = np.full(len(new), barrier.offset)
            self._order.access(self.region, Access.ATOMIC, insn, new, offsets, BARRIER_BYTES, strong=True)

    def _mark(self, offset: int, is_live: bool) -> None:
        self._is_barrier[offset // BARRIER_BYTES] = is_live
        if self.region.written is not None:
            self.region.written[offset : offset + BARRIER_BYTES] = is_live


def mask(active: Active, which: Lanes) -> npt.NDArray[np.bool_]:
    """A flag a lane of `active`, set at the positions `which`."""
    flags = np.zeros(len(active), np.bool_)
    flags[which] = True
    return flags
