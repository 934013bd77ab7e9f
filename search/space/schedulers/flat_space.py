"""Knobs and constraints of the flat scheduler.

Two kinds of constraint: what the compiler's rules refuse, said in terms of knobs (a property test holds the two against
each other), and combinations that would only repeat another point or cannot be fast (`flat_worthwhile`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, TENSOR_MAP_BOX, TENSOR_MAP_COORDINATE, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint, measured
from search.space.expressions import looked_up
from search.space.groups import (
    AS_THEY_ARE,
    BULK,
    CP_ASYNC,
    EVICT_FIRST,
    EVICT_LAST,
    NO_ALLOCATE,
    NO_TMEM,
    STREAMING,
    STREAMS,
    TMA,
    VECTOR,
    Rings,
    TmemUse,
    block_fits,
    boxes_fit,
    copied_rings,
    copies_have_a_width,
    fit,
    hint_knob,
    is_copied,
    is_mapped,
    is_run,
    load_knob,
    math_knob,
    ring_constraints,
    ring_knobs,
    rows_begin_knob,
    store_knob,
    tmem_constraints,
    tmem_knobs,
    without_hints,
)
from search.space.knobs import Knob
from search.space.schedulers.flat_facts import FlatFacts
from search.space.schedulers.flat_worthwhile import redundant, worthwhile
from search.space.schedulers.iteration_space import IterationSpace, iteration_space
from search.space.schedulers.multicasts import MULTICASTS, Multicasts, multicast_constraints
from search.space.space import Space

THREADS = (32, 64, 128, 256, 512, 1024)

SHORT_ROW_THREADS = 256
"""Threads of a block whose rows are shorter than a warp."""


def flat_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the flat scheduler does not refuse."""
    found = iteration_space(start(fusion))
    assert isinstance(found, IterationSpace), "refused fusions have no space"
    facts = FlatFacts(found, arch, sm_count)
    return Space("flat", _knobs(fusion, facts), tuple(_constraints(facts)))


