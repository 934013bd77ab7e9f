"""How the copy engine views a global tensor: its allocation axes, split and merged without moving an element.

What the roles left over of the path between the consumer's loop and the global tensor's allocation must be such a view
(nvFuser, TMA: "Step 1: define TMA domain"; TMA inference: view).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.ir.id_exprs import IdExpr, Merge, Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.size import Size
from compiler.ir.tensor import Allocation, TensorView


@dataclass(frozen=True, slots=True)
class ViewAxis:
    """An axis of a view: its stride in elements, and whether that is the next axis' extent times the next axis'
    stride (one after the last)."""

    group: Group
    is_contiguous: bool
    stride: Size


@dataclass(frozen=True, slots=True)
class ForeignTransform:
    """A transform that is neither a split nor a merge joins tile axes and others, on the way to the allocation of the
    global tensor; `kind` says which."""

    kind: str


@dataclass(frozen=True, slots=True)
class NotReached:
    """An axis of the global tensor that the consumer's loop is not made of."""

    axis: IterDomain


@dataclass(frozen=True, slots=True)
class ApartInMemory:
    """Axes that are merged and are no neighbours in the allocation of the global tensor, the outer one contiguous."""

    outer: IterDomain
    inner: IterDomain


@dataclass(frozen=True, slots=True)
class Viewed:
    """What steps make of an allocation: `axes`, None where there is no view and `fault` says why, and the splits among
    the steps."""

    axes: tuple[ViewAxis, ...] | None
    splits: tuple[Split, ...] = ()
    fault: ForeignTransform | NotReached | ApartInMemory | None = None


def global_view(graph: IdGraph, t: TensorView, position: int) -> tuple[ViewAxis, ...]:
    """The allocation of a global tensor, the `position`-th of the fusion's inputs and outputs: axes that elements lie
    along. One of extent one is none, unless it is all there is.

    The stride of an axis that is not contiguous is known at launch only, unless the schedule sets it.
    """
    allocation = t.allocation if t.allocation is not None else Allocation(t.logical, (None,) * len(t.logical))
    bound = _bound_strides(t, allocation)
    found: list[ViewAxis] = []
    dense = Size(1)
    held = [i for i, a in enumerate(allocation.axes) if not (a.is_broadcast or a.is_reduction)]
    for i in reversed(_outermost_first(allocation, [i for i in held if not allocation.axes[i].is_trivial]) or held[:1]):
        axis = allocation.axes[i]
        stride = allocation.strides[i]
        declared = allocation.contiguity[i] if i < len(allocation.contiguity) else None
        if declared is None:
            declared = stride is None or stride == dense.value
        if stride is not None:
            size = Size(stride)
        else:
            size = dense if declared else Size.symbol(f"stride[{position}][{i}]", bound.get(axis, dense.value))
        found.append(ViewAxis(graph.group(axis), declared, size))
        dense = size * axis.size
    return tuple(reversed(found))


def _outermost_first(allocation: Allocation, held: list[int]) -> list[int]:
    """Axes in the order of memory: as they stand, or where a binding says how far apart the elements along each lie, by
    that. An input that repeats along an axis stays as it stands."""
    strides = {i: allocation.strides[i] for i in held}
    known = {i: stride for i, stride in strides.items() if stride}
    return sorted(held, key=lambda i: -known[i]) if len(known) == len(held) else held


def _bound_strides(t: TensorView, allocation: Allocation) -> dict[IterDomain, int]:
    """Strides in elements of allocation axes at the binding, from those of the logical axes (nvFuser, contiguity)."""
    if len(t.runtime_strides) == len(t.logical):
        strides = dict(zip(t.logical, t.runtime_strides, strict=True))
    else:
        strides = {}
        step = 1
        for a in reversed([a for a in t.logical if not a.is_reduction]):
            strides[a] = step
            step *= a.extent
    if allocation.is_source:
        _derive(strides, reversed(allocation.exprs), forward=False)
    else:
        _derive(strides, (*t.exprs, *allocation.exprs), forward=True)
    return strides


def _derive(strides: dict[IterDomain, int], exprs: Iterable[IdExpr], *, forward: bool) -> None:
    """Adds strides of what the transforms make of axes whose strides are known."""
    for e in exprs:
        match e:
            case Split(source=whole, outer=outer, inner=inner):
                apart = forward
            case Merge(out=whole, outer=outer, inner=inner):
                apart = not forward
            case _:
                continue
        if apart and whole in strides:
            strides[inner] = strides[whole]
            strides[outer] = strides[whole] * inner.extent
        elif not apart and inner in strides:
            strides[whole] = strides[inner]


def view_of(graph: IdGraph, memory: Sequence[ViewAxis], steps: Sequence[GraphStep]) -> Viewed:
    """The view that `steps`, walked back from `memory`, make of it."""
    axes = list(memory)
    splits: list[Split] = []
    for step in reversed(steps):
        example = step.expr.example
        if not isinstance(example, Split | Merge):
            return Viewed(None, tuple(splits), ForeignTransform(type(example).__name__.lower()))
        given, made = step.targets, step.sources
        at = next((i for i, a in enumerate(axes) if a.group == given[0]), None)
        if at is None:
            return Viewed(None, tuple(splits), NotReached(graph.axis(given[0])))
        if len(given) == 1:
            whole = axes[at]
            if isinstance(example, Split):
                splits.append(example)
            outer = ViewAxis(made[0], True, whole.stride * graph.size(made[1]))
            axes[at : at + 1] = [outer, ViewAxis(made[1], whole.is_contiguous, whole.stride)]
            continue
        outer, inner = axes[at], next((a for a in axes if a.group == given[1]), None)
        if inner is None:
            return Viewed(None, tuple(splits), NotReached(graph.axis(given[1])))
        if not outer.is_contiguous or inner not in axes[at + 1 : at + 2]:
            return Viewed(None, tuple(splits), ApartInMemory(graph.axis(given[0]), graph.axis(given[1])))
        axes[at : at + 2] = [ViewAxis(made[0], inner.is_contiguous, inner.stride)]
    return Viewed(tuple(axes), tuple(splits))
