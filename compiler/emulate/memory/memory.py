"""Loads and stores of threads and engines: addresses to regions, checks, values, counters, the log of accesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.batch import Batch, LaneGroup
from compiler.emulate.memory.gather import gathered, indices, rows, scatter, turns
from compiler.emulate.memory.places import Addresses, AddressMap, MemoryPlace
from compiler.emulate.memory.region import ALL_SET, MemoryRegion, Offsets
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind

Words = npt.NDArray[Any]
"""Unsigned words, (lanes, count)."""

_LOGGED = (StateSpace.SHARED, StateSpace.GLOBAL)
"""Spaces that several threads see."""


class Memory:
    """The memory that a batch of blocks sees.

    Generic addresses have windows (`windows`). A shared address is an offset into the window of the executing block, or
    of block `rank` of its cluster if rank + 1 stands in bits 31:24, which is what `mapa` makes.
    """

    def __init__(self, batch: Batch, addresses: AddressMap) -> None:
        self._batch = batch
        self.addresses = addresses

    def locate(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        nbytes: int,
        align: int = 1,
    ) -> list[MemoryPlace]:
        """Where `nbytes` bytes at each address lie, one place a region.

        Out of bounds and misaligned ones are reported and left out. `nbytes` may be large (bulk copies).
        """
        if addresses.ndim == 0:
            addresses = np.full(len(group), addresses, np.uint64)
        if align > 1:
            bad = (addresses & np.uint64(align - 1)) != 0
            if bad.any():
                group.fault(
                    FaultKind.MISALIGNED,
                    insn,
                    f"The address is no multiple of {align}, the size of the access. Align the pointer and the index, "
                    "or access fewer bytes at once.",
                    bad,
                    addresses,
                    self.addresses.name_at(space, addresses, bad),
                )
                keep = np.flatnonzero(~bad)
                inner = self.addresses.places(group.at(keep), insn, space, addresses[keep], nbytes)
                return [MemoryPlace(p.region, p.offsets, keep if p.pick is None else keep[p.pick]) for p in inner]
        return self.addresses.places(group, insn, space, addresses, nbytes)

    def load(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        unit: int,
        count: int = 1,
        *,
        strong: bool = False,
        semantics: str = "relaxed",
    ) -> Words:
        """`count` words of `unit` bytes (1, 2, 4, 8) from each lane's address: an array (lanes, count).

        Checks alignment to unit * count, bounds, and that the bytes were written; reports and gives zeros where not.
        `strong`: a volatile, relaxed or acquire load, which races with no other strong access.
        """
        nbytes = unit * count
        places = self.locate(group, insn, space, addresses, nbytes, nbytes)
        if len(places) == 1 and places[0].pick is None:
            return self._load(group, insn, places[0], unit, count, strong, semantics)
        words = np.zeros((len(group), count), f"u{unit}")
        for place in places:
            part = group if place.pick is None else group.at(place.pick)
            found = self._load(part, insn, place, unit, count, strong, semantics)
            words[slice(None) if place.pick is None else place.pick] = found
        return words

    def _load(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        place: MemoryPlace,
        unit: int,
        count: int,
        strong: bool,
        semantics: str,
    ) -> Words:
        region, offsets = place.region, place.offsets
        at = indices(offsets, unit, count)
        if region.fill is not None:
            region.touch(offsets, unit * count)
        if region.valid is not None and region.space is StateSpace.SHARED:
            self._expect_valid(group, insn, region, offsets, unit * count)
        self._expect_written(group, insn, region, offsets, unit, at)
        if region.is_changed and region.changed is not None and insn.has("nc"):
            self._expect_unchanged(group, insn, region, offsets, unit * count)
        self._note(group, insn, region, offsets, unit * count, Access.READ, strong, semantics, None)
        return region.views[unit][at]

    def _expect_unchanged(
        self, group: LaneGroup[Batch], insn: PtxInstruction, region: MemoryRegion, offsets: Offsets, nbytes: int
    ) -> None:
        """Reports loads of the read-only path that meet what the kernel wrote (PTX ISA, "ld.global.nc")."""
        assert region.changed is not None
        stale = rows(gathered(region.changed, offsets, nbytes).any(axis=1))
        if stale.any():
            first = int(offsets[np.flatnonzero(stale)[0]])
            group.fault(
                FaultKind.RACE,
                insn,
                f"Byte {first - region.lead} of tensor {region.name} was written by this kernel and is read here by "
                "the read-only path, which may hold the old value. Use ld.global: drop const __restrict__ or __ldg.",
                stale,
                np.uint64(region.address(first)),
                region.name,
            )

    def store(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        values: Words,
        *,
        strong: bool = False,
        semantics: str = "relaxed",
    ) -> None:
        """Stores `values`, (lanes, count) unsigned words, at each lane's address, except where that is a fault."""
        unit, count = values.itemsize, values.shape[1]
        nbytes = unit * count
        for place in self.locate(group, insn, space, addresses, nbytes, nbytes):
            part = group if place.pick is None else group.at(place.pick)
            given = values if place.pick is None else values[place.pick]
            region, offsets = place.region, place.offsets
            if not self._may_write(part, insn, region, offsets, nbytes):
                continue
            self._note(part, insn, region, offsets, nbytes, Access.WRITE, strong, semantics, given)
            if region.fill is not None:
                region.touch(offsets, nbytes)
            at = indices(offsets, unit, count)
            region.views[unit][at] = given
            _mark(region, unit, at)
        group.machine.progress += 1

    def update(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        space: StateSpace,
        addresses: Addresses,
        unit: int,
        compute: Callable[[Words, npt.NDArray[np.intp]], Words],
        *,
        semantics: str = "relaxed",
        accumulate: Callable[[Words, npt.NDArray[np.int64], npt.NDArray[np.intp]], None] | None = None,
    ) -> Words:
        """Read-modify-write of one word of `unit` bytes a lane, lane after lane where addresses meet; the old words.

        `compute(old, which)` gives the new words of the lanes `which` (positions in `group`), no two at one address.
        `accumulate(words, at, which)`, if given, does all of them in place and the old words are not needed (zeros).
        """
        before = np.zeros(len(group), f"u{unit}")
        for place in self.locate(group, insn, space, addresses, unit, unit):
            which = np.arange(len(group)) if place.pick is None else place.pick
            part = group if place.pick is None else group.at(which)
            region, offsets = place.region, place.offsets
            if not self._may_write(part, insn, region, offsets, unit):
                continue
            at = offsets // unit
            if region.fill is not None:
                region.touch(offsets, unit)
            self._expect_written(part, insn, region, offsets, unit, at)
            self._note(part, insn, region, offsets, unit, Access.ATOMIC, True, semantics, None)
            words = region.views[unit]
            if accumulate is not None:
                accumulate(words, at, which)
                group.machine.progress += 1
            else:
                for turn in turns(at):
                    old = words[at[turn]]
                    new = compute(old, which[turn])
                    before[which[turn]] = old
                    words[at[turn]] = new
                    if (new != old).any():  # a lock that stays taken is no progress
                        group.machine.progress += 1
            _mark(region, unit, at)
        return before

    def read_bytes(
        self,
        actor: Actor | None,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        offsets: Offsets,
        nbytes: int,
    ) -> npt.NDArray[np.uint8]:
        """(len(offsets), nbytes) bytes for an engine: checks that they were written, logs the reads of `actor`.

        `group` is the issuing lane, for reports. Offsets must be in bounds.
        """
        if region.fill is not None:
            region.touch(offsets, nbytes)
        if region.written is not None:
            missing = ~gathered(region.written, offsets, nbytes).all(axis=1)
            if missing.any():
                self._unwritten(group, insn, region, int(offsets[np.flatnonzero(missing)[0]]), int(missing.sum()))
        if actor is not None and region.space in _LOGGED:
            self._batch.order.actor_access(actor, region, Access.READ, insn, offsets, nbytes)
        return gathered(region.data, offsets, nbytes)

    def write_bytes(
        self,
        actor: Actor | None,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        offsets: Offsets,
        values: npt.NDArray[np.uint8],
    ) -> None:
        """Writes (len(offsets), nbytes) bytes for an engine and logs the writes of `actor`."""
        nbytes = values.shape[1]
        if not self._may_write(group, insn, region, offsets, nbytes):
            return
        if actor is not None and region.space in _LOGGED:
            self._batch.order.actor_access(actor, region, Access.WRITE, insn, offsets, nbytes)
        if region.fill is not None:
            region.touch(offsets, nbytes)
        region.is_changed = True
        scatter(region.data, offsets, values)
        for marks in (region.written, region.changed):
            if marks is not None:
                scatter(marks, offsets, np.ones_like(values, np.bool_))
        self._batch.progress += 1

    def _may_write(
        self, group: LaneGroup[Batch], insn: PtxInstruction, region: MemoryRegion, offsets: Offsets, nbytes: int
    ) -> bool:
        """Whether a region may be written; holes are reported, and written all the same."""
        where = np.uint64(region.address(int(offsets[0]))) if len(offsets) else None
        if not region.writable:
            group.fault(
                FaultKind.OUT_OF_BOUNDS,
                insn,
                f"A store to {region.name}, which is read-only. Store to global, shared or local memory.",
                None,
                where,
                region.name,
            )
            return False
        if region.valid is not None:
            self._expect_valid(group, insn, region, offsets, nbytes)
        return True

    def _expect_valid(
        self, group: LaneGroup[Batch], insn: PtxInstruction, region: MemoryRegion, offsets: Offsets, nbytes: int
    ) -> None:
        """Reports accesses to the padding between rows of a tensor, or between variables in shared memory."""
        assert region.valid is not None
        if not len(offsets):
            return
        holes = rows(~gathered(region.valid, offsets, nbytes).all(axis=1))
        if not holes.any():
            return
        first = int(offsets[np.flatnonzero(holes)[0]])
        if region.space is StateSpace.SHARED:
            message = (
                f"An access past the end of a variable in shared memory, at byte {first % region.pitch}, which is no "
                "part of any. Guard the index, or make the array larger."
            )
        else:
            message = (
                f"A store into the padding between rows of tensor {region.name}, at byte {first - region.lead}. "
                "Stay inside the shape: guard the index by the size, not by the stride."
            )
        group.fault(
            FaultKind.OUT_OF_BOUNDS,
            insn,
            message,
            holes if len(holes) == len(group) else None,
            np.uint64(region.address(first)),
            region.name,
        )

    def _expect_written(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        offsets: Offsets,
        unit: int,
        at: npt.NDArray[np.int64],
    ) -> None:
        marks = region.written_words
        if marks is None:
            return
        if insn.used_bytes is not None:  # a vector that takes in the padding of a struct
            assert region.written is not None
            nbytes = unit * (at.shape[1] if at.ndim > 1 else 1)
            used = [i for i in range(nbytes) if insn.used_bytes >> i & 1]
            unwritten = rows(~gathered(region.written, offsets, nbytes)[:, used].all(axis=1))
            if unwritten.any():
                first = int(offsets[np.flatnonzero(unwritten)[0]])
                self._unwritten(group, insn, region, first, int(unwritten.sum()), unwritten)
            return
        good = marks[unit][at] == ALL_SET[unit]
        if good.all():
            return
        missing = ~(good if good.ndim == 1 else good.all(axis=1))
        first = int(offsets[np.flatnonzero(missing)[0]])
        self._unwritten(group, insn, region, first, int(missing.sum()), missing)

    def _unwritten(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        offset: int,
        count: int,
        missing: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        place = offset % region.pitch if region.pitch else offset - region.lead
        group.fault(
            FaultKind.UNINITIALIZED_READ,
            insn,
            f"Byte {place} of {_described(region)} is read, but nothing was written there before ({count} accesses). "
            f"The value is undefined. Write it first, wait for the copy that does, or do not read it.",
            missing,
            np.uint64(region.address(offset)),
            region.name,
        )

    def _note(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        offsets: Offsets,
        nbytes: int,
        access: Access,
        strong: bool,
        semantics: str,
        values: Words | None,
    ) -> None:
        """Counts an access, logs it, and holds it against live mbarriers."""
        if region.space not in _LOGGED:
            return
        is_store = access is not Access.READ
        if region.space is StateSpace.GLOBAL:
            self._batch.counters.global_access(
                group.lanes, region, offsets, nbytes, is_store, is_atomic=access is Access.ATOMIC
            )
        else:
            self._batch.counters.shared_access(group.lanes, offsets, nbytes, is_store, insn)
            self._batch.touch_shared(group, insn, offsets, nbytes, is_store)
        if self._batch.options.races:
            self._batch.order.access(
                region,
                access,
                insn,
                group.lanes,
                offsets,
                nbytes,
                strong=strong,
                values=values,
                semantics=semantics,
            )


def _mark(region: MemoryRegion, unit: int, at: npt.NDArray[np.int64]) -> None:
    region.is_changed = True
    for marks in (region.written_words, region.changed_words):
        if marks is not None:
            marks[unit][at] = ALL_SET[unit]


def _described(region: MemoryRegion) -> str:
    return f"tensor {region.name}" if region.space is StateSpace.GLOBAL else region.name
