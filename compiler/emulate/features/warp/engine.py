"""Lanes of a warp that wait for one another: who is here, who is missing, who has exited.

PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync", "bar.warp.sync": an instruction with a
member mask waits for all lanes that the mask names, which must come with the same mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

Words = npt.NDArray[np.uint32]
"""A bit a lane of a warp."""

ALL = 0xFFFFFFFF
"""The mask of a whole warp."""


def warp_words(flags: npt.NDArray[np.bool_]) -> Words:
    """A word a warp from a flag a lane."""
    packed: Words = np.packbits(flags.reshape(-1, WARP), axis=-1, bitorder="little").view("<u4")[:, 0]
    return packed


def lane_names(word: int) -> str:
    """The lanes whose bits are set: "lanes 0-7, 31"."""
    lanes = [lane for lane in range(WARP) if word >> lane & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and runs[-1][-1] == lane - 1:
            runs[-1] = [runs[-1][0], lane]
        else:
            runs.append([lane])
    names = ", ".join("-".join(map(str, run)) for run in runs)
    return f"lane {names}" if len(lanes) == 1 else f"lanes {names}"


class WarpEngine(Engine):
    """The warps of a batch, and where lanes wait for others of their warp."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        count = machine.threads.lanes
        self.bits: Words = np.left_shift(np.uint32(1), (np.arange(count) % WARP).astype(np.uint32))
        self.real = warp_words(machine.threads.thread < machine.threads.threads)
        self.starts = np.arange(0, count, WARP)
        self._waiting: dict[int, tuple[PtxInstruction, Lanes]] = {}

    def words(self, lanes: Lanes) -> Words:
        """A word a warp, with the bits of these lanes."""
        flags = np.zeros(len(self.bits), np.bool_)
        flags[lanes] = True
        return warp_words(flags)

    def missing(self, lanes: Lanes) -> Words:
        """For each of the lanes, which live lanes of its warp are not among them."""
        absent: Words = (warp_words(self.machine.live) & ~self.words(lanes))[lanes // WARP]
        return absent

    def skipped(self, lanes: Lanes) -> Words:
        """For each of the lanes, which of its warp exited after doing other work while the first of `lanes` waited.

        An instruction waits for the lanes of its mask that have not exited (PTX ISA, "shfl.sync"), so that an early
        return is none of these.
        """
        machine = self.machine
        since = np.full(len(self.starts), np.iinfo(np.int64).max)
        np.minimum.at(since, lanes // WARP, machine.came[lanes])
        words: Words = warp_words(~machine.live & (machine.last_ran > np.repeat(since, WARP)))[lanes // WARP]
        return words

    def note(self, insn: PtxInstruction, lanes: Lanes, free: npt.NDArray[np.bool_]) -> None:
        """Of the lanes that stand at an instruction all but `free` have to go on waiting."""
        if not free.all():
            self._waiting[id(insn)] = (insn, lanes[~free])
        elif self._waiting:
            self._waiting.pop(id(insn), None)

    def waiting_elsewhere(self, insn: PtxInstruction) -> list[tuple[PtxInstruction, Lanes]]:
        """The other instructions of this kind at which lanes wait."""
        return [entry for key, entry in self._waiting.items() if key != id(insn)]


def are_whole_warps(lanes: Lanes) -> bool:
    """Whether ascending lanes are warps of 32, each complete."""
    if len(lanes) % WARP or not len(lanes):
        return False
    rows = lanes.reshape(-1, WARP)
    return bool(((rows[:, 0] % WARP == 0) & (rows[:, -1] - rows[:, 0] == WARP - 1)).all())


class Gathering:
    """Lanes that go through a collective together, in groups: those of one warp with one mask.

    `bits` and `words` have an element a lane: its own bit, and those of all lanes of its group. `is_whole`: complete
    warps, and every mask names the whole warp.
    """

    def __init__(self, active: Active, masks: npt.NDArray[Any]) -> None:
        self.active = active
        self.masks = masks
        warps = active.machine.engine(WarpEngine)
        lanes = active.lanes
        self.is_whole = bool((masks == ALL).all()) and (active.full or are_whole_warps(lanes))
        self._sorting: npt.NDArray[np.intp] | None = None
        if self.is_whole:
            self.bits = warps.bits[: len(lanes)]
            self.groups = active.machine.threads.warp[: len(lanes)]
            self._starts = warps.starts[: len(lanes) // WARP]
            return
        self.bits = warps.bits[lanes]
        keys = lanes // WARP
        if masks.ndim and (masks != masks[0]).any():
            keys = (keys.astype(np.int64) << 32) | masks.astype(np.int64)
            self._sorting = np.argsort(keys, kind="stable")
            keys = keys[self._sorting]
        is_first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        self._starts = np.flatnonzero(is_first)
        self.groups = np.cumsum(is_first) - 1
        """The number of each lane's group."""
        if self._sorting is not None:
            unsorted = np.empty_like(self.groups)
            unsorted[self._sorting] = self.groups
            self.groups = unsorted

    @property
    def words(self) -> Words:
        """For each lane, the bits of the lanes of its group."""
        return self.reduce(np.bitwise_or, self.bits)

    def reduce(self, function: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`function` over the values of each group, for every lane of it."""
        ordered = values if self._sorting is None else values[self._sorting]
        found: npt.NDArray[Any] = function.reduceat(ordered, self._starts, dtype=values.dtype)[self.groups]
        return found

    def check(self, insn: PtxInstruction) -> None:
        """Reports lanes that their own mask leaves out, that the mask names but that have exited, and unequal masks."""
        if self.is_whole:
            return
        active, masks = self.active, self.masks
        warps = active.machine.engine(WarpEngine)
        outside = (masks & self.bits) == 0
        if outside.any():
            self._fault(
                insn,
                outside,
                "Lane {lane} executes this, but its mask {mask:#010x} does not name it: its result is undefined. Name "
                "every lane that comes here, as __ballot_sync before the branch or a constant does.",
            )
        here = warps.words(active.lanes)[active.lanes // WARP]
        gone = masks & warps.real[active.lanes // WARP] & ~here
        if gone.any():
            gone = gone & warps.skipped(active.lanes)
        if gone.any():
            self._fault(
                insn,
                gone != 0,
                "The mask {mask:#010x} names {others}, which did not come here and have exited: only {here} did. Name "
                "the lanes that come, or let all of them come: a branch or an early return left some out.",
                gone,
                here,
            )
        uneven = (masks & here) & ~self.words
        if uneven.any():
            self._fault(
                insn,
                uneven != 0,
                "The mask {mask:#010x} names {others}, which came here with another mask. Lanes that exchange values "
                "must all give the same mask.",
                uneven,
            )

    def _fault(
        self,
        insn: PtxInstruction,
        bad: npt.NDArray[np.bool_],
        message: str,
        others: npt.NDArray[Any] | None = None,
        here: npt.NDArray[Any] | None = None,
    ) -> None:
        count = len(self.active)
        flags = np.broadcast_to(bad, count)
        first = int(np.flatnonzero(flags)[0])
        text = message.format(
            lane=int(self.active.lanes[first]) % WARP,
            mask=int(np.broadcast_to(self.masks, count)[first]),
            others="" if others is None else lane_names(int(others[first])),
            here="" if here is None else lane_names(int(here[first])),
        )
        self.active.fault(FaultKind.DIVERGENT_COLLECTIVE, insn, text, flags)


class WarpBarriers(Engine):
    """`bar.warp.sync`: lanes wait until all that their mask names wait at any such instruction, with the same mask."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        count = machine.threads.lanes
        self._masks = np.zeros(count, np.uint32)
        self._is_waiting = np.zeros(count, np.bool_)
        self._is_released = np.zeros(count, np.bool_)
        self._waiting = 0

    def arrive(self, active: Active, masks: npt.NDArray[Any]) -> None:
        """Lanes come to wait, each with its mask (or all with one). Whole warps go on at once."""
        lanes = active.lanes
        if (masks == ALL).all() and (active.full or are_whole_warps(lanes)):
            self._is_released[lanes] = True
            self.machine.order.barrier(lanes, lanes // WARP)
            return
        self._masks[lanes] = masks
        self._is_waiting[lanes] = True
        self._waiting += len(lanes)

    def released(self, lanes: Lanes, insn: PtxInstruction) -> npt.NDArray[np.bool_]:
        """Which of these lanes, which came to `insn`, may go on."""
        if self._waiting:
            self._release(insn)
        return self._is_released[lanes]

    def leave(self, lanes: Lanes) -> None:
        """Released lanes go on."""
        self._is_released[lanes] = False

    def absent(self, lanes: Lanes) -> Words:
        """For each of these waiting lanes, the live lanes that its mask names and that do not wait with that mask."""
        waiting = np.flatnonzero(self._is_waiting)
        found = np.zeros(len(self._masks), np.uint32)
        found[waiting] = self._missing(waiting, Gathering(Active(self.machine, waiting), self._masks[waiting]))
        return found[lanes]

    def _missing(self, lanes: Lanes, gathering: Gathering) -> Words:
        missing: Words = warp_words(self.machine.live)[lanes // WARP] & self._masks[lanes] & ~gathering.words
        return missing

    def _release(self, insn: PtxInstruction) -> None:
        lanes = np.flatnonzero(self._is_waiting)
        is_complete = self._missing(lanes, Gathering(Active(self.machine, lanes), self._masks[lanes])) == 0
        free = lanes[is_complete]
        if not len(free):
            return
        self._is_waiting[free] = False
        self._is_released[free] = True
        self._waiting -= len(free)
        gathering = Gathering(Active(self.machine, free), self._masks[free])
        gathering.check(insn)
        self.machine.order.barrier(free, gathering.groups)
