"""Runs a batch of blocks: groups of lanes that stand at one instruction take turns until all have exited."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.asynchrony import Asynchrony
from compiler.emulate.counters import Counters
from compiler.emulate.deadlock import report_deadlock
from compiler.emulate.engine import Engine
from compiler.emulate.launch import Completion, Launch, Options
from compiler.emulate.memory.memory import Memory
from compiler.emulate.memory.places import AddressMap
from compiler.emulate.memory.region import MemoryRegion, Offsets
from compiler.emulate.order.order import Order
from compiler.emulate.program import BasicBlock, BoundProgram, Branch, Exit, Wait
from compiler.emulate.ptx.module import Function, PtxInstruction
from compiler.emulate.report import FaultKind, Halt, LimitMet, Report
from compiler.emulate.threads import WARP, Lanes, Threads

E = TypeVar("E", bound=Engine)

_SPINS = 200
"""Turns that waiting loops get without anything happening before the run counts as stuck: loops may count tries."""

_PATIENCE = 64
"""Turns without progress after which a group that comes round unchanged is taken for a waiting loop."""


class Starved(Exception):
    """Nothing can go on, but blocks of the grid have not started: they may be what is waited for."""


class Machine:
    """One batch of blocks. `live`: lanes that have not exited (padding lanes never live).

    `progress` goes up whenever something happened that waiting lanes may wait for; lanes that `sleep` wait for `wake`.
    `registers` has an array a register, see `binder`; `origins` says of a register without a value where it was first
    computed with, see `unassigned`.
    `last_ran`, `came`: when, in turns, each lane last executed more than a branch or exit, and last came to wait.
    """

    def __init__(
        self,
        program: BoundProgram,
        launch: Launch,
        options: Options,
        threads: Threads,
        report: Report,
        counters: Counters,
        order: Order,
        addresses: AddressMap,
        asynchrony: Asynchrony,
        is_whole_grid: bool,
    ) -> None:
        self.program, self.launch, self.options, self.threads = program, launch, options, threads
        self.report, self.counters, self.order, self.asynchrony = report, counters, order, asynchrony
        self.memory = Memory(self, addresses)
        self.progress = 0
        self.live = threads.thread < threads.threads
        self.registers: list[npt.NDArray[Any]] = [_blank(r.type, threads.lanes) for r in program.function.registers]
        self.spent = 0
        self.last_ran = np.zeros(threads.lanes, np.int64)
        self.came = np.zeros(threads.lanes, np.int64)
        self._time = 0
        self.origins: dict[int, PtxInstruction] = {}
        self._known = {index: np.zeros(threads.lanes, np.uint16) for index in program.checked}
        self._engines: dict[type[Engine], Engine] = {}
        self._watchers: list[Engine] = []
        self._ready: dict[int, Lanes] = {0: threads.real}
        self._parked: dict[int, Lanes] = {}
        self._left = np.full(len(threads.blocks), threads.threads)
        self._living = len(threads.real)
        self._living_of_warp = np.bincount(threads.real // WARP, minlength=threads.lanes // WARP)
        self._stalled = np.full(threads.lanes, -1)
        self._asleep = np.zeros(threads.lanes, np.bool_)
        self._seen: dict[int, tuple[int, list[npt.NDArray[Any]]]] = {}
        self._quiet = 0
        self._spins = 0
        self._is_whole_grid = is_whole_grid

    # What instructions and engines ask for.

    @property
    def function(self) -> Function:
        """The kernel."""
        return self.program.function

    def engine(self, kind: type[E]) -> E:
        """The engine of a class, made when first asked for."""
        found = self._engines.get(kind)
        if found is None:
            found = self._engines[kind] = kind(self)
            if kind.shared_access is not Engine.shared_access:
                self._watchers.append(found)
        assert isinstance(found, kind)
        return found

    def known_bytes(self, register: int) -> npt.NDArray[np.uint16]:
        """By lane, the bytes of a register that have values, as bits: `WHOLE` if all have. Kept for registers that some
        path reads unwritten."""
        return self._known[register]

    def stall(self, lanes: Lanes) -> None:
        """These lanes found nothing yet (a try_wait that failed, a nanosleep): others take their turn first."""
        self._stalled[lanes] = self.progress

    def sleep(self, lanes: Lanes) -> None:
        """These lanes found an mbarrier's phase incomplete: the hardware may suspend them until it is complete, or for
        a time of its own choice (PTX ISA, "mbarrier.try_wait"). Here until `wake`, or until nothing else can go on."""
        self._asleep[lanes] = True

    def wake(self, lanes: Lanes) -> None:
        """What these lanes may have found incomplete is complete."""
        self._asleep[lanes] = False

    def has_ended(self, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Whether all threads of the block in each slot have exited."""
        ended: npt.NDArray[np.bool_] = self._left[slots] == 0
        return ended

    def touch_shared(
        self, active: Active, insn: PtxInstruction, region: MemoryRegion, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Tells the engines that watch shared memory of an ordinary access."""
        for engine in self._watchers:
            engine.shared_access(active, insn, offsets, nbytes, is_store)

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

    # The run.

    def run(self) -> None:
        """Runs all blocks to their end. Raises Halt when a reported fault ends the run, Starved (see there)."""
        while self._turn():
            pass
        while self.asynchrony.step():
            pass
        self.order.flush()

    def _turn(self) -> bool:
        self.asynchrony.maybe_step()
        pc = self._pick()
        if pc is not None:
            self._quiet += 1
            self._run_block(pc, self._taken(pc))
            return True
        if not self._ready and not self._parked:
            return False
        if self._poll():
            return True
        if self.asynchrony.step():
            self._happened()
            return True
        if self._ready and self._spins < _SPINS:
            self._spins += 1
            self._stalled[:] = -1
            self._asleep[:] = False
            return True
        self._stuck()
        return bool(self._ready or self._parked)

    def _happened(self) -> None:
        self.progress += 1
        self._spins = 0

    def _pick(self) -> int | None:
        """The group to run: the first in the order of positions, or any in random order, that does not wait."""
        able = [pc for pc, lanes in self._ready.items() if not self._waits(lanes)]
        if not able:
            return None
        if self.asynchrony.completion is Completion.RANDOM:
            return self.asynchrony.random.choice(able)
        position = self.program.position
        return min(able, key=lambda pc: position[pc])

    def _waits(self, lanes: Lanes) -> bool:
        return bool(self._asleep[lanes].all() or (self._stalled[lanes] == self.progress).any())

    def _taken(self, pc: int) -> Lanes:
        """The lanes of a group that go on now: those of warps that do not sleep. The others stay where they stand."""
        lanes = self._ready.pop(pc)
        asleep = self._asleep[lanes]
        if not asleep.any():
            return lanes
        warps = lanes // WARP
        goes = np.isin(warps, warps[~asleep])
        going = lanes[goes]
        if not goes.all():
            self._ready[pc] = lanes[~goes]
        self._asleep[going] = False
        return going

    def _run_block(self, pc: int, lanes: Lanes) -> None:
        before = self.progress
        while True:
            block = self.program.blocks.get(pc)
            if block is None:  # past the last instruction: as if there were a ret
                self._leave(lanes)
                break
            self._count(block, lanes)
            active = Active(self, lanes)
            self._time += 1
            if block.plain:
                self.last_ran[lanes] = self._time
            for step in block.plain:
                step(active)
            match block.end:
                case None:
                    pc = block.stop
                case Branch() as branch:
                    self._branch(branch, active, block.stop)
                    break
                case Exit(_, guard):
                    gone = np.ones(len(lanes), np.bool_) if guard is None else _flags(guard(active), len(lanes))
                    self._leave(lanes[gone])
                    self._go(block.stop, lanes[~gone])
                    break
                case Wait() as wait:
                    self._arrive(wait, pc, active)
                    break
            if pc in self._ready or len(self._ready) > 0:
                self._go(pc, lanes)
                break
        if self.progress != before:
            self._quiet, self._spins = 0, 0
            self._seen.clear()

    def _count(self, block: BasicBlock, lanes: Lanes) -> None:
        warps = 1 + int(np.count_nonzero(np.diff(lanes // WARP))) if len(lanes) else 0
        divergent = self._partial(lanes)
        for name, number in block.classes:
            self.counters.instructions(name, number * warps, number * len(lanes), number * divergent)
        executed = warps * (block.stop - block.start)
        self.spent += executed
        if self.spent > self.options.max_instructions:
            insn = self.function.instructions[block.start]
            self.fault(
                FaultKind.DEADLOCK,
                insn,
                f"The kernel did not end within {self.options.max_instructions} warp instructions; here it was. "
                "Check the loop's condition, or raise the limit.",
                lane=int(lanes[0]),
            )
            raise LimitMet

    def _partial(self, lanes: Lanes) -> int:
        """The warps of which not all threads that live are among `lanes`."""
        if len(lanes) == self._living:
            return 0
        here = np.bincount(lanes // WARP, minlength=len(self._living_of_warp))
        return int(np.count_nonzero((here > 0) & (here < self._living_of_warp)))

    def _branch(self, branch: Branch, active: Active, after: int) -> None:
        lanes = active.lanes
        if branch.index is not None:
            index = np.broadcast_to(branch.index(active), len(lanes))
            for value in np.unique(index).tolist():
                self._go(branch.targets[min(value, len(branch.targets) - 1)], lanes[index == value])
            return
        if branch.guard is None:
            self._go(branch.targets[0], lanes)
            return
        taken = _flags(branch.guard(active), len(lanes))
        count = int(np.count_nonzero(taken))
        if count == len(lanes):
            self._go(branch.targets[0], lanes)
        elif count == 0:
            self._go(after, lanes)
        else:
            self._go(branch.targets[0], lanes[taken])
            self._go(after, lanes[~taken])

    def _go(self, pc: int, lanes: Lanes) -> None:
        """Lanes come to stand before an instruction, and join those already there."""
        if not len(lanes):
            return
        there = self._ready.get(pc)
        lanes = lanes if there is None else np.sort(np.concatenate([there, lanes]))
        self._ready[pc] = lanes
        if self._quiet >= _PATIENCE and self._quiet % _PATIENCE < 8:
            self._watch(pc, lanes)

    def _watch(self, pc: int, lanes: Lanes) -> None:
        """Marks a group that comes round with all registers as they were, nothing having happened: a waiting loop."""
        state = [lanes, *(r[lanes] for r in self.registers)]
        known = self._seen.get(pc)
        if known is not None and known[0] == self.progress and _are_equal(known[1], state):
            self.stall(lanes)
            return
        self._seen[pc] = (self.progress, state)

    def _arrive(self, wait: Wait, pc: int, active: Active) -> None:
        lanes = active.lanes
        if wait.guard is not None:
            held = _flags(wait.guard(active), len(lanes))
            self._go(pc + 1, lanes[~held])
            lanes = lanes[held]
            if not len(lanes):
                return
            active = Active(self, lanes)
        self.came[lanes] = self._time
        wait.step.arrive(active)
        there = self._parked.get(pc)
        self._parked[pc] = lanes if there is None else np.sort(np.concatenate([there, lanes]))
        self._release(pc)

    def _poll(self) -> bool:
        """Lets lanes go on that stand at collectives; True if any did."""
        freed = [self._release(pc) for pc in tuple(self._parked)]
        return any(freed)

    def _release(self, pc: int) -> bool:
        lanes = self._parked.pop(pc)
        step = self._wait_at(pc).step
        free = step.ready(Active(self, lanes))
        if free.all():
            going = lanes
        else:
            self._parked[pc] = lanes[~free]
            going = lanes[free]
        if not len(going):
            return False
        self._happened()
        step.finish(Active(self, going))
        self._go(pc + 1, going)
        return True

    def _wait_at(self, pc: int) -> Wait:
        end = self.program.blocks[pc].end
        assert isinstance(end, Wait)
        return end

    def _leave(self, lanes: Lanes) -> None:
        if not len(lanes):
            return
        self._happened()
        self.live[lanes] = False
        slots, counts = np.unique(self.threads.slot[lanes], return_counts=True)
        self._left[slots] -= counts
        self._living -= len(lanes)
        self._living_of_warp -= np.bincount(lanes // WARP, minlength=len(self._living_of_warp))
        for slot in slots[self._left[slots] == 0].tolist():
            for engine in tuple(self._engines.values()):
                engine.block_ended(slot)

    def _stuck(self) -> None:
        """Nothing can go on: says why, and ends the run."""
        if not self._is_whole_grid:
            raise Starved
        for engine in tuple(self._engines.values()):
            engine.explain_stuck()
        explained = [self._wait_at(pc).step.stuck(Active(self, lanes)) for pc, lanes in self._parked.items()]
        if not any(explained):
            report_deadlock(self, self._parked, self._ready)
        raise Halt


def _are_equal(before: list[npt.NDArray[Any]], now: list[npt.NDArray[Any]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, now, strict=True))


def _flags(values: npt.NDArray[Any], count: int) -> npt.NDArray[np.bool_]:
    return np.broadcast_to(values, count) if values.ndim == 0 else values


def _blank(kind: str, lanes: int) -> npt.NDArray[Any]:
    if kind == "pred":
        return np.zeros(lanes, np.bool_)
    nbits = int(kind.lstrip("bsuf"))
    return np.zeros((lanes, 2), np.uint64) if nbits == 128 else np.zeros(lanes, f"u{nbits // 8}")


__all__ = ["Engine", "Machine", "Starved"]
