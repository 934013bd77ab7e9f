"""Knobs and constraints of the two-dimensional tile scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.flat_space import CACHE_LOADS, CACHE_STORES, MAX_BOX, MAX_REGISTER_BYTES
from search.space.schedulers.pointwise_body import math_grades
from search.space.schedulers.transposed_space import SMALLEST_TILE, TransposedSpace, transposed_space
from search.space.space import Space

SPANS = {"32B": 32, "64B": 64, "128B": 128}
"""Hardware swizzles by name, and their spans in bytes."""

LAYOUTS = ("none", "pad", *SPANS, "block")
STORE_LAYOUTS = ("none", *SPANS)

SMEM_SLACK_BYTES = 2048
"""Left beside the tiles for barriers, and for two tiles that start on the 1024-byte repeat of the widest swizzle."""

VECTORS = (1, 2, 4, 8, 16)


def tile2d_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the scheduler does not refuse."""
    found = transposed_space(start(fusion))
    assert isinstance(found, TransposedSpace), "refused fusions have no space"
    out = fusion.value(fusion.outputs[0])
    facts = _Facts(found, arch, sm_count, found.nbytes, out.dtype.nbytes)
    return Space("tile2d", _knobs(fusion, facts), (*_shape(facts), *_memory(facts), *_bulk(facts), *_redundant(facts)))


