"""The accesses to a region, against what was known when they were made: which of them race."""

from __future__ import annotations

import numpy as np

from compiler.emulate.order.events import Clocks, Floor, OnRace
from compiler.emulate.order.knowledge import Knowledge
from compiler.emulate.order.log import Entry, Items, Kind, Who, known, together
from compiler.emulate.order.pairs import Flags, Positions, Segments
from compiler.emulate.order.races import Races
from compiler.emulate.order.shadow import Shadow

_MIXED_ITEMS = 1 << 16
"""Accesses that are checked at a time where weak reads and strong writes are mixed: their pairs are many."""

_FEW_LATER = 64
"""Accesses that are looked at for an atomic of the same thread before them: such code is of one thread, the last."""


def checked(shadow: Shadow, knowledge: Knowledge, races: Races, floor: Floor, on_race: OnRace | None) -> None:
    """Checks the log of a region against itself and the past, reports, and leaves what can still race."""
    if not shadow.is_written:
        shadow.put_aside(knowledge.columns)
        return
    shadow.prepare()
    entries, shadow.log = shadow.log, []
    for some in _portions(entries, shadow.granule):
        check = _Check(shadow, some, knowledge)
        check.report(races, on_race)
        shadow.put_past(check.survivors(), knowledge.cluster, floor)


def _portions(entries: list[Entry], granule: int) -> list[list[Entry]]:
    kinds = {e.kind for e in entries}
    if not kinds >= {Kind.READ, Kind.STRONG_WRITE}:
        return [entries]
    portions: list[list[Entry]] = [[]]
    count = 0
    for entry in entries:
        portions[-1].append(entry)
        count += len(entry.offsets) * entry.nbytes // granule
        if count > _MIXED_ITEMS:
            portions.append([])
            count = 0
    return [p for p in portions if p]


