"""Constraints of the two-dimensional tile scheduler that leave out what always loses to a legal point beside it.

A sample of a space is worth what the points in it are worth. The numbers are from pairs of kernels that differ in one
knob, timed on an H200: transposes of f32 and bf16, with even and odd pitches, 5000 kernels.
"""

from __future__ import annotations

import operator
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from compiler.arch import LINE_BYTES, MAX_WORD_BYTES, WARP_THREADS
from search.space.constraints import Constraint, measured
from search.space.groups import (
    AS_STORED,
    BANKS,
    BLOCK,
    BY_MATRICES,
    COLUMNS_INNER,
    DEFAULT,
    DIRECT,
    GROUPED,
    NO_LAYOUT,
    NO_TMEM,
    ODD,
    PAD,
    PHASES,
    ROWS_INNER,
    SPANS,
    STREAMING,
    VECTOR,
    WIDEST_SPAN,
    fills_by_threads,
    is_copied,
    is_mapped,
)
from search.space.schedulers.tile2d_facts import Tile2dFacts
from search.space.schedulers.tile2d_matrix import LANES, MATRIX, has_matrices
from search.space.schedulers.tile2d_tmem_space import is_passed

LEAST_TILE_BYTES = 8 * 1024
MOST_TILE_BYTES = 64 * 1024
"""Tiles of less than 8 KB cost 3 to 5 %. Those of more leave room for one or two blocks, of which none reads while it
writes: 128 KB cost 26 %."""

FEW_ELEMS = 1 << 16
"""256 KB of f32: a quarter of a microsecond of memory beside two of launch."""

LEAST_BLOCKS = 3
"""Of an SM at a time, where each moves one tile: two cost 1 to 4 %, one 27 % and more."""

LONG_ROW_BYTES = 1 << 16
"""Of the outputs: blocks that run at a time go along so much of a row, 128 bytes wide each on the other side."""

LEAST_COPY_BYTES = 8
"""That a thread copies at a time past its registers: an f32 transpose at odd pitches, 4 bytes at a time, took 75.7 us
and in rings 80 to 98, and 73.5 us through registers (H200)."""

PHASE_ROW_BYTES = 256
"""Of a row that lies in shared memory as in global memory: transposes of bytes and permutes of halves (H200)."""

ODD_RUN = 128
MOST_WORDS, MOST_THREADS = 16, 512
"""Loads of a thread before its first store to shared memory, and threads of a block."""


def worthwhile(f: Tile2dFacts) -> list[Constraint]:
    """What a fusion's points need not try. Small problems end before rates of memory count: they may try any tile."""
    if prod(f.space.shape) < FEW_ELEMS:
        return measured("H200", f.arch, _hints())
    kinds = (*_order(f), *_hints(), *_paths(f), *_tiles(f), *_odd(f), *_phases(f), *_layouts(f))
    return measured("H200", f.arch, kinds)


def _order(f: Tile2dFacts) -> list[Constraint]:
    reads_more = f.bytes_in > f.bytes_out
    is_long = f.extent_out * f.widest_out > LONG_ROW_BYTES

    def order(name: Any) -> Any:
        along = np.isin(name, (COLUMNS_INNER, AS_STORED))
        return along | ((name == ROWS_INNER) & reads_more) | ((name == GROUPED) & is_long)

    return [
        Constraint(
            "blocks_follow_the_stores",
            ("tile_order",),
            order,
            "Neighbouring blocks write neighbouring parts of a row (4 to 17 % faster than by columns, 1.4 to 6 % than "
            "in groups of 8 to 32 tiles), unless reads are most of it.",
        )
    ]


def _hints() -> list[Constraint]:
    return [
        Constraint(
            "hint_loses_lines",
            ("cache_load",),
            lambda cache: cache == DEFAULT,
            "Parts of a line are read by several warps and blocks: any hint costs 3 %, at odd pitches 12 %.",
        ),
        Constraint(
            "hint_loses_lines",
            ("cache_store",),
            lambda cache: (cache == DEFAULT) | (cache == STREAMING),
            "Parts of a line are written by several blocks: evicting it first costs up to 5 %.",
        ),
    ]


