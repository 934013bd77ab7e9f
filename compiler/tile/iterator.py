"""Tile iterators: a tile cut into smaller ones along each dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import Generic, TypeVar

from compiler.tile.errors import TileError
from compiler.tile.layout import Layout, Step, layout_from
from compiler.tile.tile import GlobalTile, SharedTile

MemoryTile = TypeVar("MemoryTile", GlobalTile, SharedTile)


@dataclass(frozen=True, slots=True)
class Part(Generic[MemoryTile]):
    """One of the smaller tiles: `index` in the grid of parts, `origin` in the whole tile, and the tile itself.

    `is_edge`: the whole tile ends inside it, so the part is smaller than the others.
    """

    index: tuple[int, int]
    origin: tuple[int, int]
    tile: MemoryTile
    is_edge: bool


@dataclass(frozen=True, slots=True)
class TileIterator(Generic[MemoryTile]):
    """The parts of `tile`, each of shape `part`, row by row; parts at the edges are cut off where `edges` allows it.

    Raises TileError for a part that does not divide the tile while `edges` is off, and one that no layout composed at
    most once describes.
    """

    tile: MemoryTile
    part: tuple[int, int]
    edges: bool = False

    def __post_init__(self) -> None:
        shape = self.tile.shape
        if min(self.part) < 1:
            raise TileError("tile iterator", f"parts of {self.part}", "extents from 1", "Give both extents.")
        if not self.edges and any(n % p for n, p in zip(shape, self.part, strict=True)):
            raise TileError(
                "tile iterator",
                f"parts of {self.part} in a tile of {shape}",
                "a part that divides the tile",
                "Choose divisors of the tile's extents, or allow edges.",
            )
        # Rows are cut alike in every column of parts, and columns in every row.
        for index in (*((r, 0) for r in range(self.shape[0])), *((0, c) for c in range(self.shape[1]))):
            self[index]

    @property
    def shape(self) -> tuple[int, int]:
        """How many parts there are along each dimension."""
        (rows, columns), (height, width) = self.tile.shape, self.part
        return -(-rows // height), -(-columns // width)

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, index: tuple[int, int]) -> Part[MemoryTile]:
        """The part at that row and column of the grid. Raises IndexError outside it."""
        if not all(0 <= i < n for i, n in zip(index, self.shape, strict=True)):
            raise IndexError(f"Found part {index}, expected one inside {self.shape}.")
        origin = index[0] * self.part[0], index[1] * self.part[1]
        extents = tuple(min(p, n - o) for p, n, o in zip(self.part, self.tile.shape, origin, strict=True))
        return Part(index, origin, self._cut(origin, (extents[0], extents[1])), extents != self.part)

    def __iter__(self) -> Iterator[Part[MemoryTile]]:
        rows, columns = self.shape
        return (self[r, c] for r in range(rows) for c in range(columns))

    def _cut(self, origin: tuple[int, int], extents: tuple[int, int]) -> MemoryTile:
        whole = self.tile.layout
        rows = _window(whole.row_steps, origin[0], extents[0])
        columns = _window(whole.column_steps, origin[1], extents[1])
        layout = None if rows is None or columns is None else layout_from(rows, columns)
        if layout is None:
            raise TileError(
                "tile iterator",
                f"parts of {self.part} in {whole}",
                "parts that lie in one tile of the layout, or hold whole ones",
                "Cut along the tiles of the layout.",
            )
        return _moved(self.tile, layout, self.tile.offset + whole(*origin))


class GTileIterator(TileIterator[GlobalTile]):
    """Parts of a global tile."""


class STileIterator(TileIterator[SharedTile]):
    """Parts of a shared tile."""


def _moved(tile: MemoryTile, layout: Layout, offset: int) -> MemoryTile:
    return replace(tile, layout=layout, offset=offset)


def _window(steps: tuple[Step, ...], origin: int, extent: int) -> tuple[Step, ...] | None:
    """Levels of the positions [origin, origin + extent) of a dimension; None where no levels describe them."""
    inner = steps[-1]
    if len(steps) == 1 or origin % inner.extent + extent <= inner.extent:
        return (Step(extent, inner.stride),)
    if gcd(origin, extent) % inner.extent:
        return None
    return (Step(extent // inner.extent, steps[0].stride), inner)
