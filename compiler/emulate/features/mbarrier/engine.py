"""The mbarriers of a batch: arrivals, transaction bytes, phases, waits, and what goes wrong with them.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". A barrier lives from its `mbarrier.init`
to its `mbarrier.inval`, or to the end of its block; meanwhile its 8 bytes are no ordinary data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.batch import Batch, LaneGroup
from compiler.emulate.features.cluster.departures import Departures
from compiler.emulate.features.cluster.engine import ClusterBarriers
from compiler.emulate.features.mbarrier.state import MAX_COUNT, Coming, LiveBarrier, Passed, state_phase, states
from compiler.emulate.features.mbarrier.stuck import never_complete, stale_waits, waits_ahead
from compiler.emulate.features.mbarrier.table import Addresses, BarrierTable, mask
from compiler.emulate.features.mbarrier.words import at_line, progress, stale
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.order import Actor, Conflict, Token
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

_MISUSE = FaultKind.MBARRIER_MISUSE


class MBarriers(Engine):
    """All mbarriers. Methods for instructions take one address a lane, or one for all, and the space that it is in."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.table = BarrierTable(machine)
        self._order = machine.order if machine.options.races else None
        machine.order.on_race = self.on_race
        self._name = self.table.region.name
        self._bound: WeakKeyDictionary[Actor, list[tuple[LiveBarrier, int]]] = WeakKeyDictionary()

    # Instructions of threads.

    def init(self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses, counts: Any) -> None:
        """`mbarrier.init`: `counts` arrivals make a phase."""
        counts = np.broadcast_to(counts, len(active))
        bad = (counts < 1) | (counts > MAX_COUNT)
        if bad.any():
            active.fault(
                FaultKind.INVALID_OPERAND,
                insn,
                f"An mbarrier for {int(counts[bad][0])} arrivals. The count must be 1 to {MAX_COUNT}.",
                bad,
                addresses,
                self._name,
            )
        for offset, which in self.table.located(active, insn, space, addresses):
            lanes = active.lanes[which]
            known = self.table.get(offset)
            if known is not None or len(which) > 1:
                where = at_line(known.init_insn if known else insn)
                active.where(mask(active, which)).fault(
                    _MISUSE,
                    insn,
                    f"mbarrier.init of a live mbarrier, initialised at {where} by "
                    + ("an earlier instruction" if known else f"{len(which)} threads at once")
                    + ". Initialise it once, in one thread; to use the memory again, mbarrier.inval it first.",
                    tensor=self._name,
                )
            if known is not None:
                self._wake(known, known.phase)
            self.table.add(offset, min(max(int(counts[which[0]]), 1), MAX_COUNT), insn, int(lanes[0]))
        self.machine.progress += 1

    def inval(self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses) -> None:
        """`mbarrier.inval`: the memory is ordinary again."""
        for barrier, which in self.table.found(active, insn, space, addresses):
            if barrier.coming:
                active.where(mask(active, which)).fault(
                    _MISUSE,
                    insn,
                    f"mbarrier.inval while {len(barrier.coming)} copies are still to complete on it, the first issued "
                    f"at {at_line(barrier.coming[0].insn)}. Wait for them first.",
                    tensor=self._name,
                )
            self.table.remove(barrier, insn, int(active.lanes[which[0]]))
            self._wake(barrier, barrier.phase)

    def arrive(
        self,
        active: Active,
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        counts: Any,
        nbytes: Any = None,
        *,
        drops: bool = False,
        releases: bool = True,
        completes: bool = True,
    ) -> npt.NDArray[np.uint64]:
        """`mbarrier.arrive`, `arrive_drop`, with `.expect_tx` of `nbytes`: the states before, one a lane.

        `drops`: those who arrive take no part in later phases. `completes` is False for `.noComplete`, which must not
        be the last arrival of its phase.
        """
        counts = np.broadcast_to(counts, len(active)).astype(np.int64)
        before = np.zeros(len(active), np.uint64)
        for barrier, which in self.table.found(active, insn, space, addresses):
            lanes = active.lanes[which]
            if nbytes is not None:
                self._expect(barrier, insn, int(lanes[0]), _total(nbytes, active, which))
            total = int(counts[which].sum())
            earlier = np.cumsum(counts[which]) - counts[which]
            before[which] = states(barrier.phase, np.maximum(barrier.pending - earlier, 0))
            self._check_arrivals(barrier, active.where(mask(active, which)), insn, total, completes)
            if releases and self._order is not None:
                if self.machine.threads.cluster_blocks > 1:
                    offsets = np.full(len(lanes), barrier.offset)
                    self.machine.engine(Departures).noted(Active(self.machine, lanes), insn, offsets)
                barrier.tokens.append(self._order.release(lanes))
            self._count(barrier, insn, int(lanes[0]), total, drops)
        self.machine.progress += 1
        return before

    def expect(
        self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses, nbytes: Any
    ) -> None:
        """`mbarrier.expect_tx`: the phase waits for `nbytes` more bytes."""
        for barrier, which in self.table.found(active, insn, space, addresses):
            self._expect(barrier, insn, int(active.lanes[which[0]]), _total(nbytes, active, which))
            self._turn(barrier)
        self.machine.progress += 1

    def complete(
        self, active: Active, insn: PtxInstruction, space: StateSpace, addresses: Addresses, nbytes: Any
    ) -> None:
        """`mbarrier.complete_tx`: as if a copy had brought `nbytes` bytes."""
        for barrier, which in self.table.found(active, insn, space, addresses):
            self._deliver(barrier, insn, int(active.lanes[which[0]]), _total(nbytes, active, which))
        self.machine.progress += 1

    def test(
        self,
        active: Active,
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        *,
        parity: Any = None,
        state: Any = None,
        acquires: bool = True,
        suspends: bool = False,
    ) -> npt.NDArray[np.bool_]:
        """`mbarrier.test_wait`, `try_wait`: whether the phase of that parity, or of that state, is complete.

        Lanes that find it incomplete give way to others; if it `suspends`, until a phase of the barrier is complete. A
        barrier that is none counts as complete, after the report.
        """
        complete = np.ones(len(active), np.bool_)
        wanted = np.broadcast_to(parity if state is None else state_phase(state), len(active))
        for barrier, which in self.table.found(active, insn, space, addresses):
            phase = barrier.phase
            passed = wanted[which] != (phase & 1) if state is None else wanted[which] < phase
            if passed.all():
                self._saw(barrier, active, insn, which, acquires)
                continue
            complete[which] = passed
            if passed.any():
                self._saw(barrier, active, insn, which[passed], acquires)
            lanes = active.lanes[which[~passed]]
            barrier.failed[lanes - barrier.base] = phase
            barrier.wait = (insn, int(lanes[0]))
            (self.machine.sleep if suspends else self.machine.stall)(lanes)
        return complete

    def _saw(self, barrier: LiveBarrier, active: Active, insn: PtxInstruction, which: Lanes, acquires: bool) -> None:
        """Lanes found the phase before the current one complete."""
        lanes = active.lanes[which]
        index = lanes - barrier.base
        phase = barrier.phase - 1
        again = barrier.seen[index] == phase
        if barrier.is_active and again.any():
            active.where(mask(active, which[again])).fault(
                _MISUSE,
                insn,
                f"A wait for phase {phase} of the mbarrier, which this thread already saw complete, while phase "
                f"{barrier.phase} is under way: {progress(barrier)}. Toggle the parity each time the barrier is used.",
                tensor=self._name,
            )
        if self._order is not None:
            if acquires and barrier.done is not None:
                self._order.acquire(lanes, barrier.done)
            idle = again if phase >= 0 else np.ones(len(lanes), np.bool_)
            barrier.passed.append(Passed(self._order.time, lanes, phase, insn, idle))
        barrier.seen[index] = phase
        barrier.observed = phase

    # Copies.

    def bind(
        self, lane: int, insn: PtxInstruction, address: int, nbytes: int, *, uses_async_proxy: bool = True
    ) -> tuple[LiveBarrier, Coming] | None:
        """A copy of `lane` will bring `nbytes` bytes to the barrier at a shared address; None if there is none, after
        the report. The async proxy must see the barrier."""
        active = Active(self.machine, np.array([lane]))
        for barrier, _ in self.table.found(active, insn, StateSpace.SHARED, np.array([address], np.uint64)):
            if uses_async_proxy:
                self._expect_visible(barrier, insn, lane, address)
            return barrier, self._comes(barrier, insn, lane, nbytes)
        return None

    def bind_each(
        self, active: Active, insn: PtxInstruction, addresses: Addresses, nbytes: int
    ) -> Iterator[tuple[LiveBarrier, Coming, Lanes]]:
        """As `bind`, of one copy of `nbytes` bytes a lane in the generic proxy: what comes to each barrier together,
        with positions in `active`. Lanes of which the address is no barrier's are reported and left out."""
        for barrier, which in self.table.found(active, insn, StateSpace.SHARED, addresses):
            yield barrier, self._comes(barrier, insn, int(active.lanes[which[0]]), nbytes * len(which)), which

    def _comes(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, nbytes: int) -> Coming:
        coming = Coming(insn, lane, nbytes, barrier.phase)
        barrier.coming.append(coming)
        return coming

    def _expect_visible(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, address: int) -> None:
        """Reports an operation of the async proxy that completes on a barrier which it may not see yet."""
        if barrier.is_fenced or lane in barrier.fenced_lanes:
            return
        Active(self.machine, np.array([lane])).fault(
            FaultKind.PROXY_RACE,
            insn,
            f"The copy completes on an mbarrier that was initialised at {at_line(barrier.init_insn)} with no "
            "fence since, so the copy engine may not see it. After mbarrier.init, execute fence.mbarrier_init "
            "or fence.proxy.async, then synchronise.",
            None,
            np.array(address),
            self._name,
        )

    def signal(self, barrier: LiveBarrier, coming: Coming, actor: Actor | None, token: Token | None) -> int:
        """The bytes have come: complete_tx. Returns the phase in which they counted."""
        barrier.coming.remove(coming)
        if token is not None:
            barrier.tokens.append(token)
        phase = barrier.phase
        if actor is not None:
            self._bound.setdefault(actor, []).append((barrier, phase))
        self._deliver(barrier, coming.insn, coming.lane, coming.nbytes)
        self.machine.progress += 1
        return phase

    def arrive_later(
        self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, token: Token | None, actors: Iterable[Actor] = ()
    ) -> int:
        """An arrival that operations of `lane` make when they are complete (`tcgen05.commit`), see `arrive_for`. The
        async proxy must see the barrier."""
        self._expect_visible(barrier, insn, lane, barrier.offset)
        return self.arrive_for(barrier, insn, np.array([lane]), [] if token is None else [token], actors)

    def arrive_for(
        self,
        barrier: LiveBarrier,
        insn: PtxInstruction,
        lanes: Lanes,
        tokens: Iterable[Token] = (),
        actors: Iterable[Actor] = (),
    ) -> int:
        """An arrival for each of `lanes`, made by operations of theirs that are complete (`cp.async.mbarrier.arrive`).

        `tokens` are what an observer learns. Returns the phase in which the arrivals counted.
        """
        phase = barrier.phase
        self._check_arrivals(barrier, Active(self.machine, lanes), insn, len(lanes), True)
        barrier.tokens += tokens
        for actor in actors:
            self._bound.setdefault(actor, []).append((barrier, phase))
        self._count(barrier, insn, int(lanes[0]), len(lanes), False)
        self.machine.progress += 1
        return phase

    # What others tell and ask.

    def fenced(self, lanes: Lanes) -> None:
        """These lanes executed fence.mbarrier_init or fence.proxy.async: their barriers are visible to copies."""
        self.table.fenced(lanes)

    def released(self, lanes: Lanes) -> None:
        """These lanes executed fence.mbarrier_init: other blocks of the cluster that come past its barrier after them
        find their mbarriers initialised, even where the lanes arrive there without releasing anything else."""
        if self._order is not None and self.machine.threads.cluster_blocks > 1:
            self.machine.engine(ClusterBarriers).offer(self.table.set_up_by(lanes))

    def shared_access(
        self, group: LaneGroup[Batch], insn: PtxInstruction, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Reports ordinary accesses to live mbarriers."""
        hit = self.table.touched(offsets, nbytes)
        if hit is None:
            return
        first = int(offsets[hit][0])
        barrier = next(b for at in range(first - first % 8, first + nbytes, 8) if (b := self.table.get(at)))
        group.fault(
            _MISUSE,
            insn,
            f"{'A store to' if is_store else 'A load from'} a live mbarrier, initialised at "
            f"{at_line(barrier.init_insn)}. Its 8 bytes are opaque: keep data apart from it, or mbarrier.inval it "
            "first.",
            hit,
            np.array(self.table.region.address(barrier.offset)),
            self._name,
        )

    def on_race(self, conflict: Conflict) -> bool:
        """Whether a race with a copy comes of a wait that was for an older phase than the copy's; reports it there.

        Such a wait returned before anything arrived, or again for a phase that the thread had already seen.
        """
        for barrier, phase in self._bound.get(conflict.actor, ()):
            for passed in reversed(barrier.passed):
                where = np.searchsorted(passed.lanes, conflict.lane)
                is_mine = where < len(passed.lanes) and passed.lanes[where] == conflict.lane
                if not is_mine or passed.time > conflict.lane_time:
                    continue
                if passed.phase < phase and passed.is_idle[where]:
                    self._misuse(passed.insn, conflict.lane, stale(passed.phase, phase, conflict.actor_insn))
                    return True
                break
        return False

    def explain_unobserved(self, barrier: LiveBarrier, phase: int | None, copy: PtxInstruction) -> None:
        """Reports the wait that was for the phase before that of a copy that nobody waited for, if there was one."""
        for insn, lane, message in waits_ahead(barrier, barrier.phase if phase is None else phase, copy):
            self._misuse(insn, lane, message)

    def block_ended(self, slot: int) -> None:
        """Bytes that were expected and never came, or came and were never expected, are reported."""
        for barrier in self.table:
            if barrier.slot != slot:
                continue
            coming = sum(c.nbytes for c in barrier.coming)
            if barrier.tx != coming:
                insn, lane = barrier.expect or barrier.delivery or (barrier.init_insn, barrier.init_lane)
                self._misuse(
                    insn,
                    lane,
                    f"At the end of the block, {barrier.expected} bytes are expected in phase {barrier.phase} of the "
                    f"mbarrier, and its copies bring {barrier.delivered + coming}. Expect exactly that many.",
                )
            self.table.remove(barrier)
            self._wake(barrier, barrier.phase)

    def explain_stuck(self) -> None:
        """Reports the barriers that can never complete, when nothing can go on."""
        for barrier in self.table:
            live = self.machine.live[barrier.base : barrier.base + len(barrier.seen)]
            for insn, lane, message in (*stale_waits(barrier, live), *never_complete(barrier, live)):
                self._misuse(insn, lane, message)

    # Counting.

    def _check_arrivals(
        self, barrier: LiveBarrier, active: Active, insn: PtxInstruction, total: int, completes: bool
    ) -> None:
        """Arrivals beyond those that the phase waits for; `completes`: the last of them may complete it."""
        if total > barrier.pending:
            active.fault(
                _MISUSE,
                insn,
                f"{total} arrivals at once, but phase {barrier.phase} of the mbarrier waits for {barrier.pending} more "
                f"of its {barrier.count} (mbarrier.init at {at_line(barrier.init_insn)})"
                + (f", and for {barrier.tx} bytes" if barrier.tx else "")
                + ". Initialise it with as many arrivals as there are, or let fewer threads arrive.",
                tensor=self._name,
            )
        elif total == barrier.pending and not completes:
            active.fault(
                _MISUSE,
                insn,
                f"An arrival with .noComplete is the last of phase {barrier.phase}. Arrive last without .noComplete.",
                tensor=self._name,
            )

    def _count(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, total: int, drops: bool) -> None:
        barrier.pending = max(0, barrier.pending - total)
        if drops:
            barrier.count = max(0, barrier.count - total)
        barrier.arrival = (insn, lane)
        self._turn(barrier)

    def _expect(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, nbytes: int) -> None:
        barrier.tx += nbytes
        barrier.expected += nbytes
        barrier.expect = (insn, lane)
        self._check_range(barrier, insn, lane)

    def _deliver(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int, nbytes: int) -> None:
        barrier.tx -= nbytes
        barrier.delivered += nbytes
        barrier.delivery = (insn, lane)
        self._check_range(barrier, insn, lane)
        self._turn(barrier)

    def _check_range(self, barrier: LiveBarrier, insn: PtxInstruction, lane: int) -> None:
        if abs(barrier.tx) > MAX_COUNT:
            self._misuse(
                insn,
                lane,
                f"The mbarrier waits for {barrier.tx} bytes; a phase may wait for at most {MAX_COUNT}. "
                "Expect only what its copies bring.",
            )

    def _turn(self, barrier: LiveBarrier) -> None:
        """Completes the phase if nothing is pending; copies bound to it must have come."""
        phase = barrier.phase
        if not barrier.turn():
            return
        self._wake(barrier, phase)
        late = [c for c in barrier.coming if c.phase == phase]
        if late:
            insn, lane = barrier.expect or (late[0].insn, late[0].lane)
            self._misuse(
                insn,
                lane,
                f"Phase {phase} of the mbarrier is complete while {sum(c.nbytes for c in late)} bytes of copies bound "
                f"to it, issued at {at_line(late[0].insn)}, are still to come. Expect the bytes of all its copies "
                "before the last arrival.",
            )

    def _wake(self, barrier: LiveBarrier, phase: int) -> None:
        """Lets those go on who waited in vain for a phase: it is complete, or the barrier is no more."""
        self.machine.wake(barrier.base + np.flatnonzero(barrier.failed == phase))

    def _misuse(self, insn: PtxInstruction, lane: int, message: str) -> None:
        self.machine.fault(_MISUSE, insn, message, lane=lane, tensor=self._name)


def _total(values: Any, active: Active, which: Lanes) -> int:
    return int(np.broadcast_to(values, len(active))[which].sum(dtype=np.int64))
