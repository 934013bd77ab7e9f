"""What a tensor-map copy does, inferred from its consumer's schedule.

The consumer's loop domain alone says which axes the copy engine walks: those marked Bulk. A boxing split's source is
the partitioned IterDomain, its inner output the box, its outer output the coordinate; an axis that is Bulk as a whole
is an implicit whole box, one without a Bulk part an implicit size-one box (nvFuser, TMA: "Step 2: define box"). Splits
above the boxing split must divide and merges must be of contiguous axes, since the tensor map sees only a view of the
global tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.allocation import base_axes
from compiler.analysis.correspondence import corresponding_axes
from compiler.analysis.swizzle import hardware_swizzle
from compiler.errors import Violation
from compiler.ir.domain import ScheduledFusion, logical_correspondence
from compiler.ir.id_exprs import Merge, Split
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import TensorOp, TensorView


@dataclass(frozen=True, slots=True)
class TmaDim:
    """One dimension of the tensor map: the consumer axis it partitions, its size, stride and box, in elements."""

    partitioned: IterDomain
    size: int
    stride: int
    box: int
    tile: IterDomain | None
    """The Bulk axis of the consumer, or None for an implicit size-one box."""


@dataclass(frozen=True, slots=True)
class TmaCopy:
    """A tensor-map copy: dimensions innermost first, the shared tensor's swizzle span in bytes (None: no mode fits)."""

    global_tensor: TensorView
    shared_tensor: TensorView
    dims: tuple[TmaDim, ...]
    swizzle: int | None

    @property
    def tile_bytes(self) -> int:
        n = self.shared_tensor.dtype.nbytes
        for d in self.dims:
            n *= d.box
        return n


def infer_tma(sf: ScheduledFusion, op: TensorOp) -> TmaCopy | Violation:
    """The copy that `op` (via tma) stands for, or why its schedule is none."""
    consumer, producer = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    if not consumer.bulk_axes:
        return _refuse("tma_box_is_inferred", consumer, "no Bulk axis", "a box", "Mark the tile's axes Bulk.")
    load = consumer.memory is MemoryType.SHARED
    global_tensor, shared = (producer, consumer) if load else (consumer, producer)
    strides = _logical_strides(op, global_tensor, consumer)
    dims = _dims(consumer, strides)
    if isinstance(dims, Violation):
        return dims
    stray = None if load else _stray_holes(consumer, dims)
    if stray is not None:
        return _refuse(
            "tma_store_holes_lie_outside",
            consumer,
            f"a split of {stray} that does not divide",
            "holes past the end of a tensor-map dimension",
            "Split that axis evenly.",
        )
    to_shared = corresponding_axes(op, producer, consumer)
    ordered = _in_shared_order(dims, shared, None if load else to_shared)
    if ordered is None:
        return Violation(
            "tile_axes_are_shared_allocation_axes",
            f"{consumer.name} <- {producer.name}",
            ", ".join(str(d.tile) for d in dims if d.tile is not None),
            ", ".join(str(a) for a in base_axes(shared)),
            "Set the shared tensor's allocation domain to the axes of the tile.",
        )
    tile = tuple(
        d.tile if load else to_shared[d.tile] for d in ordered if d.tile is not None and (load or d.tile in to_shared)
    )
    return TmaCopy(global_tensor, shared, ordered, hardware_swizzle(shared, tile))


def _logical_strides(op: TensorOp, global_tensor: TensorView, consumer: TensorView) -> dict[IterDomain, int]:
    """Stride in the global tensor of each logical axis of the consumer that it has."""
    assert global_tensor.allocation is not None, "a global tensor always has an allocation"
    own = dict(zip(global_tensor.allocation.axes, (s or 0 for s in global_tensor.allocation.strides), strict=True))
    if global_tensor is consumer:
        return own
    return {c: own[p] for p, c in logical_correspondence(op, global_tensor, consumer).items()}


def _has_bulk(consumer: TensorView) -> dict[IterDomain, bool]:
    """For every axis of the tree, whether some part of it is Bulk."""
    bulk = {a: a in consumer.bulk_axes for a in consumer.loop}
    for e in reversed(consumer.exprs):
        below = any(bulk.get(a, False) for a in e.outputs)
        for a in e.inputs:
            bulk[a] = bulk.get(a, False) or below
    return bulk


