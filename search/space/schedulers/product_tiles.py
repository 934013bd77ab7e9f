"""Tiles of a product: the loops over them, in which order blocks take them, and the boxes in which operands come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.arch import SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.groups import COLUMNS, CP_ASYNC, RASTERS, ROWS, TMA, VECTOR
from search.space.schedulers.product_facts import ProductShape
from search.space.schedulers.product_operands import K, ProductOperand

P = ParallelType
NONE = "none"
PAIRS = (NONE, *RASTERS)

PATTERN_ROWS = 8
"""Rows of a swizzle's pattern."""

_VIA = {TMA: CopyVia.TMA, CP_ASYNC: CopyVia.CP_ASYNC}


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of `rows` by `columns` of the result, and `k` elements along what is summed; `swap`: rows are those of the
    right operand. `strip`: so many of them along `raster` are taken together. `paired`: blocks lie in pairs along rows
    or columns. `turns`: groups of threads have a tile each. `blocks`: that stay, 0 for one a tile. `is_dealt`: tiles
    are turns of a loop that is dealt to blocks.
    """

    rows: int
    columns: int
    k: int
    swap: bool = False
    raster: str = ROWS
    strip: int = 1
    paired: str = NONE
    turns: int = 1
    blocks: int = 0
    is_dealt: bool = False

    def loops(self, b: TraceBuilder, shape: ProductShape) -> list[P]:
        """[.. tiles, k, rows, columns, k inside] of the result; the types of the loops over tiles."""
        tv = shape.tensor
        first = self._cut(b, shape)
        pair = self.paired != NONE
        if pair:
            along = first + (self.paired == COLUMNS)
            b.split(tv, along, 2)
            axes = len(b.tensor(tv).loop)
            b.reorder(tv, [along + 1, *(i for i in range(axes) if i != along + 1)])
        at, tiles = int(pair), first + 2
        if self.strip > 1:
            strip = at + first + (self.raster == COLUMNS)
            b.split(tv, strip, self.strip)
            order = [strip, at + first + (0 if self.raster == COLUMNS else 2), strip + 1]
            axes = len(b.tensor(tv).loop)
            b.reorder(tv, [*range(at + first), *order, *range(at + first + 3, axes)])
            tiles += 1
        b.merge(tv, at, tiles)
        found = [P.SERIAL if self.is_dealt else P.BIDX]
        if self.turns > 1:
            b.split(tv, at, self.turns)
            found.append(P.TIDY)
        if self.blocks:
            b.split(tv, at, self.blocks)
            found.insert(0, P.SERIAL)
        return [P.CLUSTER, *found] if pair else found

    def _cut(self, b: TraceBuilder, shape: ProductShape) -> int:
        """[batch, row tiles, column tiles, k, rows, columns, k inside], dimensions of a role as one, but for the pieces
        that a tile's columns are where they are folded; where the tiles begin."""
        tv = shape.tensor
        rows, columns = (shape.n_dims, shape.m_dims) if self.swap else (shape.m_dims, shape.n_dims)
        if shape.folds is not None:
            return self._cut_in_pieces(b, shape, rows, columns)
        last = len(b.tensor(tv).loop) - 1
        batch = [d for d in range(last) if d not in (*rows, *columns)]
        b.reorder(tv, [*batch, *rows, *columns, last])
        at = 0
        for count in (len(batch), len(rows), len(columns)):
            if count:
                b.merge(tv, at, count)
                at += 1
        first = at - 2
        b.split(tv, first + 2, self.k)
        b.split(tv, first + 1, self.columns)
        b.split(tv, first, self.rows)
        b.reorder(tv, [*range(first), first, first + 2, first + 4, first + 1, first + 3, first + 5])
        return first

    def _cut_in_pieces(self, b: TraceBuilder, shape: ProductShape, rows: Sequence[int], columns: Sequence[int]) -> int:
        """The same with the columns of a tile as eights, lanes and pairs."""
        assert shape.folds is not None, "asked of what folds a tile's columns"
        tv, pieces = shape.tensor, shape.folds.pieces
        tiles = [d for d in columns if d not in pieces]
        last = len(b.tensor(tv).loop) - 1
        batch = [d for d in range(last) if d not in (*rows, *columns)]
        b.reorder(tv, [*batch, *rows, *tiles, *pieces, last])
        at = 0
        for count in (len(batch), len(rows), len(tiles)):
            if count:
                b.merge(tv, at, count)
                at += 1
        first = at - 1 - bool(tiles)
        if not tiles:  # one tile has all columns: a loop of one turn that is none of theirs
            b.split(tv, first, 1)
        b.split(tv, first + 5, self.k)
        b.split(tv, first, self.rows)
        b.reorder(tv, [*range(first + 1), first + 2, first + 6, first + 1, *range(first + 3, first + 6), first + 7])
        return first


