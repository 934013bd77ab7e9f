"""Knobs and constraints of the two-dimensional tile scheduler. The kinds of constraint are those of `flat_space`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.copy_paths import CP_ASYNC, copied_rings, copies_by
from search.space.schedulers.flat_space import CACHE_LOADS, CACHE_STORES, MAX_BOX
from search.space.schedulers.pointwise_body import math_grades
from search.space.schedulers.rings import Rings, ring_constraints, ring_knobs
from search.space.schedulers.tile2d_facts import (
    LEAST_THREADS,
    MAX_REGISTER_BYTES,
    REGISTER_BYTES,
    VECTORS,
    WARP,
    WORD_BYTES,
    Facts,
    sector_elements,
)
from search.space.schedulers.tile2d_matrix import BY_MATRICES, MOVES, has_matrices, matrix_constraints
from search.space.schedulers.tile2d_sources import PAST_REGISTERS
from search.space.schedulers.tile2d_worthwhile import worthwhile
from search.space.schedulers.transposed_space import TransposedSpace, transposed_space
from search.space.space import Space

THREADS = (LEAST_THREADS, 256, 512)

SPANS = {"32B": 32, "64B": 64, "128B": 128}
"""Hardware swizzles by name, and their spans in bytes."""

ODD = "odd"
"""Rows an odd number of elements apart, stored element by element: the single elements of a column, of which each
thread reads a word's worth of neighbours, then lie in banks of their own."""

LAYOUTS = ("none", "pad", *SPANS, "block", ODD, BY_MATRICES)
STORE_LAYOUTS = ("none", *SPANS)

BY_THREADS = ("vector", CP_ASYNC)
"""Load paths by which threads fill a shared tile."""

GROUPED = "grouped"
"""An order of tiles: a few along the rows of the outputs, then the next rows. What blocks read and write at a time then
lies close together on both sides, however long the rows are."""

AT_USE, AHEAD = "at_use", "ahead"
"""What is in the outputs' order already: loaded when a step of the stores needs it, or before the tile's barrier, so
that everything that a block reads is under way at once."""

SMEM_SLACK_BYTES = 1024
"""Left beside the tiles for barriers; and as much for each tile, which starts on the repeat of the widest swizzle."""


