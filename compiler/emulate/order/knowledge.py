"""The vector clocks of a batch: for each lane, up to which of their clocks it knows the other lanes and operations.

Lanes that know the same share a row of one table, so that a block barrier makes one row a block, however many threads.
A row has a column for each lane of one cluster, then columns for asynchronous operations, added when the first one
starts. A lane's own column in its row is not kept up to date: `View.own` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from compiler.emulate.order.clock_table import ClockTable
from compiler.emulate.order.columns import Columns
from compiler.emulate.order.events import Actor, Clocks, Floor, Ints, Layer, Token, View
from compiler.emulate.order.worlds import Worlds, larger
from compiler.emulate.threads import Lanes, Threads

_MOST_ACTORS = 1024
"""Operations of a cluster that are told apart at a time. The next one reuses the column of the first: who knows it then
counts as knowing the first too."""

_ACTOR_COLUMNS = 32
"""Columns that are added at a time."""

_TABLE_BYTES = 1 << 26
"""Bytes of vector clocks that are added before the old ones are dropped."""

_COMPACT_ROWS = 256
"""Rows of the table below which old ones are not worth dropping."""

Groups = npt.NDArray[np.intp]


class Knowledge:
    """What the lanes of a batch know."""

    def __init__(self, threads: Threads, memory_sync: bool, async_proxy: bool) -> None:
        count = threads.lanes
        self.threads = threads
        self._has_async_proxy = async_proxy
        self.columns = Columns(threads)
        self.cluster: Ints = (np.arange(count) // self.columns.per_cluster).astype(np.int32)
        self.column, self.keys = self.columns.column, self.columns.keys
        self.worlds = Worlds()
        self.copies: int | None = None
        """The column of lane 0's asynchronous copies, once there are any."""
        self._layers = [Layer.SEEN, Layer.DEVICE, Layer.BLOCK] if memory_sync else [Layer.SEEN]
        number = len(Layer) if memory_sync else Layer.PROXY + 1
        zeros = np.zeros((number, count), np.int32)
        self._view = View(zeros.copy(), zeros.copy(), zeros, zeros)
        self._view.own[Layer.SEEN] = 1
        self._is_shared = False
        self.table = ClockTable(self.columns.per_cluster)
        self._rows_kept = 0
        self._copy_clocks = np.zeros(count, np.int32)
        self._actor_columns: list[int] = []
        self._actors_of = [0] * len(self.keys)
        self._under_way: WeakSet[Actor] = WeakSet()

    @property
    def has_proxies(self) -> bool:
        """Whether any proxy fence was executed."""
        return Layer.PROXY in self._layers

    # Views.

    def snapshot(self) -> View:
        """What all lanes know now. It does not change."""
        self._is_shared = True
        return self._view

    def _edit(self) -> View:
        """The view to change."""
        if self._is_shared:
            view = self._view
            copied, worlds = view.copied, view.worlds
            self._view = View(
                view.rows.copy(),
                view.own.copy(),
                copied if self.copies is None else copied.copy(),
                worlds if len(self.worlds) == 1 else worlds.copy(),
            )
            self._is_shared = False
        return self._view

    # Synchronisation.

    def barrier(self, lanes: Lanes, groups: Groups) -> None:
        """All lanes of a group learn what each of them knows."""
        if not len(lanes):
            return
        if (groups[1:] < groups[:-1]).any():
            order = np.argsort(groups, kind="stable")
            lanes, groups = lanes[order], groups[order]
        starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
        sizes = np.diff(np.append(starts, len(lanes)))
        index = np.repeat(np.arange(len(starts)), sizes)
        columns = self.column[lanes]
        view = self._edit()
        for layer in self._layers:
            both = self._joined_rows(view.rows[layer, lanes], starts, sizes)
            both[index, columns] = np.maximum(both[index, columns], view.own[layer, lanes])
            if self.copies is not None:
                at = columns + self.copies
                both[index, at] = np.maximum(both[index, at], view.copied[layer, lanes])
            view.rows[layer, lanes] = self.table.append(both) + index
        if len(self.worlds) > 1:
            self._join_worlds(lanes, starts, sizes)
        view.own[Layer.SEEN, lanes] += 1

    def _joined_rows(self, rows: Ints, starts: Groups, sizes: Groups) -> Clocks:
        """For each group of rows, the row that knows all: (groups, width)."""
        lowest = np.minimum.reduceat(rows, starts)
        both: Clocks = self.table[lowest]
        for group in np.flatnonzero(lowest != np.maximum.reduceat(rows, starts)).tolist():
            start = starts[group]
            some = np.unique(rows[start : start + sizes[group]])
            both[group] = self.table[some].max(axis=0)
        return both

    def _join_worlds(self, lanes: Lanes, starts: Groups, sizes: Groups) -> None:
        view = self._edit_worlds()
        for layer in self._layers:
            worlds = view.worlds[layer, lanes]
            if worlds.any():
                joined = [
                    self.worlds.join(set(worlds[a : a + n].tolist()))
                    for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)
                ]
                view.worlds[layer, lanes] = np.repeat(np.array(joined, np.int32), sizes)

    def _edit_worlds(self) -> View:
        """The view to change, with worlds of its own."""
        view = self._edit()
        view.worlds = view.worlds.copy()
        return view

    def release(self, lanes: Lanes) -> Token:
        """What lanes know and did; what they do from now on is not in it."""
        token = self.released(self._view, lanes)
        self.advance(lanes)
        return token

    def advance(self, lanes: Lanes) -> None:
        """What lanes do from now on is not in what was released up to now."""
        self._edit().own[Layer.SEEN, lanes] += 1

    def released(self, view: View, lanes: Lanes, layers: dict[Layer, Layer] | None = None) -> Token:
        """A token of what lanes know in a view. `layers`: which layer of theirs becomes which of the token."""
        token = Token()
        for source, layer in (layers or {n: n for n in self._layers}).items():
            parts = token.layers[layer] = {}
            for number, some in self._by_cluster(lanes):
                parts[int(self.keys[number])] = self._vector(view, source, some)
                if len(self.worlds) > 1:
                    others = self.worlds[self.worlds.join(set(view.worlds[source, some].tolist()))]
                    for cluster, clocks in others.items():
                        known = parts.get(cluster)
                        parts[cluster] = clocks if known is None else larger(known, clocks)
        return token

    def _by_cluster(self, lanes: Lanes) -> list[tuple[int, Lanes]]:
        """Cluster numbers with their lanes."""
        clusters = self.cluster[lanes]
        if clusters[0] == clusters[-1]:
            return [(int(clusters[0]), lanes)]
        cuts = np.flatnonzero(np.diff(clusters)) + 1
        return [(int(self.cluster[part[0]]), part) for part in np.split(lanes, cuts)]

    def _vector(self, view: View, layer: Layer, lanes: Lanes) -> Clocks:
        """The vector clock of lanes of one cluster together."""
        rows = view.rows[layer, lanes]
        first = int(rows[0])
        if len(lanes) == 1 or (rows == first).all():
            clocks: Clocks = self.table[first].copy()
        else:
            clocks = self.table[np.unique(rows)].max(axis=0)
        columns = self.column[lanes]
        clocks[columns] = np.maximum(clocks[columns], view.own[layer, lanes])
        if self.copies is not None:
            at = columns + self.copies
            clocks[at] = np.maximum(clocks[at], view.copied[layer, lanes])
        return clocks

    def _common(self, view: View, layer: Layer, lanes: Lanes) -> Clocks:
        """The vector clock of what all of these lanes of one cluster know."""
        mine = view.rows[layer, lanes]
        if len(lanes) > 1 and (mine == mine[0]).all():
            return self.table[int(mine[0])]
        rows, first, counts = np.unique(mine, return_index=True, return_counts=True)
        known: Clocks = self.table[rows]
        for place in np.flatnonzero(counts == 1).tolist():  # of itself such a lane knows more than its row says
            lane = int(lanes[first[place]])
            column = int(self.column[lane])
            known[place, column] = max(known[place, column], view.own[layer, lane])
            if self.copies is not None:
                at = column + self.copies
                known[place, at] = max(known[place, at], view.copied[layer, lane])
        common: Clocks = known.min(axis=0)
        return common

    def has_seen(self, lanes: Lanes, token: Token) -> bool:
        """Whether all of these lanes of one cluster know what a token of that cluster stands for."""
        known = self._common(self._view, Layer.SEEN, lanes)
        clocks = token.layers[Layer.SEEN].get(int(self.keys[self.cluster[lanes[0]]]), known[:0])
        return bool((known[: len(clocks)] >= clocks).all())

    def acquire(self, lanes: Lanes, token: Token) -> None:
        """Lanes learn what a token stands for."""
        if not len(lanes):
            return
        if Layer.PROXY in token.layers and Layer.PROXY not in self._layers:
            self._layers.append(Layer.PROXY)
        view = self._edit()
        for number, some in self._by_cluster(lanes):
            key = int(self.keys[number])
            for layer, parts in token.layers.items():
                own = parts.get(key)
                if own is not None:
                    self._learn(view, layer, some, own)
                if len(parts) > (own is not None):
                    self._learn_of_others(layer, some, {k: v for k, v in parts.items() if k != key})

    def _learn(self, view: View, layer: Layer, lanes: Lanes, clocks: Clocks) -> None:
        rows = view.rows[layer, lanes]
        first = int(rows[0])
        distinct = [first] if len(lanes) == 1 or (rows == first).all() else np.unique(rows).tolist()
        for row in distinct:
            known = self.table[row]
            if len(clocks) < self.table.width:
                known = known[: len(clocks)]
            if (known >= clocks).all():
                continue
            new = self.table.append(larger(self.table[row], clocks)[None])
            view.rows[layer, lanes if len(distinct) == 1 else lanes[rows == row]] = new

    def _learn_of_others(self, layer: Layer, lanes: Lanes, parts: dict[int, Clocks]) -> None:
        view = self._edit_worlds()
        worlds = view.worlds[layer, lanes]
        for number in np.unique(worlds).tolist():
            view.worlds[layer, lanes[worlds == number]] = self.worlds.extended(number, parts)

    def fence(self, lanes: Lanes, layers: tuple[Layer, ...]) -> None:
        """Raises what lanes know in `layers` to all that they have seen and done."""
        view = self._edit()
        for layer in layers:
            if layer not in self._layers:
                self._layers.append(layer)
            view.rows[layer, lanes] = view.rows[Layer.SEEN, lanes]
            view.own[layer, lanes] = view.own[Layer.SEEN, lanes]
            if self.copies is not None:
                view.copied[layer, lanes] = view.copied[Layer.SEEN, lanes]
            if len(self.worlds) > 1:
                view = self._edit_worlds()
                view.worlds[layer, lanes] = view.worlds[Layer.SEEN, lanes]
        view.own[Layer.SEEN, lanes] += 1

    # Asynchronous operations.

    def start(
        self, lane: int, slot: int, number: int, time: int, uses_async_proxy: bool, after: Sequence[Actor] = ()
    ) -> Actor:
        """An operation that knows what its issuer does, and comes after other operations of its cluster."""
        return self._started(np.array([lane]), slot, number, time, uses_async_proxy, after)

    def start_together(self, lanes: Lanes, slot: int, number: int, time: int) -> Actor:
        """An operation of the async proxy that lanes of one block issue together: it knows what all of them do."""
        return self._started(lanes, slot, number, time, True, ())

    def _started(
        self, lanes: Lanes, slot: int, number: int, time: int, uses_async_proxy: bool, after: Sequence[Actor]
    ) -> Actor:
        lane, one = int(lanes[0]), lanes[:1]
        cluster = int(self.cluster[lane])
        count = self._actors_of[cluster]
        self._actors_of[cluster] += 1
        place = count % _MOST_ACTORS
        if place == len(self._actor_columns):
            self._actor_columns += self.table.add_columns(_ACTOR_COLUMNS)
        before = self._view
        rows = np.zeros((len(before.rows), 1), np.int32)
        for layer in self._layers:
            clocks = self._vector(before, layer, one) if len(lanes) == 1 else self._common(before, layer, lanes)
            rows[layer, 0] = row = self.table.append(clocks[None])
            if layer is Layer.SEEN and after:
                self.table.raise_to(row, [a.column for a in after], [int(a.clocks[0]) + 1 for a in after])
        nothing = np.zeros_like(rows)
        actor = Actor(
            number,
            slot,
            lane,
            time,
            uses_async_proxy,
            self._actor_columns[place],
            np.array([2 * (count // _MOST_ACTORS) + 1], np.int32),
            View(rows, nothing, nothing, before.worlds[:, one].copy()),
        )
        self._under_way.add(actor)
        self._edit().own[Layer.SEEN, lane] += 1
        return actor

    def start_copies(self, lanes: Lanes, slot: int, number: int, time: int) -> Actor:
        """An operation of each of these lanes."""
        if self.copies is None:
            self.copies = self.table.add_columns(self.columns.per_cluster)[0]
            self._view.copied = self._view.copied.copy()
        self._copy_clocks[lanes] += 1
        view = self.snapshot()
        actor = Actor(number, slot, int(lanes[0]), time, False, self.copies, self._copy_clocks.copy(), view, lanes)
        self._under_way.add(actor)
        self._edit().own[Layer.SEEN, lanes] += 1
        return actor

    def finish(self, actor: Actor, source_only: bool) -> Token:
        """What an observer of the end of an operation, or of its reads, learns."""
        if actor.lanes is not None:
            token = self.released(actor.view, actor.lanes)
            for number, some in self._by_cluster(actor.lanes):
                clocks = token.layers[Layer.SEEN][int(self.keys[number])]
                clocks[self.column[some] + actor.column] = actor.clocks[some]
            return token
        token = Token()
        cluster = int(self.keys[self.cluster[actor.lane]])
        for layer in self._layers:
            clocks = self.table[actor.view.rows[layer, 0]].copy()
            if layer is Layer.SEEN:
                clocks[actor.column] = actor.clocks[0] + (not source_only)
            world = self.worlds[int(actor.view.worlds[layer, 0])]
            token.layers[layer] = {**world, cluster: clocks}
        return token

    def alone(self, actor: Actor) -> Token:
        """What an observer of an operation learns who learns nothing else of its issuer."""
        clocks = np.zeros(self.table.width, np.int32)
        clocks[actor.column] = actor.clocks[0] + 1
        return Token({Layer.SEEN: {int(self.keys[self.cluster[actor.lane]]): clocks}})

    def finish_copies(self, actor: Actor, lanes: Lanes) -> None:
        """Each of these lanes learns of the end of its own operation."""
        copied = self._edit().copied[Layer.SEEN]
        copied[lanes] = np.maximum(copied[lanes], actor.clocks[lanes])

    # What can go.

    @property
    def is_large(self) -> bool:
        """Whether the clocks that came since old ones were dropped take so much memory that it is time again."""
        return self.table.bytes_of(self.table.rows - self._rows_kept) > _TABLE_BYTES

    def _views(self) -> list[View]:
        """All views that are still in use once the log is empty."""
        views = [self._view, *(a.view for a in self._under_way)]
        return list({id(v): v for v in views}.values())

    def floor(self) -> Floor:
        """What everybody knows."""
        return Floor(self._floor(Layer.SEEN), self._floor(Layer.PROXY) if self._has_async_proxy else None)

    def _floor(self, layer: Layer) -> Clocks:
        floor = np.full((len(self.keys), self.table.width), np.iinfo(np.int32).max, np.int32)
        rows, real = self._view.rows[layer], self.threads.real
        pairs = np.unique(self.cluster[real].astype(np.int64) * self.table.rows + rows[real])
        clusters = pairs // self.table.rows
        starts = np.flatnonzero(np.concatenate(([True], clusters[1:] != clusters[:-1])))
        floor[clusters[starts]] = np.minimum.reduceat(self.table[pairs % self.table.rows], starts, axis=0)
        for actor in self._under_way:
            index = np.zeros(1, np.intp) if actor.lanes is None else actor.lanes
            number = self.cluster[actor.lane]
            for row in np.unique(actor.view.rows[layer, index]).tolist():
                np.minimum(floor[number], self.table[row], out=floor[number])
        return floor

    def compact(self) -> None:
        """Drops the rows and worlds that no lane, and no operation under way, refers to. The log must be empty.

        Not before there are twice as many rows as were in use last time: thousands of operations may be under way.
        """
        is_small = self.table.rows < max(_COMPACT_ROWS, 2 * self._rows_kept) and not self.is_large
        if is_small and len(self.worlds) == 1:
            return
        views = self._views()
        rows = self.table.keep(np.concatenate([v.rows.ravel() for v in views]))
        self._rows_kept = self.table.rows
        for view in views:
            view.rows = rows[view.rows]
        if len(self.worlds) == 1:
            return
        worlds = self.worlds.keep(np.concatenate([v.worlds.ravel() for v in views]))
        for view in views:
            view.worlds = worlds[view.worlds]
