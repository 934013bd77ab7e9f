"""Swizzles read off offsets, and warp layouts read off threads."""

from __future__ import annotations

import pytest

from compiler.copies.errors import TileError
from compiler.copies.layout import MatrixLayout, column_major, row_major
from compiler.copies.registers import Move
from compiler.copies.software_swizzle import recognise, without_swizzle
from compiler.copies.swizzle import Swizzle
from compiler.copies.warps import warps_of
from compiler.ir.expr import Var, var

A, B, C = Var("a", 8), Var("b", 8), Var("c", 4)
XORS = {
    "rows xored by chunks": (var(A) * 32 + (var(B) ^ var(A)) * 4 + var(C), Swizzle(3, 4, 3)),
    "nothing": (var(A) * 32 + var(B) * 4 + var(C), None),
    "chunks xored into rows": ((var(A) ^ var(B)) * 32 + var(B) * 4 + var(C), TileError),
    "by twice the row": (var(A) * 32 + (var(B) ^ ((var(A) * 2) % 8)) * 4 + var(C), TileError),
    "by the chunk itself": (var(A) * 32 + (var(B) ^ (var(B) // 2)) * 4 + var(C), TileError),
    "by two rows at once": (var(A) * 32 + (var(B) ^ ((var(A) * 2 + var(C)) % 8)) * 4, TileError),
    "of six chunks": (var(A) * 24 + (var(Var("d", 6)) ^ var(A)) * 4 + var(C), TileError),
    "of too many rows": (var(Var("e", 1 << 18)) * 32 + (var(B) ^ (var(Var("e", 1 << 18)) % 8)) * 4 + var(C), TileError),
}


@pytest.mark.parametrize("name", XORS)
def test_an_xor_of_address_bits_is_a_swizzle_and_no_other(name: str) -> None:
    offset, expected = XORS[name]
    if expected is TileError:
        with pytest.raises(TileError, match="an xor of address bits"):
            recognise(offset, without_swizzle(offset), 32, name)
    else:
        assert recognise(offset, without_swizzle(offset), 32, name) == expected


ROWS = Move(4, 1, 0)
WARPS: dict[str, tuple[tuple[int, int, int], tuple[tuple[Move, ...], ...], MatrixLayout | None]] = {
    "one warp": ((32, 1, 1), ((Move(32, 0, 1),), (), ()), MatrixLayout((1, 1), (0, 0))),
    "a row each": ((32, 4, 1), ((Move(32, 0, 1),), (ROWS,), ()), MatrixLayout((4, 1), (1, 0))),
    "two to a row": ((64, 4, 1), ((Move(64, 0, 1),), (ROWS,), ()), row_major(4, 2)),
    "columns first": ((32, 4, 2), ((Move(32, 0, 1),), (ROWS,), (Move(2, 0, 32),)), column_major(4, 2)),
    "half a warp to a row": ((16, 4, 1), ((Move(16, 0, 1),), (ROWS,), ()), MatrixLayout((2, 1), (1, 0))),
    "one and a half to a row": ((48, 4, 1), ((Move(48, 0, 1),), (ROWS,), ()), None),
    "three lanes to a row": ((3, 64, 1), ((Move(3, 0, 1),), (Move(64, 1, 0),), ()), None),
    "idle threads between": ((32, 4, 1), ((Move(16, 0, 1),), (ROWS,), ()), None),
    "an idle dimension": ((32, 2, 4), ((Move(32, 0, 1),), (), (ROWS,)), MatrixLayout((4, 1), (2, 0))),
}


@pytest.mark.parametrize("name", WARPS)
def test_warps_are_a_matrix_over_the_tile_or_none(name: str) -> None:
    block, threads, expected = WARPS[name]
    assert warps_of(block, (threads[0], threads[1], threads[2])) == expected
