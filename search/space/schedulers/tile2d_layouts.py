"""How tiles lie in shared memory, and the vectors by which threads fill them and read memory.

A column of a tile is read by threads that each take neighbours of it, a register's worth or a vector: what keeps
those out of each other's banks is a swizzle, or how far apart rows begin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import MAX_WORD_BYTES, REGISTER_BYTES, SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, TENSOR_MAP_BOX
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import (
    BANKS,
    BLOCK,
    BY_MATRICES,
    DIRECT,
    NO_LAYOUT,
    ODD,
    PAD,
    PHASES,
    SPANS,
    VECTOR,
    copies_by,
    copies_have_a_width,
    fills_by_threads,
    fit,
    is_copied,
    is_mapped,
)
from search.space.schedulers.tile2d_facts import Tile2dFacts, places_before, rows_apart, sector_elements

LEAST_RUNS = 2
"""Of what rows of a tile hold, as much or more is its run as are the places before it."""


def memory_constraints(f: Tile2dFacts) -> list[Constraint]:
    """Vector alignment in global memory, layouts and size of shared memory."""
    halo_elems = sector_elements(f.space.target_bytes)
    sources = tuple(dict.fromkeys(s.nbytes for s in f.space.sources))
    tiles = len(f.space.sources) + len(f.space.target_bytes)

    def aligned(width: Any, shift: Any) -> Any:
        return looked_up("loaded_in_words", f.loads_by, width) | (shift & np.isin(width, f.superset_vectors))

    def load_vector(load: Any, width: Any, vin: Any, shift: Any) -> Any:
        by_threads = aligned(width, shift) | ~is_copied(load) & np.isin(width, f.able_to_straddle)
        return (~fills_by_threads(load) | by_threads) & (
            (load != DIRECT) | looked_up("loaded_in_words", f.loads_by, vin)
        )

    def copied(load: Any, width: Any) -> Any:
        return ~is_copied(load) | copies_by(width, f.space.source_bytes)

    def span_of(name: Any) -> Any:
        return np.select([name == n for n in SPANS], list(SPANS.values()), default=0)

    def layout(load: Any, name: Any, tile_in: Any, tile_out: Any, vout: Any, vin: Any, halo: Any) -> Any:
        span, rows = span_of(name), tile_out + halo * halo_elems
        fits, by_threads = np.array(True), fills_by_threads(load)
        for e in sources:
            row = tile_in * e
            chunks = np.minimum(row, SMEM_LINE_BYTES) // SWIZZLE_CHUNK_BYTES
            hardware = (span > 0) & (row % np.maximum(span, 1) == 0) & (rows % 8 == 0)
            block = (name == BLOCK) & by_threads & (vout > 1) & (chunks > 1)
            fits = fits & (hardware | (block & (rows % np.maximum(chunks * vout, 1) == 0)))
        plain = (name == NO_LAYOUT) | ((name == PAD) | (name == BY_MATRICES)) & by_threads
        phases = (name == PHASES) & (vin == 1)
        by_elements = (
            np.isin(name, (ODD, BANKS)) & (load == VECTOR) & (vout > 1) & (vin == 1) & (f.widest_in < REGISTER_BYTES)
        )
        return np.where(load == DIRECT, name == NO_LAYOUT, fits | plain | by_elements | phases)

    def store_layout(store: Any, name: Any, tile_out: Any, tile_in: Any) -> Any:
        span = span_of(name)
        fits = (span > 0) & (tile_in % 8 == 0)
        for e in dict.fromkeys(f.space.target_bytes):
            fits = fits & (tile_out * e % np.maximum(span, 1) == 0)
        boxed = fits | ((name == NO_LAYOUT) & (tile_out <= TENSOR_MAP_BOX))
        return np.where(is_mapped(store), boxed, name == NO_LAYOUT)

    def stored(store: Any, tile_in: Any, tile_out: Any) -> Any:
        return np.where(store == VECTOR, 0, tile_in * tile_out * f.bytes_out)

    def smem(load: Any, store: Any, name: Any, tile_in: Any, tile_out: Any, stages: Any, halo: Any) -> Any:
        padded = np.isin(name, (PAD, ODD, BANKS))
        pitch = tile_in * f.bytes_in + np.where(padded, MAX_WORD_BYTES * len(f.space.sources), 0)
        loaded = np.where(load == DIRECT, 0, pitch * (tile_out + halo * halo_elems) * stages)
        return (name == PHASES) | fit(f.arch, loaded + stored(store, tile_in, tile_out), tiles)

    def smem_of_phases(
        name: Any,
        begin: Any,
        store: Any,
        tile_in: Any,
        tile_out: Any,
        stages: Any,
        halo: Any,
        width: Any,
        vout: Any,
        threads: Any,
        lanes: Any,
    ) -> Any:
        rows, begins = tile_out + halo * halo_elems, places_before(f.space.source_bytes, begin, width, threads // lanes)
        loaded = np.array(0)
        for source in f.space.sources:
            between = f.space.source_strides(source)[f.space.columns[-1]] * source.nbytes
            apart = rows_apart(between, rows, vout, begins * source.nbytes)
            loaded = loaded + -(-rows // apart) * (apart * tile_in + begins) * source.nbytes * stages
        return (name != PHASES) | fit(f.arch, loaded + stored(store, tile_in, tile_out), tiles)

    return [
        Constraint(
            "vector_address_is_aligned",
            ("load", "load_vector", "vector_in", "shift_load"),
            load_vector,
            "Rows of the input hold whole vectors.",
        ),
        Constraint(
            "wide_words_come_whole",
            ("load", "load_vector", "shift_load"),
            lambda load, width, shift: (load != VECTOR) | aligned(width, shift) | np.isin(width, f.straddling_vectors),
            "Elements as wide as a register are not put together to vectors of two aligned ones.",
        ),
        copies_have_a_width(("load", "load_vector"), copied),
        Constraint(
            "vector_address_is_aligned",
            ("store", "vector_out", "shift_store"),
            lambda store, vout, shift: (store != VECTOR) | shift | looked_up("stored_in_words", f.stores_by, vout),
            "Rows of the output hold whole vectors.",
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("load", "layout", "tile_in", "tile_out", "vector_out", "vector_in", "halo"),
            layout,
            "A row of the tile is a whole number of spans; padding and block swizzles are for loads by threads.",
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("layout",),
            lambda name: f.tiles_carry_data | np.isin(name, (NO_LAYOUT, PAD, ODD, BANKS, PHASES)),
            "No part of a swizzled axis is broadcast (nvFuser, IterDomains).",
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("store", "store_layout", "tile_out", "tile_in"),
            store_layout,
            "A row of the stored tile is a whole number of spans.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("load", "store", "layout", "tile_in", "tile_out", "stages", "halo"),
            smem,
            "Tiles, times stages, fit the block's shared memory.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            (
                "layout",
                "row_span",
                "store",
                "tile_in",
                "tile_out",
                "stages",
                "halo",
                "load_vector",
                "vector_out",
                "threads",
                "lanes_out",
            ),
            smem_of_phases,
            "Rows that lie as in memory come in groups, each with places before its first.",
        ),
    ]
