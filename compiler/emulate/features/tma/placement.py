"""Tiles of a tensor map: which bytes of the tensor they are, and where they lie in shared memory. Pure functions.

Tile mode (PTX ISA, "Tensor Data Movement"): a tile is a run of rows; a row is the innermost dimension of the box, whose
element stride counts as 1, so a row is a run of bytes in the tensor. Rows lie `pitch` bytes apart in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.tma.elements import Element
from compiler.emulate.features.tma.tensor_map import UNIT, DecodedMap

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class CopiedTile:
    """A tile of a map at some coordinates.

    `rows` is the number of rows, each `row_bytes` long. `inside` are the numbers of the rows that lie in the tensor,
    and `starts` the byte offsets from the map's address of their first byte in it. Of every such row, bytes `first` to
    `last` (exclusive) lie in the tensor.
    """

    rows: int
    row_bytes: int
    inside: Ints
    starts: Ints
    first: int
    last: int

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tile: what a load adds to the transaction count, parts out of bounds too (measured on an
        H200)."""
        return self.rows * self.row_bytes

    @property
    def run(self) -> int:
        """Bytes of each row that lie in the tensor."""
        return self.last - self.first


def tile_at(m: DecodedMap, coordinates: Sequence[int], *, store: bool) -> CopiedTile:
    """The tile of a sound map at `coordinates` (elements, innermost first, one a dimension).

    Dimension i takes the coordinates c, c + s, c + 2s… for element stride s. A store clips the innermost dimension at
    the next multiple of 16 bytes and not at the element: measured on an H200, where a store of 100745222 bytes wrote
    the 10 bytes behind them. A load clips at the element.
    """
    outer = [
        c + s * np.arange(n, dtype=np.int64)
        for c, s, n in zip(coordinates[1:], m.element_strides[1 : m.rank], m.extents[1:], strict=True)
    ]
    return _tile(m, coordinates[0], _rows(m, outer), store)


def gathered_at(m: DecodedMap, coordinates: Sequence[int], *, store: bool) -> CopiedTile:
    """The tile of `tile::gather4` and `tile::scatter4`: column x of the map and four rows (PTX ISA, "Tiled::gather4").

    `coordinates` are x and the four rows.
    """
    return _tile(m, coordinates[0], _rows(m, [np.array(coordinates[1:], np.int64)]), store)


def _rows(m: DecodedMap, outer: list[Ints]) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Byte offset of each row and whether it lies in the tensor; dimension 1 runs fastest."""
    offsets, good = np.zeros(1, np.int64), np.ones(1, np.bool_)
    for at, size, stride in zip(outer, m.dims[1 : m.rank], m.strides, strict=False):
        offsets = (at[:, None] * stride + offsets).ravel()
        good = (((at >= 0) & (at < size))[:, None] & good).ravel()
    return offsets, good


def _tile(m: DecodedMap, column: int, rows: tuple[Ints, npt.NDArray[np.bool_]], store: bool) -> CopiedTile:
    offsets, good = rows
    start = column * m.type.nbytes
    end = m.dims[0] * m.type.nbytes
    if store:
        end = -(-end // UNIT) * UNIT
    first = min(max(0, -start), m.row_bytes)
    last = max(first, min(m.row_bytes, end - start))
    inside = np.flatnonzero(good) if last > first else np.zeros(0, np.int64)
    return CopiedTile(len(offsets), m.row_bytes, inside, offsets[inside] + start + first, first, last)


def filled(tile: CopiedTile, found: Bytes, element: Element, nan: bool) -> Bytes:
    """The rows of a load, (rows, row_bytes): `found`, (inside, run), and zeros or NaNs where the tensor ends."""
    rows = np.zeros((tile.rows, tile.row_bytes), np.uint8)
    if nan:
        rows[:] = np.tile(np.frombuffer(element.nan, np.uint8), tile.row_bytes // element.nbytes)
    if len(tile.inside):
        rows[tile.inside, tile.first : tile.last] = found
    return rows


def places(m: DecodedMap, rows: Ints, nbytes: int, address: int) -> tuple[Ints, int]:
    """Where the first `nbytes` bytes of some rows of a tile lie in shared memory, and in runs of how many bytes.

    Addresses have the order of the dense rows. `address` is the shared address of the tile, whose bits the swizzle
    takes: a tile that does not start on the pattern's repeat starts in the middle of it (PTX ISA, "Swizzling Modes").
    """
    if not m.swizzle.span and nbytes == m.row_bytes and len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return np.array([address + rows[0] * m.pitch], np.int64), len(rows) * nbytes
    unit = m.swizzle.unit if m.swizzle.span else nbytes
    at = address + rows[:, None] * m.pitch + np.arange(0, nbytes, unit or 1)
    return m.swizzle.address(at.ravel()), unit
