"""Register layouts against the fragments of the tensor cores."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.copies.errors import TileError
from compiler.copies.layout import MatrixLayout, column_major, compose, row_major
from compiler.copies.registers import (
    BaseTile,
    BaseTileColMajor,
    BaseTileRowMajor,
    Move,
    RegisterLayout,
    ThreadLayout,
    compose_base_tile,
)


def fragment(lane: int, v: int) -> tuple[int, int]:
    """Operand A of mma.m16n8k16 and of wgmma: row and column of element v of a lane (PTX ISA)."""
    return lane // 4 + 8 * (v // 2 % 2), 2 * (lane % 4) + v % 2 + 8 * (v // 4)


def test_the_row_major_base_tile_is_the_fragment() -> None:
    for lane, v in product(range(32), range(8)):
        assert BaseTileRowMajor(lane, v) == fragment(lane, v)


def test_the_column_major_base_tile_is_the_fragment_transposed() -> None:
    for lane, v in product(range(32), range(8)):
        assert BaseTileColMajor(lane, v) == fragment(lane, v)[::-1]


@pytest.mark.parametrize("base", [BaseTileRowMajor, BaseTileColMajor])
@pytest.mark.parametrize("tiles", [row_major(1, 1), row_major(2, 3), column_major(2, 3)], ids=str)
def test_a_register_layout_holds_every_element_once(base: BaseTile, tiles: MatrixLayout) -> None:
    layout = compose_base_tile(tiles, base)
    count = 8 * tiles.shape[0] * tiles.shape[1]
    assert layout.shape == (16 * tiles.shape[0], 16 * tiles.shape[1])
    held = {layout(lane, register) for lane, register in product(range(32), range(count))}
    assert held == set(product(range(layout.shape[0]), range(layout.shape[1])))
    for lane, register in product((0, 7, 31), range(count)):
        tile = next(p for p in product(*map(range, tiles.shape)) if tiles(*p) == register // 8)
        row, column = base(lane, register % 8)
        assert layout(lane, register) == (16 * tile[0] + row, 16 * tile[1] + column)


@pytest.mark.parametrize("warps", [row_major(2, 2), column_major(2, 2), row_major(4, 1), row_major(1, 1)], ids=str)
def test_warps_hold_their_parts_of_the_block_s_tile(warps: MatrixLayout) -> None:
    layout = RegisterLayout(BaseTileRowMajor, row_major(1, 2))
    whole = layout.over(warps)
    assert whole.shape == (16 * warps.shape[0], 32 * warps.shape[1])
    for part in product(*map(range, warps.shape)):
        for lane, register in product((0, 5, 31), range(16)):
            row, column = layout(lane, register)
            assert whole(32 * warps(*part) + lane, register) == (16 * part[0] + row, 32 * part[1] + column)


def test_base_tiles_are_composed_once() -> None:
    tiled = compose(row_major(2, 1), row_major(1, 2))
    with pytest.raises(TileError, match="Compose once"):
        compose_base_tile(tiled, BaseTileRowMajor)
    with pytest.raises(TileError, match="Compose once"):
        RegisterLayout(BaseTileRowMajor, tiled)  # type: ignore[arg-type]  # what is refused


def test_base_tiles_are_numbered_densely() -> None:
    with pytest.raises(TileError, match="dense"):
        RegisterLayout(BaseTileRowMajor, row_major(2, 2, 3))


def test_threads_without_a_part_hold_nothing() -> None:
    layout = ThreadLayout((2, 3), (4, 2, 1), ((Move(2, 0, 2),), (Move(2, 1, 0),), ()), (Move(2, 0, 1),))
    assert layout(0, 1) == (0, 1)
    assert layout(5, 0) == (1, 2)
    assert layout(5, 1) is None, "the tile ends before column 3"
    assert layout(2, 0) is None, "only two of four threads in x take part"


def test_places_are_the_function_at_every_point() -> None:
    layout = ThreadLayout((3, 5), (4, 2, 2), ((Move(2, 0, 2),), (Move(2, 2, 0),), ()), (Move(2, 1, 0), Move(2, 0, 1)))
    rows, columns, active = layout.places()
    for thread, register in product(range(layout.thread_count), range(layout.register_count)):
        place = layout(thread, register)
        assert bool(active[thread, register]) == (place is not None)
        if place is not None:
            assert (rows[thread, register], columns[thread, register]) == place