def tile2d_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the scheduler does not refuse."""
    found = transposed_space(start(fusion))
    assert isinstance(found, TransposedSpace), "refused fusions have no space"
    facts = Facts(found, arch, sm_count)
    kinds = (_shape, _shifts, _memory, _bulk, _rings, matrix_constraints, _redundant, worthwhile)
    constraints = tuple(constraint for kind in kinds for constraint in kind(facts))
    return Space("tile2d", tuple(_possible(knob, constraints) for knob in _knobs(fusion, facts)), constraints)


def _possible(knob: Knob, constraints: tuple[Constraint, ...]) -> Knob:
    """The values of a knob that no constraint on it alone excludes: the sparser a space, the longer a sample takes."""
    alone = [c for c in constraints if c.axes == (knob.name,)]
    legal = np.logical_and.reduce([np.ones(len(knob.values), np.bool_), *(c.predicate(knob.array) for c in alone)])
    return Knob(knob.name, tuple(v for v, holds in zip(knob.values, legal, strict=True) if holds))


def _knobs(fusion: Fusion, f: Facts) -> tuple[Knob, ...]:
    able = {"vector": True, CP_ASYNC: f.has_copies, "tma": f.has_tensor_maps, "direct": f.has_stored_maps}
    loads = tuple(path for path, is_able in able.items() if is_able)
    vectors_in = tuple(v for v in VECTORS if v * f.widest_in <= WORD_BYTES)
    vectors_out = tuple(v for v in VECTORS if v * f.widest_out <= WORD_BYTES)
    lanes: tuple[int, ...] = (4, 8, 16, 32) if min(f.tiles_out) >= WARP else (1, 2, 4, 8, 16)
    lanes += (64, 128) if min(f.tiles_in) < 8 <= min(f.tiles_out) else ()
    # Knobs that leave few combinations of one another come first: points are looked for along the later ones.
    return (
        Knob("load", loads),
        Knob("store", ("register", "tma") if f.has_stored_maps else ("register",)),
        Knob("move", MOVES if has_matrices(f) else MOVES[:1]),
        Knob("operands", (AT_USE, AHEAD) if f.bytes_beside else (AT_USE,)),
        Knob("blocks_per_sm", (0, 1, 2, 4)),
        *ring_knobs((1, 2, 3) if f.has_tensor_maps or f.has_copies else (1,)),
        Knob("tile_in", f.tiles_in),
        Knob("tile_out", f.tiles_out),
        Knob("vector_in", vectors_in),
        Knob("vector_out", vectors_out),
        Knob("lanes_out", lanes),
        Knob("threads", THREADS),
        Knob("load_vector", f.load_vectors),
        Knob("shift_load", (False, True) if f.shifts_load else (False,)),
        Knob("shift_store", (False, True) if f.shifts_store else (False,)),
        Knob("halo", (False, True) if f.shifts_store else (False,)),
        Knob("layout", LAYOUTS if has_matrices(f) else LAYOUTS[:-1]),
        Knob("store_layout", STORE_LAYOUTS if f.has_stored_maps else STORE_LAYOUTS[:1]),
        Knob("tile_order", ("columns_inner", "rows_inner", GROUPED)),
        Knob("cache_load", CACHE_LOADS),
        Knob("cache_store", CACHE_STORES),
        Knob("math", math_grades(TraceBuilder(fusion))),
    )


def _each(values: Any, holds: Callable[[int], bool]) -> Any:
    """`holds` of every element of an integer array."""
    return np.array([bool(holds(int(v))) for v in values.ravel()]).reshape(values.shape)


def _shape(f: Facts) -> list[Constraint]:
    """How threads cover the tile."""

    halo_elems = sector_elements(f.space.target_bytes)

    def block(tile_in: Any, tile_out: Any, vin: Any, vout: Any, lanes: Any, threads: Any, shift: Any) -> Any:
        lanes_in = threads // lanes
        along = np.where(shift, tile_out >= vout * lanes, tile_out % (vout * lanes) == 0)
        return along & (tile_in % np.maximum(vin * lanes_in, 1) == 0)

    def fetch(load: Any, tile_in: Any, tile_out: Any, width: Any, threads: Any, halo: Any) -> Any:
        elems = tile_in * (tile_out + halo * halo_elems)
        return ~np.isin(load, BY_THREADS) | (elems % (width * threads) == 0)

    def registers(load: Any, tile_in: Any, tile_out: Any, vin: Any, vout: Any, threads: Any, operands: Any) -> Any:
        """What is fetched ahead, one block of the sources, and one row of results, computed on in f32 or wider."""
        own = np.where(np.isin(load, tuple(PAST_REGISTERS)), 0, f.bytes_in) + (operands == AHEAD) * f.bytes_beside
        blocked = vin * vout * f.bytes_in + vout * max(f.bytes_out, 4)
        return tile_in * tile_out // threads * own + blocked <= MAX_REGISTER_BYTES

    def inside(tile_in: Any, tile_out: Any) -> Any:
        return (tile_in < 2 * f.extent_in) & (tile_out < 2 * f.extent_out)

    def filled(blocks: Any, tile_in: Any, tile_out: Any) -> Any:
        return (blocks == 0) | (blocks * f.sm_count < f.tiles(tile_in, tile_out))

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


def _shifts(f: Facts) -> list[Constraint]:
    """Runs moved to the boundaries of a warp's accesses, a warp along the run."""

    def load(shift: Any, how: Any, width: Any, layout: Any, tile_out: Any, threads: Any) -> Any:
        alone = np.isin(how, BY_THREADS) & (width == 1) & np.isin(layout, ("none", "pad"))
        return ~shift | (alone & (tile_out % (threads // WARP) == 0))

    def store(shift: Any, how: Any, vin: Any, vout: Any, lanes: Any) -> Any:
        narrow = (vin == 1) & (vout * f.widest_out <= max(f.widest_out, REGISTER_BYTES))
        return ~shift | ((how == "register") & narrow & (lanes == WARP))

    def halo(shared: Any, shift: Any, load: Any, shift_load: Any) -> Any:
        return ~shared | (shift & ~shift_load & np.isin(load, BY_THREADS))

    return [
        Constraint(
            "shared_tile_has_a_halo",
            ("halo", "shift_store", "load", "shift_load"),
            halo,
            "Where stored rows are shifted as wholes, threads load the elements that a tile shares with the next.",
        ),
        Constraint(
            "groups_are_of_whole_runs",
            ("tile_order", "shift_load"),
            lambda order, shift: (order != GROUPED) | ~shift,
            "The last group has tiles beyond the problem, of which a shifted run brings nothing.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("shift_load", "load", "load_vector", "layout", "tile_out", "threads"),
            load,
            "A warp loads a shifted row element by element, into a tile without a swizzle.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("shift_store", "store", "vector_in", "vector_out", "lanes_out"),
            store,
            "A warp stores a shifted row by elements, or words of a register that are cut at its ends.",
        ),
    ]


def _memory(f: Facts) -> list[Constraint]:
    """Vector alignment in global memory, layouts and size of shared memory."""
    halo_elems = sector_elements(f.space.target_bytes)
    sources = tuple(dict.fromkeys(s.nbytes for s in f.space.sources))
    tiles = len(f.space.sources) + len(f.space.target_bytes)

    def load_vector(load: Any, width: Any, vin: Any) -> Any:
        aligned = _each(width, f.loads_by)
        by_threads = np.where(load == CP_ASYNC, aligned, aligned | np.isin(width, f.straddling_vectors))
        return (~np.isin(load, BY_THREADS) | by_threads) & ((load != "direct") | _each(vin, f.loads_by))

    def copied(load: Any, width: Any) -> Any:
        return (load != CP_ASYNC) | copies_by(width, f.space.source_bytes)

    def store_vector(store: Any, vout: Any, shift: Any) -> Any:
        return (store != "register") | shift | _each(vout, f.stores_by)

    def span_of(name: Any) -> Any:
        return np.select([name == n for n in SPANS], list(SPANS.values()), default=0)

    def layout(load: Any, name: Any, tile_in: Any, tile_out: Any, vout: Any, vin: Any, halo: Any) -> Any:
        span, rows = span_of(name), tile_out + halo * halo_elems
        fits = np.array(True)
        for e in sources:
            row = tile_in * e
            chunks = np.minimum(row, 128) // 16
            hardware = (span > 0) & (row % np.maximum(span, 1) == 0) & (rows % 8 == 0)
            block = (name == "block") & np.isin(load, BY_THREADS) & (vout > 1) & (chunks > 1)
            fits = fits & (hardware | (block & (rows % np.maximum(chunks * vout, 1) == 0)))
        apart = (name == BY_MATRICES) & np.isin(load, BY_THREADS)
        plain = apart | (name == "none") | (name == "pad") & np.isin(load, BY_THREADS)
        by_elements = (name == ODD) & (load == "vector") & (vout > 1) & (vin == 1) & (f.widest_in < REGISTER_BYTES)
        return np.where(load == "direct", name == "none", fits | plain | by_elements)

    def store_layout(store: Any, name: Any, tile_out: Any, tile_in: Any) -> Any:
        span = span_of(name)
        fits = (span > 0) & (tile_in % 8 == 0)
        for e in dict.fromkeys(f.space.target_bytes):
            fits = fits & (tile_out * e % np.maximum(span, 1) == 0)
        return np.where(store == "tma", fits | ((name == "none") & (tile_out <= MAX_BOX)), name == "none")

    def smem(load: Any, store: Any, name: Any, tile_in: Any, tile_out: Any, stages: Any, halo: Any) -> Any:
        pitch = tile_in * f.bytes_in + np.where(np.isin(name, ("pad", ODD)), WORD_BYTES * len(f.space.sources), 0)
        need = np.where(load == "direct", 0, pitch * (tile_out + halo * halo_elems) * stages) + np.where(
            store == "tma", tile_in * tile_out * f.bytes_out, 0
        )
        return need + SMEM_SLACK_BYTES * tiles <= f.arch.smem_per_block_optin_bytes

    return [
        Constraint(
            "vector_address_is_aligned",
            ("load", "load_vector", "vector_in"),
            load_vector,
            "Rows of the input hold whole vectors.",
        ),
        Constraint(
            "cp_async_moves_4_8_or_16_bytes",
            ("load", "load_vector"),
            copied,
            "A thread copies 4, 8 or 16 bytes at a time past its registers.",
        ),
        Constraint(
            "vector_address_is_aligned",
            ("store", "vector_out", "shift_store"),
            store_vector,
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
    ]


def _bulk(f: Facts) -> list[Constraint]:
    """Tensor maps."""
    e_in, e_out = (s.nbytes for s in f.space.sources), f.space.target_bytes
    pitch_in, pitch_out = f.space.source_pitch, f.space.target_pitch
    source16 = all(s.align % 16 == 0 and pitch_in * s.nbytes % 16 == 0 for s in f.space.sources)
    target16 = f.space.target_align % 16 == 0 and all(pitch_out * e % 16 == 0 for e in e_out)
    least_in, least_out = min(e_in), min(e_out)

    def boxes(load: Any, store: Any, i: Any, o: Any) -> Any:
        """A row is cut into boxes; the rows of a tile are not."""
        return ((load != "tma") | (o <= MAX_BOX)) & ((store != "tma") | (i <= MAX_BOX))

    return [
        Constraint(
            "tensor_map_strides_are_multiples_of_16_bytes",
            ("load", "store"),
            lambda load, store: ((load != "tma") | source16) & ((store != "tma") | target16),
            "A tensor map needs rows of a multiple of 16 bytes.",
        ),
        Constraint(
            "tensor_map_boxes_are_1_to_256",
            ("load", "store", "tile_in", "tile_out"),
            boxes,
            "A box has at most 256 elements in a dimension.",
        ),
        Constraint(
            "tensor_map_inner_box_is_a_multiple_of_16_bytes",
            ("load", "store", "tile_in", "tile_out"),
            lambda load, store, i, o: (
                ((load != "tma") | (i * least_in % 16 == 0)) & ((store != "tma") | (o * least_out % 16 == 0))
            ),
            "The inner box is a multiple of 16 bytes.",
        ),
    ]


def _rings(f: Facts) -> list[Constraint]:
    """The tiles of a persistent block that bulk copies bring, or threads past their registers."""

    def ringed(load: Any, blocks: Any) -> Any:
        return np.isin(load, tuple(PAST_REGISTERS)) & (blocks > 0)

    rings = Rings(f.arch, ("load", "blocks_per_sm"), ringed, ("threads",), "blocks_per_sm")
    return [*ring_constraints(rings), copied_rings(("load",), lambda load: load == CP_ASYNC)]


def _redundant(f: Facts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value; paths that no memory system serves well are left out."""
    least = f.load_vectors[0]
    return [
        Constraint(
            "scattered_access",
            ("load", "store"),
            lambda load, store: (load != "direct") | (store == "tma"),
            "Without a shared tile on either side one of them is scattered.",
        ),
        Constraint(
            "redundant_load_vector",
            ("load", "load_vector"),
            lambda load, width: np.isin(load, BY_THREADS) | (width == least),
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
