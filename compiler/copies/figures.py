"""What a copy costs its memories: sectors of global requests, wavefronts of shared ones, by counting addresses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from compiler.analysis.memory.bank_conflicts import ideal_wavefronts, wavefronts
from compiler.arch import SECTOR_BYTES
from compiler.copies.layout import Array


@dataclass(frozen=True, slots=True)
class Coalescing:
    """Of all global requests: the sectors they touch, the bytes they move, the sectors these bytes would fill."""

    requests: int
    sectors: int
    nbytes: int

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests

    @property
    def efficiency(self) -> float:
        """Share of the bytes in the touched sectors that are moved."""
        return self.nbytes / (self.sectors * SECTOR_BYTES)

    def __str__(self) -> str:
        each = _counted(self.sectors_per_request, "sector")
        return f"{_counted(self.requests, 'request')}, {each} each, efficiency {self.efficiency:.0%}"


@dataclass(frozen=True, slots=True)
class BankConflicts:
    """Of all shared requests: the wavefronts they take, and those that conflict-free ones of that width would."""

    requests: int
    wavefronts: int
    least_wavefronts: int

    @property
    def ways(self) -> float:
        """How many times as long as without conflicts: 1 is conflict-free."""
        return self.wavefronts / self.least_wavefronts

    def __str__(self) -> str:
        each = _counted(self.wavefronts / self.requests, "wavefront")
        state = "no conflicts" if self.wavefronts <= self.least_wavefronts else f"{self.ways:.3g}-way conflicts"
        return f"{_counted(self.requests, 'request')}, {each} each, {state}"


def coalescing(requests: Iterable[Array], nbytes: int) -> Coalescing:
    """Sectors of requests, each the byte addresses of its words of `nbytes` bytes, up to 32; -1 for a lane without."""
    count = sectors = moved = 0
    for request in requests:
        addresses = np.unique(request[request >= 0])
        touched = np.concatenate([addresses // SECTOR_BYTES, (addresses + nbytes - 1) // SECTOR_BYTES])
        count += 1
        sectors += len(np.unique(touched))
        moved += len(addresses) * nbytes
    return Coalescing(count, sectors, moved)


def bank_conflicts(requests: Iterable[Array], nbytes: int) -> BankConflicts:
    """Wavefronts of warps' requests, each the byte address that each lane accesses with `nbytes` bytes, or -1.

    Lanes are served in phases (compiler.analysis.memory.bank_conflicts); one without an active lane costs nothing.
    """
    phases = ideal_wavefronts(nbytes)
    count = total = least = 0
    for request in requests:
        count += 1
        for lanes in np.split(request, phases):
            active = lanes[lanes >= 0].tolist()
            if active:
                total += wavefronts(active, nbytes)
                least += 1
    return BankConflicts(count, total, least)


def _counted(number: float, noun: str) -> str:
    return f"{number:.4g} {noun}" if number == 1 else f"{number:.4g} {noun}s"
