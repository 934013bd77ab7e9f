"""Numbers of a transposed fusion that the knobs and constraints of the two-dimensional tile scheduler read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.arch import BANK_BYTES, LINE_BYTES, MAX_WORD_BYTES, REGISTER_BYTES, SECTOR_BYTES, SMEM_LINE_BYTES, Arch
from search.space.groups import copies_by
from search.space.schedulers.transposed_space import SMALLEST_TILE, Source, TransposedSpace

VECTORS = (1, 2, 4, 8, 16)

MAX_REGISTER_BYTES = 4 * 160
"""What a thread may hold of its tile: 160 of 255 registers, the rest for addresses and temporaries."""

LEAST_THREADS = 128
"""Of a block: with fewer, blocks that fit a multiprocessor do not fill it (CUDA guide, compute capabilities)."""


STRADDLED_BYTES = (4, 8, 16)
"""Words that are put together of two aligned ones: what a thread loads at once, of one register and more."""


VECTOR_WORD, SECTOR, LINE = "vector", "sector", "line"
"""At multiples of which rows of shared tiles begin that lie as in memory."""

SPAN_BYTES = {VECTOR_WORD: 0, SECTOR: SECTOR_BYTES, LINE: LINE_BYTES}
"""Of the multiples, where they are more than what a thread loads."""

TILES = (SMALLEST_TILE, 64, 128, 256)
"""Elements of a tile in one dimension: of f32, 128 bytes to 1 KB, so that warps touch whole lines on both sides."""

LONG_TILES = (*TILES, 512, 1024)
"""Beside a dimension shorter than a warp: the tile is as large in elements."""


@dataclass(frozen=True)
class Tile2dFacts:
    """A transposed fusion on an architecture. `sm_count` sizes the grid of persistent schedules."""

    space: TransposedSpace
    arch: Arch
    sm_count: int

    @property
    def bytes_in(self) -> int:
        """Bytes of one element of every source."""
        return sum(s.nbytes for s in self.space.sources)

    @property
    def widest_in(self) -> int:
        return max(s.nbytes for s in self.space.sources)

    @property
    def bytes_beside(self) -> int:
        """Bytes of one element of everything that is loaded in the outputs' order."""
        return sum(self.space.operand_bytes)

    @property
    def bytes_out(self) -> int:
        """Bytes of one element of every output."""
        return sum(self.space.target_bytes)

    @property
    def widest_out(self) -> int:
        return max(self.space.target_bytes)

    @property
    def extent_in(self) -> int:
        return self.space.extent_in

    @property
    def extent_out(self) -> int:
        return self.space.extent_out

    @property
    def is_too_small(self) -> bool:
        """True if the largest tile has fewer vectors than a block has threads."""
        return self.tiles_in[-1] * self.tiles_out[-1] < LEAST_THREADS * self.aligned_vectors[0]

    @property
    def tiles_in(self) -> tuple[int, ...]:
        """Of bytes whose rows lie as in memory, rows are longer: a line of each is before its run."""
        plain = tile_extents(self.extent_in, self.extent_out)
        longer = (2 * plain[-1],) if self.superset_vectors and self.widest_in == 1 else ()
        return (*plain, *(t for t in longer if t < 2 * self.extent_in))

    @property
    def tiles_out(self) -> tuple[int, ...]:
        """Of bytes whose rows begin at any address, runs are longer: every end of one is a part of a word."""
        plain = tile_extents(self.extent_out, self.extent_in)
        longer = (2 * plain[-1],) if self.shifts_store and self.widest_out == 1 else ()
        return (*plain, *(t for t in longer if t < 2 * self.extent_out))

    def loads_by(self, elems: int) -> bool:
        return self.space.loads_by(elems)

    @property
    def aligned_vectors(self) -> tuple[int, ...]:
        """The two widest vectors by which threads can load rows of the sources."""
        return tuple(v for v in VECTORS if v * self.widest_in <= MAX_WORD_BYTES and self.loads_by(v))[-2:]

    @property
    def straddling_vectors(self) -> tuple[int, ...]:
        """Those of `able_to_straddle` that are worth it: of elements as wide as a register there is none, transposes of
        f32 took 1.01 to 2 times as long (H200)."""
        return self.able_to_straddle if self.widest_in < REGISTER_BYTES else ()

    @property
    def able_to_straddle(self) -> tuple[int, ...]:
        """Vectors by which rows of sources that begin at any element are loaded as aligned words, two for each."""
        wider = (v for v in VECTORS if v > self.aligned_vectors[-1] and v * self.widest_in <= MAX_WORD_BYTES)
        return tuple(v for v in wider if all(self._straddles(s, v) for s in self.space.sources))

    def _straddles(self, source: Source, elems: int) -> bool:
        word = elems * source.nbytes
        return word in STRADDLED_BYTES and source.align % word == 0 and self.extent_in >= SMALLEST_TILE

    @property
    def superset_vectors(self) -> tuple[int, ...]:
        """Vectors by which rows of sources that begin at any element are loaded where they lie: from the multiple of a
        vector before their first element on, into a tile that has a place for what comes before it."""
        able = (v for v in VECTORS if v > 1 and v * self.widest_in <= MAX_WORD_BYTES)
        return tuple(v for v in able if all(self._has_phases(s, v) for s in self.space.sources))

    def _has_phases(self, source: Source, elems: int) -> bool:
        word, strides = elems * source.nbytes, self.space.source_strides(source)
        outside = [s for g, s in enumerate(strides) if g not in self.space.rows and self.space.sizes[g] > 1]
        is_run = any(s % elems for s in outside) and all(s >= self.extent_in for s in outside)
        return is_run and word >= REGISTER_BYTES and source.align % word == 0 and self.extent_in >= SMALLEST_TILE

    @property
    def load_vectors(self) -> tuple[int, ...]:
        beside = sorted({*self.straddling_vectors, *self.superset_vectors} - {*self.aligned_vectors})
        return (*self.aligned_vectors, *beside)

    @property
    def has_copies(self) -> bool:
        """True if sources are permuted and nothing else, in words that threads can copy past their registers."""
        words = (*self.aligned_vectors, *self.superset_vectors)
        able = any(copies_by(v, self.space.source_bytes) for v in words)
        return able and all(s.is_whole for s in self.space.sources)

    def stores_by(self, elems: int) -> bool:
        """True if rows of every output hold whole vectors of `elems`, each aligned."""
        aligned = all(self.space.target_align % (elems * n) == 0 for n in self.space.target_bytes)
        return aligned and self.space.target_pitch % elems == 0 and self.extent_out % elems == 0

    @property
    def shifts_load(self) -> bool:
        """True if rows of a source can be loaded at the places that they begin at."""
        return self.shifts_elements or bool(self.superset_vectors)

    @property
    def shifts_elements(self) -> bool:
        """True if rows of a source begin at different places of a sector, those of a tile at one distance."""
        is_odd = self.space.source_pitch % sector_elements(self.space.source_bytes) != 0
        return is_odd and self.extent_in >= SMALLEST_TILE and len(self.space.columns) == 1

    @property
    def shifts_store(self) -> bool:
        """The same for rows of the outputs."""
        return (
            self.space.target_pitch % sector_elements(self.space.target_bytes) != 0 and self.extent_out >= SMALLEST_TILE
        )

    @property
    def tiles_carry_data(self) -> bool:
        """True if every source varies along all dimensions that tiles are cut from."""
        dims = [d for g in (*self.space.rows, *self.space.columns) for d in self.space.groups[g]]
        return all(s.strides[d] or self.space.shape[d] == 1 for s in self.space.sources for d in dims)

    @property
    def has_tensor_maps(self) -> bool:
        """True if sources are permuted and nothing else, so that the copy engine can bring their tiles."""
        is_one_dim = len(self.space.columns) == 1
        return self.arch.has_tma and is_one_dim and all(s.is_permuted for s in self.space.sources)

    @property
    def has_stored_maps(self) -> bool:
        """True if the rows of a tile are places along one dimension of the outputs."""
        return self.arch.has_tma and len(self.space.rows) == 1

    def tiles(self, tile_in: Any, tile_out: Any) -> Any:
        batch = prod(self.space.sizes[g] for g in self.space.batch)
        return batch * -(-self.extent_in // tile_in) * -(-self.extent_out // tile_out)


def places_before(sizes: tuple[int, ...], begin: Any, width: Any, lanes_in: Any) -> Any:
    """Places of a tile's rows for what comes before their run, of rows that begin at multiples of `begin`, a value of
    the knob `row_span`: a vector of `width` at least, and as many as threads along P: these then divide the rest."""
    span = np.select([begin == name for name in SPAN_BYTES], list(SPAN_BYTES.values()), default=0) // min(sizes)
    return np.maximum(np.maximum(width, lanes_in), span)


def rows_apart(between_bytes: int, rows: Any, vout: Any, span_bytes: Any) -> Any:
    """Rows of a tile whose rows begin at multiples of `span_bytes`, `between_bytes` from one row of the source to the
    next, until the phases of those that a thread reads, every `vout`-th, meet in the same bank again: all `rows` where
    there are no more, or where the phases reach every bank."""
    between = vout * between_bytes % span_bytes
    begun = np.minimum(np.maximum(1, span_bytes // BANK_BYTES), span_bytes // np.gcd(between, span_bytes))
    return np.where(begun >= SMEM_LINE_BYTES // BANK_BYTES, rows, np.minimum(vout * begun, rows))


def sector_elements(sizes: tuple[int, ...]) -> int:
    """Elements that fill whole sectors in every tensor of elements of `sizes` bytes."""
    return SECTOR_BYTES // min(sizes)


def tile_extents(extent: int, other: int) -> tuple[int, ...]:
    """Extents of a tile along a dimension beside one of `other` elements: none twice the dimension or more.

    A dimension shorter than a warp has one tile, of the next power of two.
    """
    if extent <= SMALLEST_TILE:
        return (1 << (extent - 1).bit_length(),)
    return tuple(t for t in (LONG_TILES if other <= SMALLEST_TILE // 2 else TILES) if t < 2 * extent)