@dataclass(frozen=True)
class _Facts:
    """Numbers of a fusion that constraints read."""

    space: TransposedSpace
    arch: Arch
    sm_count: int
    bytes_in: int
    bytes_out: int

    @property
    def extent_in(self) -> int:
        return self.space.sizes[self.space.row]

    @property
    def extent_out(self) -> int:
        return self.space.sizes[self.space.column]

    def source_pitch_divides(self, elems: int) -> bool:
        return all(s % elems == 0 for g, s in enumerate(self.space.source_strides) if g != self.space.row)

    def loads_by(self, elems: int) -> bool:
        """True if rows of the input hold whole vectors of `elems`, each aligned."""
        aligned = self.space.source_align % (elems * self.bytes_in) == 0
        return aligned and self.source_pitch_divides(elems) and self.extent_in % elems == 0

    @property
    def load_vectors(self) -> tuple[int, ...]:
        """The two widest vectors by which threads can load rows of the input."""
        return tuple(v for v in VECTORS if v * self.bytes_in <= 16 and self.loads_by(v))[-2:]

    @property
    def least_load_vector(self) -> int:
        return self.load_vectors[0]

    def target_pitch_divides(self, elems: int) -> bool:
        return all(s % elems == 0 for g, s in enumerate(self.space.target_strides) if g != self.space.column)

    def tiles(self, tile_in: Any, tile_out: Any) -> Any:
        batch = prod(self.space.sizes[g] for g in self.space.batch)
        return batch * -(-self.extent_in // tile_in) * -(-self.extent_out // tile_out)


def _knobs(fusion: Fusion, f: _Facts) -> tuple[Knob, ...]:
    tma = f.arch.has_tma
    vectors_in = tuple(v for v in VECTORS if v * f.bytes_in <= 16)
    vectors_out = tuple(v for v in VECTORS if v * f.bytes_out <= 16)
    return (
        Knob("load", ("vector", "tma", "direct") if tma else ("vector",)),
        Knob("store", ("register", "tma") if tma else ("register",)),
        Knob("tile_in", (SMALLEST_TILE, 64, 128, 256)),
        Knob("tile_out", (SMALLEST_TILE, 64, 128, 256)),
        Knob("vector_in", vectors_in),
        Knob("vector_out", vectors_out),
        Knob("lanes_out", (4, 8, 16, 32)),
        Knob("threads", (128, 256, 512)),
        Knob("load_vector", f.load_vectors),
        Knob("layout", LAYOUTS),
        Knob("store_layout", STORE_LAYOUTS if tma else STORE_LAYOUTS[:1]),
        Knob("blocks_per_sm", (0, 1, 2, 4)),
        Knob("stages", (1, 2, 3) if tma else (1,)),
        Knob("tile_order", ("columns_inner", "rows_inner")),
        Knob("cache_load", CACHE_LOADS),
        Knob("cache_store", CACHE_STORES),
        Knob("math", math_grades(TraceBuilder(fusion))),
    )


def _each(values: Any, holds: Any) -> Any:
    """`holds` of every element of an integer array."""
    return np.array([bool(holds(int(v))) for v in values.ravel()]).reshape(values.shape)


def _shape(f: _Facts) -> list[Constraint]:
    """How threads cover the tile."""

    def block(tile_in: Any, tile_out: Any, vin: Any, vout: Any, lanes: Any, threads: Any) -> Any:
        lanes_in = threads // lanes
        return (tile_out % (vout * lanes) == 0) & (tile_in % np.maximum(vin * lanes_in, 1) == 0)

    def fetch(load: Any, tile_in: Any, tile_out: Any, width: Any, threads: Any) -> Any:
        return (load != "vector") | (tile_in * tile_out % (width * threads) == 0)

    def registers(load: Any, tile_in: Any, tile_out: Any, vin: Any, vout: Any, threads: Any) -> Any:
        own = tile_in * tile_out // threads * f.bytes_in
        blocked = vin * vout * (f.bytes_in + max(f.bytes_out, 4))
        return np.where(load == "tma", 0, own) + blocked <= MAX_REGISTER_BYTES

    def inside(tile_in: Any, tile_out: Any) -> Any:
        return (tile_in < 2 * f.extent_in) & (tile_out < 2 * f.extent_out)

    def filled(blocks: Any, tile_in: Any, tile_out: Any) -> Any:
        return (blocks == 0) | (blocks * f.sm_count < f.tiles(tile_in, tile_out))

    return [
        Constraint(
            "threads_cover_the_tile",
            ("tile_in", "tile_out", "vector_in", "vector_out", "lanes_out", "threads"),
            block,
            "Threads and their vector blocks divide the tile.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("load", "tile_in", "tile_out", "load_vector", "threads"),
            fetch,
            "The vectors of a tile divide among the threads.",
        ),
        Constraint(
            "registers_in_flight",
            ("load", "tile_in", "tile_out", "vector_in", "vector_out", "threads"),
            registers,
            "A thread's part of the tile stays in registers.",
        ),
        Constraint("tile_exceeds_the_problem", ("tile_in", "tile_out"), inside, "A tile is not twice the problem."),
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "tile_in", "tile_out"),
            filled,
            "Every persistent block has a tile.",
        ),
        Constraint(
            "persistent_blocks_are_resident",
            ("blocks_per_sm", "threads"),
            lambda blocks, threads: blocks * threads <= f.arch.max_threads_per_sm,
            "Persistent blocks fit their multiprocessors.",
        ),
    ]


