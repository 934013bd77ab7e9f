"""Knobs and constraints of the two-dimensional tile scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, MAX_WORD_BYTES, REGISTER_BYTES, TENSOR_MAP_BOX, WARP_THREADS, Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import (
    AS_STORED,
    COLUMNS_INNER,
    CP_ASYNC,
    DIRECT,
    EARLY,
    EVICT_FIRST,
    GROUPED,
    LATE,
    LAYOUTS,
    NO_ALLOCATE,
    NO_LAYOUT,
    NO_TMEM,
    PAD,
    PHASES,
    ROWS_INNER,
    STORE_LAYOUTS,
    STREAMING,
    TMA,
    TRANSPOSE,
    VECTOR,
    Rings,
    boxes_fit,
    copied_rings,
    fills_by_threads,
    hint_knob,
    inner_boxes_are_whole,
    is_copied,
    is_mapped,
    is_staged,
    load_knob,
    math_knob,
    no_hint,
    persistent_blocks_fit,
    ring_constraints,
    ring_knobs,
    store_knob,
    tmem_knobs,
    words_of_their_own,
)
from search.space.knobs import Knob
from search.space.schedulers.tile2d_facts import (
    LEAST_THREADS,
    MAX_REGISTER_BYTES,
    SPAN_BYTES,
    VECTOR_WORD,
    VECTORS,
    Tile2dFacts,
    places_before,
    sector_elements,
)
from search.space.schedulers.tile2d_layouts import LEAST_RUNS, memory_constraints
from search.space.schedulers.tile2d_matrix import MOVES, has_matrices, matrix_constraints
from search.space.schedulers.tile2d_tmem_space import exchange_constraints, is_passed
from search.space.schedulers.tile2d_worthwhile import worthwhile
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from search.space.space import Space

THREADS = (LEAST_THREADS, 256, 512)

ORDERS = (COLUMNS_INNER, ROWS_INNER, GROUPED, AS_STORED)


def tile2d_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the scheduler does not refuse."""
    found = transposed_space(start(fusion))
    assert isinstance(found, TransposedSpace), "refused fusions have no space"
    facts = Tile2dFacts(found, arch, sm_count)
    kinds = (
        _shape,
        _shifts,
        memory_constraints,
        _bulk,
        _rings,
        matrix_constraints,
        exchange_constraints,
        _redundant,
        worthwhile,
    )
    constraints = tuple(constraint for kind in kinds for constraint in kind(facts))
    return Space("tile2d", tuple(_possible(knob, constraints) for knob in _knobs(fusion, facts)), constraints)


def _possible(knob: Knob, constraints: tuple[Constraint, ...]) -> Knob:
    """The values of a knob that no constraint on it alone refuses: the sparser a space, the longer a sample takes."""
    alone = [c for c in constraints if c.axes == (knob.name,) and c.refuses]
    legal = np.logical_and.reduce([np.ones(len(knob.values), np.bool_), *(c.on([knob.array]) for c in alone)])
    return Knob(knob.name, tuple(v for v, holds in zip(knob.values, legal, strict=True) if holds))


def _knobs(fusion: Fusion, f: Tile2dFacts) -> tuple[Knob, ...]:
    loads = {
        VECTOR: True,
        CP_ASYNC: f.has_copies,
        TMA: f.has_tensor_maps,
        DIRECT: f.has_stored_maps or is_passed(f),
    }
    vectors_in = tuple(v for v in VECTORS if v * f.widest_in <= MAX_WORD_BYTES)
    vectors_out = tuple(v for v in VECTORS if v * f.widest_out <= MAX_WORD_BYTES)
    lanes: tuple[int, ...] = (4, 8, 16, 32) if min(f.tiles_out) >= WARP_THREADS else (1, 2, 4, 8, 16)
    lanes += (64, 128) if min(f.tiles_in) < 8 <= min(f.tiles_out) else ()
    # Knobs that leave few combinations of one another come first: points are looked for along the later ones.
    return (
        load_knob(loads),
        store_knob(tma=f.has_stored_maps),
        Knob("move", MOVES if has_matrices(f) else MOVES[:1]),
        Knob("operands", (LATE, EARLY) if f.bytes_beside else (LATE,)),
        Knob("blocks_per_sm", (0, 1, 2, 4)),
        *ring_knobs(3 if f.has_tensor_maps or f.has_copies else 1),
        Knob("tile_in", f.tiles_in),
        Knob("tile_out", f.tiles_out),
        Knob("vector_in", vectors_in),
        Knob("vector_out", vectors_out),
        Knob("lanes_out", lanes),
        Knob("threads", THREADS),
        Knob("load_vector", f.load_vectors),
        Knob("shift_load", (False, True) if f.shifts_load else (False,)),
        Knob("row_span", tuple(SPAN_BYTES) if f.superset_vectors else (VECTOR_WORD,)),
        Knob("shift_store", (False, True) if f.shifts_store else (False,)),
        Knob("halo", (False, True) if f.shifts_store else (False,)),
        Knob("layout", LAYOUTS if has_matrices(f) else LAYOUTS[:-1]),
        Knob("store_layout", STORE_LAYOUTS if f.has_stored_maps else STORE_LAYOUTS[:1]),
        Knob("tile_order", ORDERS if f.space.batch_inside else ORDERS[:-1]),
        hint_knob("cache_load", NO_ALLOCATE, STREAMING, EVICT_FIRST),
        hint_knob("cache_store", STREAMING, EVICT_FIRST),
        math_knob(fusion),
        *tmem_knobs((TRANSPOSE,) if is_passed(f) else (), "tmem_pattern", "tmem_rounds"),
    )


