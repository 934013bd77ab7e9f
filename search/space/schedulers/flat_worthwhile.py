"""Points of the flat scheduler that are left out: they repeat another point, or cannot be fast.

Where no source is named, the reason is a measurement: the pointwise and broadcast cases of the benchmark suite, a
hundred and more points of each, on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.arch import WARP_THREADS
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import (
    AS_THEY_ARE,
    DEFAULT,
    IN_WORDS,
    VECTOR,
    is_copied,
    is_mapped,
    is_run,
    no_hint,
    persistent_blocks_fit,
)
from search.space.schedulers.flat_facts import KEPT_BYTES, FlatFacts

MAX_REGISTER_BYTES = 4 * 160
"""Register bytes of a thread's tile: beyond, with addresses and temporaries, values spill (255 registers)."""


MAX_VECTORS = 8
"""Vectors of an operand in a thread: 16 are 3 % slower than fewer, at best."""

MIN_WORD_BYTES = 4
"""Bytes of a thread's access where operands let it: a warp asks for a line."""

MIN_IN_FLIGHT_BYTES = 32 << 10
"""Bytes that an SM asks for at a time: 16 KiB take half as long again, or longer."""

MIN_STAGED_BYTES = 1024
"""Bytes of a tile that a bulk copy moves: 512 take 1.7 times as long."""

MAX_BLOCK_THREADS = 512
"""Threads of a block: the end of all of them is waited for before another block begins."""