def _paths(f: Tile2dFacts) -> list[Constraint]:
    is_narrow = min(f.extent_in, f.extent_out) < WARP_THREADS
    narrowest = min(s.nbytes for s in f.space.sources)

    has_blocks = has_matrices(f) and not f.bytes_beside and not is_narrow
    beside = (*(("move", "vector_in") if has_blocks else ()), *(("tmem",) if is_passed(f) else ()))

    def direct(load: Any, *others: Any) -> Any:
        known = dict(zip(beside, others, strict=True))
        by_matrices = (known.get("move", LANES) == MATRIX) & (known.get("vector_in", 1) * f.widest_in == MAX_WORD_BYTES)
        return (load != DIRECT) | is_narrow | by_matrices | (known.get("tmem", NO_TMEM) != NO_TMEM)

    return [
        Constraint(
            "persistent_block_waits",
            ("blocks_per_sm", "stages"),
            lambda blocks, stages: (blocks == 0) | (stages > 1),
            "Without stages a block that has stored a tile has nothing in flight for the next (9 to 60 % slower).",
        ),
        Constraint(
            "scattered_access",
            ("load", *beside),
            direct,
            "Only beside a dimension shorter than a warp does a thread's own block reach whole lines; lanes that hold "
            "matrices reach whole sectors by their widest vectors, if nothing else is read in the outputs' order.",
        ),
        Constraint(
            "scattered_access",
            ("load", "load_vector"),
            lambda load, width: ~is_copied(load) | (width * narrowest >= LEAST_COPY_BYTES),
            "Copies past the registers of 4 bytes a thread are 3 % slower than loads, in rings 9 to 35 %.",
        ),
    ]