def _shape(f: Tile2dFacts) -> list[Constraint]:
    """How threads cover the tile."""

    halo_elems = sector_elements(f.space.target_bytes)

    def block(tile_in: Any, tile_out: Any, vin: Any, vout: Any, lanes: Any, threads: Any, shift: Any) -> Any:
        lanes_in = threads // lanes
        along = np.where(shift, tile_out >= vout * lanes, tile_out % (vout * lanes) == 0)
        return along & (tile_in % np.maximum(vin * lanes_in, 1) == 0)

    def fetch(load: Any, tile_in: Any, tile_out: Any, width: Any, threads: Any, halo: Any) -> Any:
        elems = tile_in * (tile_out + halo * halo_elems)
        return ~fills_by_threads(load) | (elems % (width * threads) == 0)

    def registers(load: Any, tile_in: Any, tile_out: Any, vin: Any, vout: Any, threads: Any, operands: Any) -> Any:
        """What is fetched ahead, one block of the sources, and one row of results, computed on in f32 or wider."""
        own = np.where(is_staged(load), 0, f.bytes_in) + (operands == EARLY) * f.bytes_beside
        blocked = vin * vout * f.bytes_in + vout * max(f.bytes_out, 4)
        return tile_in * tile_out // threads * own + blocked <= MAX_REGISTER_BYTES

    return [
        Constraint(
            "threads_cover_the_tile",
            ("tile_in", "tile_out", "vector_in", "vector_out", "lanes_out", "threads", "shift_store"),
            block,
            "Threads and their vector blocks divide the tile.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("load", "tile_in", "tile_out", "load_vector", "threads", "halo"),
            fetch,
            "The vectors of a tile divide among the threads.",
        ),
        Constraint(
            "registers_in_flight",
            ("load", "tile_in", "tile_out", "vector_in", "vector_out", "threads", "operands"),
            registers,
            "A thread's part of the tile stays in registers.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("tile_in", "tile_out"),
            lambda tile_in, tile_out: (tile_in < 2 * f.extent_in) & (tile_out < 2 * f.extent_out),
            "A tile is not twice the problem.",
        ),
        Constraint(
            "persistent_grid_is_filled",
            ("blocks_per_sm", "tile_in", "tile_out"),
            lambda blocks, tile_in, tile_out: (blocks == 0) | (blocks * f.sm_count < f.tiles(tile_in, tile_out)),
            "Every persistent block has a tile.",
        ),
        persistent_blocks_fit(f.arch, "threads"),
    ]


