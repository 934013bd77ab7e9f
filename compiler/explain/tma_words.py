"""A tensor-map copy in words: its dimensions by role, how they come about, its tensor map, what its holes hold."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.graph import GraphStep, IdGraph
from compiler.analysis.tma.bulk_run import BulkRun
from compiler.analysis.tma.tensor_map import Correctness, MapDim, TensorMapCopy
from compiler.explain.banks import bank_notes, banked_tile
from compiler.explain.names import GroupNames, counted, listed
from compiler.explain.roles import coordinates_of
from compiler.ir.id_exprs import Merge, Resize, Split, Swizzle
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp


def tensor_map_words(graph: IdGraph, copy: TensorMapCopy, swizzle_found: int | None) -> Iterator[str]:
    """Lines on one copy. `swizzle_found`: the span that the shared tensor's allocation has, None for none of them."""
    kind = "load" if copy.is_load else "store"
    names = _names(graph, copy)
    yield f"{copy.op.output}: {kind} by tensor map, {copy.global_tensor.name} in global memory, " + (
        f"{copy.shared_tensor.name} in shared memory{_reach(copy.op)}"
    )
    if copy.dims is None:
        yield "  no tensor map was found; what is wrong stands below"
        return
    yield from _view(graph, copy, names)
    for i, dim in enumerate(copy.dims):
        yield f"  dimension {i}{' (innermost)' if i == 0 else ''}"
        yield from (f"    {line}" for line in _dimension(graph, copy, dim, names))
    yield from (f"  {line}" for line in _descriptor(copy))
    found = "as no swizzle of the hardware" if swizzle_found is None else _span(swizzle_found)
    yield f"  swizzle: {_span(copy.swizzle)}; {copy.shared_tensor.name} is allocated {found}"
    yield from (f"  holes: {line}" for line in correctness_words(copy))
    tile = banked_tile(copy)
    if tile is not None:
        yield from (f"  banks: {note}" for note in bank_notes(tile))


def bulk_run_words(run: BulkRun) -> Iterator[str]:
    """Lines on a 1-D bulk copy: its run, and where the next ones begin."""
    kind = "load" if run.is_load else "store"
    yield f"{run.op.output}: {kind} of one run of neighbouring elements, without tensor map{_reach(run.op)}"
    if run.elems is None:
        yield "  no run was found; what is wrong stands below"
        return
    yield f"  run: {_size(run.elems)} elements, {run.elems.value * run.global_tensor.dtype.nbits // 8} bytes"
    if run.steps:
        yield f"  runs begin {listed(_size(s) for s in run.steps)} elements apart"


def _reach(op: TensorOp) -> str:
    return ", of all blocks of a cluster, the first of which asks for it" if op.multicasts else ""


def _names(graph: IdGraph, copy: TensorMapCopy) -> GroupNames:
    consumer = copy.shared_tensor if copy.is_load else copy.global_tensor
    other = copy.global_tensor if copy.is_load else copy.shared_tensor
    return GroupNames(graph, consumer, other)


def _dimension(graph: IdGraph, copy: TensorMapCopy, dim: MapDim, names: GroupNames) -> Iterator[str]:
    coordinate = coordinates_of(graph, copy, dim)
    yield f"partitioned  {names.merged(dim.partitioned)}"
    if len(dim.partitioned) > 1:
        yield f"             collapsed of {counted(len(dim.partitioned), 'contiguous axis')}"
    if not dim.box:
        box = "implicitly one element"
    elif dim.box == dim.partitioned:
        box = f"{names.merged(dim.box)}, implicitly the whole dimension"
    else:
        box = names.merged(dim.box)
    yield f"box          {box}"
    yield f"coordinate   {', '.join(map(names.one, coordinate)) or 'none: there is one box'}"
    if dim.element_stride is not None:
        yield f"tile         {names.merged(dim.tile)}"
        yield f"stride       {names.one(dim.element_stride)}"


def _view(graph: IdGraph, copy: TensorMapCopy, names: GroupNames) -> Iterator[str]:
    """The transforms between the global tensor's memory and the TMA domain (nvFuser, TMA: step 1)."""
    allocation = copy.global_tensor.allocation
    axes = copy.global_tensor.logical if allocation is None else allocation.axes
    start = graph.groups(a for a in axes if not a.is_broadcast and not a.is_reduction)
    goal = [g for d in copy.dims or () for g in d.partitioned]
    path, _ = graph.path(start, goal)
    yield f"  memory: {', '.join(map(names.one, start)) or 'a single element'}"
    if path:
        yield f"  view: {'; '.join(_step(step, names) for step in path)}"
    else:
        yield "  view: the axes of the memory, as they are"


def _step(step: GraphStep, names: GroupNames) -> str:
    verb = {Split: ("split", "merge"), Merge: ("merge", "split"), Swizzle: ("xor", "xor"), Resize: ("resize", "resize")}
    forward, back = verb[type(step.expr.example)]
    sources, targets = (", ".join(map(names.one, groups)) for groups in (step.sources, step.targets))
    return f"{forward if step.forward else back} {sources} to {targets}"


def _descriptor(copy: TensorMapCopy) -> Iterator[str]:
    """The fields of the tensor map, innermost dimension first (CUDA driver API, cuTensorMapEncodeTiled)."""
    dims = copy.dims or ()
    bits = copy.global_tensor.dtype.nbits
    yield f"tensor map: {copy.global_tensor.dtype}, rank {len(dims)}, innermost dimension first"
    yield f"  sizes            {_row([_size(d.size) for d in dims])}"
    strides = [f"{d.stride.value * bits // 8} bytes" for d in dims[1:]]
    yield f"  strides          {_row(strides) if strides else 'none: one dimension'}"
    yield f"  box              {_row([_size(d.box_size) for d in dims])}"
    yield f"  tile             {_row([_size(d.tile_size) for d in dims])}, {copy.tile_elems * bits // 8} bytes"
    yield f"  element strides  {_row([_size(d.element_stride_size) for d in dims])}"


def correctness_words(copy: TensorMapCopy) -> Iterator[str]:
    """What the holes of the tile hold, and why (nvFuser, TMA modelling: Definitions 1 and 2, Theorem 6)."""
    match copy.correctness:
        case None:
            yield "not known"
        case Correctness.STRONG:
            there = "fills in zero" if copy.is_load else "writes nothing"
            yield f"strongly correct: every hole lies past the end of the tensor, where the copy engine {there}"
        case Correctness.STRONG_WITH_PREDICATE:
            yield (
                "strongly correct with a predicate: some holes lie inside the tensor's bounds as the copy engine sees "
                "them, so a copy whose loops are past their end must be steered past the end of the tensor"
            )
        case Correctness.WEAK:
            culprits = [
                f"dimension {i} (element stride {d.element_stride_size.value} does not divide the box of "
                f"{d.box_size.value} and is smaller, and the tensor has {d.size.value})"
                for i, d in enumerate(copy.dims or ())
                if d.box_size.value % d.element_stride_size.value
                and d.element_stride_size.value < d.box_size.value < d.size.value
            ]
            yield "weakly correct: valid elements are right, holes may hold anything, and no predicate can change that"
            if culprits:
                yield f"because of {listed(culprits)}"


def _size(size: Size) -> str:
    return str(size.value) if size.is_constant else f"{size.value} (= {size})"


def _row(words: list[str]) -> str:
    return " x ".join(words)


def _span(span: int) -> str:
    return f"{span} bytes" if span else "without swizzle"
