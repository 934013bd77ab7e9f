"""`cp.async` under way: copies by threads, their groups, and the mbarriers that they arrive on.

PTX ISA, "cp.async", "cp.async.wait_group", "cp.async.mbarrier.arrive". They go through the generic proxy. All lanes
that execute one instruction together make one `Copies`, of which each lane waits for its own part.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.asynchrony import Pending
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.mbarrier.state import LiveBarrier
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.memory.places import MemoryPlace
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

Flags = npt.NDArray[np.bool_]

_MANY = 64
"""Copies beyond which those that a wait on their mbarrier has covered are forgotten."""


class Copies(Pending):
    """A copy of `nbytes` bytes for each of `active`'s lanes. `sources` are those that read something, each with how
    many bytes it reads; the rest of a destination is zeros.

    `group` numbers each lane's bulk group; `is_observed` tells which lanes have waited.
    """

    def __init__(
        self,
        active: Active,
        insn: PtxInstruction,
        sources: list[tuple[MemoryPlace, int]],
        targets: list[MemoryPlace],
        nbytes: int,
        group: npt.NDArray[np.int64],
        actor: Actor | None,
    ) -> None:
        self.insn, self.lane = insn, int(active.lanes[0])
        self.active, self.group, self.actor = active, group, actor
        self.is_observed = np.zeros(len(active), np.bool_)
        self.is_done = False
        self.arrivals: list[tuple[LiveBarrier, int, Flags]] = []
        self._sources, self._targets, self._nbytes = sources, targets, nbytes
        self._data: npt.NDArray[np.uint8] | None = None

    @property
    def lanes(self) -> Lanes:
        """The lanes that copy."""
        return self.active.lanes

    @property
    def was_seen_to_arrive(self) -> bool:
        """Whether all lanes have waited, or some thread did for the mbarrier that they arrived on."""
        seen = self.is_observed.copy()
        for barrier, phase, lanes in self.arrivals:
            if barrier.observed >= phase:
                seen |= lanes
        return bool(seen.all())

    def advance(self) -> bool:
        """Reads the sources, then writes the targets."""
        if self._data is None:
            self._data = np.zeros((len(self.active), self._nbytes), np.uint8)
            for place, nbytes in self._sources:
                part = self._part(place)
                found = self.active.machine.memory.read_bytes(
                    None, part, self.insn, place.region, place.offsets, nbytes
                )
                self._data[slice(None) if place.pick is None else place.pick, :nbytes] = found
                self._log(Access.READ, part, place, nbytes)
            return False
        machine = self.active.machine
        for place in self._targets:
            part = self._part(place)
            machine.engine(MBarriers).shared_access(part, self.insn, place.offsets, self._nbytes, True)
            self._log(Access.WRITE, part, place, self._nbytes)
            values = self._data if place.pick is None else self._data[place.pick]
            machine.memory.write_bytes(None, part, self.insn, place.region, place.offsets, values)
        self.is_done = True
        machine.progress += 1
        return True

    def _part(self, place: MemoryPlace) -> Active:
        active = self.active
        return active if place.pick is None else active.at(place.pick)

    def _log(self, access: Access, part: Active, place: MemoryPlace, nbytes: int) -> None:
        if self.actor is not None:
            order = part.machine.order
            order.actor_access(self.actor, place.region, access, self.insn, place.offsets, nbytes, part.lanes)


class CopyArrival(Pending):
    """Lanes arrive on an mbarrier once their copies so far are complete (PTX ISA, "cp.async.mbarrier.arrive")."""

    def __init__(
        self, machine: Machine, insn: PtxInstruction, barrier: LiveBarrier, lanes: Lanes, awaited: list[Copies]
    ) -> None:
        self.insn, self.lane = insn, int(lanes[0])
        self._machine, self._barrier, self._lanes, self._awaited = machine, barrier, lanes, awaited

    def advance(self) -> bool:
        """Arrives, when the copies are complete."""
        if not all(c.is_done for c in self._awaited):
            return False
        order, actors = self._machine.order, [c.actor for c in self._awaited if c.actor is not None]
        tokens = [order.finish(actor) for actor in actors]
        phase = self._machine.engine(MBarriers).arrive_for(self._barrier, self.insn, self._lanes, tokens, actors)
        for copies in self._awaited:
            copies.arrivals.append((self._barrier, phase, np.isin(copies.lanes, self._lanes)))
        return True


class CpAsync(Engine):
    """The copies that some lane has not waited for yet, and each lane's count of committed groups."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._order = machine.order if machine.options.races else None
        self._copies: list[Copies] = []
        self._committed = np.zeros(machine.threads.lanes, np.int64)

    def copy(
        self,
        active: Active,
        insn: PtxInstruction,
        sources: list[tuple[MemoryPlace, int]],
        targets: list[MemoryPlace],
        nbytes: int,
    ) -> None:
        """Issues a copy of each lane."""
        actor = self._order.start_copies(active.lanes) if self._order is not None else None
        copies = Copies(active, insn, sources, targets, nbytes, self._committed[active.lanes], actor)
        self._copies.append(copies)
        self.machine.asynchrony.submit(copies)

    def commit(self, lanes: Lanes) -> None:
        """`cp.async.commit_group`."""
        self._committed[lanes] += 1

    def are_done(self, lanes: Lanes, pending: int | None) -> Flags:
        """Which lanes have at most `pending` incomplete groups; None: have no incomplete copy."""
        late = np.zeros(self.machine.threads.lanes, np.bool_)
        limit = self._limit(lanes, pending)
        for copies in self._copies:
            if not copies.is_done:
                late[copies.lanes[copies.group < limit[copies.lanes]]] = True
        done: Flags = ~late[lanes]
        return done

    def waited(self, lanes: Lanes, pending: int | None) -> None:
        """Lanes have waited for all groups but their `pending` newest; None: for all copies."""
        limit = self._limit(lanes, pending)
        for copies in self._copies:
            mine = (copies.group < limit[copies.lanes]) & ~copies.is_observed
            if not mine.any():
                continue
            copies.is_observed |= mine
            if self._order is not None and copies.actor is not None:
                self._order.finish_copies(copies.actor, copies.lanes[mine])
        self._copies = [c for c in self._copies if not c.is_observed.all()]

    def _limit(self, lanes: Lanes, pending: int | None) -> npt.NDArray[np.int64]:
        """For each lane of the batch, the group below which its copies are meant; 0 for other lanes."""
        limit = np.zeros(self.machine.threads.lanes, np.int64)
        limit[lanes] = np.iinfo(np.int64).max if pending is None else np.maximum(self._committed[lanes] - pending, 0)
        return limit

    def arrive_on(self, active: Active, insn: PtxInstruction, barrier: LiveBarrier, lanes: Lanes, counts: bool) -> None:
        """`cp.async.mbarrier.arrive` of lanes on one barrier; `counts`: the phase was to wait for them (`.noinc`)."""
        if not counts:
            barrier.pending += len(lanes)
        if len(self._copies) > _MANY:
            self._copies = [c for c in self._copies if not c.was_seen_to_arrive]
        awaited = [c for c in self._copies if np.isin(c.lanes, lanes).any()]
        self.machine.asynchrony.submit(CopyArrival(self.machine, insn, barrier, lanes, awaited))

    def block_ended(self, slot: int) -> None:
        """Reports copies that were not waited for."""
        slots = self.machine.threads.slot
        for copies in self._copies:
            unseen = ~copies.is_observed & (slots[copies.lanes] == slot)
            for barrier, phase, lanes in copies.arrivals:
                if barrier.observed >= phase:
                    unseen &= ~lanes
            if unseen.any():
                copies.active.fault(
                    FaultKind.IN_FLIGHT_AT_EXIT,
                    copies.insn,
                    "The block ends while this copy may be under way: its thread did not wait for it. Execute "
                    "cp.async.wait_all, or cp.async.commit_group and cp.async.wait_group 0.",
                    unseen,
                    tensor="shared memory",
                )
            copies.is_observed |= slots[copies.lanes] == slot
        self._copies = [c for c in self._copies if not c.is_observed.all()]
