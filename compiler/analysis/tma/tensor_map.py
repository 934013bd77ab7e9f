"""The tensor map of a bulk copy, inferred from its consumer's schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.analysis.id.group_index import walk
from compiler.analysis.tma.collapse import RawDim, collapse
from compiler.analysis.tma.domain import TmaGlobalView, copy_name, infer_domain, loop_groups
from compiler.analysis.tma.fttc import Correctness, box_correctness, loop_correctness, weakest
from compiler.analysis.tma.roles import Piece, size_of
from compiler.arch import SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr
from compiler.ir.id_exprs import Swizzle
from compiler.ir.iter_domain import IterDomain
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView

__all__ = ["Correctness", "MapDim", "TensorMapCopy", "coordinates", "infer_tensor_map"]


@dataclass(frozen=True, slots=True)
class MapDim:
    """One dimension of a tensor map. Tuples of groups stand for their merge, outermost first.

    `partitioned` is split into a coordinate and `box` (empty: an implicit box of one); the box into `tile` and
    `element_stride` (None: dense, and `tile` is `box`). `stride`: elements of the global tensor from one index to the
    next.
    """

    partitioned: tuple[Group, ...]
    box: tuple[Group, ...]
    tile: tuple[Group, ...]
    element_stride: Group | None
    size: Size
    stride: Size
    box_size: Size
    tile_size: Size
    element_stride_size: Size


@dataclass(frozen=True, slots=True)
class TensorMapCopy:
    """A tensor-map copy: `dims` innermost first, swizzle span in bytes (0: none).

    `bulk` and `non_bulk`: every group of the consumer's schedule that is wholly inside, or wholly outside, the tile.
    `dims` is None where no tensor map was found; `view`, how the copy sees the global tensor, then says why. `path`
    leads from the consumer's loop axes to the allocation axes of the global tensor.
    """

    op: TensorOp
    global_tensor: TensorView
    shared_tensor: TensorView
    is_load: bool
    dims: tuple[MapDim, ...] | None
    swizzle: int
    correctness: Correctness | None
    bulk: frozenset[Group]
    non_bulk: frozenset[Group]
    path: tuple[GraphStep, ...] = ()
    view: TmaGlobalView | None = field(default=None, compare=False, repr=False)

    @property
    def tile_elems(self) -> int:
        """Elements of one tile at the binding."""
        return prod(d.tile_size.value for d in self.dims or ())

    @property
    def where(self) -> str:
        """The copy, as messages name it."""
        return copy_name(self.op)


def infer_tensor_map(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> TensorMapCopy:
    """The tensor map of `op` (via tma)."""
    domain = infer_domain(sf, graph, op)
    swizzle = _swizzle_span(graph, domain.shared_tensor, sf.tensor(op.output))
    dims: tuple[MapDim, ...] | None = None
    correctness: Correctness | None = None
    view = domain.view
    if view.axes is not None:
        span = swizzle * 8 // domain.global_tensor.dtype.nbits if swizzle else None
        dims = _dims(graph, view, span)
        correctness = _correctness(graph, sf.tensor(op.output), view, dims)
    return TensorMapCopy(
        op,
        domain.global_tensor,
        domain.shared_tensor,
        domain.is_load,
        dims,
        swizzle,
        correctness,
        view.roles.bulk,
        view.roles.non_bulk,
        view.path,
        view,
    )


def coordinates(copy: TensorMapCopy, graph: IdGraph, loop_index: Mapping[Group, Expr]) -> tuple[Expr, ...]:
    """The index in each dimension, innermost first, at which the box of a tile starts.

    `loop_index`: index of each of the consumer's loop axes that is not Bulk.
    """
    index = walk(graph, copy.path, {**dict.fromkeys(_starts(copy), Expr()), **loop_index})
    return tuple(_flat(graph, d.partitioned, index) for d in copy.dims or ())


def _starts(copy: TensorMapCopy) -> Iterator[Group]:
    """Groups that the path reads and does not make: the consumer's loop axes. Those inside the tile start at 0."""
    made: set[Group] = set()
    for step in copy.path:
        yield from (g for g in step.sources if g not in made)
        made.update(step.targets)
    for d in copy.dims or ():
        yield from (g for g in d.partitioned if g not in made)


def _flat(graph: IdGraph, piece: Piece, index: Mapping[Group, Expr]) -> Expr:
    flat = Expr()
    for g in piece:
        flat = flat * graph.size(g).value + index[g]
    return flat


def _swizzle_span(graph: IdGraph, shared: TensorView, consumer: TensorView) -> int:
    """Bytes of the mode that the first swizzle of the tile between logical and allocation axes stands for: 16 for each
    place of its x (nvFuser, TMA inference: swizzle); 0 without one, or with one that no mode is.

    A swizzle of what chooses a tile says only which tile is whose (nvFuser, TMA: "Step 5: schedule the consumer
    tensor").
    """
    exprs = shared.exprs
    wanted: set[IterDomain] = set(shared.loop)
    if shared.allocation is not None:
        if shared.allocation.is_source:
            return 0
        exprs, wanted = (*exprs, *shared.allocation.exprs), set(shared.allocation.axes)
    found = 0
    for e in reversed(exprs):
        if any(a in wanted for a in e.outputs):
            wanted.update(e.inputs)
            if isinstance(e, Swizzle) and not _chooses_a_tile(graph, consumer, e):
                found = e.x.extent * SWIZZLE_CHUNK_BYTES
    return found if found in SWIZZLE_SPANS else 0


def _chooses_a_tile(graph: IdGraph, consumer: TensorView, e: Swizzle) -> bool:
    """Whether both axes of a swizzle follow from the loops that choose a tile, so that each has one index in it."""
    _, others = loop_groups(graph, consumer)
    return not graph.path(others, graph.groups(e.inputs))[1]


@remembered(64)
def _dims(graph: IdGraph, view: TmaGlobalView, span: int | None) -> tuple[MapDim, ...]:
    """The dimensions, innermost first, for a swizzle of `span` elements."""
    return tuple(_map_dim(graph, d) for d in collapse(graph, view.axes or (), span))


def _map_dim(graph: IdGraph, d: RawDim) -> MapDim:
    b = d.boxed
    return MapDim(
        b.partitioned,
        b.box,
        b.tile,
        b.stride,
        size_of(graph, b.partitioned),
        d.stride,
        size_of(graph, b.box),
        size_of(graph, b.tile),
        Size(1) if b.stride is None else graph.size(b.stride),
    )


def _correctness(graph: IdGraph, consumer: TensorView, view: TmaGlobalView, dims: Sequence[MapDim]) -> Correctness:
    boxes = (box_correctness(d.size.value, d.box_size.value, d.element_stride_size.value) for d in dims)
    guarded = (d.partitioned[0] for d in dims)
    strided = (g for d in dims if d.element_stride is not None for g in d.box)
    return weakest((*boxes, loop_correctness(graph, consumer, view.path, guarded, strided)))
