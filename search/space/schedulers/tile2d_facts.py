"""Numbers of a transposed fusion that the knobs and constraints of the two-dimensional tile scheduler read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from compiler.arch import Arch
from search.space.schedulers.transposed_space import SMALLEST_TILE, TransposedSpace

VECTORS = (1, 2, 4, 8, 16)
WORD_BYTES = 16
"""The widest access of a thread (PTX ISA, ld and st)."""

MAX_REGISTER_BYTES = 4 * 160
"""What a thread may hold of its tile: 160 of 255 registers, the rest for addresses and temporaries."""

WARP = 32
"""Threads of a warp."""

SECTOR_BYTES = 32
"""Of memory: what L2 writes whole without reading it first (CUDA C++ programming guide, device memory accesses)."""

TILES = (SMALLEST_TILE, 64, 128, 256)
"""Elements of a tile in one dimension: of f32, 128 bytes to 1 KB, so that warps touch whole lines on both sides."""

LONG_TILES = (*TILES, 512, 1024)
"""Beside a dimension shorter than a warp: the tile is as large in elements."""


@dataclass(frozen=True)
class Facts:
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
    def bytes_out(self) -> int:
        """Bytes of one element of every output."""
        return sum(self.space.target_bytes)

    @property
    def widest_out(self) -> int:
        return max(self.space.target_bytes)

    @property
    def extent_in(self) -> int:
        return self.space.sizes[self.space.row]

    @property
    def extent_out(self) -> int:
        return self.space.sizes[self.space.column]

    @property
    def tiles_in(self) -> tuple[int, ...]:
        return tile_extents(self.extent_in, self.extent_out)

    @property
    def tiles_out(self) -> tuple[int, ...]:
        return tile_extents(self.extent_out, self.extent_in)

    def loads_by(self, elems: int) -> bool:
        """True if rows of every source hold whole vectors of `elems`, each aligned."""
        aligned = all(s.align % (elems * s.nbytes) == 0 for s in self.space.sources)
        return aligned and self.space.source_pitch % elems == 0 and self.extent_in % elems == 0

    @property
    def load_vectors(self) -> tuple[int, ...]:
        """The two widest vectors by which threads can load rows of the sources."""
        return tuple(v for v in VECTORS if v * self.widest_in <= WORD_BYTES and self.loads_by(v))[-2:]

    def stores_by(self, elems: int) -> bool:
        """True if rows of every output hold whole vectors of `elems`, each aligned."""
        aligned = all(self.space.target_align % (elems * n) == 0 for n in self.space.target_bytes)
        return aligned and self.space.target_pitch % elems == 0 and self.extent_out % elems == 0

    @property
    def shifts_load(self) -> bool:
        """True if rows of a source begin at different places of a sector."""
        return (
            self.space.source_pitch % sector_elements(self.space.source_bytes) != 0 and self.extent_in >= SMALLEST_TILE
        )

    @property
    def shifts_store(self) -> bool:
        """The same for rows of the outputs."""
        return (
            self.space.target_pitch % sector_elements(self.space.target_bytes) != 0 and self.extent_out >= SMALLEST_TILE
        )

    @property
    def has_tensor_maps(self) -> bool:
        """True if sources are permuted and nothing else, so that the copy engine can bring their tiles."""
        return self.arch.has_tma and all(s.is_permuted for s in self.space.sources)

    def tiles(self, tile_in: Any, tile_out: Any) -> Any:
        batch = prod(self.space.sizes[g] for g in self.space.batch)
        return batch * -(-self.extent_in // tile_in) * -(-self.extent_out // tile_out)


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