def _memory(f: _Facts) -> list[Constraint]:
    """Vector alignment in global memory, layouts and size of shared memory."""
    e_in, e_out = f.bytes_in, f.bytes_out

    def load_vector(load: Any, width: Any, vin: Any) -> Any:
        return ((load != "vector") | _each(width, f.loads_by)) & ((load != "direct") | _each(vin, f.loads_by))

    def store_vector(store: Any, vout: Any) -> Any:
        return (store != "register") | _each(vout, lambda v: f.target_pitch_divides(v) and f.extent_out % v == 0)

    def layout(load: Any, name: Any, tile_in: Any, tile_out: Any, vout: Any) -> Any:
        row = tile_in * e_in
        span = np.select([name == n for n in SPANS], list(SPANS.values()), default=0)
        chunks = np.minimum(row, 128) // 16
        hardware = (span > 0) & (row % np.maximum(span, 1) == 0) & (tile_out % 8 == 0)
        block = (name == "block") & (load == "vector") & (vout > 1) & (chunks > 1) & (tile_out % (chunks * vout) == 0)
        plain = (name == "none") | (name == "pad") & (load == "vector")
        return np.where(load == "direct", name == "none", hardware | block | plain)

    def store_layout(store: Any, name: Any, tile_out: Any, tile_in: Any) -> Any:
        span = np.select([name == n for n in SPANS], list(SPANS.values()), default=0)
        hardware = (span > 0) & (tile_out * e_out % np.maximum(span, 1) == 0) & (tile_in % 8 == 0)
        return np.where(store == "tma", hardware | (name == "none"), name == "none")

    def smem(load: Any, store: Any, name: Any, tile_in: Any, tile_out: Any, stages: Any) -> Any:
        pitch = tile_in * e_in + np.where(name == "pad", 16, 0)
        need = np.where(load == "direct", 0, pitch * tile_out * stages) + np.where(
            store == "tma", tile_in * tile_out * e_out, 0
        )
        return need + SMEM_SLACK_BYTES <= f.arch.smem_per_block_optin_bytes

    return [
        Constraint(
            "vector_address_is_aligned",
            ("load", "load_vector", "vector_in"),
            load_vector,
            "Rows of the input hold whole vectors.",
        ),
        Constraint(
            "vector_address_is_aligned", ("store", "vector_out"), store_vector, "Rows of the output hold whole vectors."
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("load", "layout", "tile_in", "tile_out", "vector_out"),
            layout,
            "A row of the tile is a whole number of spans; padding and block swizzles are for loads by threads.",
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("store", "store_layout", "tile_out", "tile_in"),
            store_layout,
            "A row of the stored tile is a whole number of spans.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("load", "store", "layout", "tile_in", "tile_out", "stages"),
            smem,
            "Tiles, times stages, fit the block's shared memory.",
        ),
    ]


def _bulk(f: _Facts) -> list[Constraint]:
    """Tensor maps."""
    source16 = f.source_pitch_divides(max(1, 16 // f.bytes_in)) and f.space.source_align % 16 == 0
    target16 = f.target_pitch_divides(max(1, 16 // f.bytes_out)) and f.space.target_align % 16 == 0
    return [
        Constraint(
            "tensor_map_strides_are_multiples_of_16_bytes",
            ("load", "store"),
            lambda load, store: ((load != "tma") | source16) & ((store != "tma") | target16),
            "A tensor map needs rows of a multiple of 16 bytes.",
        ),
        Constraint(
            "tensor_map_boxes_are_1_to_256",
            ("tile_in", "tile_out"),
            lambda i, o: (i <= MAX_BOX) & (o <= MAX_BOX),
            "A box has at most 256 elements in a dimension.",
        ),
        Constraint(
            "tensor_map_inner_box_is_a_multiple_of_16_bytes",
            ("load", "store", "tile_in", "tile_out"),
            lambda load, store, i, o: (
                ((load != "tma") | (i * f.bytes_in % 16 == 0)) & ((store != "tma") | (o * f.bytes_out % 16 == 0))
            ),
            "The inner box is a multiple of 16 bytes.",
        ),
    ]


def _redundant(f: _Facts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value; paths that no memory system serves well are left out."""
    return [
        Constraint(
            "scattered_access",
            ("load", "store"),
            lambda load, store: (load != "direct") | (store == "tma"),
            "Without a shared tile on either side one of them is scattered.",
        ),
        Constraint(
            "redundant_stages",
            ("load", "blocks_per_sm", "stages"),
            lambda load, blocks, n: (n == 1) | ((load == "tma") & (blocks > 0)),
            "Stages overlap the tiles of one block.",
        ),
        Constraint(
            "redundant_load_vector",
            ("load", "load_vector"),
            lambda load, width: (load == "vector") | (width == f.least_load_vector),
            "Only loads by threads into shared memory have a vector of their own.",
        ),
        Constraint(
            "redundant_cache_load",
            ("load", "cache_load"),
            lambda load, cache: (load != "tma") | (cache == "default"),
            "Bulk copies take no thread cache hint.",
        ),
        Constraint(
            "redundant_cache_store",
            ("store", "cache_store"),
            lambda store, cache: (store == "register") | (cache == "default"),
            "Bulk copies take no thread cache hint.",
        ),
    ]
