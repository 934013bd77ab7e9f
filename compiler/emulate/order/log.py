"""Accesses as they came, and the same spread over the bytes that they touch.

Bytes are taken together in granules, as coarse as the accesses to a region allow: every access covers whole ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import Offsets
from compiler.emulate.order.columns import Columns
from compiler.emulate.order.events import Actor, Ints, Layer, View
from compiler.emulate.order.knowledge import Knowledge
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.threads import Lanes, Threads

COARSEST = 16
"""Bytes of the widest access of a thread that is common; a granule is no larger."""


class Kind(IntEnum):
    """What an access does, and whether it is strong (atomics are strong writes)."""

    READ = 0
    WRITE = 1
    STRONG_READ = 2
    STRONG_WRITE = 3


class Who(IntEnum):
    """What accesses: a thread, its `cp.async`, an operation of the generic proxy, one of the async proxy."""

    THREAD = 0
    COPY = 1
    GENERIC = 2
    ASYNC = 3


class Entry:
    """One instruction's accesses to one region: `offsets`, one for each of `lanes`, of `nbytes` bytes."""

    __slots__ = ("actor", "insn", "kind", "lanes", "nbytes", "offsets", "time", "values", "view")

    def __init__(
        self,
        kind: Kind,
        insn: PtxInstruction,
        lanes: Lanes,
        offsets: Offsets,
        nbytes: int,
        view: View,
        values: npt.NDArray[Any] | None,
        actor: Actor | None,
        time: int,
    ) -> None:
        self.kind, self.insn, self.lanes, self.offsets, self.nbytes = kind, insn, lanes, offsets, nbytes
        self.view, self.values, self.actor, self.time = view, values, actor, time

    @property
    def who(self) -> Who:
        """What accesses."""
        if self.actor is None:
            return Who.THREAD
        if self.actor.lanes is not None:
            return Who.COPY
        return Who.ASYNC if self.actor.uses_async_proxy else Who.GENERIC


@dataclass(eq=False)
class Origin:
    """What is kept of an entry as long as one of its accesses can race. `time` is of the issue for an operation.

    `values`: what was written, or None if that is not known; each lane's bytes in a row.
    """

    kind: Kind
    who: Who
    insn: PtxInstruction
    actor: Actor | None
    time: int
    threads: Threads
    values: npt.NDArray[Any] | None
    count: int

    @cached_property
    def value_bytes(self) -> npt.NDArray[np.uint8] | None:
        """The bytes written, lane after lane."""
        if self.values is None:
            return None
        values = np.asarray(self.values)
        if values.ndim == 0 or len(values) != self.count:
            values = np.broadcast_to(values, (self.count, *values.shape[1:]))
        return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


@dataclass(slots=True, eq=False)
class Items:
    """Accesses of single lanes to single granules, in arrays; `origin` is an index into a list of origins.

    `code` is the kind and who (see `code_of`). `cluster` is the key of the cluster, `column` and `clock` say who
    accessed when, `lane` which thread, or for whom. `place`: where the bytes written are in `Origin.value_bytes`.
    """

    granule: npt.NDArray[np.int64]
    origin: Ints
    code: npt.NDArray[np.uint8]
    lane: Ints
    cluster: Ints
    column: Ints
    clock: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.granule)

    def take(self, which: npt.NDArray[Any] | slice) -> Items:
        """Some of them."""
        return Items(*(getattr(self, name)[which] for name in _ARRAYS))

    def refined(self, ratio: int, granule: int) -> Items:
        """The same for granules `ratio` times finer, of `granule` bytes; sorted by granule if these are."""
        within = np.tile(np.arange(ratio), len(self))
        fine = self.take(np.repeat(np.arange(len(self)), ratio))
        fine.granule = fine.granule * ratio + within
        fine.place = (fine.place + within * granule).astype(np.int32)
        return fine.take(np.argsort(fine.granule, kind="stable"))


_ARRAYS = tuple(f.name for f in fields(Items))


def together(pieces: list[Items]) -> Items:
    """All of these, in a row."""
    if len(pieces) == 1:
        return pieces[0]
    return Items(*(np.concatenate([getattr(p, name) for p in pieces]) for name in _ARRAYS))


@dataclass(slots=True, eq=False)
class Known:
    """What was known when accesses were made, an element for each lane of each entry.

    `row` and `proxy_row` are rows of the table of clocks, `world` and `proxy_world` say what is known of other
    clusters; `own` is the issuer's clock and `copied` that of its own copies waited for: a row does not tell a lane.
    """

    row: Ints
    proxy_row: Ints
    world: Ints
    proxy_world: Ints
    own: Ints
    copied: Ints


