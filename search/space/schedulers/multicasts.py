"""Operands that several blocks read, brought to all blocks of a cluster by one copy (`steps.Multicast`).

The blocks of a cluster lie along a group of dimensions that operands repeat along, as rows of a matrix do for a bias:
of such an operand they all need the same tile, which then passes through L2 once for all of them. Blocks come and go,
each with one tile: nobody has to know when the others have read theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.arch import BULK_BYTES, TENSOR_MAP_BOX, TENSOR_MAP_RANK
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import AS_THEY_ARE, DEFAULT, boxes_fit
from search.space.schedulers.iteration_space import IterationSpace, Operand

MULTICASTS = (1, 2, 4)
"""Blocks of a cluster that share a tile; 1: none do. Clusters of 4 leave 12 of 132 multiprocessors without any, on an
H200 (cuOccupancyMaxActiveClusters), larger ones no fewer."""

MIN_SHARE = 1 / 16
"""Of what a block moves, the part that a multicast brings, from which on a cluster may be worth its start: an estimate.
Two blocks halve it, so that less than 3 % of the bytes through L2 would be left to win."""


MIN_ROW_THREADS = 16
"""Threads whose elements are whole 16 bytes, as rows of a box are (cuTensorMapEncodeTiled), whatever their type."""


@dataclass(frozen=True, slots=True)
class Multicasts:
    """The `operands` that blocks along `group`, one of the outer groups of the iteration space, have in common."""

    space: IterationSpace
    group: int
    operands: tuple[Operand, ...]

    def tile_bytes(self, row_order: Any, rows: Any, cols: Any) -> Any:
        """Shared memory of a tile of every operand, for arrays of knob values: of those that repeat along its rows, one
        row."""

        def of_group(last: int) -> Any:
            return sum(o.nbytes * cols * (rows if self.space.stride(o, last) else 1) for o in self.operands)

        return self._by_row_group(of_group, row_order)

    def extent(self, row_order: Any, rows: Any) -> Any:
        """Tiles that lie along the group, for arrays of knob values."""
        size = self.space.sizes[self.group]
        return self._by_row_group(lambda last: -(-size // rows) if last == self.group else size, row_order)

    def stage(self, b: TraceBuilder, loaded: list[str]) -> dict[str, str]:
        """Reads every operand into a shared tensor, by one copy for all blocks of a cluster, and puts its register copy
        in place of it among those `loaded`. Returns shared tensor -> register copy."""
        staged: dict[str, str] = {}
        for shared in (o.first for o in self.operands):
            register = f"{shared}_r"
            b.do(steps.SetMemory(shared, MemoryType.SHARED, CopyVia.TMA), steps.Multicast(shared))
            b.do(steps.CacheInput(shared, register, MemoryType.LOCAL))
            loaded[loaded.index(shared)] = register
            staged[shared] = register
        return staged

    def gather(self, b: TraceBuilder, tv: str, row_order: str, blocks: int) -> None:
        """[.., group, .., row tiles, rows, columns] -> [.., group, .., row tiles, cluster, rows, columns]: the blocks
        of a cluster lie along the group, or along the row tiles that are cut from it."""
        outer = len(self.space.groups) - 1
        at = self.space.outer_order(row_order).index(self.group)
        b.split(tv, at, blocks)
        axes = range(outer + 3)
        b.reorder(tv, [*(a for a in axes[: outer + 1] if a != at + 1), at + 1, *axes[outer + 1 :]])

    def _by_row_group(self, f: Callable[[int], Any], row_order: Any) -> Any:
        """`f` of the group that each order cuts the rows of a tile from."""
        found: Any = np.int64(0)
        for group in range(len(self.space.sizes)):
            found = np.where(looked_up("rows_from", self._row_group, row_order) == group, f(group), found)
        return found

    def _row_group(self, row_order: str) -> int:
        return self.space.outer_order(row_order)[-1]


def multicasts_of(space: IterationSpace) -> Multicasts | None:
    """What of an iteration space multicasts can bring: along the group where most bytes of each element repeat, the
    last of those; None where nothing does."""
    able = [o for o in space.repeated if _by_tensor_map(space, o)]
    outer = (g for g in range(len(space.sizes) - 1) if space.sizes[g] > 1)
    found = [Multicasts(space, g, tuple(o for o in able if space.stride(o, g) == 0)) for g in outer]
    best = max(found, key=lambda m: (sum(o.nbytes for o in m.operands), m.group), default=None)
    return best if best is not None and best.operands else None


def _by_tensor_map(space: IterationSpace, o: Operand) -> bool:
    """Whether a tensor map describes the operand: dense innermost, other strides whole 16 bytes, at such an address
    (cuTensorMapEncodeTiled); and whether what it repeats along are broadcast axes: those of extent one have an element,
    and so has what they are merged into."""
    last = len(space.sizes) - 1
    strides = [space.stride(o, g) for g in range(last)]
    is_input = o.is_broadcast and o.is_affine
    is_dense = space.sizes[last] > 1 and space.stride(o, last) == 1 and o.align % BULK_BYTES == 0
    repeated = (d for g in range(last) if not strides[g] for d in space.groups[g])
    if any(space.shape[d] == 1 for d in repeated):
        return False
    return (
        is_input
        and is_dense
        and all(s * o.nbytes % BULK_BYTES == 0 for s in strides)
        and sum(map(bool, strides)) < TENSOR_MAP_RANK
    )


def multicast_constraints(m: Multicasts, streamed: int, plain_order: Callable[[Any], Any]) -> list[Constraint]:
    """What the knob `multicast` asks of the others. `streamed`: bytes of one element of what each block reads and
    writes alone; `plain_order`: where an order of rows neither holds an operand nor sweeps."""
    all_sent = len(m.operands) == len(m.space.repeated)

    def boxes(blocks: Any, ty: Any, rows: Any) -> Any:
        return (blocks == 1) | (ty * rows <= TENSOR_MAP_BOX)

    def pays(blocks: Any, order: Any, ty: Any, rows: Any) -> Any:
        shared = m.tile_bytes(order, ty * rows, 1)
        return (blocks == 1) | (shared >= MIN_SHARE * (shared + ty * rows * streamed))

    return [
        _asks("view", lambda view: view == "2d", "Blocks of a cluster have rows of their own."),
        _asks("blocks_per_sm", lambda blocks: blocks == 0, "Blocks of a cluster have one tile each."),
        _asks("rows_begin", lambda begin: begin == AS_THEY_ARE, "Tiles of tensor maps begin with their rows."),
        _asks("threads_x", lambda tx: tx >= MIN_ROW_THREADS, "A row of a box is a multiple of 16 bytes."),
        Constraint(
            "multicast_is_of_plain_tiles",
            ("multicast", "row_order", "cache_broadcast"),
            lambda blocks, order, cache: (blocks == 1) | plain_order(order) & ((cache == DEFAULT) | (not all_sent)),
            "Blocks of a cluster are neighbours along what operands repeat along, and bulk copies take no cache hint.",
        ),
        boxes_fit(("multicast", "threads_y", "rows"), boxes),
        Constraint(
            "tile_exceeds_the_problem",
            ("multicast", "row_order", "threads_y", "rows"),
            lambda blocks, order, ty, rows: (blocks == 1) | (m.extent(order, ty * rows) >= blocks),
            "Every block of a cluster has a tile.",
        ),
        Constraint(
            "cluster_is_needed",
            ("multicast", "row_order", "threads_y", "rows"),
            pays,
            "Blocks share a sixteenth of what they move, or more.",
        ),
    ]


def _asks(knob: str, holds: Callable[[Any], Any], reason: str) -> Constraint:
    """What a multicast asks of one other knob."""
    return Constraint(
        "multicast_is_of_plain_tiles", ("multicast", knob), lambda blocks, value: (blocks == 1) | holds(value), reason
    )
