"""Digits of a copy as rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.copies.layout import Layout, LayoutStep, MatrixLayout, layout_from
from compiler.copies.registers import Move, Moves
from compiler.ir.expr import Var
from compiler.ir.iter_domain import MemoryType


@dataclass(frozen=True, slots=True)
class Grid:
    """Digits that count rows, and digits that count columns, both outermost first."""

    rows: tuple[Var, ...]
    columns: tuple[Var, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return prod(d.extent for d in self.rows), prod(d.extent for d in self.columns)

    def layout(self, strides: Mapping[Var, int]) -> Layout:
        """The layout with these strides. One that `grid_of` was asked for exists."""
        found = self.find_layout(strides)
        assert found is not None, "the grid was made for these strides"
        return found

    def find_layout(self, strides: Mapping[Var, int]) -> Layout | None:
        """The layout with these strides; None where no single composition gives it."""
        rows, columns = (tuple(LayoutStep(d.extent, strides[d]) for d in side) for side in (self.rows, self.columns))
        return layout_from(rows, columns)

    def compositions(self, sides: Iterable[Mapping[Var, int]]) -> int | None:
        """How many of the sides need a composed layout; None where a side has none."""
        layouts = [self.find_layout(s) for s in sides]
        return None if None in layouts else sum(not isinstance(layout, MatrixLayout) for layout in layouts)

    def moves(self, digits: Iterable[Var]) -> Moves:
        """How each of the digits moves through rows and columns."""
        return tuple(self._move(d) for d in digits)

    def ascending(self, digits: Iterable[Var]) -> Moves:
        """The same, the digits in an order that goes row by row."""
        return tuple(sorted(self.moves(digits), key=lambda m: (-m.rows, -m.columns)))

    def _move(self, digit: Var) -> Move:
        if digit in self.rows:
            return Move(digit.extent, prod(d.extent for d in self.rows[self.rows.index(digit) + 1 :]), 0)
        return Move(digit.extent, 0, prod(d.extent for d in self.columns[self.columns.index(digit) + 1 :]))


def grid_of(digits: Sequence[Var], sides: Sequence[tuple[MemoryType, Mapping[Var, int]]], line: int) -> Grid | None:
    """Rows and columns in which every memory of the copy has a layout; None where there are none.

    As few of them as possible are composed. Columns are neighbours in global memory, else in shared memory, up to the
    `line` elements that lie over all banks. In tensor memory rows are lanes. Registers take any.
    """
    rank = (MemoryType.GLOBAL, MemoryType.SHARED, MemoryType.LOCAL)
    lanes = [strides for memory, strides in sides if memory is MemoryType.TENSOR]
    if lanes:
        order = sorted(digits, key=lambda d: (-lanes[0][d], -lanes[1][d]))
        on_lanes = tuple(d for d in order if lanes[0][d])
        grid = Grid(on_lanes, tuple(d for d in order if not lanes[0][d]))
        return grid if all(grid.find_layout(s) is not None for s in lanes) else None
    addressed = [s for m, s in sorted(sides, key=lambda side: rank.index(side[0])) if m is not MemoryType.LOCAL]
    is_global = any(m is MemoryType.GLOBAL for m, _ in sides)
    for reference in addressed or [s for _, s in sides]:
        order = sorted(digits, key=lambda d: (reference[d] != 0, -reference[d]))
        neighbours = _contiguous_from(order, reference, None if is_global else line)
        cuts = sorted(range(len(order) + 1), key=lambda k: (abs(k - neighbours), k))
        grids = [Grid(tuple(order[:k]), tuple(order[k:])) for k in cuts]
        possible = [(n, grid) for grid in grids if (n := grid.compositions(addressed)) is not None]
        if possible:
            return min(possible, key=lambda found: found[0])[1]
    return None


def _contiguous_from(order: Sequence[Var], strides: Mapping[Var, int], line: int | None) -> int:
    """Where in the order the digits begin that are neighbours of one another, down to the last, on one line."""
    reach, at = 1, len(order)
    while at and strides[order[at - 1]] == reach and reach != line:
        at -= 1
        reach *= order[at].extent
    return at
