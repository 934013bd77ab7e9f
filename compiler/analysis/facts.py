"""The analyses of one scheduled fusion, each computed once and shared by legality and lowering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from compiler.analysis.bulk import BulkCopy, infer_bulk
from compiler.analysis.id_graph import IdGraph, id_graph
from compiler.analysis.indexing import Indexing
from compiler.analysis.smem import SharedMemoryPlan, plan_shared_memory
from compiler.analysis.tensor_map import TensorMapCopy, infer_tensor_map
from compiler.analysis.tile_placement import TilePlacement, place_tile
from compiler.analysis.tma import TmaCopy, infer_tma
from compiler.analysis.tmem import TensorMemory, plan_tensor_memory
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.tensor import CopyVia, TensorOp


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
    def tile_placements(self) -> dict[str, TilePlacement]:
        """By output name: where the tile of each tensor-map copy lies in shared memory."""
        maps = self.tensor_maps.items()
        return {name: place_tile(self.sf, self.graph, copy) for name, copy in maps if copy.dims is not None}

    @cached_property
    def tensor_memory(self) -> TensorMemory:
        return plan_tensor_memory(self.sf, self.graph)

    @cached_property
    def indexing(self) -> Indexing:
        return Indexing(self.sf)

    @cached_property
    def tma(self) -> dict[str, TmaCopy | Violation]:
        """By output name: what each tensor-map copy does."""
        return {op.output: infer_tma(self.sf, op) for op in self.sf.ops if op.via is CopyVia.TMA}

    @cached_property
    def bulk(self) -> dict[str, BulkCopy | Violation]:
        """By output name: what each 1-D bulk copy does."""
        return {op.output: infer_bulk(self.indexing, op) for op in self.sf.ops if op.via is CopyVia.BULK1D}

    def tma_copies(self) -> Iterator[tuple[TensorOp, TmaCopy]]:
        for op in self.sf.ops:
            if isinstance(copy := self.tma.get(op.output), TmaCopy):
                yield op, copy

    def swizzle_span(self, shared: str) -> int:
        """Bytes of the hardware swizzle by which bulk copies lay out a shared tensor; 0 without."""
        spans = [c.swizzle or 0 for _, c in self.tma_copies() if c.shared_tensor.name == shared]
        return max(spans, default=0)

    @cached_property
    def smem(self) -> SharedMemoryPlan:
        return plan_shared_memory(self.sf, self.swizzle_span)
