"""Bulk copies under way: their stages, what they signal, and those that nobody waited for.

A load reads its source, writes its destination and then signals an mbarrier (PTX ISA, "cp.async.bulk": completion
mechanism); a store reads its source, which `wait_group.read` waits for, and then writes its destination, which
`wait_group` waits for. Each is an operation of its own in the order of accesses. A multicast is a load for each block
of its mask: the mbarrier of a block tells of the bytes that came there, and of no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.asynchrony import Pending
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.mbarrier.state import Coming, LiveBarrier
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.order.order import Actor, Token
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

Bytes = npt.NDArray[np.uint8]
Read = Callable[[Actor | None], Bytes]
Write = Callable[[Actor | None, Bytes], None]


class Staged(Pending):
    """An operation as a list of stages."""

    def __init__(self, insn: PtxInstruction, lane: int, stages: list[Callable[[], None]]) -> None:
        self.insn, self.lane = insn, lane
        self._stages = stages
        self._next = 0

    def advance(self) -> bool:
        """Does the next stage; True when that was the last."""
        self._stages[self._next]()
        self._next += 1
        return self._next == len(self._stages)


@dataclass(eq=False, slots=True)
class BulkCopyLoad:
    """A load that signals `barrier`; `phase` is the one in which its bytes counted, None until they came."""

    insn: PtxInstruction
    lane: int
    barrier: LiveBarrier
    phase: int | None = None

    @property
    def is_observed(self) -> bool:
        """Whether some thread found that phase complete."""
        return self.phase is not None and self.barrier.observed >= self.phase


@dataclass(eq=False, slots=True)
class BulkCopyStore:
    """A store or reduction of a bulk group. `read` and `written` are what those who wait for either learn."""

    insn: PtxInstruction
    lane: int
    is_read: bool = False
    is_written: bool = False
    is_source_free: bool = False
    read: Token | None = None
    written: Token | None = None


class BulkCopies(Engine):
    """The bulk copies of a batch, and the bulk groups of its threads (PTX ISA, "cp.async.bulk.commit_group")."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._order = machine.order if machine.options.races else None
        self._loads: defaultdict[int, list[BulkCopyLoad]] = defaultdict(list)
        self._open: defaultdict[int, list[BulkCopyStore]] = defaultdict(list)
        self._groups: defaultdict[int, list[list[BulkCopyStore]]] = defaultdict(list)
        self._free: dict[int, int] = defaultdict(int)
        """Of each lane, how many of its oldest groups have sources that it waited for."""

    def load(
        self,
        lane: int,
        insn: PtxInstruction,
        read: Read,
        write: Write,
        barrier: int,
        nbytes: int,
        *,
        from_shared: bool = False,
        uses_async_proxy: bool = True,
    ) -> None:
        """A copy of `nbytes` bytes to one place, which signals the mbarrier at the shared address `barrier` that many.
        `from_shared`: the source is the shared memory of the issuing block."""
        mbarriers = self.machine.engine(MBarriers)
        bound = mbarriers.bind(lane, insn, barrier, nbytes, uses_async_proxy=uses_async_proxy)
        self.load_bound(lane, insn, read, write, bound, from_shared=from_shared, uses_async_proxy=uses_async_proxy)

    def load_bound(
        self,
        lane: int,
        insn: PtxInstruction,
        read: Read,
        write: Write,
        bound: tuple[LiveBarrier, Coming] | None,
        *,
        from_shared: bool = False,
        uses_async_proxy: bool = True,
    ) -> None:
        """A copy that signals the barrier it is bound to (`MBarriers.bind`), if there is one."""
        mbarriers = self.machine.engine(MBarriers)
        load = None if bound is None else BulkCopyLoad(insn, lane, bound[0])
        if load is not None:
            here = int(self.machine.threads.slot[lane])
            for slot in {load.barrier.slot, here} if from_shared else {load.barrier.slot}:
                self._loads[slot].append(load)
        actor = self._order.start(lane, uses_async_proxy=uses_async_proxy) if self._order else None
        data: list[Bytes] = []

        def signal() -> None:
            if load is not None and bound is not None:
                load.phase = mbarriers.signal(*bound, actor, self._finished(actor))

        stages = [lambda: data.append(read(actor)), lambda: write(actor, data[0]), signal]
        self.machine.asynchrony.submit(Staged(insn, lane, stages))

    def store(self, lane: int, insn: PtxInstruction, read: Read, write: Write) -> None:
        """A copy whose completion the bulk group of `lane` tells."""
        store = BulkCopyStore(insn, lane)
        self._open[lane].append(store)
        actor = self._order.start(lane) if self._order else None
        data: list[Bytes] = []

        def take() -> None:
            data.append(read(actor))
            store.is_read = True
            store.read = self._finished(actor, source_only=True)
            self.machine.progress += 1

        def put() -> None:
            write(actor, data[0])
            store.is_written = True
            store.written = self._finished(actor)
            self.machine.progress += 1

        self.machine.asynchrony.submit(Staged(insn, lane, [take, put]))

    def _finished(self, actor: Actor | None, *, source_only: bool = False) -> Token | None:
        if self._order is None or actor is None:
            return None
        return self._order.finish(actor, source_only=source_only)

    def commit(self, lanes: Lanes) -> None:
        """`cp.async.bulk.commit_group`: the stores of each lane since its last become a group."""
        for lane in lanes.tolist():
            stores = self._open.pop(lane, [])
            if stores or lane in self._groups:
                self._groups[lane].append(stores)

    def are_done(self, lanes: Lanes, pending: int, *, reads_only: bool) -> npt.NDArray[np.bool_]:
        """Whether at most `pending` of each lane's newest groups are not complete, or their sources still read."""
        return np.array(
            [
                all(s.is_read if reads_only else s.is_written for s in self._older(lane, pending, reads_only))
                for lane in lanes.tolist()
            ],
            np.bool_,
        )

    def waited(self, lanes: Lanes, pending: int, *, reads_only: bool) -> None:
        """The lanes have waited for all groups but their `pending` newest, or for their sources."""
        for lane in lanes.tolist():
            for store in self._older(lane, pending, reads_only):
                store.is_source_free = True
                token = store.read if reads_only else store.written
                if token is not None and self._order is not None:
                    self._order.acquire(np.array([lane]), token)
            groups = self._groups.get(lane, [])
            older = max(0, len(groups) - pending)
            if reads_only:
                self._free[lane] = max(self._free[lane], older)
            else:
                del groups[:older]
                self._free[lane] = max(0, self._free[lane] - older)

    def _older(self, lane: int, pending: int, reads_only: bool) -> list[BulkCopyStore]:
        """The stores of all groups of a lane but its `pending` newest; of the sources, those not waited for yet."""
        groups = self._groups.get(lane, [])
        first = self._free[lane] if reads_only else 0
        return [store for group in groups[first : max(0, len(groups) - pending)] for store in group]

    def block_ended(self, slot: int) -> None:
        """Reports loads that nobody waited for, and stores whose source may still be read."""
        for load in self._loads.pop(slot, []):
            if not load.is_observed:
                self.machine.engine(MBarriers).explain_unobserved(load.barrier, load.phase, load.insn)
                self.machine.fault(
                    FaultKind.IN_FLIGHT_AT_EXIT,
                    load.insn,
                    "The block ends while this copy may be under way: no thread waited for its mbarrier's phase. "
                    "Wait with mbarrier.try_wait before the block ends.",
                    lane=load.lane,
                    tensor="shared memory",
                )
        threads = self.machine.threads
        mine = range(slot * threads.pitch, (slot + 1) * threads.pitch)
        for lane in sorted({lane for lane in (*self._groups, *self._open) if lane in mine}):
            self._free.pop(lane, None)
            groups = self._groups.pop(lane, [])
            uncommitted = self._open.pop(lane, [])
            for store in [*(s for g in groups for s in g), *uncommitted]:
                if not store.is_source_free:
                    self.machine.fault(
                        FaultKind.IN_FLIGHT_AT_EXIT,
                        store.insn,
                        "The block ends while this copy may still read its shared memory. "
                        + (
                            "Execute cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 in the thread that "
                            "issued it."
                            if store in uncommitted
                            else "Execute cp.async.bulk.wait_group.read 0 in the thread that issued it."
                        ),
                        lane=store.lane,
                        tensor="shared memory",
                    )
