"""The analyses of one scheduled fusion, each computed once and shared by legality and lowering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from compiler.analysis.id.graph import IdGraph, id_graph
from compiler.analysis.id.indexing import Indexing
from compiler.analysis.loops.axes import LoopMap, dimension_sizes, loop_map
from compiler.analysis.loops.cluster_sum import ClusterSum, infer_cluster_sums
from compiler.analysis.loops.deal import DealtTurns, infer_deal
from compiler.analysis.loops.fold import Fold, infer_folds
from compiler.analysis.loops.grid_fold import GridFold, infer_grid_folds
from compiler.analysis.loops.online import OnlineFold, online_folds
from compiler.analysis.loops.scan import BlockScan, infer_scans
from compiler.analysis.memory.smem import SharedMemoryPlan, plan_shared_memory
from compiler.analysis.memory.smem_bytes import SharedBytes, shared_bytes
from compiler.analysis.memory.tile_placement import TilePlacement, place_run, place_tile
from compiler.analysis.memory.vectorize import VectorAccess, vector_accesses
from compiler.analysis.mma.accumulators import Accumulators, accumulators_of
from compiler.analysis.mma.product import MmaProduct, infer_products
from compiler.analysis.sync.circular_buffer import CircularBuffers, circular_buffers
from compiler.analysis.sync.sync import SyncNeeds, sync_of
from compiler.analysis.tma.bulk_run import BulkRun, infer_bulk_run
from compiler.analysis.tma.tensor_map import TensorMapCopy, coordinates, infer_tensor_map
from compiler.analysis.tmem.placement import TmemPlacement, place_tensor_memory
from compiler.analysis.tmem.row_shift import TmemRowShift, infer_shift
from compiler.analysis.tmem.tile_copy import TmemTileCopy, infer_tile_copy
from compiler.analysis.tmem.tmem import TensorMemoryPlan, plan_tensor_memory
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import CopyVia


@dataclass(frozen=True)
class Facts:
    """What the analyses say of a scheduled fusion."""

    sf: ScheduledFusion

    @cached_property
    def graph(self) -> IdGraph:
        """Which axes of all tensors are the same."""
        return id_graph(self.sf)

    @cached_property
    def tensor_maps(self) -> dict[str, TensorMapCopy]:
        """By output name: the tensor map of each copy via tma."""
        return {op.output: infer_tensor_map(self.sf, self.graph, op) for op in self.sf.ops if op.via is CopyVia.TMA}

    @cached_property
    def bulk_runs(self) -> dict[str, BulkRun]:
        """By output name: the run of each copy via bulk1d."""
        return {op.output: infer_bulk_run(self.sf, self.graph, op) for op in self.sf.ops if op.via is CopyVia.BULK1D}

    @cached_property
    def tile_placements(self) -> dict[str, TilePlacement]:
        """By output name: where the tile, or the run, of each bulk copy lies in shared memory."""
        maps, runs = self.tensor_maps.items(), self.bulk_runs.items()
        placed = {name: place_tile(self.sf, self.graph, copy) for name, copy in maps if copy.dims is not None}
        return placed | {name: place_run(self.sf, self.graph, run) for name, run in runs if run.elems is not None}

    @cached_property
    def tensor_memory(self) -> TensorMemoryPlan:
        return plan_tensor_memory(self.sf, self.graph)

    @cached_property
    def tmem_tile_copies(self) -> dict[str, TmemTileCopy]:
        """By output name: the tile of each copy from shared to tensor memory."""
        ops = (op for op in self.sf.ops if op.via is CopyVia.CP_TMEM)
        return {op.output: infer_tile_copy(self.sf, self.graph, op) for op in ops}

    @cached_property
    def tmem_shifts(self) -> dict[str, TmemRowShift]:
        """By output name: the rows that each copy inside tensor memory shifts."""
        ops = (op for op in self.sf.ops if op.via is CopyVia.SHIFT_TMEM)
        return {op.output: infer_shift(self.sf, self.graph, op) for op in ops}

    @cached_property
    def tmem_placement(self) -> TmemPlacement:
        """Where tensors lie in the allocation of tensor memory of a block."""
        return place_tensor_memory(self.sf, self.indexing.nest, self.tensor_memory)

    @cached_property
    def loops(self) -> LoopMap:
        """Which loop axes of which tensors are one loop."""
        return loop_map(self.sf)

    @cached_property
    def dimension_sizes(self) -> dict[ParallelType, tuple[Size, ...]]:
        """Extents asked of every block and thread dimension in use."""
        return dimension_sizes(self.sf)

    @cached_property
    def sync(self) -> SyncNeeds:
        """What passes between threads and blocks."""
        return sync_of(self.sf, self.graph)

    @cached_property
    def shared_bytes(self) -> SharedBytes:
        """What the shared tensors and their barriers take of a block's shared memory."""
        return shared_bytes(self.sf, self.graph, self.loops, self.swizzle_span)

    @cached_property
    def circular_buffers(self) -> CircularBuffers:
        """The loops that circular buffers turn with."""
        return circular_buffers(self.sf, self.loops)

    @cached_property
    def vector_accesses(self) -> tuple[VectorAccess, ...]:
        """Every copy that moves words."""
        return vector_accesses(self.sf, self.graph)

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(self.sf, self.graph)

    def tile_coordinates(self, output: str) -> tuple[Expr, ...]:
        """Where the box of a tile starts, of the tensor-map copy that writes `output`: one index a dimension, innermost
        first, in block, thread and loop variables."""
        t = self.sf.tensor(output)
        own = self.indexing.own(t)
        outside = {self.graph.group(a): own[a] for a in t.loop if a not in t.bulk_axes}
        return coordinates(self.tensor_maps[output], self.graph, outside)

    def swizzle_span(self, shared: str) -> int:
        """Bytes of the hardware swizzle by which bulk copies lay out a shared tensor; 0 without."""
        return max((c.swizzle for c in self.tensor_maps.values() if c.shared_tensor.name == shared), default=0)

    @cached_property
    def products(self) -> Mapping[str, MmaProduct]:
        """By name: the tensors that tensor cores make."""
        return infer_products(self.sf, self.indexing, self.swizzle_span)

    @cached_property
    def accumulators(self) -> tuple[Accumulators, ...]:
        """Results in tensor memory that one thread asks for, those together that share operands."""
        return accumulators_of(self.sf)

    @cached_property
    def folds(self) -> dict[str, Fold]:
        """By name: the reductions in which threads or blocks fold together."""
        return infer_folds(self.sf, self.indexing.nest, self.cluster_sums)

    @cached_property
    def deal(self) -> DealtTurns | None:
        """The turns of a product that blocks have equal shares of."""
        return infer_deal(self.sf, self.indexing.nest)

    @cached_property
    def grid_folds(self) -> dict[str, GridFold]:
        """By name: the products whose sums blocks of the grid have parts of."""
        return infer_grid_folds(self.sf, self.indexing.nest, self.deal)

    @cached_property
    def cluster_sums(self) -> dict[str, ClusterSum]:
        """By name: the product that blocks of a cluster sum for one of them, or each a slice."""
        return infer_cluster_sums(self.sf, self.indexing)

    @cached_property
    def scans(self) -> dict[str, BlockScan]:
        """By name: how threads share each scan."""
        return infer_scans(self.sf, self.indexing.nest)

    @cached_property
    def online(self) -> dict[str, OnlineFold]:
        """By each of their reductions: the folds of a maximum along with sums that are scaled to it."""
        return online_folds(self.sf)

    @cached_property
    def smem(self) -> SharedMemoryPlan:
        threads = prod(self.indexing.nest.block())
        return plan_shared_memory(
            self.sf,
            self.swizzle_span,
            tuple(self.folds.values()),
            threads,
            tuple(self.scans.values()),
            self.indexing.nest.turns,
            sum(group.barriers for group in self.accumulators),
            tuple(self.cluster_sums.values()),
        )
