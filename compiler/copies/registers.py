"""Register layouts: which element of a tile each thread holds, and in which of its registers.

A register layout goes the other way than a matrix layout: (thread, register) -> (row, column). It is written as a list
of moves; the number of a thread, and of a register, counts through its moves with the last one fastest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

import numpy as np

from compiler.arch import WARP_THREADS
from compiler.copies.errors import TileError
from compiler.copies.layout import Array, Layout, MatrixLayout, composed_twice


@dataclass(frozen=True, slots=True)
class Move:
    """`extent` positions, each `rows` down and `columns` to the right of the one before."""

    extent: int
    rows: int
    columns: int


Moves = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class BaseTile:
    """A 16 x 16 tile of a tensor-core operand as one warp holds it: 8 elements in each of 32 lanes."""

    name: str
    lanes: Moves
    registers: Moves
    shape: tuple[int, int] = (16, 16)

    def __call__(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of the element in that lane and register."""
        return place(self.lanes, lane, self.registers, register)

    def __str__(self) -> str:
        return self.name


BaseTileRowMajor: Final = BaseTile(
    "BaseTileRowMajor",
    lanes=(Move(8, 1, 0), Move(4, 0, 2)),
    registers=(Move(2, 0, 8), Move(2, 8, 0), Move(2, 0, 1)),
)
"""Lane l, element v: row (l / 4) + 8 * (v / 2 % 2), column 2 * (l % 4) + v % 2 + 8 * (v / 4) (PTX ISA, mma.m16n8k16 and
wgmma register fragments: operand A, and the accumulator in pairs)."""

