"""Transposed tiles that warps move between shared memory and registers by matrices: ldmatrix and stmatrix.

A lane holds 8 elements of 16 bits, two of each of four 8 x 8 matrices, and gives the address of one row of 8 neighbours
in memory. Which rows make a matrix is free. Of a tile [Q, P] in a source's order a warp takes 8 elements along P and 32
along Q, 4 lanes along Q:

    vector_out 8: matrix i has rows 8 j + 2 i + (0, 1) of Q, j = 0..3: lane j ends with 8 neighbours along Q
    vector_out 2: matrix i has rows 8 i + (0..7): lane j ends with a pair of each, and stmatrix puts down whole rows

Of bytes the instruction takes pairs along P for its elements; the bytes of two registers are then put together along Q,
one permutation a register (vector_in 2).

Straight from memory, without a tile in the source's order, lanes hold vectors along P, 8 lanes along Q and 4 along P;
stmatrix puts them down transposed for a store by the copy engine.

The 8 rows of a matrix are read at a time: without conflicts where their 16-byte chunks lie in groups of banks of their
own. Neighbouring rows do with the hardware's swizzles; rows 8 apart do in the layout `matrices`, which threads write.
(nvFuser models the same as LdMatrix and StMatrix: copies whose domains match the instruction's fragment.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import (
    LINE_BYTES,
    MATRIX_BYTES,
    MATRIX_ELEMENT_BYTES,
    MAX_WORD_BYTES,
    STMATRIX_CAPABILITY,
    WARP_THREADS,
)
from compiler.ir.iter_domain import ParallelType
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.groups import BY_MATRICES, DIRECT, SPANS, WIDEST_SPAN, fills_by_threads, is_mapped
from search.space.schedulers.tile2d_facts import VECTORS, Tile2dFacts

LANES, MATRIX = MOVES = "vector", "matrix"
"""Values of the knob `move`: how threads move elements between shared memory and registers."""

MATRIX_LANES = 4
"""Lanes of a warp that hold a row of a matrix, or transposed a column (PTX ISA, ldmatrix)."""

MATRIX_ROWS = WARP_THREADS // MATRIX_LANES
HELD = MATRIX_BYTES[-1] // MATRIX_ELEMENT_BYTES
"""Elements that a lane holds of four matrices."""


def is_direct(point: Any) -> bool:
    """Whether lanes hold vectors of a source, straight from memory."""
    return bool(point["load"] == DIRECT)


def stores_matrices(point: Any) -> bool:
    """Whether the tile that is stored is put down by stmatrix: what lanes hold is no vector of it."""
    return bool(point.get("move") == MATRIX and (is_direct(point) or point["vector_out"] == 2))


def has_matrices(f: Tile2dFacts) -> bool:
    """True if elements on one side of the registers are of a size that ldmatrix or stmatrix moves."""
    return _loads(f) or _stores_direct(f)


def _loads(f: Tile2dFacts) -> bool:
    """Whether ldmatrix can bring what the sources' tiles hold: elements of 16 bits, or pairs of bytes."""
    return f.space.source_bytes[0] in (1, MATRIX_ELEMENT_BYTES) and all(
        s.nbytes == f.widest_in and s.is_whole for s in f.space.sources
    )


def _stores(f: Tile2dFacts) -> bool:
    return f.arch.capability >= STMATRIX_CAPABILITY and set(f.space.target_bytes) == {MATRIX_ELEMENT_BYTES}


def _stores_direct(f: Tile2dFacts) -> bool:
    return _stores(f) and f.has_stored_maps