def whole_columns(b: TraceBuilder, shape: ProductShape, tv: str, at: int) -> None:
    """A tile's columns as one dimension of an operand or output, where they are folded: from axis `at` on."""
    if shape.folds is not None:
        b.merge(tv, at, len(shape.folds.pieces))


def line_bytes(nbytes: int) -> int:
    """Of a line of a tile that has so many bytes side by side: the longest that a swizzle has and that divides them."""
    return next(span for span in reversed(SWIZZLE_SPANS) if nbytes % span == 0)


def swizzled(tv: str, at: int, line: int, nbytes: int) -> tuple[steps.Transform, ...]:
    """Of axes `at` and behind it, rows of a tile and lines of `line` bytes: chunks of 16 bytes that stand elsewhere in
    each row, of shorter lines in every second or fourth one (PTX ISA, swizzling modes)."""
    cut = (steps.Split(tv, at + 1, SWIZZLE_CHUNK_BYTES // nbytes), steps.Split(tv, at, PATTERN_ROWS))
    alike = SMEM_LINE_BYTES // line
    if alike == 1:
        return (*cut, steps.Swizzle(tv, at + 1, at + 2))
    return (*cut, steps.Split(tv, at + 1, alike), steps.Swizzle(tv, at + 1, at + 3))


def boxes(b: TraceBuilder, side: ProductOperand, tv: str, pre: Sequence[P], own: int, types: Sequence[P]) -> None:
    """[.. tiles, k, the other's rows, boxes, rows of a box, line] of the shared tensor `tv`: lines of 128 bytes, or 64
    where rows lie side by side and are no whole ones, as the copy engine swizzles them. `own`: 1 for the operand that
    the rows of the result vary along, 2 for the columns; `types`: of boxes and inside."""
    at, nbytes = len(pre), side.dtype.nbytes
    beside = b.tensor(tv).loop[at + (3 if side.major == K else own)].extent
    length = line_bytes(beside * nbytes)
    line, other = length // nbytes, 3 - own
    if side.major == K:
        b.split(tv, at + 3, line)
        b.reorder(tv, [*range(at + 1), at + other, at + 3, at + own, at + 4])
    else:
        b.reorder(tv, [*range(at + 1), at + other, at + 3, at + own])
        b.split(tv, at + 3, line)
        b.reorder(tv, [*range(at + 2), at + 3, at + 2, at + 4])
    b.do(steps.SetAllocationDomain(tv, tuple(range(at + 5)), swizzled(tv, at + 3, length, nbytes)))
    # Warps that load go through the tiles of all groups.
    loops = [P.SERIAL if p is P.TIDY else p for p in pre]
    b.parallelize(tv, [*loops, P.SERIAL, P.SERIAL, *types])


@dataclass(frozen=True, slots=True)
class BroughtTiles:
    """How all threads of a block bring tiles of operands to shared memory: by `load`, in words. `threads`: of the block
    along each dimension, outermost first."""

    load: str
    threads: tuple[tuple[P, int], ...]

    def shared(self, name: str) -> str:
        """The shared tensor of an operand: itself, or a copy of what has come to registers."""
        return f"{name}_s" if self.load == VECTOR else name

    def placed(self, b: TraceBuilder, name: str) -> None:
        """Puts an operand, or a copy of it, into shared memory."""
        if self.load == VECTOR:
            b.do(steps.CacheInput(name, self.shared(name), MemoryType.SHARED))
        else:
            b.do(steps.SetMemory(name, MemoryType.SHARED, _VIA[self.load]))

    def cut(self, b: TraceBuilder, side: ProductOperand, pre: Sequence[P], own: int) -> None:
        """[.. tiles, k, the other's rows, boxes, box] of the copy engine, or [.., turn, thread, word] of threads."""
        tv, at = self.shared(side.name), len(pre)
        if self.load == TMA:
            boxes(b, side, tv, pre, own, (P.UNROLL, P.BULK, P.BULK))
            return
        boxes(b, side, tv, pre, own, ())
        b.merge(tv, at + 2, 3)
        b.split(tv, at + 2, side.word_bytes // side.dtype.nbytes)
        b.split(tv, at + 2, prod(n for _, n in self.threads))
        for place in range(1, len(self.threads)):
            b.split(tv, at + 2 + place, prod(n for _, n in self.threads[place:]))
        last = P.VECTORIZE if side.word_bytes > side.dtype.nbytes else P.UNROLL
        b.parallelize(tv, [*pre, P.SERIAL, P.SERIAL, P.UNROLL, *(p for p, _ in self.threads), last])
        if tv != side.name:
            b.do(steps.Propagate(tv, (side.name,)), steps.ParallelizeLike(tv, (side.name,)))