def _dims(consumer: TensorView, strides: dict[IterDomain, int]) -> tuple[TmaDim, ...] | Violation:
    """Walks the consumer's transforms from the logical axes and stops at partitioned IterDomains."""
    bulk = _has_bulk(consumer)
    stride = dict(strides)
    frontier = [a for a in consumer.logical if a in stride]
    box: dict[IterDomain, IterDomain] = {}
    for e in consumer.exprs:
        match e:
            case Merge() if e.outer in frontier and e.inner in frontier:
                contiguous = stride[e.outer] == stride[e.inner] * e.inner.extent or e.outer.extent == 1
                if not contiguous and bulk[e.out]:
                    return _refuse(
                        "tma_merges_contiguous_axes", consumer, str(e.out), "contiguous axes", "Box one axis."
                    )
                if contiguous:
                    stride[e.out] = stride[e.inner]
                    frontier[frontier.index(e.outer)] = e.out
                    frontier.remove(e.inner)
            case Split() if e.source in frontier and bulk[e.source]:
                leaf = None if bulk[e.outer] else _box_within(consumer, e.inner, bulk)
                if leaf is not None:
                    box[e.source] = leaf
                elif e.divides:
                    stride[e.inner] = stride[e.source]
                    stride[e.outer] = stride[e.source] * e.inner.extent
                    at = frontier.index(e.source)
                    frontier[at : at + 1] = [e.outer, e.inner]
                else:
                    found = f"{e.source} split by {e.inner.extent}"
                    return _refuse("tma_view_splits_divide", consumer, found, "a factor that divides", "Split evenly.")
            case _:
                continue
    dims = []
    for a in frontier:
        tile = box.get(a, a if a in consumer.bulk_axes else None)
        if a.extent > 1 or tile is not None:
            dims.append(TmaDim(a, a.extent, stride[a], tile.extent if tile is not None else 1, tile))
    reached = {d.tile for d in dims}
    lost = [a for a in consumer.bulk_axes if a not in reached]
    if lost:
        return _refuse("tma_box_is_inferred", consumer, str(lost[0]), "a box by partitioning", "Box by an inner split.")
    return tuple(dims)


def _box_within(consumer: TensorView, axis: IterDomain, bulk: dict[IterDomain, bool]) -> IterDomain | None:
    """The Bulk axis that boxes the source of the split whose inner output is `axis`, if there is one.

    That is `axis` itself, or the inner output of a dividing split of it: splitting by m*n and the inner piece by n
    equals splitting by n and the outer piece by m
    (box by rotation; nvFuser, theory of IterDomains: Theorem 2.1).
    """
    if axis in consumer.bulk_axes:
        return axis
    for e in consumer.exprs:
        if isinstance(e, Split) and e.source == axis and e.divides and not bulk[e.outer]:
            return _box_within(consumer, e.inner, bulk)
    return None


def _stray_holes(consumer: TensorView, dims: tuple[TmaDim, ...]) -> IterDomain | None:
    """An axis whose uneven split makes holes that the tensor map takes for elements. A store would write them.

    The copy engine drops what lies past the end of a partitioned IterDomain. A hole past the end of an outer piece of
    it, or of a merge with such a piece outermost, lies there too; any other would be one more copy of a valid place
    (nvFuser, divisibility of split: Theorems 1 and 2).
    """
    dropped = {d.partitioned for d in dims}
    for e in consumer.exprs:
        match e:
            case Split() if e.source in dropped:
                dropped.add(e.outer)
            case Merge() if e.outer in dropped:
                dropped.add(e.out)
            case Split() if not e.divides:
                return e.source
            case _:
                continue
    return None


def _refuse(rule: str, consumer: TensorView, found: str, limit: str, fix: str) -> Violation:
    return Violation(rule, consumer.name, found, limit, fix)


def _in_shared_order(
    dims: tuple[TmaDim, ...], shared: TensorView, to_shared: dict[IterDomain, IterDomain] | None
) -> tuple[TmaDim, ...] | None:
    """Dimensions innermost first as the tile lies in shared memory, size-one boxes last.

    None if a tile axis is no base axis.
    """
    order = {a: i for i, a in enumerate(reversed(base_axes(shared)))}
    place: dict[TmaDim, int] = {}
    for d in dims:
        if d.tile is None:
            continue
        axis = d.tile if to_shared is None else to_shared.get(d.tile)
        if axis not in order:
            return None
        place[d] = order[axis]
    boxed = sorted(place, key=lambda d: place[d])
    rest = sorted((d for d in dims if d.tile is None), key=lambda d: d.stride)
    return (*boxed, *rest)
