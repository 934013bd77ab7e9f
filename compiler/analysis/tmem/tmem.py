"""Tensor memory: what each tensor needs, how it is allocated, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.analysis.id.conditions import at_most
from compiler.analysis.id.graph import IdGraph
from compiler.analysis.loops.axes import with_types_of_their_loops
from compiler.analysis.tmem.access import TmemAccess, access_of
from compiler.analysis.tmem.allocation import TmemLayout, TmemRegion, regions_of, total
from compiler.analysis.tmem.patterns import Pattern
from compiler.analysis.tmem.warps import block_shape
from compiler.arch import TMEM_COLUMNS, TMEM_LANES
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion, extents
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
    """Every tensor in tensor memory in the order of the fusion, every access in the order of the operators."""

    tensors: tuple[TmemTensor, ...] = ()
    accesses: tuple[TmemAccess, ...] = ()
    breaches: tuple[Violation | Kept, ...] = ()

    def pattern_of(self, tensor: str) -> Pattern | None:
        """The pattern of the copies to and from a tensor, the store's where they differ; None where one has none."""
        patterns = [a.pattern for a in self.accesses if a.tensor == tensor]
        return patterns[0] if patterns and None not in patterns else None


def plan_tensor_memory(sf: ScheduledFusion, graph: IdGraph) -> TensorMemoryPlan:
    """The plan of a scheduled fusion; `breaches` are of the allocation, an access has its own."""
    if not any(t.memory is MemoryType.TENSOR for t in sf.tensors):
        return TensorMemoryPlan(breaches=tuple(_malformed_regions(sf)))
    sf = with_types_of_their_loops(sf)
    regions = regions_of(sf)
    found = {t.tensor: t for region in regions for t in _tensors(region)}
    block = block_shape(sf)
    accesses = []
    for op in sf.ops:
        name = tmem_tensor(sf, op)
        if name is not None:
            accesses.append(access_of(sf, graph, op, found[name].layout, block))
    tensors = tuple(found[t.name] for t in sf.tensors if t.name in found)
    return TensorMemoryPlan(tensors, tuple(accesses), tuple(_breaches(sf, tensors, regions)))


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


def _tensors(region: TmemRegion) -> Iterator[TmemTensor]:
    first = 0
    allocated = region.allocated.value if region.needed.value <= TMEM_COLUMNS else None
    for layout in region.layouts:
        columns = layout.columns_needed.value
        yield TmemTensor(layout.tensor.name, layout.lanes.count, columns, allocated, layout, first)
        first += columns


def _breaches(
    sf: ScheduledFusion, tensors: Sequence[TmemTensor], regions: Sequence[TmemRegion]
) -> Iterator[Violation | Kept]:
    yield from _malformed_regions(sf)
    for t in tensors:
        yield from _of_tensor(t)
    for region in regions:
        found = region.needed.value
        breach = Violation(
            "tmem_columns_fit",
            f"{region.name}: columns",
            found,
            TMEM_COLUMNS,
            "Inline the tensor deeper, or put column axes on blocks.",
            f"{found} columns of 4 bytes are needed, and tensor memory has {TMEM_COLUMNS}",
        )
        yield from at_most(region.needed, TMEM_COLUMNS).require(breach)
    if len(regions) > 1 and all(r.needed.value <= TMEM_COLUMNS for r in regions):
        allocated = total([r.allocated for r in regions])
        breach = Violation(
            "tmem_regions_fit_together",
            ", ".join(r.name for r in regions),
            allocated.value,
            TMEM_COLUMNS,
            "Let tensors share a region: each is rounded up to a power of two of at least 32 columns.",
            f"the regions of one block take {allocated.value} columns together, and tensor memory has {TMEM_COLUMNS}",
        )
        yield from at_most(allocated, TMEM_COLUMNS).require(breach)


def _of_tensor(t: TmemTensor) -> Iterator[Violation | Kept]:
    if t.layout.tensor.dimsep is None:
        yield Violation(
            "tmem_tensors_have_a_separator",
            t.tensor,
            "none",
            "a position among its allocation axes",
            "Say which allocation axes are lanes (tmem_dimsep).",
            "nothing says which of its allocation axes are lanes and which are columns",
        )
    breach = Violation(
        "tmem_lanes_fit",
        f"{t.tensor}: lanes",
        t.lane_span,
        TMEM_LANES,
        "Inline lane axes, put them on blocks, or move them right of the separator.",
        f"{t.lane_span} lanes are needed, and tensor memory has {TMEM_LANES}",
    )
    yield from at_most(t.layout.lanes.span, TMEM_LANES).require(breach)
    for side, name in ((t.layout.lanes, "lanes"), (t.layout.columns, "columns")):
        if not side.is_one_to_one:
            yield Violation(
                "tmem_elements_have_places_of_their_own",
                f"{t.tensor}: {name}",
                f"strides {side.strides}",
                "strides that send no two elements to one place",
                "Let the stride of an outer axis be at least what the inner ones span.",
                f"strides {side.strides} of extents {extents(side.axes)} send two elements to one place",
            )


def _malformed_regions(sf: ScheduledFusion) -> Iterator[Violation]:
    """Regions name tensors in tensor memory, each once (nvFuser, tensor memory)."""
    seen: set[str] = set()
    for n, names in enumerate(sf.tmem_regions):
        faults = [] if names else ["no tensor at all"]
        for name in names:
            t = sf.by_name.get(name)
            if t is None or t.memory is not MemoryType.TENSOR:
                faults.append(f"{name}, which is {'no tensor' if t is None else f'in {t.memory} memory'}")
            elif name in seen:
                faults.append(f"{name} once more")
            seen.add(name)
        for fault in faults:
            yield Violation(
                "tmem_regions_are_disjoint",
                f"tmem_regions[{n}]",
                fault,
                "tensors in tensor memory, each in one region at most",
                "List every tensor in tensor memory at most once, and no other.",
            )
