"""Runs a batch of blocks: groups of lanes that stand at one instruction take turns until all have exited."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.deadlock import report_deadlock
from compiler.emulate.launch import Completion
from compiler.emulate.machine import Machine
from compiler.emulate.program import BasicBlock, BoundProgram, Branch, Exit, Wait
from compiler.emulate.report import FaultKind, Halt, LimitMet
from compiler.emulate.threads import WARP, Lanes

_SPINS = 200
"""Turns that waiting loops get without anything happening before the run counts as stuck: loops may count tries."""

_PATIENCE = 64
"""Turns without progress after which a group that comes round unchanged is taken for a waiting loop."""


class Starved(Exception):
    """Nothing can go on, but blocks of the grid have not started: they may be what is waited for."""


class Turns:
    """The run of a batch through a program. `spent`: warp instructions executed so far.

    `is_whole_grid`: there are no other blocks that these may wait for.
    """

    def __init__(self, machine: Machine, program: BoundProgram, *, is_whole_grid: bool) -> None:
        threads = machine.threads
        self._machine, self._program = machine, program
        self._asynchrony = machine.asynchrony
        self.spent = 0
        self._time = 0
        self._ready: dict[int, Lanes] = {0: threads.real}
        self._parked: dict[int, Lanes] = {}
        self._living = len(threads.real)
        self._living_of_warp = np.bincount(threads.real // WARP, minlength=threads.lanes // WARP)
        self._seen: dict[int, tuple[int, list[npt.NDArray[Any]]]] = {}
        self._quiet = 0
        self._spins = 0
        self._is_whole_grid = is_whole_grid

    def run(self) -> None:
        """Runs all blocks to their end. Raises Halt when a reported fault ends the run, Starved (see there)."""
        while self._turn():
            pass
        while self._asynchrony.step():
            pass
        self._machine.order.flush()

    def _turn(self) -> bool:
        self._asynchrony.maybe_step()
        pc = self._pick()
        if pc is not None:
            self._quiet += 1
            self._run_block(pc, self._taken(pc))
            return True
        if not self._ready and not self._parked:
            return False
        if self._poll():
            return True
        if self._asynchrony.step():
            self._happened()
            return True
        if self._ready and self._spins < _SPINS:
            self._spins += 1
            self._machine.rouse()
            return True
        self._stuck()
        return bool(self._ready or self._parked)

    def _happened(self) -> None:
        self._machine.progress += 1
        self._spins = 0

    def _pick(self) -> int | None:
        """The group to run: the first in the order of positions, or any in random order, that does not wait."""
        able = [pc for pc, lanes in self._ready.items() if not self._machine.waits(lanes)]
        if not able:
            return None
        if self._asynchrony.completion is Completion.RANDOM:
            return self._asynchrony.random.choice(able)
        position = self._program.position
        return min(able, key=lambda pc: position[pc])

    def _taken(self, pc: int) -> Lanes:
        """The lanes of a group that go on now: those of warps that do not sleep. The others stay where they stand."""
        lanes = self._ready.pop(pc)
        going, staying = self._machine.woken(lanes)
        if len(staying):
            self._ready[pc] = staying
        return going

    def _run_block(self, pc: int, lanes: Lanes) -> None:
        before = self._machine.progress
        while True:
            block = self._program.blocks.get(pc)
            if block is None:  # past the last instruction: as if there were a ret
                self._leave(lanes)
                break
            self._count(block, lanes)
            active = Active(self._machine, lanes)
            self._time += 1
            if block.plain:
                self._machine.last_ran[lanes] = self._time
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
        if self._machine.progress != before:
            self._quiet, self._spins = 0, 0
            self._seen.clear()

    def _count(self, block: BasicBlock, lanes: Lanes) -> None:
        warps = 1 + int(np.count_nonzero(np.diff(lanes // WARP))) if len(lanes) else 0
        divergent = self._partial(lanes)
        for name, number in block.classes:
            self._machine.counters.instructions(name, number * warps, number * len(lanes), number * divergent)
        executed = warps * (block.stop - block.start)
        self.spent += executed
        most = self._machine.options.max_instructions
        if self.spent > most:
            insn = self._program.function.instructions[block.start]
            self._machine.fault(
                FaultKind.DEADLOCK,
                insn,
                f"The kernel did not end within {most} warp instructions; here it was. "
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
        state = [lanes, *(r[lanes] for r in self._machine.registers)]
        known = self._seen.get(pc)
        if known is not None and known[0] == self._machine.progress and _are_equal(known[1], state):
            self._machine.stall(lanes)
            return
        self._seen[pc] = (self._machine.progress, state)

    def _arrive(self, wait: Wait, pc: int, active: Active) -> None:
        lanes = active.lanes
        if wait.guard is not None:
            held = _flags(wait.guard(active), len(lanes))
            self._go(pc + 1, lanes[~held])
            lanes = lanes[held]
            if not len(lanes):
                return
            active = Active(self._machine, lanes)
        self._machine.came[lanes] = self._time
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
        free = step.ready(Active(self._machine, lanes))
        if free.all():
            going = lanes
        else:
            self._parked[pc] = lanes[~free]
            going = lanes[free]
        if not len(going):
            return False
        self._happened()
        step.finish(Active(self._machine, going))
        self._go(pc + 1, going)
        return True

    def _wait_at(self, pc: int) -> Wait:
        end = self._program.blocks[pc].end
        assert isinstance(end, Wait)
        return end

    def _leave(self, lanes: Lanes) -> None:
        if not len(lanes):
            return
        self._happened()
        self._machine.live[lanes] = False
        slots, counts = np.unique(self._machine.threads.slot[lanes], return_counts=True)
        self._machine.left[slots] -= counts
        self._living -= len(lanes)
        self._living_of_warp -= np.bincount(lanes // WARP, minlength=len(self._living_of_warp))
        for slot in slots[self._machine.left[slots] == 0].tolist():
            for engine in self._machine.engines:
                engine.block_ended(slot)

    def _stuck(self) -> None:
        """Nothing can go on: says why, and ends the run."""
        if not self._is_whole_grid:
            raise Starved
        for engine in self._machine.engines:
            engine.explain_stuck()
        explained = [self._wait_at(pc).step.stuck(Active(self._machine, lanes)) for pc, lanes in self._parked.items()]
        if not any(explained):
            report_deadlock(self._machine, self._program, self._parked, self._ready)
        raise Halt


def _are_equal(before: list[npt.NDArray[Any]], now: list[npt.NDArray[Any]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(before, now, strict=True))


def _flags(values: npt.NDArray[Any], count: int) -> npt.NDArray[np.bool_]:
    return np.broadcast_to(values, count) if values.ndim == 0 else values
