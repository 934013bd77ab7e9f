"""From addresses to regions: windows of the generic space, copies of shared and local memory, bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.batch import Batch, LaneGroup
from compiler.emulate.memory.region import MemoryRegion, Offsets
from compiler.emulate.memory.windows import (
    CLUSTER_RANK_SHIFT,
    CONST_WINDOW,
    IN_BLOCK,
    LOCAL_WINDOW,
    LOW_32_BITS,
    PARAM_WINDOW,
    SHARED_WINDOW,
    WINDOW_BITS,
)
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind

Addresses = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_WINDOWS = {
    int(SHARED_WINDOW >> WINDOW_BITS): StateSpace.SHARED,
    int(LOCAL_WINDOW >> WINDOW_BITS): StateSpace.LOCAL,
    int(PARAM_WINDOW >> WINDOW_BITS): StateSpace.PARAM,
    int(CONST_WINDOW >> WINDOW_BITS): StateSpace.CONST,
}


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where addresses lie: offsets into one region's data. `pick`: which of the addresses these are, None for all."""

    region: MemoryRegion
    offsets: Offsets
    pick: npt.NDArray[np.intp] | None


class AddressMap:
    """The regions of a batch by address. `tensors` in order of their bases; shared and local memory may be empty."""

    def __init__(
        self,
        tensors: list[MemoryRegion],
        shared: MemoryRegion,
        local: MemoryRegion,
        param: MemoryRegion,
        const: MemoryRegion,
    ) -> None:
        self.tensors = tensors
        self.shared, self.local, self.param, self.const = shared, local, param, const
        self._bases = np.array([t.base for t in tensors], np.uint64)

    def places(
        self, group: LaneGroup[Batch], insn: PtxInstruction, space: StateSpace, addresses: Addresses, nbytes: int
    ) -> list[MemoryPlace]:
        """One place a region, addresses out of bounds reported and left out. Addresses have one element a lane."""
        if not len(addresses):
            return []
        if space is StateSpace.GENERIC:
            return self._generic(group, insn, addresses, nbytes)
        if space is StateSpace.GLOBAL:
            return self._global(group, insn, addresses, nbytes)
        if space is StateSpace.SHARED:
            return self._shared(group, insn, addresses, nbytes)
        if space is StateSpace.LOCAL:
            low = addresses.astype(np.int64) - self.local.base
            return self._copy(group, insn, self.local, addresses, low, low + group.lanes * self.local.pitch, nbytes)
        region = self.param if space is StateSpace.PARAM else self.const
        low = addresses.astype(np.int64) - region.base
        return self._copy(group, insn, region, addresses, low, low, nbytes)

    def name_at(self, space: StateSpace, addresses: Addresses, bad: Flags) -> str | None:
        """The name of the region that the first bad address points into or next to."""
        first = int(np.flatnonzero(bad)[0])
        address = addresses[first]
        if space is StateSpace.GENERIC:
            space = _WINDOWS.get(int(address >> WINDOW_BITS), StateSpace.GLOBAL)
        if space is not StateSpace.GLOBAL:
            return {
                StateSpace.SHARED: self.shared,
                StateSpace.LOCAL: self.local,
                StateSpace.PARAM: self.param,
                StateSpace.CONST: self.const,
            }[space].name
        return self._nearest(int(address)).name if self.tensors else None

    def _generic(
        self, group: LaneGroup[Batch], insn: PtxInstruction, addresses: Addresses, nbytes: int
    ) -> list[MemoryPlace]:
        windows = addresses >> WINDOW_BITS
        if (windows == windows[0]).all():
            space = _WINDOWS.get(int(windows[0]), StateSpace.GLOBAL)
            if space is StateSpace.GLOBAL:
                return self._global(group, insn, addresses, nbytes)
            return self.places(group, insn, space, addresses & LOW_32_BITS, nbytes)
        found = []
        for window in np.unique(windows).tolist():
            which = np.flatnonzero(windows == window)
            space = _WINDOWS.get(window, StateSpace.GLOBAL)
            part = addresses[which] if space is StateSpace.GLOBAL else addresses[which] & LOW_32_BITS
            inner = self.places(group.at(which), insn, space, part, nbytes)
            found += [MemoryPlace(p.region, p.offsets, which if p.pick is None else which[p.pick]) for p in inner]
        return found

    def _shared(
        self, group: LaneGroup[Batch], insn: PtxInstruction, addresses: Addresses, nbytes: int
    ) -> list[MemoryPlace]:
        if len(addresses) == 1 and (one := self._one_shared(group, int(addresses[0]), nbytes)) is not None:
            return [one]
        region, slots = self.shared, group.slots
        if addresses.max() <= IN_BLOCK:  # each lane's own block
            within = addresses.astype(np.int64) - region.base
        else:
            rank = (addresses >> CLUSTER_RANK_SHIFT).astype(np.int64)
            within = (addresses & IN_BLOCK).astype(np.int64) - region.base
            size = group.machine.threads.cluster_blocks
            outside = rank > size
            slots = np.where((rank > 0) & ~outside, slots - slots % size + rank - 1, slots)
            gone = group.machine.has_ended(slots) & (slots != group.slots)
            for bad, message in (
                (outside, f"names a block that the cluster of {size} does not have. Give mapa a rank below that"),
                (gone, "is in a block that has exited. Keep the block alive: end with a cluster barrier"),
            ):
                if bad.any():
                    group.fault(
                        FaultKind.OUT_OF_BOUNDS, insn, f"The shared address {message}.", bad, addresses, region.name
                    )
            keep = np.flatnonzero(~(outside | gone))
            if not len(keep):
                return []
            if len(keep) < len(addresses):
                part = group.at(keep)
                offsets = within[keep] + slots[keep] * region.pitch
                inner = self._copy(part, insn, region, addresses[keep], within[keep], offsets, nbytes)
                return [MemoryPlace(p.region, p.offsets, keep if p.pick is None else keep[p.pick]) for p in inner]
        return self._copy(group, insn, region, addresses, within, within + slots * region.pitch, nbytes)

    def _one_shared(self, group: LaneGroup[Batch], address: int, nbytes: int) -> MemoryPlace | None:
        """As `_shared`, of one address: copies and barriers ask for one. None where something may be wrong with it."""
        region, rank = self.shared, address >> int(CLUSTER_RANK_SHIFT)
        within, slot = (address & int(IN_BLOCK)) - region.base, int(group.slots[0])
        if rank:
            size = group.machine.threads.cluster_blocks
            own, slot = slot, slot - slot % size + rank - 1
            if rank > size or (slot != own and group.machine.has_ended(np.array([slot]))[0]):
                return None
        if not region.lead <= within <= region.lead + region.size - nbytes:
            return None
        return MemoryPlace(region, np.array([within + slot * region.pitch]), None)

    def _copy(
        self,
        group: LaneGroup[Batch],
        insn: PtxInstruction,
        region: MemoryRegion,
        addresses: Addresses,
        within: Offsets,
        offsets: Offsets,
        nbytes: int,
    ) -> list[MemoryPlace]:
        """Bounds of the addresses `within` a copy of a region; `offsets` are those into its data."""
        good = (within >= region.lead) & (within <= region.lead + region.size - nbytes)
        if good.all():
            return [MemoryPlace(region, offsets, None)]
        first = int(np.flatnonzero(~good)[0])
        near, past = region, int(within[first])
        if region.space is StateSpace.GLOBAL:
            near = self._nearest(int(addresses[first]))
            past = int(addresses[first]) - near.base
        group.fault(
            FaultKind.OUT_OF_BOUNDS, insn, _outside(near, past - near.lead, nbytes), ~good, addresses, near.name
        )
        pick = np.flatnonzero(good)
        return [MemoryPlace(region, offsets[pick], pick)] if len(pick) else []

    def _global(
        self, group: LaneGroup[Batch], insn: PtxInstruction, addresses: Addresses, nbytes: int
    ) -> list[MemoryPlace]:
        if not self.tensors:
            group.fault(
                FaultKind.OUT_OF_BOUNDS,
                insn,
                "The address is in no tensor: the launch has none. Pass the tensor as an argument.",
                None,
                addresses,
            )
            return []
        near = self._nearest(int(addresses[0]))
        offsets = addresses.astype(np.int64) - near.base
        if int(offsets.min()) >= near.lead and int(offsets.max()) <= near.lead + near.size - nbytes:
            return [MemoryPlace(near, offsets, None)]
        number = np.maximum(np.searchsorted(self._bases, addresses, side="right") - 1, 0)
        found = []
        for index in np.unique(number).tolist():
            which = np.flatnonzero(number == index)
            region = self.tensors[index]
            part = group.at(which)
            offsets = addresses[which].astype(np.int64) - region.base
            inner = self._copy(part, insn, region, addresses[which], offsets, offsets, nbytes)
            found += [MemoryPlace(p.region, p.offsets, which if p.pick is None else which[p.pick]) for p in inner]
        return found

    def _nearest(self, address: int) -> MemoryRegion:
        """The tensor that an address lies in, or the nearest one. There is at least one."""
        index = int(np.searchsorted(self._bases, np.uint64(address), side="right")) - 1
        if index < 0:
            return self.tensors[0]
        here = self.tensors[index]
        past = address - (here.base + here.lead + here.size)
        if past >= 0 and index + 1 < len(self.tensors) and self.tensors[index + 1].base - address < past:
            return self.tensors[index + 1]
        return here


def _outside(region: MemoryRegion, within: int, nbytes: int) -> str:
    what = f"tensor {region.name}" if region.space is StateSpace.GLOBAL else region.name
    where = f"{-within} bytes before the start" if within < 0 else f"at byte {within} to {within + nbytes - 1}"
    return (
        f"An access of {nbytes} bytes {where} of {what}, which has {region.size} bytes. "
        "Guard the index, or make the allocation larger."
    )