def _shifts(f: Tile2dFacts) -> list[Constraint]:
    """Runs moved to the boundaries of a warp's accesses, a warp along the run."""

    def load(
        shift: Any,
        how: Any,
        width: Any,
        layout: Any,
        tile_in: Any,
        tile_out: Any,
        lanes: Any,
        threads: Any,
        begin: Any,
    ) -> Any:
        alone = fills_by_threads(how) & (width == 1) & np.isin(layout, (NO_LAYOUT, PAD)) & f.shifts_elements
        begins = places_before(f.space.source_bytes, begin, width, threads // lanes)
        whole = fills_by_threads(how) & np.isin(width, f.superset_vectors) & (layout == PHASES)
        whole = whole & (tile_in >= LEAST_RUNS * begins)
        return np.where(shift, whole | (alone & (tile_out % (threads // WARP_THREADS) == 0)), layout != PHASES)

    def store(shift: Any, how: Any, vin: Any, vout: Any, lanes: Any) -> Any:
        narrow = (vin == 1) & (vout * f.widest_out <= max(f.widest_out, REGISTER_BYTES))
        return ~shift | ((how == VECTOR) & narrow & (lanes == WARP_THREADS))

    def halo(shared: Any, shift: Any, load: Any, shift_load: Any, width: Any) -> Any:
        return ~shared | (shift & (~shift_load | (width > 1)) & fills_by_threads(load))

    return [
        Constraint(
            "shared_tile_has_a_halo",
            ("halo", "shift_store", "load", "shift_load", "load_vector"),
            halo,
            "Where stored rows are shifted as wholes, threads load the elements that a tile shares with the next.",
        ),
        Constraint(
            "redundant_row_span",
            ("layout", "row_span"),
            lambda name, begin: (name == PHASES) | (begin == VECTOR_WORD),
            "Only rows that lie as in memory begin at multiples.",
        ),
        Constraint(
            "groups_are_of_whole_runs",
            ("tile_order", "shift_load", "load_vector"),
            lambda order, shift, width: (order != GROUPED) | ~shift | (width > 1),
            "The last group has tiles beyond the problem, of which a shifted run brings nothing.",
        ),
        Constraint(
            "threads_cover_the_tile",
            (
                "shift_load",
                "load",
                "load_vector",
                "layout",
                "tile_in",
                "tile_out",
                "lanes_out",
                "threads",
                "row_span",
            ),
            load,
            "A warp loads a shifted row element by element, into a tile without a swizzle; threads load it in words.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("shift_store", "store", "vector_in", "vector_out", "lanes_out"),
            store,
            "A warp stores a shifted row by elements, or words of a register that are cut at its ends.",
        ),
    ]


def _bulk(f: Tile2dFacts) -> list[Constraint]:
    """Tensor maps."""
    e_in, e_out = (s.nbytes for s in f.space.sources), f.space.target_bytes
    pitch_in, pitch_out = f.space.source_pitch, f.space.target_pitch
    source16 = all(s.align % BULK_BYTES == 0 and pitch_in * s.nbytes % BULK_BYTES == 0 for s in f.space.sources)
    target16 = f.space.target_align % BULK_BYTES == 0 and all(pitch_out * e % BULK_BYTES == 0 for e in e_out)
    whole_rows = all(f.extent_out * e % BULK_BYTES == 0 for e in e_out)
    least_in, least_out = min(e_in), min(e_out)
    inner_in, inner_out = (_real_dims(f.space, run) for run in (f.space.rows, f.space.columns))

    def inner(load: Any, store: Any, i: Any, o: Any) -> Any:
        loaded = ~is_mapped(load) | (i * least_in % BULK_BYTES == 0)
        return loaded & (~is_mapped(store) | (o * least_out % BULK_BYTES == 0))

    def apart(load: Any, store: Any, i: Any, o: Any) -> Any:
        """Boxes that are whole dimensions are merged from the outside, across both sides (`analysis.tma_collapse`)."""
        whole = (i >= f.extent_in) & (o >= f.extent_out)
        return ~whole | (~is_mapped(load) | (inner_in == 1)) & (~is_mapped(store) | (inner_out == 1))

    def boxes(load: Any, store: Any, i: Any, o: Any) -> Any:
        """A row is cut into boxes; the rows of a tile are not."""
        return (~is_mapped(load) | (o <= TENSOR_MAP_BOX)) & (~is_mapped(store) | (i <= TENSOR_MAP_BOX))

    return [
        Constraint(
            "tensor_map_strides_are_multiples_of_16_bytes",
            ("load", "store"),
            lambda load, store: (~is_mapped(load) | source16) & (~is_mapped(store) | target16),
            "A tensor map needs rows of a multiple of 16 bytes.",
        ),
        Constraint(
            "tma_store_rows_are_multiples_of_16_bytes",
            ("store",),
            lambda store: ~is_mapped(store) | whole_rows,
            "The copy engine clips what it stores at 16 bytes, also where rows lie farther apart.",
        ),
        boxes_fit(("load", "store", "tile_in", "tile_out"), boxes),
        inner_boxes_are_whole(
            ("load", "store", "tile_in", "tile_out"),
            lambda load, store, i, o: (
                (~is_mapped(load) | (i * least_in % BULK_BYTES == 0))
                & (~is_mapped(store) | (o * least_out % BULK_BYTES == 0))
            ),
        ),
        Constraint(
            "few_boxes_are_whole_dimensions",
            ("load", "store", "tile_in", "tile_out"),
            apart,
            "Of a tile that is whole dimensions on both sides, rows lie along one of them.",
        ),
    ]


def _real_dims(space: TransposedSpace, run: tuple[int, ...]) -> int:
    """Dimensions of more than one place in a run of the space."""
    return sum(space.shape[d] > 1 for g in run for d in space.groups[g])


def _rings(f: Tile2dFacts) -> list[Constraint]:
    """The tiles of a persistent block that bulk copies bring, or threads past their registers."""

    def ringed(load: Any, blocks: Any) -> Any:
        return is_staged(load) & (blocks > 0)

    rings = Rings(f.arch, ("load", "blocks_per_sm"), ringed, ("threads",), "blocks_per_sm")
    return [*ring_constraints(rings), copied_rings(("load",), lambda load: is_copied(load))]


def _redundant(f: Tile2dFacts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value; paths that no memory system serves well are left out."""
    passes = ("tmem",) if is_passed(f) else ()
    return [
        Constraint(
            "scattered_access",
            ("load", "store", *passes),
            lambda load, store, tmem=NO_TMEM: (load != DIRECT) | (store != VECTOR) | (tmem != NO_TMEM),
            "Without a tile between them, one of load and store is scattered.",
        ),
        words_of_their_own(f.load_vectors[0], fills_by_threads),
        no_hint("cache_load", ("load",), lambda load: is_mapped(load)),
        no_hint("cache_store", ("store",), lambda store: store != VECTOR),
    ]
