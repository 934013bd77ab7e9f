"""Which accesses must be ordered: pairs of them, to one granule, that conflict.

A weak write must come after all that was before it and before all that comes after, so that of the past of a granule
only the last weak write, and what came since, need be looked at: the rest is known through it. The accesses to a
granule thus fall into segments: a weak write (or several, by lanes of one instruction) and what follows up to the
next.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.order.log import Items, Kind

Positions = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

_FEW_PAIRS = 4
"""Pairs an access up to which no shorter way is sought."""


class Segments:
    """The segments of accesses that are sorted by granule, and in order within one.

    `is_new`: which of them are to be checked (None: all); the others were, and none of them comes after a new one.
    `state` numbers what was known at each: accesses of one instruction with one state know the same of others.
    """

    def __init__(self, items: Items, is_new: Flags | None, state: npt.NDArray[np.int64]) -> None:
        self._items, self._is_new, self._state = items, is_new, state
        self._kind = items.code & 3
        opens = np.concatenate(([True], items.granule[1:] != items.granule[:-1]))
        self._writes = writes = self._kind == Kind.WRITE
        self.joins = np.zeros(len(items), np.bool_)
        """Weak writes of the same instruction, to the same granule, as the one before them."""
        self.joins[1:] = writes[1:] & writes[:-1] & (items.origin[1:] == items.origin[:-1]) & ~opens[1:]
        starts = opens | (writes & ~self.joins)
        self._segment = np.cumsum(starts) - 1
        self._first = np.flatnonzero(starts)
        self._size = np.diff(np.append(self._first, len(items)))
        self._heads = np.add.reduceat(writes, self._first, dtype=np.intp)
        self._follows = ~opens[self._first]
        """Segments before which another of the same granule comes."""

    def last(self) -> Flags:
        """Accesses in the last segment of their granule."""
        flags: Flags = ~np.append(self._follows[1:], False)[self._segment]
        return flags

    def pairs(self) -> tuple[Positions, Positions]:
        """(earlier, later): what must be ordered, except writes that `joins` tells of."""
        some = [self._after_write(), self._before_write(), *self._weak_and_strong()]
        return np.concatenate([p[0] for p in some]), np.concatenate([p[1] for p in some])

    def _new(self, flags: Flags) -> Positions:
        return np.flatnonzero(flags if self._is_new is None else flags & self._is_new)

    def _after_write(self) -> tuple[Positions, Positions]:
        """Each access with the weak writes that open its segment."""
        return self._paired(self._new(~self._writes), self._first, self._heads, 0)

    def _before_write(self) -> tuple[Positions, Positions]:
        """Each weak write that opens a segment with all of the segment before."""
        later = self._new(self._writes & self._follows[self._segment])
        return self._paired(later, self._first, self._size, 1)

    def _paired(self, later: Positions, starts: Positions, sizes: Positions, back: int) -> tuple[Positions, Positions]:
        segment = self._segment[later] - back
        counts = sizes[segment]
        if int(counts.sum()) > _FEW_PAIRS * len(self._items):
            later = self._representatives(later)
            segment = self._segment[later] - back
            counts = sizes[segment]
        members, index = _ranges(starts[segment], counts)
        return members, later[index]

    def _weak_and_strong(self) -> list[tuple[Positions, Positions]]:
        """Weak reads and strong writes of one segment, either way round."""
        weak, strong = self._kind == Kind.READ, self._kind == Kind.STRONG_WRITE
        if not (weak.any() and strong.any()):
            return []
        both = np.logical_or.reduceat(weak, self._first) & np.logical_or.reduceat(strong, self._first)
        within = both[self._segment]
        weak, strong = weak & within, strong & within
        return [self._crossed(strong, weak), self._crossed(weak, strong)]

    def _crossed(self, earlier: Flags, later: Flags) -> tuple[Positions, Positions]:
        """Each of `later` with those of `earlier` before it in its segment."""
        before = np.cumsum(earlier)
        members = np.flatnonzero(earlier)
        which = self._new(later)

        def counts(of: Positions) -> tuple[Positions, Positions]:
            opening = self._first[self._segment[of]]
            start = before[opening] - earlier[opening]
            return start, before[of] - start

        start, count = counts(which)
        if int(count.sum()) > _FEW_PAIRS * len(self._items):
            which = self._representatives(which)
            start, count = counts(which)
        found, index = _ranges(start, count)
        return members[found], which[index]

    def _representatives(self, later: Positions) -> Positions:
        """Of accesses to one granule, by one instruction, that know the same, the first and the last.

        They differ in their thread if there are two, so that what one of them does not know of a third is found even if
        the third is the other's own.
        """
        if not len(later):
            return later
        keys = (self._segment[later], self._items.origin[later], self._state[later])
        order = np.lexsort(keys[::-1])
        is_first = np.zeros(len(later), np.bool_)
        is_first[0] = True
        for key in keys:
            ordered = key[order]
            is_first[1:] |= ordered[1:] != ordered[:-1]
        return np.sort(later[order[is_first | np.append(is_first[1:], True)]])


def _ranges(starts: Positions, counts: Positions) -> tuple[Positions, Positions]:
    """All numbers of the ranges of `counts` numbers from each of `starts`; and of which range each is."""
    index = np.repeat(np.arange(len(starts)), counts)
    if len(index) == len(starts) and (counts == 1).all():
        return starts, index
    skipped = np.cumsum(counts) - counts
    return starts[index] + np.arange(len(index)) - skipped[index], index
