"""The TMA domain of a bulk copy: how its consumer's schedule views the global tensor, and what each axis of that view
is to the box.

The consumer's Bulk axes are the tile, its other loop axes choose one. Tensor-map copies and 1-D ones start here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler.analysis.id.conditions import are_equal
from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.analysis.tma.collapse import RawDim, raw_dims
from compiler.analysis.tma.reach import tiles_differ
from compiler.analysis.tma.roles import Roles, infer_roles, size_of
from compiler.analysis.tma.view import ViewAxis, global_view, not_reached, view_of
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.form import remembered
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.tensor import TensorOp, TensorView

_NO_ROLES = Roles(frozenset(), frozenset(), (), ())


@dataclass(frozen=True, eq=False)
class TmaGlobalView:
    """`axes`: the view of the global tensor, outermost first, None where there is none and `breaches` say why.

    `path` leads from the consumer's loop axes to the allocation axes of the global tensor.
    """

    path: tuple[GraphStep, ...]
    roles: Roles
    axes: tuple[RawDim, ...] | None
    breaches: tuple[Violation | Kept, ...]


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
    view = _view(graph, copy_name(op), outside.name, memory, *loop_groups(graph, consumer))
    return TmaDomain(op, outside, shared, is_load, view)


@remembered(64)
def _view(
    graph: IdGraph,
    where: str,
    outside: str,
    memory: tuple[ViewAxis, ...],
    bulk: tuple[Group, ...],
    others: tuple[Group, ...],
) -> TmaGlobalView:
    """The view of `memory`, that of the tensor `outside`, by the consumer's loops: `bulk` ones and `others`."""
    if not memory:
        return _no_view_at_all(_no_axis(where, outside))
    path, lost = graph.path((*bulk, *others), tuple(a.group for a in memory))
    if lost:
        return _no_view_at_all(not_reached(where, graph, min(lost)))
    ones = _ones(path, (*bulk, *others), tuple(a.group for a in memory))
    roles = infer_roles(graph, bulk, (*others, *ones), path)
    axes, breaches = _axes(graph, roles, memory, where)
    refused = any(isinstance(b, Violation) for b in breaches)
    impossible = refused and tiles_differ(graph, bulk, others, path, memory)
    verdict = "impossible" if impossible else "not recognised"
    named = tuple(_says(b, verdict) if isinstance(b, Violation) else b for b in breaches)
    return TmaGlobalView(path, roles, axes, named)


def _no_view_at_all(why: Violation) -> TmaGlobalView:
    return TmaGlobalView((), _NO_ROLES, None, (_says(why, "not recognised"),))


def _ones(path: Sequence[GraphStep], start: Sequence[Group], goal: Sequence[Group]) -> Iterator[Group]:
    """Axes of extent one that `path` starts from beside `start`, or ends in: merged away, they choose no tile."""
    seen = set(start)
    for step in path:
        yield from (g for g in step.sources if g not in seen)
        seen.update((*step.sources, *step.targets))
    yield from (g for g in goal if g not in seen)


def _axes(
    graph: IdGraph, roles: Roles, memory: Sequence[ViewAxis], where: str
) -> tuple[tuple[RawDim, ...] | None, list[Violation | Kept]]:
    """The axes of the view, and everything wrong with it."""
    view, found = view_of(graph, memory, roles.view, where)
    breaches = list(found)
    if view is None:
        return None, breaches
    axes = raw_dims(roles, view)
    if isinstance(axes, ViewAxis):
        return None, [*breaches, _mixed(where, graph.axis(axes.group))]
    for axis in axes:
        breaches += _strided(graph, axis, where)
    return axes, [*breaches, *_inner(graph, axes[-1], where)]


def _strided(graph: IdGraph, axis: RawDim, where: str) -> Iterator[Violation | Kept]:
    """A strided tile that is larger than what the copy engine moves of its box."""
    b = axis.boxed
    if b.stride is None:
        return
    moved = size_of(graph, b.box).ceil_div(graph.size(b.stride))
    tile = size_of(graph, b.tile)
    yield from are_equal(tile, moved).require(
        Violation(
            "tma_strided_tile_fills_its_box",
            where,
            str(tile),
            str(moved),
            "Split the box by the element stride, as an inner split.",
            f"a tile of {tile} elements, where every {graph.size(b.stride)}th of a box of "
            f"{size_of(graph, b.box)} are {moved}",
        )
    )


def _inner(graph: IdGraph, inner: RawDim, where: str) -> Iterator[Violation]:
    """What the innermost axis may not be."""
    if not inner.is_contiguous:
        yield Violation(
            "tma_inner_dimension_is_contiguous",
            where,
            str(inner.stride),
            1,
            "Declare the innermost axis contiguous, or copy by threads.",
            "the innermost axis in global memory is not declared contiguous, and a tensor map has no stride for it",
        )
    if inner.boxed.stride is not None:
        step = str(graph.size(inner.boxed.stride))
        yield Violation(
            "tma_inner_dimension_is_dense",
            where,
            step,
            1,
            "Take every element of the innermost dimension.",
            f"an element stride of {step} in the innermost dimension, where the copy engine takes every element",
        )


def _says(b: Violation, verdict: str) -> Violation:
    """The breach, saying whether no tensor map does it (`impossible`) or none was recognised."""
    text = b.message or f"found {b.found}, expected {b.limit}"
    why = "; its tiles are no shifts of each other" if verdict == "impossible" else ""
    return replace(b, message=f"{verdict}: {text}{why}")


def _no_axis(where: str, outside: str) -> Violation:
    found = f"{outside} has no axis that elements lie along"
    return Violation("tma_box_is_inferred", where, found, "one axis or more", "Copy by threads.", found)


def _mixed(where: str, axis: IterDomain) -> Violation:
    return Violation(
        "tma_box_is_inferred",
        where,
        str(axis),
        "an axis wholly in the tile, wholly outside, or cut into boxes",
        "Box that axis by an inner split, and transform tile axes and other axes apart.",
        f"{axis} is partly Bulk, and not as an inner split of it",
    )
