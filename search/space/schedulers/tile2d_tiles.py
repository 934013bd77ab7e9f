"""Axes of a transposed tile, and how a tile lies in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.arch import BANK_BYTES, SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, TENSOR_MAP_BOX
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups import (
    AS_STORED,
    BANKS,
    BLOCK,
    BY_MATRICES,
    GROUPED,
    NO_LAYOUT,
    ODD,
    PAD,
    PHASES,
    ROWS_INNER,
    SPANS,
    persist,
)
from search.space.schedulers.tile2d_facts import places_before, rows_apart, sector_elements
from search.space.schedulers.tile2d_matrix import MATRIX_LANES
from search.space.schedulers.transposed_space import Source, TransposedSpace

GROUP_TILES = 8
"""Tiles along a row of the outputs that neighbouring blocks take before they go on to the next rows."""


@dataclass(frozen=True, slots=True)
class TileAxes:
    """Cuts tensors of a transposed fusion into the tiles of a point."""

    b: TraceBuilder
    space: TransposedSpace
    point: Mapping[str, Any]
    sm_count: int

    @property
    def lead(self) -> int:
        """Axes that say which tile: its number, with persistent blocks [block, iteration]."""
        return 2 if self.point["blocks_per_sm"] else 1

    @property
    def halo(self) -> int:
        """Elements that a shared tile holds beside the run that is stored from it: rows of the outputs are shifted as
        wholes, by less than a sector."""
        return sector_elements(self.space.target_bytes) if self.point.get("halo") else 0

    @property
    def begins(self) -> int:
        """Places of a shared tile's rows beside the elements of its run: rows lie as in memory, from the multiple of a
        vector before their first element on."""
        p = self.point
        if p["layout"] != PHASES:
            return 0
        begin, lanes_in = p["row_span"], p["threads"] // p["lanes_out"]
        return int(places_before(self.space.source_bytes, begin, p["load_vector"], lanes_in))

    @property
    def step_in(self) -> int:
        """Elements along P from one tile to the next."""
        return int(self.point["tile_in"]) - self.begins

    def to_places(self, tv: str, dims: tuple[int, ...], source: Source) -> None:
        """[tile.., P in the tile, Q in the tile] of a shared tile of `source` whose rows lie as in memory."""
        self.to_tiles(tv, dims, begins=source)

    def to_tiles(
        self, tv: str, dims: tuple[int, ...] = (), *, shift: str = "", pitch: int = 0, begins: Source | None = None
    ) -> None:
        """[tile.., P in the tile, Q in the tile]. `dims`: the permutation of a tensor in a source's own order.

        `shift`: the side ("source" or "target") at whose rows' phases the run of the tile contiguous there is shifted.
        With a halo the tiles of the sources' side are windows of Q that overlap.
        `pitch`: of a shared tile whose run is shifted, elements from one row of Q to the next: it lies unshifted.
        `begins`: the source as whose rows those of the tile begin, each at its own multiple of a vector.
        """
        b, space, p = self.b, self.space, self.point
        if dims:
            b.reorder(tv, dims)
        for at, group in enumerate(space.groups):
            b.merge(tv, at, len(group))
        b.reorder(tv, [*space.batch, *space.rows, *space.columns])
        row, column = len(space.batch), len(space.batch) + len(space.rows)
        if begins is not None:
            self.shift_rows(tv, begins)
            column = row + 2
        b.merge(tv, column, len(space.columns))
        by_groups = shift == "target" and (len(space.rows) > 1 or self.halo > 0)
        if self.halo and shift != "target":
            b.do(steps.Window(tv, column, p["tile_out"], p["tile_out"] + self.halo, self.halo))
        elif self.halo:
            self.shift_by_groups(tv, column)
            b.split(tv, column, p["tile_out"])
        else:
            b.split(tv, column, p["tile_out"])
            if by_groups:
                self.shift_by_groups(tv, column + 1)
        if begins is None:
            b.merge(tv, row, len(space.rows))
            b.split(tv, row, self.step_in)
        count = row + 2
        if pitch:
            self.allocate(tv, pitch)
        if shift and not by_groups:
            self.shift(tv, shift)
        batch = list(range(count - 2))
        row, row_in, column, column_in = range(count - 2, count + 2)
        if p["tile_order"] == GROUPED:
            b.reorder(tv, [*batch, column, row, row_in, column_in])
            b.split(tv, count - 2, GROUP_TILES)
            b.reorder(tv, [*range(count - 1), count, count - 1, count + 1, count + 2])
            b.merge(tv, 0, count + 1)
        else:
            inside = [at for at in batch if space.batch[at] in space.batch_inside]
            outside = [at for at in batch if at not in inside]
            orders = {ROWS_INNER: [*batch, column, row], AS_STORED: [*outside, row, *inside, column]}
            b.reorder(tv, [*orders.get(p["tile_order"], [*batch, row, column]), row_in, column_in])
            b.merge(tv, 0, count)
        if p["blocks_per_sm"]:
            persist(b, tv, p["blocks_per_sm"] * self.sm_count)

    def rows_apart(self, source: Source) -> int:
        """Rows of a shared tile of `source` until their phases meet in the same bank again."""
        between = self.space.source_strides(source)[self.space.columns[-1]] * source.nbytes
        rows = self.point["tile_out"] + self.halo
        return int(rows_apart(between, rows, self.point["vector_out"], self.begins * source.nbytes))

    def allocate(self, tv: str, pitch: int) -> None:
        """Rows of Q, `pitch` elements apart, of a tensor of axes [batch.., P tile, P, Q tile, Q]."""
        count = len(self.space.batch) + 2
        row, row_in, column, column_in = range(count - 2, count + 2)
        order = (*range(count - 2), row, column, column_in, row_in)
        self.b.do(steps.SetAllocationDomain(tv, order, (), (*[None] * count, pitch, 1)))

    def shift(self, tv: str, side: str) -> None:
        """Moves the run of a tile, of axes [batch.., P tile, P, Q tile, Q], to the boundaries of sectors.

        Every access of a warp but the ends of a run then covers whole sectors. Of whole lines there would be no more
        of them, and the phase of a row would differ from one step of a thread to the next: of sectors it seldom does,
        which leaves one address and one constant offset a step.
        """
        space, p = self.space, self.point
        count = len(space.batch) + 2
        row, row_in, column, column_in = range(count - 2, count + 2)
        if side == "source":
            strides, run, unit = space.source_strides(space.sources[0]), row_in, sector_elements(space.source_bytes)
        else:
            strides, run, unit = space.target_strides, column_in, sector_elements(space.target_bytes)
        along_p, along_q = strides[space.rows[-1]], strides[space.columns[-1]]
        factors = {at: strides[g] for at, g in enumerate(space.batch)}
        factors |= {row: along_p * p["tile_in"], row_in: along_p, column: along_q * p["tile_out"], column_in: along_q}
        by = tuple(at for at in range(count + 2) if at != run and factors[at] % unit)
        self.b.do(steps.Shift(tv, run, by, tuple(factors[at] % unit for at in by), unit))

    def shift_rows(self, tv: str, source: Source) -> None:
        """Axes [batch.., groups of P.., groups of Q..] -> [batch.., P tile, P, groups of Q..], the run of a tile moved
        as its row of `source` is."""
        space, unit, row = self.space, self.begins, len(self.space.batch)
        self.b.merge(tv, row, len(space.rows))
        self.b.split(tv, row, self.step_in)
        strides = space.source_strides(source)
        factors = [*(strides[g] for g in space.batch), self.step_in, 0, *(strides[g] for g in space.columns)]
        by = tuple(at for at, factor in enumerate(factors) if factor % unit)
        self.b.do(steps.Shift(tv, row + 1, by, tuple(factors[at] % unit for at in by), unit))

    def shift_by_groups(self, tv: str, run: int) -> None:
        """The same at the phases of the outputs' rows, of axes [batch.., groups of P.., Q] or [.., Q tile, Q], `run`
        the last: rows that are places along several dimensions lie at a distance of their own along each."""
        space = self.space
        unit, tile = sector_elements(space.target_bytes), len(space.batch) + len(space.rows)
        factors = [space.target_strides[g] for g in (*space.batch, *space.rows)]
        factors += [self.point["tile_out"] * space.target_strides[space.columns[-1]]] * (run - tile)
        by = tuple(at for at, factor in enumerate(factors) if factor % unit)
        self.b.do(steps.Shift(tv, run, by, tuple(factors[at] % unit for at in by), unit))


def row_pitch(layout: str, extent: int, nbytes: int, word: int) -> int:
    """Elements from one row of a tile to the next. `pad` lengthens rows by an access of `word` elements, and by
    a bank at least: the single words of a column then lie in banks of their own. `odd` lengthens them by an element:
    with threads that read a bank's worth of neighbours of a column, those of a warp do."""
    return extent + {PAD: max(word, BANK_BYTES // nbytes), ODD: 1}.get(layout, 0)


def set_tile_allocation(b: TraceBuilder, tv: str, layout: str, *, phase_rows: int, word: int) -> None:
    """Lays a tile, whose last two axes are rows and the contiguous elements of a row, out in shared memory.

    Swizzles cut the row into pieces of the span, one box each: [piece, row, element], with the 16-byte chunk of an
    element xored with the row number; the hardware's for spans under 128 bytes change phase every 128 bytes.
    `block` is the 128-byte swizzle whose phase changes every `phase_rows` rows, which makes columns of vector blocks
    free of conflicts; `matrices` the one whose phase is told by the rows that one matrix takes of each lane.
    """
    axes = b.tensor(tv).loop
    nbytes, count = b.tensor(tv).dtype.nbytes, len(axes)
    row, element, extent = count - 2, count - 1, axes[-1].extent
    if layout in (PAD, ODD):
        pitch = row_pitch(layout, extent, nbytes, word)
        b.do(steps.SetAllocationDomain(tv, tuple(range(count)), (), (*[None] * row, pitch, 1)))
        return
    if layout in (BANKS, PHASES):
        past = BANK_BYTES // nbytes if layout == BANKS else word
        strides = (*[None] * row, phase_rows * extent + past, extent, 1)
        b.do(steps.SetAllocationDomain(tv, tuple(range(count)), (steps.Split(tv, row, phase_rows),), strides))
        return
    if layout == NO_LAYOUT:
        b.do(steps.SetAllocationDomain(tv, tuple(range(count))))
        return
    span = SPANS.get(layout, min(SMEM_LINE_BYTES, extent * nbytes))
    pieces: tuple[steps.Transform, ...] = ()
    if span // nbytes < extent:
        pieces = (steps.Split(tv, element, span // nbytes), steps.Reorder(tv, ((element, row), (row, element))))
    row += len(pieces) // 2
    if layout == BY_MATRICES:
        swizzled = _matrix_rows(tv, row, nbytes, phase_rows)
    else:
        phase = phase_rows if layout == BLOCK else SMEM_LINE_BYTES // span
        swizzled = _swizzled_rows(tv, row, nbytes, span, phase)
    b.do(steps.SetAllocationDomain(tv, tuple(range(count)), (*pieces, *swizzled)))


def set_copy_allocation(b: TraceBuilder, tv: str, layout: str) -> None:
    """Lays out a tile that the copy engine fills, of axes [tile.., box, rows, box columns]."""
    count, nbytes = len(b.tensor(tv).loop), b.tensor(tv).dtype.nbytes
    swizzled: tuple[steps.Transform, ...] = ()
    if layout in SPANS:
        swizzled = _swizzled_rows(tv, count - 2, nbytes, SPANS[layout], SMEM_LINE_BYTES // SPANS[layout])
    b.do(steps.SetAllocationDomain(tv, tuple(range(count)), swizzled))


def _swizzled_rows(tv: str, row: int, nbytes: int, span: int, phase: int) -> tuple[steps.Transform, ...]:
    """Of axes [.., row, element]: chunk xor (row / phase) mod (span's chunks)."""
    return (
        steps.Split(tv, row + 1, SWIZZLE_CHUNK_BYTES // nbytes),
        steps.Split(tv, row, phase),
        steps.Split(tv, row, span // SWIZZLE_CHUNK_BYTES),
        steps.Swizzle(tv, row + 1, row + 3),
    )


def _matrix_rows(tv: str, row: int, nbytes: int, neighbours: int) -> tuple[steps.Transform, ...]:
    """Of axes [.., row, element], rows of 128 bytes, for threads that take `neighbours` elements of a column each by
    matrices: of a matrix four lanes take two rows each, `neighbours` rows apart. Those 8 rows have a phase of their own
    each, with which the chunk is xored, and lie behind each other."""
    return (
        steps.Split(tv, row + 1, SWIZZLE_CHUNK_BYTES // nbytes),
        steps.Split(tv, row, neighbours),
        steps.Split(tv, row + 1, 2),
        steps.Split(tv, row, MATRIX_LANES),
        steps.Reorder(tv, ((row + 1, row + 2), (row + 2, row + 1))),
        steps.Merge(tv, row + 2),
        steps.Swizzle(tv, row + 2, row + 3),
    )


def box_width(b: TraceBuilder, tv: str, layout: str, extent: int) -> int:
    """Elements of a box along the contiguous dimension: the swizzle's span, else the row up to the box limit."""
    if layout in SPANS:
        return int(SPANS[layout] // b.tensor(tv).dtype.nbytes)
    return min(extent, TENSOR_MAP_BOX)