def redundant(f: FlatFacts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value."""

    def threads(load: Any, store: Any, tx: Any, ty: Any) -> Any:
        return (tx >= WARP_THREADS) | ((tx * ty % WARP_THREADS == 0) & (load == VECTOR) & (store == VECTOR))

    def sweeps(order: Any, ty: Any, rows: Any) -> Any:
        swept = f.swept(order)
        return (swept == 0) | (swept > ty * rows) & (f.rows(order) % np.maximum(swept, 1) == 0)

    def parts(order: Any, begin: Any, vector: Any, tx: Any, steps: Any) -> Any:
        several = -(-f.inner // (vector * tx * steps)) >= 2 * f.parts(order)
        return (f.parts(order) == 0) | (begin == AS_THEY_ARE) & several

    def kept(order: Any, tiles: Any, cache: Any) -> Any:
        is_swept = (f.swept(order) > 0) | (f.parts(tiles) > 0)
        return (cache == DEFAULT) | is_swept | (f.repeated_bytes in KEPT_BYTES)

    def words(view: Any, vector: Any, begin: Any) -> Any:
        taken = looked_up("takes_words", f.takes_words, view, vector)
        shifted = np.where(begin == IN_WORDS, np.isin(vector, f.word_vectors), np.isin(vector, f.shifted_vectors))
        return np.where(begin == AS_THEY_ARE, (vector == 1) | taken, shifted)

    def shifts(begin: Any, view: Any, load: Any, store: Any, order: Any, blocks: Any) -> Any:
        plain = (view == "2d") & (load == VECTOR) & (store == VECTOR) & (blocks == 1)
        return (begin == AS_THEY_ARE) | plain & (f.held(order) == 1) & (f.swept(order) == 0)

    has_threaded_loads = len(f.space.stageable) < sum(not o.is_output for o in f.space.streams)

    return [
        Constraint(
            "redundant_vector",
            ("view", "vector", "rows_begin"),
            words,
            "Some operand is moved in words of the width asked for.",
        ),
        Constraint(
            "redundant_rows_begin",
            ("rows_begin", "view", "load", "store", "row_order", "multicast"),
            shifts,
            "Rows are shifted for the threads that load and store their vectors.",
        ),
        Constraint(
            "redundant_even_threads",
            ("rows_begin", "threads_x"),
            lambda begin, tx: (begin != AS_THEY_ARE) | ~np.isin(tx, f.even_threads),
            "Threads are fitted to rows that a shift makes a vector longer.",
        ),
        Constraint(
            "redundant_threads",
            ("load", "store", "threads_x", "threads_y"),
            threads,
            "A block is whole warps, and a tile that the copy engine moves has rows of a warp or more.",
        ),
        Constraint(
            "redundant_held",
            ("row_order", "load", "store"),
            lambda order, load, store: (f.held(order) == 1) | ((load == VECTOR) & (store == VECTOR)),
            "An operand is held in registers by threads that load and store the others.",
        ),
        Constraint(
            "rows_are_swept",
            ("row_order", "threads_y", "rows"),
            sweeps,
            "Tiles that are swept together are several, and divide the rows.",
        ),
        Constraint(
            "rows_are_swept",
            ("tile_order", "rows_begin", "vector", "threads_x", "column_steps"),
            parts,
            "Parts of rows that are swept are several tiles.",
        ),
        Constraint(
            "sweeps_stay_in_l2",
            ("row_order", "tile_order", "cache_broadcast", "blocks_per_sm"),
            lambda order, tiles, cache, blocks: (
                (f.swept(order) == 0) & (f.parts(tiles) == 0) | (cache != DEFAULT) & (blocks == 0)
            ),
            "What is swept again is kept in L2 meanwhile, by blocks that come in the order of memory.",
        ),
        Constraint(
            "sweeps_stay_in_l2",
            ("row_order", "tile_order", "cache_broadcast"),
            kept,
            "More than half of L2 is not kept for what is read again, unless it is swept in parts.",
        ),
        Constraint(
            "redundant_rows",
            ("view", "rows", "threads_y"),
            lambda view, rows, ty: (view == "2d") | (rows == 1) & (ty == 1),
            "The one-dimensional view has no rows.",
        ),
        Constraint(
            "redundant_order",
            ("view", "tile_order", "row_order"),
            lambda view, tiles, rows: (view == "2d") | (tiles == "columns_inner") & (rows == "natural"),
            "The one-dimensional view has one order.",
        ),
        Constraint(
            "redundant_load",
            ("load", "stages"),
            lambda load, stages: ~is_copied(load) | (stages > 1),
            "What threads copy to shared memory for themselves they copy ahead: else it goes to registers at once.",
        ),
        no_hint("cache_load", ("load",), lambda load: load != VECTOR, but_others=has_threaded_loads),
        no_hint("cache_store", ("store",), lambda store: store != VECTOR),
    ]


def worthwhile(f: FlatFacts) -> list[Constraint]:
    """What cannot be fast: spills, tiles beyond the problem, grids that the problem does not fill."""

    def registers(vector: Any, rows: Any, steps: Any, order: Any, begin: Any) -> Any:
        lanes, held = vector * rows * steps, f.held(order)
        loaded = np.where(begin == IN_WORDS, 2, 1) * f.stream_in  # both words that one straddles
        repeated = np.where(held > 1, lanes, vector * steps) * f.repeated
        live = held * lanes * (loaded + f.stored) + repeated + vector * 4
        return live <= MAX_REGISTER_BYTES

    def apart(begin: Any, order: Any, vector: Any, rows: Any, ty: Any) -> Any:
        step, extent = f.apart(order, vector), f.rows(order)
        alike = (rows * step <= extent) & (ty <= -(-extent // (rows * step)) * step)
        return (begin == AS_THEY_ARE) | (rows == 1) | alike

    def inside(view: Any, order: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any) -> Any:
        cols = vector * tx * steps
        extent = np.where(view == "2d", f.inner, f.space.elems)
        warp = WARP_THREADS * max(1, MIN_WORD_BYTES // f.narrowest)
        return (cols < 2 * np.maximum(extent, warp)) & ((view == "1d") | (ty * rows < 2 * f.rows(order)))

    buffers = ("tmem_buffers",) if f.is_kept_in_tmem else ()

    def overlapped(blocks: Any, stages: Any, buffers: Any = 1) -> Any:
        return (blocks == 0) | (stages > 1) | (np.maximum(buffers, 1) > 1)

    def wide(view: Any, vector: Any, begin: Any) -> Any:
        narrow = (begin == AS_THEY_ARE) & ~looked_up("takes_words", f.takes_words, view, 2 * vector)
        return (vector * f.narrowest >= MIN_WORD_BYTES) | narrow

    def in_flight(vector: Any, tx: Any, ty: Any, rows: Any, steps: Any, order: Any, blocks: Any, stages: Any) -> Any:
        threads = tx * ty
        resident = np.where(
            blocks == 0, np.minimum(f.arch.max_blocks_per_sm, f.arch.max_threads_per_sm // threads), blocks
        )
        bytes_of_block = threads * vector * rows * steps * f.held(order) * f.stream_in * stages
        most = f.arch.max_threads_per_sm * MAX_VECTORS * f.widest_vector * f.stream_in
        enough = min(MIN_IN_FLIGHT_BYTES, most // 2, f.space.elems * f.stream_in // f.sm_count // 2)
        return resident * bytes_of_block >= enough

    def staged(name: str) -> Callable[..., Any]:
        nbytes = min((o.nbytes for o in f.side(name)), default=1)
        enough = min(MIN_STAGED_BYTES, f.space.elems * nbytes)
        return lambda how, vector, tx, ty, rows, steps: (
            ~is_mapped(how) & ~is_run(how) | (vector * tx * ty * rows * steps * nbytes >= enough)
        )

    def filled(blocks: Any, view: Any, order: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any) -> Any:
        tiles = f.tiles(view == "2d", order, ty * rows, vector * tx * steps)
        return (blocks == 0) | (blocks * f.sm_count < tiles)

    tile = ("vector", "threads_x", "column_steps", "threads_y", "rows")
    staged_tiles = [
        Constraint(
            f"staged_{name}s_are_long",
            (name, "vector", "threads_x", "threads_y", "rows", "column_steps"),
            staged(name),
            "A bulk copy of less than 1 KiB costs more than its bytes.",
        )
        for name in ("load", "store")
    ]
    return [
        *staged_tiles,
        Constraint(
            "persistent_blocks_prefetch",
            ("blocks_per_sm", "stages", *buffers),
            overlapped,
            "A block that asks for its next tile after it has stored this one is 7 % slower at best than blocks that "
            "come and go.",
        ),
        Constraint(
            "few_vectors",
            ("rows", "column_steps", "row_order"),
            lambda rows, steps, order: rows * steps * f.held(order) <= MAX_VECTORS,
            "A thread has at most 8 vectors.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("rows_begin", "row_order", "vector", "rows", "threads_y"),
            apart,
            "There are as many rows that begin at the same phase as a thread takes, and thread rows for no more.",
        ),
        Constraint(
            "wide_words", ("view", "vector", "rows_begin"), wide, "A word is 4 bytes or more where operands let it."
        ),
        Constraint(
            "bytes_in_flight",
            ("vector", "threads_x", "threads_y", "rows", "column_steps", "row_order", "blocks_per_sm", "stages"),
            in_flight,
            "An SM has 32 KiB in flight, or half its share of a small problem, or half of what its threads ask for.",
        ),
        Constraint(
            "block_of_512_threads",
            ("threads_x", "threads_y"),
            lambda tx, ty: tx * ty <= MAX_BLOCK_THREADS,
            "A block has at most 512 threads.",
        ),
        Constraint(
            "hints_of_streams",
            ("cache_load", "cache_store"),
            lambda load, store: (load == DEFAULT) | (store != DEFAULT),
            "Loads that leave the caches early beside stores that do not are 3 % slower at best.",
        ),
        Constraint(
            "registers_in_flight",
            ("vector", "rows", "column_steps", "row_order", "rows_begin"),
            registers,
            "A thread's tile stays in registers.",
        ),
        Constraint(
            "tile_exceeds_the_problem", ("view", "row_order", *tile), inside, "A tile is not twice the problem."
        ),
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "view", "row_order", *tile),
            filled,
            "Every persistent block has a tile.",
        ),
        persistent_blocks_fit(f.arch, "threads_x", "threads_y"),
    ]