def _knobs(fusion: Fusion, f: FlatFacts) -> tuple[Knob, ...]:
    bulk = f.arch.has_tma and not fusion.is_list
    vectors = f.vectors
    views: tuple[str, ...] = ("1d", "2d") if f.two_d else ("1d",)
    copies = not fusion.is_list and any(f.copies_by(view, v) for view in views for v in vectors)
    is_staged = bulk and bool(f.space.stageable)
    return (
        Knob("view", views),
        load_knob({VECTOR: True, TMA: is_staged, BULK: is_staged, CP_ASYNC: copies}),
        store_knob(tma=bulk and not f.in_parts, bulk=bulk),
        Knob("vector", vectors),
        rows_begin_knob(f.shifted_vectors, f.word_vectors),
        Knob("threads_x", (*sorted((*THREADS, *f.even_threads)), *f.short_rows(vectors[-1]))),
        Knob(
            "threads_y", (1, 2, 4, 8, *(SHORT_ROW_THREADS // t for t in f.short_rows(vectors[-1]))) if f.two_d else (1,)
        ),
        Knob("rows", (1, 2, 4, 8, 16) if f.two_d else (1,)),
        Knob("column_steps", (1, 2, 4, 8)),
        Knob("blocks_per_sm", (0,) if fusion.is_list else (0, 1, 2, 4, 8)),
        *ring_knobs(4 if bulk or copies else 1),
        Knob("tile_order", f.tile_orders),
        Knob("row_order", f.row_orders),
        Knob("multicast", MULTICASTS if f.multicasts is not None else MULTICASTS[:1]),
        hint_knob("cache_load", NO_ALLOCATE, EVICT_FIRST),
        hint_knob("cache_store", STREAMING),
        hint_knob("cache_broadcast", EVICT_LAST, is_offered=f.keeps_broadcasts),
        math_knob(fusion),
        *tmem_knobs((STREAMS,) if f.is_kept_in_tmem else (), "tmem_pattern", "tmem_dimsep", "tmem_buffers"),
    )


def _tensor_memory(f: FlatFacts) -> list[Constraint]:
    """Streamed inputs that go through tensor memory on their way to where they are used."""
    if not f.is_kept_in_tmem:
        return []
    axes = ("threads_x", "threads_y", "vector", "column_steps", "rows")

    def own(_: Any, __: Any, vector: Any, steps: Any, rows: Any) -> Any:
        return vector * steps * rows

    def part(*knobs: Any) -> Any:
        return own(*knobs) * f.stream_in

    def filled(
        buffers: Any, blocks: Any, view: Any, order: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any
    ) -> Any:
        tiles = f.tiles(view == "2d", order, ty * rows, vector * tx * steps)
        return (buffers == 1) | (blocks > 0) & (blocks * f.sm_count * buffers <= tiles)

    return [
        *tmem_constraints(
            TmemUse(STREAMS, f.arch, ("threads_x", "threads_y"), axes, f.stream_widths, part, own, "blocks_per_sm")
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "rows_begin", "multicast", "load"),
            lambda tmem, begin, blocks, load: (
                (tmem == NO_TMEM) | (begin == AS_THEY_ARE) & (blocks == 1) & (load == VECTOR)
            ),
            "Rows as they are, of no multicast and in no shared tile, go through tensor memory.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "row_order"),
            lambda tmem, order: (tmem == NO_TMEM) | (f.held(order) == 1) & (f.swept(order) == 0),
            "What goes through tensor memory is held for no other rows.",
        ),
        Constraint(
            "tmem_buffers_are_filled",
            ("tmem_buffers", "blocks_per_sm", "load"),
            lambda buffers, blocks, load: (buffers == 1) | (blocks > 0) & (load == VECTOR),
            "Blocks that stay have buffers.",
        ),
        Constraint(
            "tmem_buffers_are_filled",
            (
                "tmem_buffers",
                "blocks_per_sm",
                "view",
                "row_order",
                "vector",
                "threads_x",
                "column_steps",
                "threads_y",
                "rows",
            ),
            filled,
            "Persistent blocks have tiles for all of their buffers.",
        ),
        *without_hints("cache_load", "cache_store", "cache_broadcast"),
        Constraint(
            "tmem_access_moves_whole_words",
            ("tmem", "view", "vector"),
            lambda tmem, view, vector: (tmem == NO_TMEM) | looked_up("streams_in_words", f.streams_in, view, vector),
            "All streamed inputs are moved by vectors, which go to tensor memory as they are.",
        ),
    ]


def _constraints(f: FlatFacts) -> list[Constraint]:
    rings = ring_constraints(_rings(f))
    return [
        *_legality(f),
        *_tensor_maps(f),
        *_bulk_runs(f),
        *_copies(f),
        *_tensor_memory(f),
        *rings,
        *(_multicasts(f, f.multicasts) if f.multicasts is not None else ()),
        *redundant(f),
        *measured("H200", f.arch, worthwhile(f)),
    ]


def _copies(f: FlatFacts) -> list[Constraint]:
    """Copies by threads past their registers."""

    def words(load: Any, view: Any, vector: Any) -> Any:
        return ~is_copied(load) | looked_up("copied_in_words", f.copies_by, view, vector)

    return [
        copied_rings(("load",), lambda load: is_copied(load)),
        copies_have_a_width(("load", "view", "vector"), words),
    ]


def _multicasts(f: FlatFacts, m: Multicasts) -> list[Constraint]:
    """Tiles that all blocks of a cluster have."""

    def plain(order: Any) -> Any:
        return (f.held(order) == 1) & (f.swept(order) == 0)

    def smem(blocks: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any) -> Any:
        need = vector * tx * steps * ty * rows * (f.staged + f.stored + f.repeated)
        return (blocks == 1) | fit(f.arch, need)

    return [
        *multicast_constraints(m, f.stream_in + f.stored, plain),
        Constraint(
            "multicast_is_of_plain_tiles",
            ("multicast", "tile_order"),
            lambda blocks, order: (blocks == 1) | (f.parts(order) == 0),
            "Blocks of a cluster are neighbours along what operands repeat along.",
        ),
        Constraint(
            "multicast_tiles_fit_shared_memory",
            ("multicast", "vector", "threads_x", "column_steps", "threads_y", "rows"),
            smem,
            "A tile of every operand fits the block's shared memory, however it is loaded and stored.",
        ),
    ]


def _rings(f: FlatFacts) -> Rings:
    """The tiles of a persistent block that bulk copies bring."""

    return Rings(
        f.arch,
        ("load", "blocks_per_sm"),
        lambda load, blocks: (load != VECTOR) & (blocks > 0),
        ("threads_x", "threads_y"),
        "blocks_per_sm",
    )


def _legality(f: FlatFacts) -> list[Constraint]:
    """Vectors, block and shared memory."""

    def smem(load: Any, store: Any, vector: Any, tx: Any, ty: Any, rows: Any, steps: Any, stages: Any) -> Any:
        elems = vector * tx * ty * rows * steps
        staged = np.where(load == VECTOR, 0, elems * f.staged * stages)
        return fit(f.arch, staged + np.where(store == VECTOR, 0, elems * f.stored))

    return [
        block_fits(f.arch, "threads_x", "threads_y"),
        Constraint(
            "shared_memory_fits_the_block",
            ("load", "store", "vector", "threads_x", "threads_y", "rows", "column_steps", "stages"),
            smem,
            "Staged tiles, times stages, fit the block's shared memory.",
        ),
    ]


def _tensor_maps(f: FlatFacts) -> list[Constraint]:
    """Copies by tensor map."""

    def pitch(path: str) -> Callable[..., Any]:
        rows, merged = f.bulk_rows(path), f.is_merged(path)
        return lambda how, view: ~is_mapped(how) | np.where(view == "1d", merged & f.is_aligned(path), rows)

    def whole_stores(how: Any, view: Any) -> Any:
        extent = np.where(view == "2d", f.inner, f.space.elems)
        return ~is_mapped(how) | (extent * f.narrowest_stored % BULK_BYTES == 0)

    def box(how: Any, ty: Any, rows: Any) -> Any:
        # Columns are a multiple of 32 elements, so the inner box is always whole 16 bytes.
        return ~is_mapped(how) | (ty * rows <= TENSOR_MAP_BOX)

    out: list[Constraint] = []
    for side in ("load", "store"):
        out += [
            Constraint(
                "tensor_map_strides_are_multiples_of_16_bytes",
                (side, "view"),
                pitch(side),
                "A tensor map needs 16-byte rows and contiguous merged dimensions.",
            ),
            boxes_fit((side, "threads_y", "rows"), box),
        ]
        if f.space.elems > TENSOR_MAP_COORDINATE + 1:
            reason = "Coordinates of a tensor map are below 2^31."
            out.append(
                Constraint(
                    "tma_coordinates_fit_31_bits",
                    (side, "view"),
                    lambda how, view: ~is_mapped(how) | (view != "1d"),
                    reason,
                )
            )
    reason = "A tensor-map store writes whole 16 bytes at the end of a row."
    return [*out, Constraint("tma_store_rows_are_multiples_of_16_bytes", ("store", "view"), whole_stores, reason)]


def _bulk_runs(f: FlatFacts) -> list[Constraint]:
    """1-D bulk copies."""

    def run(path: str) -> Callable[..., Any]:
        rows, merged = f.bulk_rows(path), f.is_merged(path) and f.is_aligned(path)

        def predicate(how: Any, view: Any, vector: Any, tx: Any, steps: Any) -> Any:
            extent = np.where(view == "2d", f.inner, f.space.elems)
            whole = extent % (vector * tx * steps) == 0
            return ~is_run(how) | (whole & np.where(view == "1d", merged, rows))

        return predicate

    out: list[Constraint] = []
    for side in ("load", "store"):
        out += [
            Constraint(
                "bulk1d_splits_divide",
                (side, "view", "vector", "threads_x", "column_steps"),
                run(side),
                "A 1-D bulk copy moves whole runs of 16 bytes: tile columns divide the row.",
            ),
            Constraint(
                "threads_cover_the_tile",
                (side, "view", "row_order", "threads_y", "rows"),
                lambda how, view, order, ty, rows: ~is_run(how) | (view == "1d") | (f.rows(order) % (ty * rows) == 0),
                "Threads read no row from shared memory that a 1-D bulk copy left out: tile rows divide the rows.",
            ),
        ]
    return out
