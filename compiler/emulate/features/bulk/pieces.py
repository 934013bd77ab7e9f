"""One end of a copy: runs of bytes in global or shared memory that an operation reads, writes or reduces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.bulk.reduction import Reduction
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.machine import Machine
from compiler.emulate.memory.places import MemoryPlace
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Pieces:
    """`count` runs of `unit` bytes. Those that lie nowhere (out of bounds, and reported) read as zeros and drop writes.

    `active` is the issuing lane, as often as there are runs.
    """

    machine: Machine
    active: Active
    insn: PtxInstruction
    places: list[MemoryPlace]
    count: int
    unit: int

    @property
    def name(self) -> str:
        """The tensor or memory that it lies in."""
        return self.places[0].region.name if self.places else "nowhere"

    def read(self, actor: Actor | None) -> Bytes:
        """(count, unit) bytes."""
        found = np.zeros((self.count, self.unit), np.uint8)
        for place in self.places:
            part = self.machine.memory.read_bytes(
                actor, self._part(place), self.insn, place.region, place.offsets, self.unit
            )
            found[slice(None) if place.pick is None else place.pick] = part
        return found

    def write(self, actor: Actor | None, values: Bytes) -> None:
        """Writes (count, unit) bytes."""
        for place in self.places:
            part = self._part(place)
            given = values if place.pick is None else values[place.pick]
            self._spare_barriers(part, place)
            self.machine.memory.write_bytes(actor, part, self.insn, place.region, place.offsets, given)

    def reduce(self, actor: Actor | None, values: Bytes, reduction: Reduction) -> None:
        """Combines (count, unit) bytes with those that are there, each element atomically."""
        memory = self.machine.memory
        for place in self.places:
            part = self._part(place)
            given = values if place.pick is None else values[place.pick]
            self._spare_barriers(part, place)
            old = memory.read_bytes(None, part, self.insn, place.region, place.offsets, self.unit)
            new = reduction.combine(old, given)
            if actor is not None:
                self.machine.order.actor_access(actor, place.region, Access.ATOMIC, self.insn, place.offsets, self.unit)
            memory.write_bytes(None, part, self.insn, place.region, place.offsets, new)

    def into(self, reduction: Reduction | None) -> Callable[[Actor | None, Bytes], None]:
        """What puts data here: writes it, or reduces it with what is there."""
        if reduction is None:
            return self.write
        return lambda actor, values: self.reduce(actor, values, reduction)

    def _part(self, place: MemoryPlace) -> Active:
        return self.active if place.pick is None else Active(self.machine, self.active.lanes[place.pick])

    def _spare_barriers(self, part: Active, place: MemoryPlace) -> None:
        if place.region.space is StateSpace.SHARED:
            self.machine.engine(MBarriers).shared_access(part, self.insn, place.offsets, self.unit, True)


def pieces(
    machine: Machine,
    lane: int,
    insn: PtxInstruction,
    space: StateSpace,
    addresses: npt.NDArray[np.uint64],
    unit: int,
    align: int = 1,
) -> Pieces:
    """The runs at `addresses`; what is out of bounds or misaligned is reported as `lane`'s."""
    active = Active(machine, np.full(len(addresses), lane))
    is_somewhere = unit and len(addresses) and is_aligned(active, insn, space, addresses, align)
    found = machine.memory.locate(active, insn, space, addresses, unit) if is_somewhere else []
    return Pieces(machine, active, insn, found, len(addresses), unit)


def is_aligned(
    active: Active, insn: PtxInstruction, space: StateSpace, addresses: npt.NDArray[np.uint64], align: int
) -> bool:
    """Whether all addresses of a copy are multiples of `align`; reports them if not."""
    bad = addresses % np.uint64(align) != 0
    if bad.any():
        active.fault(
            FaultKind.MISALIGNED,
            insn,
            f"The {space} address {int(addresses[bad][0]):#x} of the copy is no multiple of {align} bytes. Align the "
            "memory and the offset.",
            bad,
            addresses,
            active.machine.memory.addresses.name_at(space, addresses, bad),
        )
    return not bad.any()