def _tiles(f: Tile2dFacts) -> list[Constraint]:
    # What a dimension has, if that is less: no tile of a short dimension can be longer.
    line_in = min(LINE_BYTES, f.tiles_in[-1] * f.widest_in)
    line_out = min(LINE_BYTES // 2, f.tiles_out[-1] * f.widest_out)
    most = f.tiles_in[-1] * f.tiles_out[-1] * max(f.bytes_in, f.bytes_out)
    least_tile = min(LEAST_TILE_BYTES, most)
    smallest = f.tiles_in[0] * f.tiles_out[0] * max(f.bytes_in, f.bytes_out)

    def resident(load: Any, store: Any, blocks: Any, tile_in: Any, tile_out: Any) -> Any:
        """A block that moves one tile reads, then writes: what the others do meanwhile keeps memory busy."""
        nbytes = tile_in * tile_out * ((load != DIRECT) * f.bytes_in + (store != VECTOR) * f.bytes_out)
        return (blocks > 0) | (LEAST_BLOCKS * nbytes <= max(f.arch.smem_per_sm_bytes, LEAST_BLOCKS * smallest))

    def size(tile_in: Any, tile_out: Any) -> Any:
        nbytes = tile_in * tile_out * max(f.bytes_in, f.bytes_out)
        return (nbytes >= least_tile) & (nbytes <= max(MOST_TILE_BYTES, smallest))

    return [
        Constraint(
            "tile_rows_are_lines",
            ("tile_in", "tile_out"),
            lambda tile_in, tile_out: (tile_in * f.widest_in >= line_in) & (tile_out * f.widest_out >= line_out),
            "Rows of a tile fill a line of the cache where they are read, and half of one where they are written.",
        ),
        Constraint(
            "tile_is_neither_small_nor_large",
            ("tile_in", "tile_out"),
            size,
            "A tile has 8 to 64 KB: enough to read at once, and small enough for blocks beside it.",
        ),
        Constraint(
            "tile_is_neither_small_nor_large",
            ("load", "store", "blocks_per_sm", "tile_in", "tile_out"),
            resident,
            "Tiles of three blocks fit a multiprocessor: one reads while another writes.",
        ),
    ]


def _odd(f: Tile2dFacts) -> list[Constraint]:
    """Rows of the outputs that begin at any address: both ends of a tile's run are parts of sectors."""
    if not f.shifts_store:
        return []
    least = min(ODD_RUN, f.tiles_out[-1])
    most = max(MOST_WORDS, least * min(-(-LINE_BYTES // f.widest_in), f.tiles_in[-1]) // MOST_THREADS)
    most *= 2 if f.widest_in == 1 else 1  # half a line each

    def words(load: Any, tile_in: Any, tile_out: Any, width: Any, threads: Any) -> Any:
        return (load != VECTOR) | (tile_in * tile_out <= most * width * threads)

    return [
        Constraint(
            "runs_at_odd_addresses_are_long",
            ("tile_out", "halo"),
            lambda tile_out, halo: (tile_out >= least) | (halo & (2 * tile_out >= least)),
            "Runs of 128 elements have half the ends of runs of 64 (3 to 10 % faster); with a halo they have none.",
        ),
        Constraint(
            "runs_at_odd_addresses_are_long",
            ("lanes_out", *(("move", "store") if has_matrices(f) else ())),
            lambda lanes, move=LANES, store=VECTOR: (lanes == WARP_THREADS) | ((move == MATRIX) & (store != VECTOR)),
            "A warp along one run: two runs of half a warp are 6 % slower. The copy engine stores runs by itself.",
        ),
        Constraint(
            "hint_loses_lines",
            ("halo", "cache_store"),
            lambda halo, cache: ~halo | (cache == DEFAULT),
            "Blocks side by side write parts of a line: evicting it first costs 2 to 3 %, in six of six pairs.",
        ),
        Constraint(
            "loads_stay_ahead",
            ("load", "tile_in", "tile_out", "load_vector", "threads"),
            words,
            "Of more than 16 loads, ptxas keeps a few in flight and stores those before the rest: 20 % slower.",
        ),
    ]


def _phases(f: Tile2dFacts) -> list[Constraint]:
    """Rows of the sources that lie in shared memory as in global memory, from a multiple of a vector on."""
    if not f.superset_vectors:
        return []
    least = min(PHASE_ROW_BYTES, f.tiles_in[-1] * f.widest_in)

    return [
        Constraint(
            "tile_rows_are_lines",
            ("layout", "tile_in"),
            lambda name, tile_in: (name != PHASES) | (tile_in * f.widest_in >= least),
            "Of shorter rows a larger part is the vector that two tiles load: half the bytes cost 3 to 7 %.",
        ),
        Constraint(
            "loads_stay_ahead",
            ("layout", "load"),
            lambda name, load: (name != PHASES) | is_copied(load) | (not f.has_copies),
            "Through registers the ends of rows come element by element: 1.1 to 3 times as long as copies past them.",
        ),
    ]


def _layouts(f: Tile2dFacts) -> list[Constraint]:
    sources = tuple(dict.fromkeys(s.nbytes for s in f.space.sources))
    targets = tuple(dict.fromkeys(f.space.target_bytes))

    def fits(span: int, row: Any, rows: Any, sizes: tuple[int, ...]) -> Any:
        return reduce(operator.and_, [row * e % span == 0 for e in sizes]) & (rows % 8 == 0)

    def layout(load: Any, name: Any, tile_in: Any, tile_out: Any) -> Any:
        """The copy engine brings the widest box that fits; threads pad, or swizzle the whole row."""
        able = [fits(SPANS[swizzle], tile_in, tile_out, sources) for swizzle in reversed(SPANS)]
        widest = np.select(able, [*reversed(SPANS)], NO_LAYOUT)
        by_threads = np.isin(name, (PAD, BLOCK, ODD, BANKS, PHASES, BY_MATRICES)) | (
            (name == WIDEST_SPAN) & (widest == WIDEST_SPAN)
        )
        return np.select([is_mapped(load), fills_by_threads(load)], [name == widest, by_threads], True)

    def store_layout(store: Any, name: Any, tile_out: Any, tile_in: Any) -> Any:
        """Boxes of 64 bytes are the fastest by 1 %, then 128; 32 and plain rows only where nothing else fits."""
        wide = fits(64, tile_out, tile_in, targets)
        return (store == VECTOR) | ~wide | np.isin(name, ("64B", "128B"))

    return [
        Constraint(
            "swizzle_is_the_widest",
            ("load", "layout", "tile_in", "tile_out"),
            layout,
            "Plain rows conflict in the banks (13 % slower or more), and narrower swizzles gain nothing.",
        ),
        Constraint(
            "swizzle_is_the_widest",
            ("store", "store_layout", "tile_out", "tile_in"),
            store_layout,
            "Stored boxes of 32 bytes are 3 % slower than of 64.",
        ),
    ]
