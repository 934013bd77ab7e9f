"""A batch of blocks as memory sees it: its lanes, what they have done so far, and to whom it is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from compiler.emulate.asynchrony import Asynchrony
from compiler.emulate.counters import Counters
from compiler.emulate.launch import Launch, Options
from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.order import Order
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind, Report
from compiler.emulate.threads import Lanes, Threads


class Batch:
    """Blocks that run together. `live`: lanes that have not exited (padding lanes never live); `left`: how many those
    are, by slot.

    `progress` goes up whenever something happened that waiting lanes may wait for.
    `watchers` are told of ordinary accesses to shared memory.
    """

    def __init__(
        self,
        launch: Launch,
        options: Options,
        threads: Threads,
        report: Report,
        counters: Counters,
        order: Order,
        asynchrony: Asynchrony,
    ) -> None:
        self.launch, self.options, self.threads = launch, options, threads
        self.report, self.counters, self.order, self.asynchrony = report, counters, order, asynchrony
        self.live = threads.thread < threads.threads
        self.left = np.full(len(threads.blocks), threads.threads)
        self.progress = 0
        self.watchers: list[SharedWatcher] = []

    def has_ended(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Whether all threads of the block in each slot have exited."""
        ended: npt.NDArray[np.bool_] = self.left[slots] == 0
        return ended

    def touch_shared(
        self, group: LaneGroup[Batch], insn: PtxInstruction, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Tells those who watch shared memory of an ordinary access."""
        for watch in self.watchers:
            watch(group, insn, offsets, nbytes, is_store)

    def fault(
        self,
        kind: FaultKind,
        insn: PtxInstruction,
        message: str,
        *,
        lane: int | None = None,
        address: int | None = None,
        tensor: str | None = None,
        count: int = 1,
    ) -> None:
        """Reports a fault of a lane."""
        threads = self.threads
        self.report.add(
            kind,
            insn,
            message,
            block=None if lane is None else threads.block_index(int(threads.slot[lane])),
            thread=None if lane is None else threads.thread_index(lane),
            address=address,
            tensor=tensor,
            count=count,
        )


B_co = TypeVar("B_co", bound=Batch, covariant=True)


class LaneGroup(Generic[B_co]):
    """Lanes at one instruction; `machine` is the batch that they are of.

    `full`: they are all the lanes of the batch, so that registers are used as they lie, without gathering.
    """

    __slots__ = ("full", "lanes", "machine")

    def __init__(self, machine: B_co, lanes: Lanes) -> None:
        self.machine = machine
        self.lanes = lanes
        self.full = len(lanes) == machine.threads.lanes

    def __len__(self) -> int:
        return len(self.lanes)

    def where(self, mask: npt.NDArray[np.bool_]) -> Self:
        """Those of these lanes where `mask`, one flag for each of them, is set."""
        return self if mask.all() else self.at(mask)

    def at(self, which: npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> Self:
        """Those of these lanes that stand at the positions `which`, or where it is set."""
        return type(self)(self.machine, self.lanes[which])

    @property
    def slots(self) -> npt.NDArray[np.intp]:
        """The slot of the block of each lane."""
        return self.machine.threads.slot[self.lanes]

    def fault(
        self,
        kind: FaultKind,
        insn: PtxInstruction,
        message: str,
        bad: npt.NDArray[np.bool_] | None = None,
        addresses: npt.NDArray[np.generic] | np.generic | None = None,
        tensor: str | None = None,
    ) -> None:
        """Reports a fault of the lanes where `bad` is set (default: all); the first is named, with its address."""
        which = np.flatnonzero(bad) if bad is not None else np.arange(len(self.lanes))
        if len(which):
            first = which[0]
            self.machine.fault(
                kind,
                insn,
                message,
                lane=int(self.lanes[first]),
                address=None if addresses is None else int(np.broadcast_to(addresses, len(self.lanes))[first]),
                tensor=tensor,
                count=len(which),
            )


SharedWatcher = Callable[[LaneGroup[Batch], PtxInstruction, Offsets, int, bool], None]
"""Told of the lanes, the instruction, offsets into the data of shared memory, bytes at each, whether it is a store."""
