"""Tensor-map copies put together by hand: the tile is what a test says, whatever inference would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.analysis.id.graph import id_graph
from compiler.analysis.memory.tile_placement import TilePlacement, place_tile
from compiler.analysis.tma.tensor_map import MapDim, TensorMapCopy
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, Merge, Split
from compiler.ir.iter_domain import IterDomain, MemoryType, axis
from compiler.ir.size import Size
from compiler.ir.tensor import CopyVia, TensorView
from compiler.legality.tile_placement import breaches


def tensor_map(
    sf: ScheduledFusion, tile: Sequence[IterDomain | Sequence[IterDomain]], swizzle: int = 0
) -> TensorMapCopy:
    """The one copy via tma of `sf`. `tile`: for each dimension, innermost first, its axis or axes (outermost first)."""
    (op,) = (op for op in sf.ops if op.via is CopyVia.TMA)
    g = id_graph(sf)
    dims = []
    for one in tile:
        axes = (one,) if isinstance(one, IterDomain) else tuple(one)
        size = Size(1)
        for a in axes:
            size = size * a.size
        groups = g.groups(axes)
        dims.append(MapDim(groups, groups, groups, None, size, Size(1), size, size, Size(1)))
    producer, consumer = sf.tensor(op.tensor_inputs[0]), sf.tensor(op.output)
    is_load = consumer.memory is MemoryType.SHARED
    ends = (producer, consumer) if is_load else (consumer, producer)
    empty: frozenset[int] = frozenset()
    return TensorMapCopy(op, *ends, is_load, tuple(dims), swizzle, None, empty, empty)


def placement(
    sf: ScheduledFusion, tile: Sequence[IterDomain | Sequence[IterDomain]], swizzle: int = 0
) -> TilePlacement:
    return place_tile(sf, id_graph(sf), tensor_map(sf, tile, swizzle))


def rules(found: TilePlacement) -> list[str]:
    """Rules that the placement breaks, and those that it keeps for a launch."""
    return [b.rule if isinstance(b, Violation) else f"kept: {b.rule}" for b in breaches(found)]


def with_unknown_sizes(sf: ScheduledFusion) -> ScheduledFusion:
    """The same schedule where every logical size is unknown: `s_0`, `s_1`... by dimension."""
    return replace(sf, tensors=tuple(_unknown(t) for t in sf.tensors))


def _unknown(t: TensorView) -> TensorView:
    sizes = {a: Size.symbol(f"s_{d}", a.extent) for d, a in enumerate(t.logical)}
    own = t.allocation.exprs if t.allocation is not None else ()
    for e in (*t.exprs, *own):
        match e:
            case Split(source, outer, inner):
                sizes[inner] = inner.size
                sizes[outer] = sizes[source].ceil_div(inner.size)
            case Merge(outer, inner, out):
                sizes[out] = sizes[outer] * sizes[inner]
            case _:
                raise AssertionError(e)
    names = {a: axis(a.name, n, a.kind) for a, n in sizes.items()}

    def renamed(axes: tuple[IterDomain, ...]) -> tuple[IterDomain, ...]:
        return tuple(names[a] for a in axes)

    def again(e: IdExpr) -> IdExpr:
        match e:
            case Split(source, outer, inner):
                return Split(*renamed((source, outer, inner)))
            case Merge(outer, inner, out):
                return Merge(*renamed((outer, inner, out)))
            case _:
                raise AssertionError(e)

    allocation = t.allocation
    if allocation is not None:
        allocation = replace(allocation, axes=renamed(allocation.axes), exprs=tuple(again(e) for e in own))
    exprs = tuple(again(e) for e in t.exprs)
    return replace(t, logical=renamed(t.logical), loop=renamed(t.loop), exprs=exprs, allocation=allocation)
