"""Tensor memory: what each tensor needs, how it is allocated, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.tmem.access import TmemAccess, access_of
from compiler.analysis.tmem.allocation import TmemLayout, TmemRegion, layout_of, regions_of
from compiler.analysis.tmem.patterns import Pattern
from compiler.analysis.tmem.warps import block_shape
from compiler.arch import TMEM_COLUMNS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import CopyVia, TensorOp

__all__ = ["Pattern", "TensorMemoryPlan", "TmemAccess", "TmemTensor", "plan_tensor_memory"]


@dataclass(frozen=True, slots=True)
class TmemTensor:
    """A tensor in tensor memory: lanes that hold elements of it, 4-byte columns it needs, columns of its region (None
    where too many).

    Strided lanes reach further than they are many: `lane_span` must fit. `layout`: its allocated axes and their
    strides; `first_column`: where in its region it begins.
    """

    tensor: str
    lanes: int
    columns: int
    allocated_columns: int | None
    layout: TmemLayout
    first_column: int = 0

    @property
    def lane_span(self) -> int:
        """Lanes from the first to the last that holds an element."""
        return self.layout.lanes.span.value


@dataclass(frozen=True, slots=True)
class TensorMemoryPlan:
    """Every tensor in tensor memory in the order of the fusion, every access in the order of the operators, and the
    regions that are allocated.

    `asked`: the regions that the fusion names, each tensor of them with its memory, None where it is no tensor.
    """

    tensors: tuple[TmemTensor, ...] = ()
    accesses: tuple[TmemAccess, ...] = ()
    regions: tuple[TmemRegion, ...] = ()
    asked: tuple[tuple[tuple[str, MemoryType | None], ...], ...] = ()

    def pattern_of(self, tensor: str) -> Pattern | None:
        """The pattern of the copies to and from a tensor, the store's where they differ; None where one has none."""
        patterns = [a.pattern for a in self.accesses if a.tensor == tensor]
        return patterns[0] if patterns and None not in patterns else None


def plan_tensor_memory(sf: ScheduledFusion, graph: IdGraph) -> TensorMemoryPlan:
    """The plan of a scheduled fusion."""
    asked = tuple(tuple((name, _memory_of(sf, name)) for name in names) for names in sf.tmem_regions)
    if not any(t.memory is MemoryType.TENSOR for t in sf.tensors):
        return TensorMemoryPlan(asked=asked)
    sf = with_types_of_their_loops(sf)
    regions = regions_of(sf)
    found = {t.tensor: t for region in regions for t in _tensors(region)}
    for op in sf.ops:
        if op.via is CopyVia.SHIFT_TMEM and op.tensor_inputs[0] in found:
            found[op.output] = _shifted(layout_of(sf.tensor(op.output)), found[op.tensor_inputs[0]])
    block = block_shape(sf)
    accesses = []
    for op in sf.ops:
        name = tmem_tensor(sf, op)
        if name is not None:
            accesses.append(access_of(sf, graph, op, found[name].layout, block))
    tensors = tuple(found[t.name] for t in sf.tensors if t.name in found)
    return TensorMemoryPlan(tensors, tuple(accesses), regions, asked)


def _memory_of(sf: ScheduledFusion, name: str) -> MemoryType | None:
    t = sf.by_name.get(name)
    return None if t is None else t.memory


def tmem_tensor(sf: ScheduledFusion, op: TensorOp) -> str | None:
    """The tensor in tensor memory that a copy stores to or loads from; None where it is no such copy."""
    match op.via:
        case CopyVia.ST_TMEM:
            name = op.output
        case CopyVia.LD_TMEM if op.tensor_inputs:
            name = op.tensor_inputs[0]
        case _:
            return None
    return name if sf.tensor(name).memory is MemoryType.TENSOR else None


def _shifted(layout: TmemLayout, source: TmemTensor) -> TmemTensor:
    """What a shift makes of a tensor, in the same columns."""
    return replace(source, tensor=layout.tensor.name, lanes=layout.lanes.count, layout=layout)


def _tensors(region: TmemRegion) -> Iterator[TmemTensor]:
    first = 0
    allocated = region.allocated.value if region.needed.value <= TMEM_COLUMNS else None
    for layout in region.layouts:
        columns = layout.columns_needed.value
        yield TmemTensor(layout.tensor.name, layout.lanes.count, columns, allocated, layout, first)
        first += columns
