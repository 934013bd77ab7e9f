"""Swizzle modes against numbers of the PTX ISA's tables, and as permutations."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.emulate.features.tma.swizzle import SWIZZLES

MODES = ("32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_64B")

TABLE = [
    (0x080, (0x090, 0x090, 0x090, 0x0A0, 0x0C0)),
    (0x0C0, (0x0D0, 0x0D0, 0x0D0, 0x0E0, 0x080)),
    (0x1B0, (0x1A0, 0x180, 0x180, 0x1D0, 0x1F0)),
    (0x3F0, (0x3E0, 0x3C0, 0x380, 0x390, 0x3B0)),
    (0x7A4, (0x7B4, 0x794, 0x7D4, 0x7C4, 0x7E4)),
]


@pytest.mark.parametrize(("address", "placed"), TABLE, ids=[hex(a) for a, _ in TABLE])
def test_addresses_of_the_table(address: int, placed: tuple[int, ...]) -> None:
    given = np.array([address])
    assert tuple(int(SWIZZLES[mode].address(given)[0]) for mode in MODES) == placed


@pytest.mark.parametrize("mode", SWIZZLES)
def test_a_mode_undoes_itself_and_moves_units_whole(mode: str) -> None:
    swizzle = SWIZZLES[mode]
    addresses = np.arange(4096)
    placed = swizzle.address(addresses)
    np.testing.assert_array_equal(swizzle.address(placed), addresses)
    units = placed.reshape(-1, swizzle.unit)
    np.testing.assert_array_equal(units - units[:, :1], np.broadcast_to(np.arange(swizzle.unit), units.shape))
    if swizzle.span:
        np.testing.assert_array_equal(placed // swizzle.span, addresses // swizzle.span)


def test_the_flip_swaps_halves_of_16_bytes_on_odd_lines() -> None:
    plain, flipped = SWIZZLES["128B_ATOM_32B"], SWIZZLES["128B_ATOM_32B_FLIP_8B"]
    line = np.arange(128)
    np.testing.assert_array_equal(flipped.address(line), plain.address(line))
    np.testing.assert_array_equal(flipped.address(line + 128), plain.address(line + 128) ^ 8)
