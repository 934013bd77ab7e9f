"""The TMA domain of a bulk copy: how its consumer's schedule views the global tensor, and what each axis of that view
is to the box.

The consumer's Bulk axes are the tile, its other loop axes choose one. Tensor-map copies and 1-D ones start here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.analysis.tma.collapse import RawDim, raw_dims
from compiler.analysis.tma.reach import tiles_differ
from compiler.analysis.tma.roles import Roles, infer_roles, size_of
from compiler.analysis.tma.view import ApartInMemory, ForeignTransform, NotReached, ViewAxis, global_view, view_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView

_NO_ROLES = Roles(frozenset(), frozenset(), (), ())


@dataclass(frozen=True, slots=True)
class NoAxes:
    """The global tensor has no axis that elements lie along."""

    tensor: str


@dataclass(frozen=True, slots=True)
class MixedAxis:
    """An axis of the view that is partly Bulk, and not as an inner split of it."""

    axis: IterDomain


@dataclass(frozen=True, slots=True)
class StridedTile:
    """A tile of every `stride`-th element of a box, of which the copy engine moves `moved`."""

    tile: Size
    moved: Size
    stride: Size
    box: Size


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a view was made of: the loops that are Bulk, those that are not, and the global tensor's axes."""

    graph: IdGraph
    bulk: tuple[Group, ...]
    others: tuple[Group, ...]
    memory: tuple[ViewAxis, ...]


@dataclass(frozen=True, eq=False)
class TmaGlobalView:
    """`axes`: the view of the global tensor, outermost first, None where there is none and `fault` says why.

    `path` leads from the consumer's loop axes to the allocation axes of the global tensor; `splits` are those that view
    it, `strided` the tiles that a stride cuts out of their box.
    """

    path: tuple[GraphStep, ...]
    roles: Roles
    axes: tuple[RawDim, ...] | None
    splits: tuple[Split, ...] = ()
    fault: ForeignTransform | NotReached | ApartInMemory | NoAxes | MixedAxis | None = None
    strided: tuple[StridedTile, ...] = ()
    asked: _Asked | None = None

    @property
    def inner_stride(self) -> Size | None:
        """Places from one element of the tile to the next along the innermost axis; None where it takes every one."""
        inner = self.axes[-1].boxed.stride if self.axes else None
        return None if inner is None or self.asked is None else self.asked.graph.size(inner)

    @cached_property
    def has_unlike_tiles(self) -> bool:
        """Two tiles are no shift of each other: no tensor map has them. Worked out for refused copies alone."""
        a = self.asked
        return a is not None and tiles_differ(a.graph, a.bulk, a.others, self.path, a.memory)


@dataclass(frozen=True, slots=True)
class TmaDomain:
    """A bulk copy and how its consumer's schedule views the global tensor."""

    op: TensorOp
    global_tensor: TensorView
    shared_tensor: TensorView
    is_load: bool
    view: TmaGlobalView


def copy_name(op: TensorOp) -> str:
    """A copy, as messages name it."""
    return f"{op.output} <- {op.tensor_inputs[0]}"


def loop_groups(graph: IdGraph, consumer: TensorView) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The consumer's loop axes that are Bulk, and those that are not."""
    types = tuple(zip(consumer.loop, consumer.types, strict=True))
    bulk = tuple(graph.group(a) for a, t in types if t is ParallelType.BULK)
    return bulk, tuple(graph.group(a) for a, t in types if t is not ParallelType.BULK)


def infer_domain(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> TmaDomain:
    """The TMA domain of a bulk copy."""
    consumer, producer = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    is_load = consumer.memory is not MemoryType.GLOBAL
    outside, shared = (producer, consumer) if is_load else (consumer, producer)
    interface = (*sf.inputs, *sf.outputs)
    position = interface.index(outside.name) if outside.name in interface else len(interface)
    memory = global_view(graph, outside, position)
    view = _view(graph, outside.name, memory, *loop_groups(graph, consumer))
    return TmaDomain(op, outside, shared, is_load, view)


@remembered(64)
def _view(
    graph: IdGraph,
    outside: str,
    memory: tuple[ViewAxis, ...],
    bulk: tuple[Group, ...],
    others: tuple[Group, ...],
) -> TmaGlobalView:
    """The view of `memory`, that of the tensor `outside`, by the consumer's loops: `bulk` ones and `others`."""
    if not memory:
        return TmaGlobalView((), _NO_ROLES, None, fault=NoAxes(outside))
    path, lost = graph.path((*bulk, *others), tuple(a.group for a in memory))
    if lost:
        return TmaGlobalView((), _NO_ROLES, None, fault=NotReached(graph.axis(min(lost))))
    ones = _ones(path, (*bulk, *others), tuple(a.group for a in memory))
    roles = infer_roles(graph, bulk, (*others, *ones), path)
    asked = _Asked(graph, bulk, others, memory)
    viewed = view_of(graph, memory, roles.view)
    if viewed.axes is None:
        return TmaGlobalView(path, roles, None, viewed.splits, viewed.fault, asked=asked)
    axes = raw_dims(roles, viewed.axes)
    if isinstance(axes, ViewAxis):
        return TmaGlobalView(path, roles, None, viewed.splits, MixedAxis(graph.axis(axes.group)), asked=asked)
    strided = tuple(_strided(graph, axes))
    return TmaGlobalView(path, roles, axes, viewed.splits, strided=strided, asked=asked)


def _ones(path: Sequence[GraphStep], start: Sequence[Group], goal: Sequence[Group]) -> Iterator[Group]:
    """Axes of extent one that `path` starts from beside `start`, or ends in: merged away, they choose no tile."""
    seen = set(start)
    for step in path:
        yield from (g for g in step.sources if g not in seen)
        seen.update((*step.sources, *step.targets))
    yield from (g for g in goal if g not in seen)


def _strided(graph: IdGraph, axes: Sequence[RawDim]) -> Iterator[StridedTile]:
    for b in (axis.boxed for axis in axes):
        if b.stride is not None:
            box, stride = size_of(graph, b.box), graph.size(b.stride)
            yield StridedTile(size_of(graph, b.tile), box.ceil_div(stride), stride, box)
