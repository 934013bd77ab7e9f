"""The log of one region, and what of the past can still race: for each granule the last write, and accesses since.

A region that is only read is not looked at: its reads are kept as they came until somebody writes to it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import MemoryRegion
from compiler.emulate.order.columns import Columns
from compiler.emulate.order.events import Floor, Ints
from compiler.emulate.order.log import COARSEST, Entry, Items, Origin, Who, granule_of, origin_of, spread, together
from compiler.emulate.ptx.module import StateSpace

_MOST_READS = 1 << 20
"""Reads of a region that nobody writes that are kept as they came. Of more, the first and last of each granule are
kept: a later write races with one of them, unless all that it does not know of were neither."""

_MOST_PIECES = 64
"""Pieces of the past before they are put together."""

_CROWDED = 1 << 14
"""Accesses of the past from which on repeated ones of one thread to one granule are sought and dropped."""

_MOST_ORIGINS = 4096
"""Origins from which on those that nothing refers to are dropped."""


class Shadow:
    """A region's log and past. For global memory it outlives the batch.

    The past lies in pieces, each sorted by granule, no two of them with one granule.
    """

    def __init__(self, region: MemoryRegion) -> None:
        self.region = region
        self.granule = COARSEST
        self.origins: list[Origin] = []
        self.log: list[Entry] = []
        self.is_written = False
        self._past: list[Items] = []
        self._reads: list[tuple[Entry, Columns]] = []
        self._read_count = 0
        self._origin_limit = _MOST_ORIGINS

    def add(self, entry: Entry) -> None:
        """Logs accesses."""
        if len(entry.offsets):
            self.log.append(entry)
            if entry.kind & 1:
                self.is_written = True

    def put_aside(self, columns: Columns) -> None:
        """Keeps the log, which is of reads only."""
        self._reads += [(entry, columns) for entry in self.log]
        self._read_count += sum(len(e.offsets) for e in self.log)
        self.log = []
        if self._read_count > _MOST_READS:
            self._spread_reads(thin=True)

    def _spread_reads(self, thin: bool) -> None:
        """Makes the reads kept aside part of the past; `thin`: of each granule, only the first and the last."""
        reads, self._reads, self._read_count = self._reads, [], 0
        if not reads:
            return
        self._refine(granule_of([e for e, _ in reads], self.granule))
        pieces = self._past
        start = 0
        while start < len(reads):  # one batch of blocks after the other: each has columns of its own
            columns = reads[start][1]
            some = []
            while start < len(reads) and reads[start][1] is columns:
                some.append(reads[start][0])
                start += 1
            pieces.append(self.spread(some, columns)[0])
        self._past = []
        self._keep(by_granule(together(pieces)), thin)

    def _keep(self, items: Items, thin: bool) -> None:
        if thin:
            is_first = np.concatenate(([True], items.granule[1:] != items.granule[:-1]))
            items = items.take(is_first | np.append(is_first[1:], True))
        self._past.append(items)
        self._drop_origins()

    def spread(self, entries: list[Entry], columns: Columns) -> tuple[Items, npt.NDArray[np.intp]]:
        """The accesses of entries, granule by granule, with new origins; and of which lane of the entries each is."""
        first = len(self.origins)
        self.origins += [origin_of(e, columns.threads) for e in entries]
        return spread(entries, self.granule, first, columns)

    def prepare(self) -> None:
        """Makes ready to check the log: granules as fine as it needs, no reads aside."""
        self._spread_reads(thin=False)
        self._refine(granule_of(self.log, self.granule))

    def _refine(self, granule: int) -> None:
        if granule < self.granule:
            self._past = [p.refined(self.granule // granule, granule) for p in self._past]
            self.granule = granule

    def take_past(self, granules: npt.NDArray[np.int64]) -> Items | None:
        """Takes out what of the past concerns these granules; None if nothing does."""
        lowest, highest = granules.min(), granules.max()
        if all(p.granule[-1] < lowest or p.granule[0] > highest for p in self._past):
            return None
        granules = np.sort(granules)
        taken: list[Items] = []
        left: list[Items] = []
        for piece in self._past:
            start = np.searchsorted(piece.granule, lowest)
            stop = np.searchsorted(piece.granule, highest, "right")
            within = piece.granule[start:stop]
            at = np.minimum(np.searchsorted(granules, within), len(granules) - 1)
            concerned = np.zeros(len(piece), np.bool_)
            concerned[start:stop] = granules[at] == within
            if not concerned.any():
                left.append(piece)
                continue
            taken.append(piece.take(concerned))
            if not concerned.all():
                left.append(piece.take(~concerned))
        self._past = left
        return together(taken) if taken else None

    def put_past(self, items: Items, clusters: Ints, floor: Floor) -> None:
        """Keeps accesses, sorted by granule, to granules that nothing else of the past concerns.

        `clusters` is the number of each lane's cluster. Nobody races any more with what is below the `floor`, if no
        other cluster sees the region.
        """
        pieces = [*self._past, self._without_known(items, clusters, floor)]
        if len(pieces) > _MOST_PIECES:
            pieces = [self._without_known(by_granule(together(pieces)), clusters, floor)]
        self._past = [p for p in pieces if len(p)]
        self._drop_origins()

    def _without_known(self, items: Items, clusters: Ints, floor: Floor) -> Items:
        if self.region.space is not StateSpace.GLOBAL:
            where = (clusters[items.lane], items.column)
            can_race = items.clock > floor.seen[where]
            if floor.proxy is not None:
                can_race |= (items.clock > floor.proxy[where]) & (items.code >> 2 != Who.ASYNC)
            items = items.take(can_race)
        return _distinct(items) if len(items) > _CROWDED else items

    def _drop_origins(self) -> None:
        if len(self.origins) <= self._origin_limit:
            return
        used = np.unique(np.concatenate([p.origin for p in self._past] or [np.zeros(0, np.int32)]))
        numbers = np.zeros(len(self.origins), np.int32)
        numbers[used] = np.arange(len(used))
        self.origins = [self.origins[n] for n in used.tolist()]
        for piece in self._past:
            piece.origin = numbers[piece.origin]
        self._origin_limit = max(_MOST_ORIGINS, 2 * len(self.origins))


def by_granule(items: Items) -> Items:
    """Sorted by granule; those of one granule stay in order."""
    return items.take(np.argsort(items.granule, kind="stable"))


def _distinct(items: Items) -> Items:
    """Without accesses that a later one of the same kind, by the same thread to the same granule, stands for.

    `items` are sorted by granule and stay so.
    """
    order = np.lexsort((items.clock, items.code, items.column, items.cluster, items.granule))
    is_last = np.zeros(len(items), np.bool_)
    is_last[-1] = True
    for array in (items.granule, items.cluster, items.column, items.code):
        ordered = array[order]
        is_last[:-1] |= ordered[1:] != ordered[:-1]
    return items.take(np.sort(order[is_last]))
