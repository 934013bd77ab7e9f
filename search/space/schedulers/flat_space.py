"""Knobs and constraints of the flat scheduler.

Two kinds of constraint: what the compiler's rules refuse, said in terms of knobs (a property test holds the two against
each other), and combinations that would only repeat another point or cannot be fast (`redundant_…`, `…_in_flight`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CachePolicy
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.schedulers.builder import TraceBuilder
from search.space.schedulers.iteration_space import HELD, MAX_WORD_BYTES, IterationSpace, Operand, iteration_space
from search.space.schedulers.pointwise_body import math_grades
from search.space.space import Space

MAX_BOX = 256
"""Largest box of a tensor map in any dimension (cuTensorMapEncodeTiled)."""

MAX_TENSOR_MAP_SIZE = 1 << 31
"""Largest extent of a tensor map's dimension: coordinates are signed (PTX ISA, cp.async.bulk.tensor)."""

SMEM_SLACK_BYTES = 1024
"""Left beside the tiles for barriers and for the alignment of each tile."""

MAX_REGISTER_BYTES = 4 * 160
"""Register bytes of a thread's tile: beyond, with addresses and temporaries, values spill (255 registers)."""

CACHE_LOADS = tuple(c.value for c in CachePolicy)
CACHE_STORES = (CachePolicy.DEFAULT.value, CachePolicy.STREAMING.value, CachePolicy.EVICT_FIRST.value)

ROW_ORDERS = ("natural", "broadcast_last")
SHORT_ROW_THREADS = 256
"""Threads of a block whose rows are shorter than a warp."""


def flat_space(fusion: Fusion, arch: Arch, sm_count: int) -> Space:
    """The space of a fusion that the flat scheduler does not refuse."""
    found = iteration_space(start(fusion))
    assert isinstance(found, IterationSpace), "refused fusions have no space"
    facts = _Facts(found, arch, sm_count)
    return Space("flat", _knobs(fusion, facts), tuple(_constraints(facts)))


