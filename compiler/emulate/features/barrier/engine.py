"""The sixteen barriers of a block (PTX ISA, "bar", "barrier").

A warp arrives when all of its threads have that have not exited; it counts as 32 threads. A barrier without a count is
complete when every thread of the block has arrived or exited (CUDA guide, "Synchronization Functions", compute
capability 7 and up; PTX ISA, "exit").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.warp.engine import lane_names, warp_words
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.order.order import Token
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP, Lanes

Flags = npt.NDArray[np.bool_]

BARRIERS = 16
"""Barriers of a block, numbered from 0."""

_EVERYONE = -1
"""In place of a count: all threads of the block."""

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Arrival:
    """How an instruction arrives: whether its lanes then wait, and whether whole warps must execute it (`.aligned`)."""

    insn: PtxInstruction
    waits: bool
    is_aligned: bool
    is_reduction: bool = False


class Barriers(Engine):
    """The barriers of the blocks of a batch: who has arrived in the current phase of each, and who waits."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        threads = machine.threads
        self._arrived = np.zeros((BARRIERS, threads.lanes), np.int64)
        self._place = np.zeros((BARRIERS, threads.lanes), np.intp)
        self._expected = np.zeros((BARRIERS, len(threads.blocks)), np.int64)
        self._reduces = np.zeros((BARRIERS, len(threads.blocks)), np.bool_)
        self._at = np.full(threads.lanes, -1)
        self._is_released = np.zeros(threads.lanes, np.bool_)
        self._votes = np.zeros(threads.lanes, np.bool_)
        self._counts = np.zeros((2, threads.lanes), np.int64)
        self._tokens: dict[tuple[int, int], list[Token]] = {}
        self._arrivals: list[Arrival] = []
        self._numbers: dict[int, int] = {}
        self._reported = np.zeros(threads.lanes // WARP, np.bool_)
        self._real = warp_words(threads.thread < threads.threads)
        self._is_open = False
        self._live = len(threads.real)

    # What instructions call.

    def arrive(
        self,
        active: Active,
        arrival: Arrival,
        barriers: npt.NDArray[np.uint32],
        counts: npt.NDArray[np.uint32] | None,
        votes: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Lanes arrive at `barriers`, with a number of threads for each or None; scalars where all are equal.

        Barrier numbers above 15 and counts that are no multiple of 32 are reported, and nobody waits there.
        """
        if votes is not None:
            self._votes[active.lanes] = votes
        stated = counts is not None
        counts = np.zeros((), np.uint32) if counts is None else np.asarray(counts)
        barriers = np.asarray(barriers)
        if (barriers == barriers.flat[0]).all() and (counts == counts.flat[0]).all():
            self._arrive(active, arrival, int(barriers.flat[0]), int(counts.flat[0]) if stated else _EVERYONE)
            return
        which = np.broadcast_to(barriers, len(active))
        number = np.broadcast_to(counts, len(active))
        pairs = np.unique(np.stack([which, number]), axis=1)
        for barrier, count in pairs.T.tolist():
            part = active.where((which == barrier) & (number == count))
            self._arrive(part, arrival, barrier, count if stated else _EVERYONE)

    def released(self, lanes: Lanes) -> Flags:
        """Which of the lanes that wait may go on. Threads that exited meanwhile may have completed barriers."""
        if self._is_open:
            live = int(np.count_nonzero(self.machine.live))
            if live != self._live:
                self._live = live
                for barrier in np.flatnonzero(self._expected.any(axis=1)).tolist():
                    self._complete(barrier, np.flatnonzero(self._expected[barrier]))
        return self._is_released[lanes]

    def leave(self, lanes: Lanes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Released lanes go on: how many threads of the barrier voted for, and how many voted at all."""
        self._is_released[lanes] = False
        return self._counts[0, lanes], self._counts[1, lanes]

    def status(self, lane: int) -> str:
        """What a waiting lane waits for, in words."""
        barrier, slot = int(self._at[lane]), int(self.machine.threads.slot[lane])
        mine = slice(slot * self.machine.threads.pitch, (slot + 1) * self.machine.threads.pitch)
        here = int(np.count_nonzero(self._arrived[barrier, mine]))
        expected = int(self._expected[barrier, slot])
        if expected == _EVERYONE:
            expected = int(np.count_nonzero(self.machine.live[mine]))
        return f"barrier {barrier}, where {here} of {expected} threads have arrived"

    def absent(self, active: Active) -> npt.NDArray[np.uint32]:
        """For each lane, the live lanes of its warp that are not among these: bits."""
        flags = np.zeros(len(self._at), np.bool_)
        flags[active.lanes] = True
        words: npt.NDArray[np.uint32] = warp_words(self.machine.live & ~flags)[active.lanes // WARP]
        return words

    def waiting_elsewhere(self, insn: PtxInstruction) -> list[tuple[PtxInstruction, Lanes]]:
        """The other aligned barrier instructions at which lanes wait."""
        waiting = np.flatnonzero(self._at >= 0)
        places = self._place[self._at[waiting], waiting]
        return [
            (arrival.insn, waiting[places == number])
            for number, arrival in enumerate(self._arrivals)
            if arrival.is_aligned and arrival.insn is not insn and (places == number).any()
        ]

    # Arrival.

    def _arrive(self, active: Active, arrival: Arrival, barrier: int, count: int) -> None:
        if not self._is_valid(active, arrival, barrier, count):
            self._is_released[active.lanes] = True
            return
        if arrival.waits and not self._is_open and self._is_everyone(active, count):
            self._check_exits(active.lanes, arrival)
            self._release(active.lanes, arrival.is_reduction)
            return
        number = self._number(arrival)
        slots = _distinct(active.slots)
        if count > 0 and len(slots) and self._overshoots(active, barrier, count, slots):
            warps = active.lanes // WARP
            if warps[0] != warps[-1]:
                # More warps at once than the phase has room for: the ones after begin the next phase.
                for warp in _distinct(warps).tolist():
                    self._arrive(active.where(warps == warp), arrival, barrier, count)
                return
        self._open(active, arrival, barrier, count, slots)
        self._arrived[barrier, active.lanes] += 1
        self._place[barrier, active.lanes] = number
        if arrival.waits:
            self._at[active.lanes] = barrier
        else:
            for slot in slots.tolist():
                lanes = active.lanes[active.slots == slot]
                self._tokens.setdefault((barrier, slot), []).append(self.machine.order.release(lanes))
        self._complete(barrier, slots)

    def _is_valid(self, active: Active, arrival: Arrival, barrier: int, count: int) -> bool:
        if barrier >= BARRIERS:
            problem = f"Barrier {barrier} does not exist: a block has barriers 0 to {BARRIERS - 1}. Use one of these."
        elif count != _EVERYONE and (count % WARP or count == 0):
            problem = (
                f"The barrier is for {count} threads: the number must be a positive multiple of {WARP}, as whole warps "
                "arrive. Count every warp that takes part in full."
            )
        else:
            return True
        active.fault(FaultKind.INVALID_OPERAND, arrival.insn, problem)
        return False

    def _is_everyone(self, active: Active, count: int) -> bool:
        """Whether these are all the lanes that live, at a barrier for all."""
        if count != _EVERYONE and (count != self.machine.threads.pitch or not active.full):
            return False
        return active.full or len(active) == int(np.count_nonzero(self.machine.live))

    def _number(self, arrival: Arrival) -> int:
        key = id(arrival)
        if key not in self._numbers:
            self._numbers[key] = len(self._arrivals)
            self._arrivals.append(arrival)
        return self._numbers[key]

    def _open(self, active: Active, arrival: Arrival, barrier: int, count: int, slots: npt.NDArray[np.intp]) -> None:
        """Begins the phase where none is under way; elsewhere the operands must be those it began with."""
        expected, pitch = self._expected[barrier], self.machine.threads.pitch
        is_new = expected[slots] == 0
        known = np.where(expected[slots] == _EVERYONE, pitch, expected[slots])
        wanted = pitch if count == _EVERYONE else count
        if (~is_new & (known != wanted)).any():
            slot = int(slots[~is_new & (known != wanted)][0])
            active.fault(
                FaultKind.INVALID_OPERAND,
                arrival.insn,
                f"Barrier {barrier} is used for {wanted} threads here, but it was begun for "
                f"{int(known[slots == slot][0])}: all instructions of a phase must state the same number.",
                active.slots == slot,
            )
        if (~is_new & (self._reduces[barrier, slots] != arrival.is_reduction)).any():
            active.fault(
                FaultKind.INVALID_OPERAND,
                arrival.insn,
                f"Barrier {barrier} is used with and without a reduction in one phase. Use two barriers, or one kind.",
            )
        expected[slots[is_new]] = count
        self._reduces[barrier, slots[is_new]] = arrival.is_reduction
        self._is_open = True

    # Completion.

    def _warps_arrived(self, barrier: int, slots: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
        """How often each warp of the blocks has arrived, (blocks, warps): as often as the laziest of its threads."""
        shape = (-1, self.machine.threads.pitch // WARP, WARP)
        arrived = self._arrived[barrier].reshape(shape)[slots]
        concerned = self.machine.live.reshape(shape)[slots] | (arrived > 0)
        least = np.where(concerned, arrived, _NEVER).min(axis=2)
        result: npt.NDArray[np.int64] = np.where(least == _NEVER, 0, least)
        return result

    def _overshoots(self, active: Active, barrier: int, count: int, slots: npt.NDArray[np.intp]) -> bool:
        self._arrived[barrier, active.lanes] += 1
        total = WARP * self._warps_arrived(barrier, slots).sum(axis=1)
        self._arrived[barrier, active.lanes] -= 1
        return bool((total > count).any())

    def _complete(self, barrier: int, slots: npt.NDArray[np.intp]) -> None:
        """Releases those who wait at a barrier in the blocks where its phase is complete."""
        pitch = self.machine.threads.pitch
        expected = self._expected[barrier, slots]
        arrived = self._arrived[barrier].reshape(-1, pitch)[slots] > 0
        everyone = (arrived | ~self.machine.live.reshape(-1, pitch)[slots]).all(axis=1)
        enough = WARP * self._warps_arrived(barrier, slots).sum(axis=1) >= expected
        done = slots[np.where(expected == _EVERYONE, everyone, enough)]
        if not len(done):
            return
        of_done = np.zeros(len(self._expected[barrier]), np.bool_)
        of_done[done] = True
        lanes = np.flatnonzero((self._arrived[barrier] > 0) & of_done[self.machine.threads.slot])
        self._check_alignment(barrier, lanes, bool((expected == _EVERYONE).any()))
        self._arrived[barrier, lanes] = 0
        self._expected[barrier, done] = 0
        self._is_open = bool(self._expected.any())
        waiting = lanes[self._at[lanes] == barrier]
        self._at[waiting] = -1
        self._release(waiting, bool(self._reduces[barrier, done].any()))
        for slot in done.tolist():
            for token in self._tokens.pop((barrier, slot), ()):
                mine = waiting[self.machine.threads.slot[waiting] == slot]
                if len(mine):
                    self.machine.order.acquire(mine, token)
        self.machine.progress += 1

    def _release(self, lanes: Lanes, with_votes: bool) -> None:
        if not len(lanes):
            return
        slots = self.machine.threads.slot[lanes]
        self._is_released[lanes] = True
        if with_votes:
            self._counts[0, lanes] = np.bincount(slots, self._votes[lanes])[slots]
            self._counts[1, lanes] = np.bincount(slots)[slots]
        self.machine.order.barrier(lanes, slots)

    # Whole warps.

    def _check_exits(self, lanes: Lanes, arrival: Arrival) -> None:
        """All that live have come at once to a barrier for all: what may be wrong is that others went past it."""
        threads = self.machine.threads
        if not arrival.is_aligned or len(lanes) == len(threads.real):
            return
        skipped = self._skipped(lanes)
        if skipped.any():
            here = self._words(lanes)
            past = self._words(np.flatnonzero(skipped))
            for warp in np.flatnonzero((here != 0) & (past != 0)).tolist():
                self._report_part(warp, arrival, int(here[warp]))
            self._report_warps_past(lanes, skipped, arrival)

    def _check_alignment(self, barrier: int, lanes: Lanes, is_for_all: bool) -> None:
        """Reports warps of which only a part came to an aligned instruction.

        Raises Halt where the others came to another one: what the card does then is undefined, and what would be
        reported after it only follows from it. Lanes that have exited leave a barrier that works.
        """
        here = self._words(lanes)
        places = self._place[barrier].reshape(-1, WARP)
        warps = _distinct(lanes // WARP)
        first = places[warps, lanes[np.searchsorted(lanes, warps * WARP)] % WARP]
        differs = ((places[warps] != first[:, None]) & (self._arrived[barrier].reshape(-1, WARP)[warps] > 0)).any(
            axis=1
        )
        skipped = self._skipped(lanes)
        absent = self._words(np.flatnonzero(self.machine.live | skipped)) & ~here
        bad = warps[differs | (absent[warps] != 0)]

        for warp in bad.tolist():
            mine = lanes[lanes // WARP == warp]
            numbers = self._place[barrier, mine]
            aligned = [n for n in np.unique(numbers).tolist() if self._arrivals[n].is_aligned]
            if aligned:
                chosen = min(aligned, key=lambda n: self._arrivals[n].insn.ptx_line)
                self._report_part(warp, self._arrivals[chosen], int(self._words(mine[numbers == chosen])[warp]))
                if len(numbers) != np.count_nonzero(numbers == chosen):
                    raise Halt
        if is_for_all and skipped.any():
            arrivals = [self._arrivals[n] for n in np.unique(self._place[barrier, lanes]).tolist()]
            self._report_warps_past(lanes, skipped, arrivals[0])

    def _skipped(self, lanes: Lanes) -> Flags:
        """Which threads have exited after doing other work while the first of `lanes`, in their block, stood waiting.

        Threads that only return early are none: since compute capability 7 a barrier is for those that have not exited
        (CUDA guide, "Independent Thread Scheduling"). Those that had work behind the barrier went past it.
        """
        machine, threads = self.machine, self.machine.threads
        since = np.full(len(threads.blocks), _NEVER)
        np.minimum.at(since, threads.slot[lanes], machine.came[lanes])
        skipped: Flags = ~machine.live & (machine.last_ran > since[threads.slot])
        return skipped

    def _report_warps_past(self, lanes: Lanes, skipped: Flags, arrival: Arrival) -> None:
        """Reports whole warps that went past a barrier that is for all threads of the block."""
        threads = self.machine.threads
        whole = ~self._words(lanes).astype(np.bool_) & self._words(np.flatnonzero(skipped)).astype(np.bool_)
        for warp in np.flatnonzero(whole).tolist():
            mine = lanes[threads.slot[lanes] == warp * WARP // threads.pitch]
            if not len(mine) or self._reported[int(mine[0]) // WARP]:
                continue
            self._reported[int(mine[0]) // WARP] = True
            self.machine.fault(
                FaultKind.DIVERGENT_COLLECTIVE,
                arrival.insn,
                f"Warp {warp % (threads.pitch // WARP)} went past this barrier, which is for all threads of the block. "
                "Its condition must be the same for the whole block: take it out of the branch, or use a named barrier "
                "with the number of threads that come.",
                lane=int(mine[0]),
            )

    def _report_part(self, warp: int, arrival: Arrival, here: int) -> None:
        """Reports a warp of which only the lanes `here` (bits) came; once, as what follows from it is no new fault."""
        if self._reported[warp]:
            return
        self._reported[warp] = True
        others = int(self._real[warp]) & ~here
        exited = others & ~int(warp_words(self.machine.live)[warp])
        where = "have exited" if exited == others else "went another way"
        self.machine.fault(
            FaultKind.DIVERGENT_COLLECTIVE,
            arrival.insn,
            f"Only {lane_names(here)} of a warp came to this barrier; {lane_names(others)} {where}. All threads of a "
            "warp must execute it together: take it out of the branch or the loop, or let threads without work skip "
            "that work and not the barrier.",
            lane=warp * WARP + (here & -here).bit_length() - 1,
        )

    def _words(self, lanes: Lanes) -> npt.NDArray[np.uint32]:
        flags = np.zeros(len(self._at), np.bool_)
        flags[lanes] = True
        return warp_words(flags)


def _distinct(ascending: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Each value once."""
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    found: npt.NDArray[np.intp] = ascending[is_first]
    return found