BaseTileColMajor: Final = BaseTile(
    "BaseTileColMajor",
    lanes=(Move(8, 0, 1), Move(4, 2, 0)),
    registers=(Move(2, 8, 0), Move(2, 0, 8), Move(2, 1, 0)),
)
"""The same with rows and columns exchanged: neighbours in a register are neighbours in a column."""


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """A matrix of base tiles in the registers of one warp: register = 8 * tiles(tile row, tile column) + element.

    Raises TileError unless `tiles` is a dense row- or column-major matrix layout.
    """

    base: BaseTile
    tiles: MatrixLayout

    def __post_init__(self) -> None:
        if len(self.tiles.row_steps) > 1:
            raise composed_twice(self.tiles, self.base)
        (rows, columns), strides = self.tiles.shape, self.tiles.strides
        if strides not in ((columns, 1), (1, rows)):
            raise TileError(
                "register layout", str(self.tiles), "dense strides", "Number the base tiles row by row, or by columns."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.tiles.shape[0] * self.base.shape[0], self.tiles.shape[1] * self.base.shape[1]

    @property
    def lanes(self) -> Moves:
        return self.base.lanes

    @property
    def registers(self) -> Moves:
        """Moves of the registers: from base tile to base tile, then inside one."""
        (rows, columns), (height, width) = self.tiles.shape, self.base.shape
        down, right = Move(rows, height, 0), Move(columns, 0, width)
        row_by_row = self.tiles.strides == (columns, 1)
        return (*((down, right) if row_by_row else (right, down)), *self.base.registers)

    def __call__(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of the element in that lane and register."""
        return place(self.lanes, lane, self.registers, register)

    def over(self, warps: MatrixLayout) -> ThreadLayout:
        """The tile of a whole block: `warps` says which warp holds which part of it."""
        (rows, columns), (height, width) = warps.shape, self.shape
        down, right = Move(rows, height, 0), Move(columns, 0, width)
        order = (down, right) if warps.strides == (columns, 1) else (right, down)
        threads = rows * columns * WARP_THREADS
        return ThreadLayout(
            (rows * height, columns * width), (threads, 1, 1), ((*order, *self.lanes), (), ()), self.registers
        )

    def __str__(self) -> str:
        return f"{self.tiles} of {self.base}"


@dataclass(frozen=True, slots=True)
class ThreadLayout:
    """(thread, register) -> (row, column) over the `block` of threads (x, y, z), thread x fastest.

    `threads`: the moves of each thread dimension. Threads of a dimension past its moves hold nothing of their own: they
    repeat what the first of them does, or sit out. `registers`: the moves of what one thread holds.
    """

    shape: tuple[int, int]
    block: tuple[int, int, int]
    threads: tuple[Moves, Moves, Moves]
    registers: Moves

    def __call__(self, thread: int, register: int) -> tuple[int, int] | None:
        """Row and column, None for a thread that holds nothing of its own or a place outside the tile."""
        if (corner := self.corner(thread)) is None:
            return None
        down, right = place((), 0, self.registers, register)
        rows, columns = corner[0] + down, corner[1] + right
        return (rows, columns) if rows < self.shape[0] and columns < self.shape[1] else None

    def corner(self, thread: int) -> tuple[int, int] | None:
        """Row and column that a thread's registers count from, None for a thread that holds nothing of its own."""
        x, y, _ = self.block
        rows = columns = 0
        for index, moves in zip((thread % x, thread // x % y, thread // (x * y)), self.threads, strict=True):
            if index >= count(moves):
                return None
            down, right = place(moves, index, (), 0)
            rows, columns = rows + down, columns + right
        return rows, columns

    @property
    def thread_count(self) -> int:
        return prod(self.block)

    @property
    def register_count(self) -> int:
        return count(self.registers)

    def places(self) -> tuple[Array, Array, Array]:
        """Rows, columns, and whether there is an element: arrays [thread, register]."""
        rows = columns = np.zeros(1, dtype=np.int64)
        active = np.ones(1, dtype=np.bool_)
        for extent, moves in reversed(tuple(zip(self.block, self.threads, strict=True))):
            down, right = _all_places(moves)
            own = np.arange(extent) < len(down)
            down, right = np.resize(down, extent), np.resize(right, extent)
            rows, columns = np.add.outer(rows, down).ravel(), np.add.outer(columns, right).ravel()
            active = np.logical_and.outer(active, own).ravel()
        down, right = _all_places(self.registers)
        rows, columns = np.add.outer(rows, down), np.add.outer(columns, right)
        inside = (rows < self.shape[0]) & (columns < self.shape[1])
        return rows, columns, (active[:, None] & inside).astype(np.int64)

    def __str__(self) -> str:
        used = " x ".join(str(count(m)) for m in self.threads if count(m) > 1) or "1"
        return f"{used} threads of {self.register_count}"


def compose_base_tile(outer: Layout, base: BaseTile) -> RegisterLayout:
    """A matrix layout of base tiles. Raises TileError where `outer` is composed already."""
    if not isinstance(outer, MatrixLayout):
        raise composed_twice(outer, base)
    return RegisterLayout(base, outer)


def count(moves: Iterable[Move]) -> int:
    """How many positions the moves reach."""
    return prod(m.extent for m in moves)


def place(first: Moves, first_index: int, second: Moves, second_index: int) -> tuple[int, int]:
    """Row and column reached by two lists of moves."""
    rows = columns = 0
    for moves, index in ((first, first_index), (second, second_index)):
        for move in reversed(moves):
            rows += index % move.extent * move.rows
            columns += index % move.extent * move.columns
            index //= move.extent
    return rows, columns


def _all_places(moves: Moves) -> tuple[Array, Array]:
    """Rows and columns of every position, in order."""
    rows = columns = np.zeros(1, dtype=np.int64)
    for move in moves:
        steps = np.arange(move.extent, dtype=np.int64)
        rows = np.add.outer(rows, steps * move.rows).ravel()
        columns = np.add.outer(columns, steps * move.columns).ravel()
    return rows, columns


@lru_cache(maxsize=64)
def positions(moves: Moves) -> tuple[tuple[int, int], ...]:
    """Row and column of every position, in order."""
    rows, columns = _all_places(moves)
    return tuple(zip(rows.tolist(), columns.tolist(), strict=True))
