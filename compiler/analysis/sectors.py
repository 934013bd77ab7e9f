"""What one warp access touches of global memory: sectors, halves of lines, lines.

A cache line has 128 bytes and four sectors of 32 bytes (CUDA C++ best practices guide, "Coalesced Access to Global
Memory"). On Hopper, DRAM fills L2 in halves of a line, so reads are paid by the half line and writes by the sector
(measured on an H100: 16 sectors in 16 half lines cost twice what 16 sectors in 8 cost).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SECTOR_BYTES = 32
HALF_LINE_BYTES = 64
LINE_BYTES = 128


class Footprint(NamedTuple):
    """Distinct pieces of global memory that one access touches."""

    sectors: int
    half_lines: int
    lines: int


def sectors(addresses: Sequence[int], width_bytes: int) -> Footprint:
    """Distinct 32-byte sectors, 64-byte half lines and 128-byte lines of lanes touching `width_bytes` at `addresses`.

    Masked lanes are left out of `addresses`; none at all touches nothing. Raises ValueError for an address that is not
    a multiple of the width, which the hardware refuses too.
    """
    if width_bytes not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"width_bytes: found {width_bytes}, expected 1, 2, 4, 8, 16 or 32.")
    for lane, address in enumerate(addresses):
        if address < 0 or address % width_bytes:
            raise ValueError(f"addresses[{lane}]: found {address}, expected a multiple of {width_bytes}, from 0.")
    touched = {address // SECTOR_BYTES for address in addresses}
    return Footprint(
        sectors=len(touched),
        half_lines=len({sector * SECTOR_BYTES // HALF_LINE_BYTES for sector in touched}),
        lines=len({sector * SECTOR_BYTES // LINE_BYTES for sector in touched}),
    )