def code_of(entry: Entry) -> int:
    """Kind and who in a byte: `Kind` in the low two bits."""
    return entry.kind | entry.who << 2


def granule_of(entries: list[Entry], coarsest: int) -> int:
    """The largest granule, at most `coarsest`, that sizes and offsets of these accesses are multiples of."""
    bits = coarsest
    for entry in entries:
        bits |= entry.nbytes | int(np.bitwise_or.reduce(entry.offsets))
    return bits & -bits


def origin_of(entry: Entry, threads: Threads) -> Origin:
    """What is kept of an entry."""
    time = entry.time if entry.actor is None else entry.actor.issued
    values = entry.values if entry.kind == Kind.WRITE else None
    return Origin(entry.kind, entry.who, entry.insn, entry.actor, time, threads, values, len(entry.offsets))


def spread(entries: list[Entry], granule: int, first: int, columns: Columns) -> tuple[Items, npt.NDArray[np.intp]]:
    """The accesses of entries (none empty) to each granule, in order; and which lane of the entries each is of, all
    entries' lanes in a row. `first` is the index of the first entry's origin."""
    counts = np.array([len(e.offsets) for e in entries])
    sizes = np.array([e.nbytes for e in entries])
    lanes = np.concatenate([e.lanes for e in entries])
    offsets = np.concatenate([e.offsets for e in entries])
    column, clock = columns.column[lanes], np.empty(len(lanes), np.int32)
    for run, part in _runs(entries):
        actor = run.actor
        if actor is None:
            clock[part] = run.view.own[Layer.SEEN][lanes[part]]
        elif actor.lanes is None:
            column[part] = actor.column
            clock[part] = actor.clocks[0] + (run.kind != Kind.READ)
        else:
            column[part] += actor.column
            clock[part] = actor.clocks[lanes[part]]
    codes = np.array([code_of(e) for e in entries], np.uint8)
    items = Items(
        offsets >> (granule.bit_length() - 1),
        np.repeat(np.arange(first, first + len(entries), dtype=np.int32), counts),
        np.repeat(codes, counts),
        lanes.astype(np.int32),
        columns.key[lanes],
        column,
        clock,
        _places(counts, sizes),
    )
    source = np.arange(len(lanes))
    if (sizes == granule).all():
        return items, source
    units = np.repeat(sizes // granule, counts)
    source = np.repeat(source, units)
    items = items.take(source)
    within = np.arange(len(source)) - np.repeat(np.cumsum(units) - units, units)
    items.granule += within
    items.place += (within * granule).astype(np.int32)
    return items, source


def known(entries: list[Entry], knowledge: Knowledge) -> Known:
    """What was known at the accesses of entries, all their lanes in a row."""
    lanes = np.concatenate([e.lanes for e in entries])
    row, own = np.empty(len(lanes), np.int32), np.empty(len(lanes), np.int32)
    proxy_row, world, proxy_world, copied = (np.zeros(len(lanes), np.int32) for _ in range(4))
    for entry, part in _runs(entries):
        view, actor = entry.view, entry.actor
        index: Any = lanes[part] if actor is None or actor.lanes is not None else 0
        row[part] = view.rows[Layer.SEEN][index]
        own[part] = view.own[Layer.SEEN][index]
        if knowledge.copies is not None:
            copied[part] = view.copied[Layer.SEEN][index]
        if len(knowledge.worlds) > 1:
            world[part] = view.worlds[Layer.SEEN][index]
            proxy_world[part] = view.worlds[Layer.PROXY][index]
        if actor is not None:
            proxy_row[part] = view.rows[Layer.PROXY][index]
    return Known(row, proxy_row, world, proxy_world, own, copied)


def _runs(entries: list[Entry]) -> Iterator[tuple[Entry, slice]]:
    """The first of entries in a row with one view, and where their lanes are; an operation's entries one by one."""
    first, start, stop = entries[0], 0, 0
    for entry in entries:
        if entry.view is not first.view or entry.actor is not None or first.actor is not None:
            if stop > start:
                yield first, slice(start, stop)
            first, start = entry, stop
        stop += len(entry.offsets)
    yield first, slice(start, stop)


def _places(counts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> Ints:
    """Where each lane's bytes are among those of its entry."""
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    places: Ints = (within * np.repeat(sizes, counts)).astype(np.int32)
    return places