def fragment_loops(b: TraceBuilder, tv: str, lead: int, point: Any, *, is_fragment: bool) -> None:
    """[tile.., P, Q] -> [tile.., thread, step, .., elements]: of a fragment, the elements that a lane holds of it."""
    threads, lanes, vin, vout = (point[k] for k in ("threads", "lanes_out", "vector_in", "vector_out"))
    b.split(tv, lead + 1, vout)
    b.split(tv, lead + 1, lanes)
    if is_direct(point):
        b.split(tv, lead, vin)
        b.split(tv, lead, threads // lanes)
        b.split(tv, lead + 1, MATRIX_LANES)
        step_p, far, near, in_p, step_q, lane_q, in_q = range(lead, lead + 7)
        b.reorder(tv, [*range(lead), far, lane_q, near, step_p, step_q, in_q, in_p])
        b.merge(tv, lead, 3)
        b.merge(tv, lead + 1)
        return
    if vout < HELD:
        b.split(tv, lead + 1, HELD // vout)
        b.split(tv, lead, threads // lanes)
        step_p, lane_p, step_q, matrix, lane_q, in_q = range(lead, lead + 6)
        last = [matrix, in_q]
    else:
        b.split(tv, lead, vin)
        b.split(tv, lead, threads // lanes)
        step_p, lane_p, in_p, step_q, lane_q, in_q = range(lead, lead + 6)
        last = [in_q, in_p] if is_fragment else [in_p, in_q]
    b.reorder(tv, [*range(lead), lane_p, lane_q, step_p, step_q, *last])
    b.merge(tv, lead)
    b.merge(tv, lead + 1)
    if is_fragment and vout >= HELD:
        b.split(tv, lead + 2, HELD)
        b.merge(tv, lead + 3)
    elif is_fragment:
        b.merge(tv, lead + 2)


def fragment_types(b: TraceBuilder, tv: str, lead: int) -> list[ParallelType]:
    """Parallel types of the axes of a fragment behind thread and step."""
    own = len(b.tensor(tv).loop) - lead - 2
    return [*[ParallelType.UNROLL] * (own - 1), ParallelType.VECTORIZE]


def matrix_constraints(f: Tile2dFacts) -> list[Constraint]:
    """Where the matrices of a point are whole, and can be what it moves at all."""
    if not has_matrices(f):
        return []
    whole = {vout for vout in VECTORS if vout * f.widest_out == MAX_WORD_BYTES or vout == HELD}

    def held(move: Any, load: Any, vin: Any, vout: Any, lanes: Any, threads: Any) -> Any:
        least = 2 if f.widest_in == MATRIX_ELEMENT_BYTES else HELD
        of_pairs = (vin * f.widest_in == MATRIX_ELEMENT_BYTES) & (vout >= least)
        loaded = _loads(f) & (load != DIRECT) & (lanes == MATRIX_LANES) & of_pairs
        along_p = (lanes % MATRIX_ROWS == 0) & (threads // lanes % MATRIX_LANES == 0)
        direct = (
            _stores_direct(f)
            & (load == DIRECT)
            & (vout == 1)
            & np.isin(vin * MATRIX_ELEMENT_BYTES, MATRIX_BYTES)
            & along_p
        )
        return (move == LANES) | loaded | direct

    def rows(move: Any, load: Any, vout: Any, tile_out: Any) -> Any:
        return (move == LANES) | (load == DIRECT) | (tile_out % (MATRIX_LANES * np.maximum(vout, HELD)) == 0)

    has_pairs = _stores(f) and f.widest_in == MATRIX_ELEMENT_BYTES and not f.bytes_beside

    def stored(move: Any, load: Any, store: Any, vout: Any) -> Any:
        by_engine = is_mapped(store)
        # Of a tile that the engine laid out, rows apart conflict in the banks; pairs need none.
        words = np.isin(vout, tuple(whole)) & ~(has_pairs & by_engine & is_mapped(load))
        return (move == LANES) | (load == DIRECT) | words | (has_pairs & by_engine & (vout == 2))

    def layout(move: Any, load: Any, name: Any, vout: Any, tile_in: Any) -> Any:
        lines = (tile_in * f.widest_in % LINE_BYTES == 0) & fills_by_threads(load)
        by_threads = lines & np.where(vout == 2, name == WIDEST_SPAN, name == BY_MATRICES)
        apart = by_threads | (load == DIRECT) | (is_mapped(load) & np.isin(name, tuple(SPANS)))
        return np.where(move == LANES, name != BY_MATRICES, apart)

    return [
        Constraint(
            "threads_cover_the_tile",
            ("move", "load", "vector_in", "vector_out", "lanes_out", "threads"),
            held,
            "Of a matrix 4 lanes take a row and 8 a column, two elements of 16 bits each.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("move", "load", "vector_out", "tile_out"),
            rows,
            "Matrices divide the tile.",
        ),
        Constraint(
            "scattered_access",
            ("move", "load", "store", "vector_out"),
            stored,
            "Lanes store whole words of a row, or pairs by stmatrix for the copy engine.",
        ),
        Constraint(
            "swizzle_fits_the_tile",
            ("move", "load", "layout", "vector_out", "tile_in"),
            layout,
            "Threads lay a tile out so that the rows of a matrix lie in groups of banks of their own.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("move", "shift_load", "shift_store", "halo"),
            lambda move, load, store, halo: (move == LANES) | ~(load | store | halo),
            "Rows of a matrix are aligned to 16 bytes.",
        ),
    ]
