"""Iterators cut a tile into parts that hold every element of it once."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.tile.errors import TileError
from compiler.tile.iterator import GTileIterator, STileIterator
from compiler.tile.layout import Layout, column_major, compose, row_major
from compiler.tile.swizzle import hardware
from compiler.tile.tile import GlobalTile, SharedTile

LAYOUTS: list[Layout] = [row_major(12, 8, 20), column_major(12, 8), compose(row_major(3, 2), row_major(4, 4))]


def shared(layout: Layout) -> SharedTile:
    return SharedTile(DType.F16, layout, hardware(32))


@settings(derandomize=True, deadline=None)
@given(st.sampled_from(LAYOUTS), st.integers(1, 12), st.integers(1, 8))
def test_parts_hold_every_element_once(layout: Layout, height: int, width: int) -> None:
    tile = shared(layout)
    try:
        parts = STileIterator(tile, (height, width), edges=True)
    except TileError:
        assert layout is LAYOUTS[2], "a matrix layout can be cut anywhere"
        assert any(p % 4 and 4 % p for p in (height, width)), "parts of whole tiles, or inside one, are possible"
        return
    found = list(parts)
    assert len(found) == len(parts)
    held = []
    for part in found:
        rows, columns = part.tile.shape
        assert part.is_edge == (part.tile.shape != (height, width))
        for row, column in product(range(rows), range(columns)):
            whole = part.origin[0] + row, part.origin[1] + column
            assert part.tile.address(row, column) == tile.address(*whole)
            held.append(whole)
    assert sorted(held) == list(product(range(layout.shape[0]), range(layout.shape[1])))


def test_an_iterator_is_indexed_by_part() -> None:
    tile = GlobalTile(DType.F32, row_major(64, 256))
    parts = GTileIterator(tile, (64, 32))
    assert parts.shape == (1, 8)
    third = parts[0, 2]
    assert third.origin == (0, 64)
    assert third.tile == GlobalTile(DType.F32, row_major(64, 32, 256), offset=64)
    assert [p.index for p in parts] == [(0, i) for i in range(8)]
    with pytest.raises(IndexError, match="inside"):
        parts[0, 8]


def test_a_part_of_a_part_starts_where_both_say() -> None:
    tile = GTileIterator(GlobalTile(DType.F32, row_major(64, 64)), (32, 32))[1, 1].tile
    assert GTileIterator(tile, (16, 32))[1, 0].tile.offset == 48 * 64 + 32


@pytest.mark.parametrize("part", [(5, 8), (12, 3), (24, 8)])
def test_parts_that_do_not_divide_are_refused_unless_edges_are_allowed(part: tuple[int, int]) -> None:
    tile = shared(LAYOUTS[0])
    with pytest.raises(TileError, match="divide"):
        STileIterator(tile, part)
    assert any(p.is_edge for p in STileIterator(tile, part, edges=True))


def test_parts_that_cross_the_tiles_of_a_layout_are_refused() -> None:
    with pytest.raises(TileError, match="tiles of the layout"):
        STileIterator(shared(LAYOUTS[2]), (6, 8))


def test_a_part_without_extent_is_refused() -> None:
    with pytest.raises(TileError, match="extents from 1"):
        STileIterator(shared(LAYOUTS[0]), (0, 8))