class _Check:
    """A part of a region's log, and the past of what it touches, sorted by granule."""

    def __init__(self, shadow: Shadow, entries: list[Entry], knowledge: Knowledge) -> None:
        self._shadow, self._knowledge = shadow, knowledge
        new, source = shadow.spread(entries, knowledge.columns)
        past = shadow.take_past(new.granule)
        both = new if past is None else together([past, new])
        order, granule = _sorted(both.granule)
        self._items = both.take(order)
        self._items.granule = granule
        old = len(both) - len(new)
        self._source = source[order if not old else np.maximum(order - old, 0)]
        """Which lane of the entries each access is of; of those of the past, none."""
        self._known = known(entries, knowledge)
        is_new = order >= old if old else None
        state = self._known.row.astype(np.int64) << 32 | self._known.world
        self._segments = Segments(self._items, is_new, state[self._source])
        self._is_one_cluster = bool((self._items.cluster == self._items.cluster[0]).all())
        self._who = self._items.code >> 2
        self._has_actors = bool((self._who != Who.THREAD).any())

    def survivors(self) -> Items:
        """What can still race: the last segment of each granule."""
        return self._items.take(self._segments.last())

    def report(self, races: Races, on_race: OnRace | None) -> None:
        """Reports all races."""
        earlier, later = self._segments.pairs()
        is_race, lacks_fence = self._verdict(earlier, later)
        bad = np.flatnonzero(is_race | lacks_fence)
        joins = np.flatnonzero(self._segments.joins)
        if not len(bad) and not len(joins):
            return
        items = self._items
        differ = (items.column[joins] != items.column[joins - 1]) | (items.cluster[joins] != items.cluster[joins - 1])
        lanes_of_one = joins[differ]
        earlier = np.concatenate([earlier[bad], lanes_of_one - 1])
        later = np.concatenate([later[bad], lanes_of_one])
        is_proxy = np.concatenate([lacks_fence[bad] & ~is_race[bad], np.zeros(len(lanes_of_one), np.bool_)])
        keep = ~(self._is_harmless(earlier, later) | self._is_coherent(earlier, later))
        if keep.any():
            races.found(self._shadow, items, earlier[keep], later[keep], is_proxy[keep], on_race)

    def _verdict(self, earlier: Positions, later: Positions) -> tuple[Flags, Flags]:
        """For pairs of accesses that conflict: whether nothing orders the two, and whether the later is of the async
        proxy, the earlier is not, and no proxy fence is on the way.

        What makes X come before Y holds for their accesses only if both use one proxy, or a proxy fence lies on the way
        (PTX ISA, "Causality order": proxy-preserved base causality order; "Async proxy"), reads and writes alike. A
        read that a thread has issued may still be under way when the thread arrives on an mbarrier: on an H200, rings
        whose threads freed a stage without the fence read what the next copy brought.
        """
        items, table = self._items, self._knowledge.table
        width, cells = table.width, table.flat
        column, clock = items.column[earlier], items.clock[earlier]
        differs = column != items.column[later]
        is_same: Flags | None = None
        if not self._is_one_cluster:
            is_same = items.cluster[earlier] == items.cluster[later]
            differs |= ~is_same
            column = np.where(is_same, column, 0)
        if self._has_actors:
            differs |= self._who[earlier] != Who.THREAD
        is_race = np.zeros(len(earlier), np.bool_)
        which = np.flatnonzero(differs)
        rows = self._known.row[self._source[later[which]]].astype(np.int64)
        is_race[which] = cells[rows * width + column[which]] < clock[which]
        if is_same is not None:
            is_race |= ~is_same
        self._acquit(is_race, earlier, later)
        lacks_fence = np.zeros(len(earlier), np.bool_)
        if self._has_actors:
            needs = (self._who[later] == Who.ASYNC) & (self._who[earlier] != Who.ASYNC)
            which = np.flatnonzero(needs)
            rows = self._known.proxy_row[self._source[later[which]]].astype(np.int64)
            lacks_fence[which] = cells[rows * width + column[which]] < clock[which]
            if is_same is not None:
                lacks_fence |= needs & ~is_same
                self._acquit_others(lacks_fence, earlier, later, self._known.proxy_world)
        return is_race, lacks_fence

    def _acquit(self, is_race: Flags, earlier: Positions, later: Positions) -> None:
        """Clears the pairs that are ordered by what rows of the table do not say."""
        if not self._is_one_cluster:
            self._acquit_others(is_race, earlier, later, self._known.world)
        if not self._has_actors:
            return
        which = np.flatnonzero(is_race)
        items, one, two = self._items, earlier[which], later[which]
        who, whose = self._who[one], self._who[two]
        source = self._source[two]
        clock = items.clock[one]
        in_cluster = items.cluster[one] == items.cluster[two]
        in_lane = in_cluster & (items.lane[one] == items.lane[two])
        in_column = in_cluster & (items.column[one] == items.column[two])
        # An operation reads at one clock and writes at the next; clocks of its column start at 1.
        is_own = in_column & (who >= Who.GENERIC) & ((clock - 1) >> 1 == (items.clock[two] - 1) >> 1)
        is_own |= in_column & (who == Who.COPY) & (clock == items.clock[two])
        # A thread's copy follows what the thread did before it; the thread knows the copies that it waited for.
        is_own |= in_lane & (who == Who.THREAD) & (whose == Who.COPY) & (clock <= self._known.own[source])
        is_own |= in_lane & (who == Who.COPY) & (whose <= Who.COPY) & (clock <= self._known.copied[source])
        is_race[which[is_own]] = False

    def _acquit_others(self, is_race: Flags, earlier: Positions, later: Positions, world: Clocks) -> None:
        """Clears the pairs of different clusters that are ordered by what the later knows of the other's cluster."""
        worlds = self._knowledge.worlds
        if len(worlds) == 1:
            return
        items = self._items
        which = np.flatnonzero(is_race & (items.cluster[earlier] != items.cluster[later]))
        one = earlier[which]
        numbers = world[self._source[later[which]]]
        for number in np.unique(numbers).tolist():
            for cluster, clocks in worlds[number].items():
                some = np.flatnonzero((numbers == number) & (items.cluster[one] == cluster))
                columns = items.column[one[some]]
                is_known = (columns < len(clocks)) & (
                    clocks[np.minimum(columns, len(clocks) - 1)] >= items.clock[one[some]]
                )
                is_race[which[some[is_known]]] = False

    def _is_harmless(self, earlier: Positions, later: Positions) -> Flags:
        """Pairs of weak writes by one instruction that write the same bytes."""
        items, origins = self._items, self._shadow.origins
        harmless = np.zeros(len(earlier), np.bool_)
        writes = (items.code & 3) == Kind.WRITE
        which = np.flatnonzero(writes[earlier] & writes[later])
        one, two = items.origin[earlier[which]].astype(np.int64), items.origin[later[which]]
        keys, group = np.unique(one << 32 | two, return_inverse=True)
        span = np.arange(self._shadow.granule)
        for number, key in enumerate(keys.tolist()):
            first, second = origins[key >> 32], origins[key & 0xFFFFFFFF]
            if first.insn is not second.insn or first.value_bytes is None or second.value_bytes is None:
                continue
            some = which[group == number]
            left = first.value_bytes[items.place[earlier[some], None] + span]
            right = second.value_bytes[items.place[later[some], None] + span]
            harmless[some] = (left == right).all(axis=1)
        return harmless

    def _is_coherent(self, earlier: Positions, later: Positions) -> Flags:
        """Pairs of a strong write and what another thread does there after an atomic of its own met that write.

        Atomics on one location come one after the other, and a thread's own accesses to a location stay in order (PTX
        ISA, "Coherence"): the last of many that counted may set the counter back, as the sample of `__threadfence` in
        CUDA's guide does.
        """
        items, origins = self._items, self._shadow.origins
        coherent = np.zeros(len(earlier), np.bool_)
        kind = items.code & 3
        which = np.flatnonzero((kind[earlier] == Kind.STRONG_WRITE) & (self._who[later] == Who.THREAD))
        for position in np.unique(later[which])[:_FEW_LATER].tolist():
            mine = which[later[which] == position]
            between = np.arange(int(earlier[mine].min()) + 1, position)
            own = between[
                (kind[between] == Kind.STRONG_WRITE)
                & (items.column[between] == items.column[position])
                & (items.cluster[between] == items.cluster[position])
                & (self._who[between] == Who.THREAD)
            ]
            atomics = [at for at in own.tolist() if origins[int(items.origin[at])].insn.opcode == "atom"]
            if atomics:
                coherent[mine] = earlier[mine] < atomics[-1]
        return coherent


def _sorted(
    granule: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> tuple[Positions, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The stable order of granules, and they in order. One sort of plain integers is far faster than a stable one."""
    lowest = int(granule.min())
    bits = len(granule).bit_length()
    if (int(granule.max()) - lowest).bit_length() + bits > 63:
        order = np.argsort(granule, kind="stable")
        return order, granule[order]
    keys = np.sort((granule - lowest) << bits | np.arange(len(granule)))
    return keys & ((1 << bits) - 1), (keys >> bits) + lowest
