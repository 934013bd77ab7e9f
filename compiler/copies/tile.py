"""Tiles: what a block moves at once, in each of the four memories.

A tile has an element type, a shape (through its layout) and what its memory needs to know beside it. Source and target
of a copy are two tiles of one shape: the element at (row, column) of one is the element at (row, column) of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import TMEM_COLUMN_BITS, TMEM_COLUMNS, TMEM_LANES
from compiler.copies.errors import TileError
from compiler.copies.layout import Array, Layout, LayoutStep, coalesced, offsets
from compiler.copies.registers import RegisterLayout, ThreadLayout
from compiler.copies.swizzle import Swizzle
from compiler.dtypes import DType
from compiler.ir.iter_domain import MemoryType


@dataclass(frozen=True, slots=True)
class GlobalTile:
    """A tile of global memory that starts `offset` elements after an address aligned to `align` bytes."""

    dtype: DType
    layout: Layout
    align: int = 16
    offset: int = 0

    @property
    def memory(self) -> MemoryType:
        return MemoryType.GLOBAL

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    def address(self, row: int, column: int) -> int:
        """Byte address of an element, from the aligned start."""
        return (self.offset + self.layout(row, column)) * self.dtype.nbits // 8

    def addresses(self) -> Array:
        """Byte address of every element, from the aligned start."""
        return (self.offset + offsets(self.layout)) * self.dtype.nbits // 8

    def run(self, dimension: int, most_bytes: int) -> int:
        """Elements along a dimension (0 rows, 1 columns) that one aligned access of up to `most_bytes` may take."""
        return _aligned_run(self.layout, dimension, self.dtype, self.offset, min(self.align, most_bytes))

    def __str__(self) -> str:
        return f"global {self.dtype} {self.layout}, {self.align}-byte aligned"


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile of shared memory that starts `offset` elements after an address aligned to `align` bytes.

    Under a swizzle, that address is also a repeat of its pattern, and `layout` and `offset` are those before the xor.
    """

    dtype: DType
    layout: Layout
    swizzle: Swizzle | None = None
    align: int = 128
    offset: int = 0

    @property
    def memory(self) -> MemoryType:
        return MemoryType.SHARED

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    @property
    def span(self) -> int | None:
        """Bytes of the hardware swizzle's span, 0 without a swizzle, None under one that the copy engine lacks."""
        return 0 if self.swizzle is None else self.swizzle.span

    def address(self, row: int, column: int) -> int:
        """Byte address of an element from the aligned start, after the swizzle."""
        dense = (self.offset + self.layout(row, column)) * self.dtype.nbits // 8
        return dense if self.swizzle is None else self.swizzle(dense)

    def addresses(self) -> Array:
        """Byte address of every element from the aligned start, after the swizzle."""
        dense = (self.offset + offsets(self.layout)) * self.dtype.nbits // 8
        return dense if self.swizzle is None else self.swizzle(dense)

    def run(self, dimension: int, most_bytes: int) -> int:
        """Elements along a dimension (0 rows, 1 columns) that one aligned access of up to `most_bytes` may take."""
        most = min(self.align, most_bytes)
        if self.swizzle is not None:
            most = min(most, self.swizzle.chunk_bytes)
        return _aligned_run(self.layout, dimension, self.dtype, self.offset, most)

    def __str__(self) -> str:
        return f"shared {self.dtype} {self.layout}, {self.swizzle or 'no swizzle'}"


@dataclass(frozen=True, slots=True)
class RegTile:
    """A tile in registers: of one warp as base tiles, or of a whole block of threads."""

    dtype: DType
    layout: RegisterLayout | ThreadLayout

    @property
    def memory(self) -> MemoryType:
        return MemoryType.LOCAL

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    def __str__(self) -> str:
        return f"registers {self.dtype} {self.layout}"


@dataclass(frozen=True, slots=True)
class TmemTile:
    """A tile of tensor memory: `lanes` gives the lane of an element, `columns` its place in the lane, in elements.

    Raises TileError for layouts of unequal shapes, and for a tile that no tensor memory holds.
    """

    dtype: DType
    lanes: Layout
    columns: Layout

    def __post_init__(self) -> None:
        if self.lanes.shape != self.columns.shape:
            raise TileError(
                "tensor-memory tile", f"{self.lanes.shape} and {self.columns.shape}", "one shape", "Use one shape."
            )
        used = self.lane_count, self.column_count
        if used[0] > TMEM_LANES or used[1] > TMEM_COLUMNS:
            raise TileError(
                "tensor-memory tile",
                f"{used[0]} lanes and {used[1]} columns",
                f"at most {TMEM_LANES} and {TMEM_COLUMNS}",
                "Take a smaller tile, or move axes between lanes and columns.",
            )

    @property
    def memory(self) -> MemoryType:
        return MemoryType.TENSOR

    @property
    def shape(self) -> tuple[int, int]:
        return self.lanes.shape

    @property
    def lane_count(self) -> int:
        return 1 + _reach(self.lanes)

    @property
    def column_count(self) -> int:
        """4-byte columns."""
        return -(-(1 + _reach(self.columns)) * self.dtype.nbits // TMEM_COLUMN_BITS)

    def __str__(self) -> str:
        return f"tensor memory {self.dtype} lanes {self.lanes}, columns {self.columns}"


MemoryTile = GlobalTile | SharedTile
Tile = GlobalTile | SharedTile | RegTile | TmemTile


def _reach(layout: Layout) -> int:
    return sum((s.extent - 1) * s.stride for s in (*layout.row_steps, *layout.column_steps))


def _aligned_run(layout: Layout, dimension: int, dtype: DType, offset: int, most_bytes: int) -> int:
    """The largest power of two of elements such that every aligned group of them lies in one aligned word.

    1 where not even a pair does, or the dimension is not contiguous.
    """
    along, across = (
        (layout.row_steps, layout.column_steps) if dimension == 0 else (layout.column_steps, layout.row_steps)
    )
    run = 1
    while _groups_are_words(along, across, offset, 2 * run) and 2 * run * dtype.nbits <= 8 * most_bytes:
        run *= 2
    return run


def _groups_are_words(along: tuple[LayoutStep, ...], across: tuple[LayoutStep, ...], offset: int, width: int) -> bool:
    """True if every `width` neighbours from a multiple of it are consecutive and start at a multiple of it."""
    levels = coalesced(along)
    if not levels or levels[-1].stride != 1 or levels[-1].extent % width or offset % width:
        return False
    return all(s.stride % width == 0 for s in (*levels[:-1], *across) if s.extent > 1)
