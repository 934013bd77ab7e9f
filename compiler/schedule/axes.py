"""Transforms of an ordered list of axes: shared by loop domains and allocation domains.

They do what a step says; whether it may be taken is asked before (`schedule.refusals`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, IterKind, axis
from compiler.ir.size import Size
from compiler.schedule import steps


@dataclass(frozen=True, slots=True)
class AxisList:
    """Axes outermost first, and the transforms that led to them."""

    axes: tuple[IterDomain, ...]
    exprs: tuple[IdExpr, ...] = ()


def transform(listed: AxisList, step: steps.Transform, names: Iterator[str]) -> AxisList:
    """Applies one step. New axes take their names from `names`."""
    match step:
        case steps.Split():
            return _split(listed, step, names)
        case steps.Merge():
            return _merge(listed, step, names)
        case steps.Reorder():
            order = order_after(step, len(listed.axes))
            return AxisList(tuple(listed.axes[i] for i in order), listed.exprs)
        case steps.Swizzle():
            return _swizzle(listed, step, names)
        case steps.Resize():
            return _resize(listed, step, names)
        case steps.Shift():
            return _shift(listed, step, names)
        case steps.Window():
            return _window(listed, step, names)


def order_after(step: steps.Reorder, count: int) -> tuple[int, ...]:
    """For each new position, the old position of the axis that ends there."""
    places = {new: old for old, new in step.moves}
    named = set(places.values())
    rest = iter(i for i in range(count) if i not in named)
    return tuple(places[i] if i in places else next(rest) for i in range(count))


def merge_partner(step: steps.Merge) -> int:
    """The position of the inner axis of a merge."""
    return step.axis + 1 if step.other is None else step.other


def resized_extent(source: IterDomain, step: steps.Resize) -> int:
    """The extent after a resize, at the binding at hand."""
    return source.extent + step.left + step.right


def _split(listed: AxisList, step: steps.Split, names: Iterator[str]) -> AxisList:
    source = listed.axes[step.axis]
    factor = Size(step.factor) if isinstance(step.factor, int) else step.factor
    other = source.size.ceil_div(factor)
    sizes = (other, factor) if step.inner else (factor, other)
    outer, inner = (axis(next(names), n, source.kind) for n in sizes)
    axes = (*listed.axes[: step.axis], outer, inner, *listed.axes[step.axis + 1 :])
    return AxisList(axes, (*listed.exprs, Split(source, outer, inner)))


def _merge(listed: AxisList, step: steps.Merge, names: Iterator[str]) -> AxisList:
    with_ = merge_partner(step)
    outer, inner = listed.axes[step.axis], listed.axes[with_]
    both = outer.is_broadcast and inner.is_broadcast
    kind = outer.kind if outer.is_reduction or both else IterKind.ITERATION
    out = axis(next(names), outer.size * inner.size, kind)
    low, high = min(step.axis, with_), max(step.axis, with_)
    axes = (*listed.axes[:low], out, *listed.axes[low + 1 : high], *listed.axes[high + 1 :])
    return AxisList(axes, (*listed.exprs, Merge(outer, inner, out)))


def _swizzle(listed: AxisList, step: steps.Swizzle, names: Iterator[str]) -> AxisList:
    x, y = listed.axes[step.x], listed.axes[step.y]
    out = IterDomain(next(names), y.extent)
    axes = (*listed.axes[: step.y], out, *listed.axes[step.y + 1 :])
    return AxisList(axes, (*listed.exprs, Swizzle(x, y, out)))


def _resize(listed: AxisList, step: steps.Resize, names: Iterator[str]) -> AxisList:
    """An axis that is neither padded nor cut stays; a broadcast one that is holds data from then on."""
    source = listed.axes[step.axis]
    if step.left == step.right == 0:
        return listed
    extent = resized_extent(source, step)
    known = source.symbolic is None
    size = Size(extent) if known else Size.symbol(f"({source.size} + {step.left + step.right})", extent)
    kind = IterKind.BROADCAST if known and extent == 1 else IterKind.ITERATION
    out = axis(next(names), size, kind)
    axes = (*listed.axes[: step.axis], out, *listed.axes[step.axis + 1 :])
    return AxisList(axes, (*listed.exprs, Resize(source, out, step.left, step.right)))


def _shift(listed: AxisList, step: steps.Shift, names: Iterator[str]) -> AxisList:
    source = listed.axes[step.axis]
    out = IterDomain(next(names), source.extent + step.modulus, source.kind)
    axes = (*listed.axes[: step.axis], out, *listed.axes[step.axis + 1 :])
    by = tuple(listed.axes[i] for i in step.by)
    return AxisList(axes, (*listed.exprs, Shift(source, out, by, step.factors, step.modulus, step.start)))


def _window(listed: AxisList, step: steps.Window, names: Iterator[str]) -> AxisList:
    source = listed.axes[step.axis]
    tile = IterDomain(next(names), -(-(source.extent + step.before) // step.step), source.kind)
    place = IterDomain(next(names), step.size, source.kind)
    axes = (*listed.axes[: step.axis], tile, place, *listed.axes[step.axis + 1 :])
    return AxisList(axes, (*listed.exprs, Window(source, tile, place, step.step, step.before)))