@dataclass(frozen=True)
class _Facts:
    """Numbers of a fusion that constraints read."""

    space: IterationSpace
    arch: Arch
    sm_count: int

    @property
    def in_parts(self) -> bool:
        """True where outputs are stored in parts: a tensor map starts where its output does."""
        return bool(self.space.parts)

    @property
    def two_d(self) -> bool:
        return len(self.space.sizes) > 1

    @property
    def narrowest(self) -> int:
        return min(o.nbytes for o in self.space.operands)

    @property
    def stored_operands(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.space.operands if o.is_output)

    def side(self, name: str) -> tuple[Operand, ...]:
        """Operands that the load or the store path moves."""
        return self.space.stageable if name == "load" else self.stored_operands

    @property
    def staged(self) -> int:
        """Bytes of one element of every input that can be staged in shared memory."""
        return sum(o.nbytes for o in self.space.stageable)

    @property
    def stream_in(self) -> int:
        """Bytes of one element of every streamed input."""
        return sum(o.nbytes for o in self.space.streams if not o.is_output)

    @property
    def stored(self) -> int:
        return sum(o.nbytes for o in self.space.operands if o.is_output)

    @property
    def narrowest_stored(self) -> int:
        return min(o.nbytes for o in self.space.operands if o.is_output)

    @property
    def repeated(self) -> int:
        return sum(o.nbytes for o in self.space.repeated)

    @property
    def inner(self) -> int:
        return self.space.sizes[-1]

    def short_rows(self, vector: int) -> tuple[int, ...]:
        """Threads along a row that is too short for a warp, if it is: rows are then side by side in it."""
        return tuple(t for t in (4, 8, 16) if self.two_d and self.inner <= t * vector)[:1]

    def rows(self, row_order: Any) -> Any:
        """Extent of the outer dimension that rows are cut from, for each row order of an array."""
        if not self.two_d:
            return 1
        last = {order: self.space.sizes[self.space.outer_order(order)[-1]] for order in ROW_ORDERS}
        return np.where(row_order == "broadcast_last", last["broadcast_last"], last["natural"])

    def takes_words(self, view: str, elems: int) -> bool:
        """True if some operand can be moved in words of so many elements; the others are moved in narrower ones."""
        return any(self.space.lanes(o, view, elems) == elems for o in self.space.operands)

    def is_aligned(self, name: str) -> bool:
        """True if a side's operands are dense along the innermost dimension and start on 16 bytes."""
        last = len(self.space.sizes) - 1
        dense = all(self.space.stride(o, last) == 1 or self.space.elems == 1 for o in self.side(name))
        return dense and all(o.align % 16 == 0 for o in self.side(name))

    def bulk_rows(self, name: str) -> bool:
        """True if a side's operands have contiguous rows at a pitch of whole 16 bytes, at 16-byte addresses."""
        last = len(self.space.sizes) - 1
        return self.is_aligned(name) and all(
            self.space.stride(o, g) * o.nbytes % 16 == 0 for o in self.side(name) for g in range(last)
        )

    def is_merged(self, name: str) -> bool:
        """True if a side's operands are one run over all dimensions, which the merged view can cut anywhere."""
        return all(self.space.is_merged(o) for o in self.side(name))

    @cached_property
    def row_orders(self) -> tuple[str, ...]:
        """The orders of rows that differ, with those that hold an operand for fewer steps than there are."""
        if len(self.space.sizes) <= 2 or not self.repeated:
            return ROW_ORDERS[:1]
        return (*ROW_ORDERS, *(order for order, steps in HELD.items() if steps <= self.held_extent))

    @cached_property
    def held_extent(self) -> int:
        """Extent of the dimension that an operand can be held along."""
        return 1 if self.space.held_group is None else self.space.sizes[self.space.held_group]

    def held(self, row_order: Any) -> Any:
        """Steps that a thread takes along that dimension."""
        return sum((np.where(row_order == order, n - 1, 0) for order, n in HELD.items()), np.int64(1))

    def tiles(self, two_d: Any, row_order: Any, rows: Any, cols: Any) -> Any:
        """Tiles of a view, as arrays."""
        extent, steps = self.rows(row_order), self.held_extent
        outer = prod(self.space.sizes[:-1]) // extent
        outer = np.where(self.held(row_order) > 1, outer // steps * -(-steps // self.held(row_order)), outer)
        flat = -(-self.space.elems // cols)
        return np.where(two_d, outer * -(-extent // rows) * -(-self.inner // cols), flat)


def _knobs(fusion: Fusion, f: _Facts) -> tuple[Knob, ...]:
    b = TraceBuilder(fusion)
    bulk = f.arch.has_tma
    paths = ("vector", "tma", "bulk") if bulk else ("vector",)
    vectors = tuple(v for v in (1, 2, 4, 8, 16) if v * f.narrowest <= MAX_WORD_BYTES)
    views: tuple[str, ...] = ("1d", "2d") if f.two_d else ("1d",)
    return (
        Knob("view", views),
        Knob("load", paths if f.space.stageable else paths[:1]),
        Knob("store", tuple(p for p in paths if p != "tma") if f.in_parts else paths),
        Knob("vector", vectors),
        Knob("threads_x", (32, 64, 128, 256, 512, 1024, *f.short_rows(vectors[-1]))),
        Knob(
            "threads_y", (1, 2, 4, 8, *(SHORT_ROW_THREADS // t for t in f.short_rows(vectors[-1]))) if f.two_d else (1,)
        ),
        Knob("rows", (1, 2, 4, 8, 16) if f.two_d else (1,)),
        Knob("column_steps", (1, 2, 4, 8)),
        Knob("blocks_per_sm", (0, 1, 2, 4, 8)),
        Knob("stages", (1, 2, 3, 4) if bulk else (1,)),
        Knob("tile_order", ("columns_inner", "rows_inner") if f.two_d else ("columns_inner",)),
        Knob("row_order", f.row_orders),
        Knob("cache_load", CACHE_LOADS),
        Knob("cache_store", CACHE_STORES),
        Knob("math", math_grades(b)),
    )


_Predicate = Callable[..., Any]


def _constraints(f: _Facts) -> list[Constraint]:
    return [*_legality(f), *_tensor_maps(f), *_bulk_runs(f), *_redundant(f), *_worthwhile(f)]


def _legality(f: _Facts) -> list[Constraint]:
    """Vectors, block and shared memory."""

    def smem(load: Any, store: Any, vector: Any, tx: Any, ty: Any, rows: Any, steps: Any, stages: Any) -> Any:
        elems = vector * tx * ty * rows * steps
        need = np.where(load == "vector", 0, elems * f.staged * stages) + np.where(
            store == "vector", 0, elems * f.stored
        )
        return need + SMEM_SLACK_BYTES <= f.arch.smem_per_block_optin_bytes

    return [
        Constraint(
            "block_fits_the_architecture",
            ("threads_x", "threads_y"),
            lambda tx, ty: tx * ty <= f.arch.max_threads_per_block,
            "A block has at most 1024 threads.",
        ),
        Constraint(
            "shared_memory_fits_the_block",
            ("load", "store", "vector", "threads_x", "threads_y", "rows", "column_steps", "stages"),
            smem,
            "Staged tiles, times stages, fit the block's shared memory.",
        ),
    ]


def _tensor_maps(f: _Facts) -> list[Constraint]:
    """Copies by tensor map."""

    def pitch(path: str) -> _Predicate:
        rows, merged = f.bulk_rows(path), f.is_merged(path)
        return lambda how, view: (how != "tma") | np.where(view == "1d", merged & f.is_aligned(path), rows)

    def sizes(how: Any, view: Any) -> Any:
        return (how != "tma") | (view != "1d")

    def whole_stores(how: Any, view: Any) -> Any:
        extent = np.where(view == "2d", f.inner, f.space.elems)
        return (how != "tma") | (extent * f.narrowest_stored % 16 == 0)

    def box(how: Any, ty: Any, rows: Any) -> Any:
        # Columns are a multiple of 32 elements, so the inner box is always whole 16 bytes.
        return (how != "tma") | (ty * rows <= MAX_BOX)

    out: list[Constraint] = []
    for side in ("load", "store"):
        out += [
            Constraint(
                "tensor_map_strides_are_multiples_of_16_bytes",
                (side, "view"),
                pitch(side),
                "A tensor map needs 16-byte rows and contiguous merged dimensions.",
            ),
            Constraint(
                "tensor_map_boxes_are_1_to_256", (side, "threads_y", "rows"), box, "A box has at most 256 rows."
            ),
        ]
        if f.space.elems > MAX_TENSOR_MAP_SIZE:
            reason = "Coordinates of a tensor map are below 2^31."
            out.append(Constraint("tma_coordinates_fit_31_bits", (side, "view"), sizes, reason))
    reason = "A tensor-map store writes whole 16 bytes at the end of a row."
    return [*out, Constraint("tma_store_rows_are_multiples_of_16_bytes", ("store", "view"), whole_stores, reason)]


def _bulk_runs(f: _Facts) -> list[Constraint]:
    """1-D bulk copies."""

    def run(path: str) -> _Predicate:
        rows, merged = f.bulk_rows(path), f.is_merged(path) and f.is_aligned(path)

        def predicate(how: Any, view: Any, vector: Any, tx: Any, steps: Any) -> Any:
            extent = np.where(view == "2d", f.inner, f.space.elems)
            whole = extent % (vector * tx * steps) == 0
            return (how != "bulk") | (whole & np.where(view == "1d", merged, rows))

        return predicate

    def whole_rows(how: Any, view: Any, order: Any, ty: Any, rows: Any) -> Any:
        return (how != "bulk") | (view == "1d") | (f.rows(order) % (ty * rows) == 0)

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
                "bulk1d_splits_divide",
                (side, "view", "row_order", "threads_y", "rows"),
                whole_rows,
                "A 1-D bulk copy has no bounds check: tile rows divide the rows.",
            ),
        ]
    return out


def _redundant(f: _Facts) -> list[Constraint]:
    """Knobs that have no effect stay at their first value."""

    def threads(load: Any, store: Any, tx: Any, ty: Any) -> Any:
        return (tx >= 32) | ((tx * ty % 32 == 0) & (load == "vector") & (store == "vector"))

    def holds(order: Any, load: Any, store: Any) -> Any:
        return (f.held(order) == 1) | ((load == "vector") & (store == "vector"))

    def words(view: Any, vector: Any) -> Any:
        merged, rows = (np.array([f.takes_words(v, int(n)) for n in vector.ravel()]) for v in ("1d", "2d"))
        return (vector == 1) | np.where(view == "1d", merged.reshape(vector.shape), rows.reshape(vector.shape))

    has_threaded_loads = len(f.space.stageable) < sum(not o.is_output for o in f.space.streams)

    def stages(load: Any, blocks: Any, n: Any) -> Any:
        return (n == 1) | ((load != "vector") & (blocks > 0))

    return [
        Constraint(
            "redundant_vector", ("view", "vector"), words, "Some operand is moved in words of the width asked for."
        ),
        Constraint(
            "redundant_threads",
            ("load", "store", "threads_x", "threads_y"),
            threads,
            "A block is whole warps, and a tile that the copy engine moves has rows of a warp or more.",
        ),
        Constraint(
            "redundant_stages", ("load", "blocks_per_sm", "stages"), stages, "Stages overlap the tiles of one block."
        ),
        Constraint(
            "redundant_held",
            ("row_order", "load", "store"),
            holds,
            "An operand is held in registers by threads that load and store the others.",
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
            "redundant_cache_load",
            ("load", "cache_load"),
            lambda load, cache: (load == "vector") | (cache == "default") | has_threaded_loads,
            "Bulk copies take no thread cache hint.",
        ),
        Constraint(
            "redundant_cache_store",
            ("store", "cache_store"),
            lambda store, cache: (store == "vector") | (cache == "default"),
            "Bulk copies take no thread cache hint.",
        ),
    ]


def _worthwhile(f: _Facts) -> list[Constraint]:
    """What cannot be fast: spills, tiles beyond the problem, grids that the problem does not fill."""

    def registers(vector: Any, rows: Any, steps: Any, order: Any) -> Any:
        lanes, held = vector * rows * steps, f.held(order)
        repeated = np.where(held > 1, lanes, vector * steps) * f.repeated
        live = held * lanes * (f.stream_in + f.stored) + repeated + vector * 4
        return live <= MAX_REGISTER_BYTES

    def inside(view: Any, order: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any) -> Any:
        cols = vector * tx * steps
        extent = np.where(view == "2d", f.inner, f.space.elems)
        return (cols < 2 * np.maximum(extent, 32)) & ((view == "1d") | (ty * rows < 2 * f.rows(order)))

    def filled(blocks: Any, view: Any, order: Any, vector: Any, tx: Any, steps: Any, ty: Any, rows: Any) -> Any:
        tiles = f.tiles(view == "2d", order, ty * rows, vector * tx * steps)
        return (blocks == 0) | (blocks * f.sm_count < tiles)

    def resident(blocks: Any, tx: Any, ty: Any) -> Any:
        return blocks * tx * ty <= f.arch.max_threads_per_sm

    tile = ("vector", "threads_x", "column_steps", "threads_y", "rows")
    return [
        Constraint(
            "registers_in_flight",
            ("vector", "rows", "column_steps", "row_order"),
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
        Constraint(
            "persistent_blocks_are_resident",
            ("blocks_per_sm", "threads_x", "threads_y"),
            resident,
            "Persistent blocks fit their multiprocessors.",
        ),
    ]
