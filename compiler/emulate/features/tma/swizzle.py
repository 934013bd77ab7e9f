"""Swizzle modes of tensor maps: which shared-memory address a byte of a tile goes to (PTX ISA, "Swizzling Modes")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A mode: within a `span` of bytes, units of `atom` bytes change places by the address bits above.

    Address bits in `mask` are xored with the bits `shift` places higher. `flips`: 8-byte halves of 16 bytes also change
    places on odd lines of 128 bytes. `mode` and `atomicity` are the numbers of `tensormap.replace` (PTX ISA).
    """

    name: str
    mode: int
    atomicity: int
    span: int
    atom: int
    mask: int
    shift: int
    flips: bool = False

    @property
    def unit(self) -> int:
        """Bytes that stay together whatever the mode, 16 at most."""
        return 8 if self.flips else 16

    def address(self, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where bytes of a dense tile at these shared addresses go. Each mode is its own inverse."""
        placed = addresses ^ ((addresses >> self.shift) & self.mask)
        return placed ^ ((addresses >> 4) & 8) if self.flips else placed


SWIZZLES = {
    s.name: s
    for s in (
        Swizzle("NONE", 0, 0, 0, 16, 0, 0),
        Swizzle("32B", 1, 0, 32, 16, 0x10, 3),
        Swizzle("64B", 2, 0, 64, 16, 0x30, 3),
        Swizzle("128B", 3, 0, 128, 16, 0x70, 3),
        Swizzle("128B_ATOM_32B", 3, 1, 128, 32, 0x60, 2),
        Swizzle("128B_ATOM_32B_FLIP_8B", 3, 2, 128, 32, 0x60, 2, flips=True),
        Swizzle("128B_ATOM_64B", 3, 3, 128, 64, 0x40, 1),
    )
}
"""By the name of `CUtensorMapSwizzle`. The flip of 8 bytes rests on the manual's prose, which has no table of it."""
