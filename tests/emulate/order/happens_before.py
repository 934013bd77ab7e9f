"""Happens-before spelled out: a graph of events, every pair of accesses held against it. The oracle of the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from compiler.emulate.memory.region import MemoryRegion
from compiler.emulate.order.order import Access
from compiler.emulate.ptx.module import PtxInstruction, SourceLine, StateSpace


def instruction(number: int, text: str = "") -> PtxInstruction:
    """An instruction on PTX line `number`, of CUDA source line 100 more."""
    return PtxInstruction(("ld",), (), number, text or f"instruction {number}", source=SourceLine("k.cu", 100 + number))


def region(name: str, nbytes: int, space: StateSpace = StateSpace.GLOBAL, copies: int = 1) -> MemoryRegion:
    """Memory of `nbytes` bytes, a multiple of 16; of shared memory, a copy a block."""
    pitch = nbytes if space is StateSpace.SHARED else 0
    return MemoryRegion(name, space, 1024, nbytes, np.zeros(nbytes * copies, np.uint8), 0, pitch=pitch)


@dataclass(frozen=True)
class Touch:
    """An access by one thread or operation, `who`, to the bytes `places` of a region, at an event.

    `issued` orders accesses by their issue.
    """

    event: int
    who: object
    insn: int
    region: str
    places: range
    access: Access
    is_strong: bool
    is_async: bool
    value: int | None
    issued: int


@dataclass
class Graph:
    """Events, each with those directly before it; which of them are proxy fences; accesses in the order of the log."""

    before: list[list[int]] = field(default_factory=list)
    fences: set[int] = field(default_factory=set)
    touches: list[Touch] = field(default_factory=list)

    def event(self, *before: int, is_fence: bool = False) -> int:
        """Adds an event; its number."""
        self.before.append(list(before))
        if is_fence:
            self.fences.add(len(self.before) - 1)
        return len(self.before) - 1

    def preceding(self, event: int) -> tuple[set[int], set[int]]:
        """The events before an event, and those with a proxy fence on a way from there to it."""
        states: set[tuple[int, bool]] = set()
        stack = [(event, False)]
        while stack:
            at, is_fenced = stack.pop()
            for before in self.before[at]:
                state = (before, is_fenced or at in self.fences)
                if state not in states:
                    states.add(state)
                    stack.append(state)
        return {e for e, _ in states}, {e for e, is_fenced in states if is_fenced}

    def races(self, start: int = 0) -> list[tuple[int, str, Touch, Touch]]:
        """All races: (position of the later access in the log, kind, first and second by issue).

        `start`: only those whose later access is the one at this position, or comes after it.
        """
        found = []
        for position, later in list(enumerate(self.touches))[start:]:
            seen, fenced = self.preceding(later.event)
            for earlier in self.touches[:position]:
                if not _conflict(earlier, later):
                    continue
                needs_fence = later.is_async and not earlier.is_async
                if earlier.event not in seen:
                    first, second = (earlier, later) if earlier.issued <= later.issued else (later, earlier)
                    found.append((position, "race", first, second))
                elif needs_fence and earlier.event not in fenced:
                    found.append((position, "proxy_race", earlier, later))
        return found


def _conflict(one: Touch, other: Touch) -> bool:
    if one.who == other.who or one.region != other.region or not set(one.places) & set(other.places):
        return False
    if one.access == Access.READ and other.access == Access.READ:
        return False
    if _is_strong(one) and _is_strong(other):
        return False
    is_same = one.insn == other.insn and one.value is not None and one.value == other.value
    return not (one.access == other.access == Access.WRITE and is_same)


def _is_strong(touch: Touch) -> bool:
    return touch.is_strong or touch.access == Access.ATOMIC
