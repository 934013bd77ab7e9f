"""Transforms of an ordered list of axes: shared by loop domains and allocation domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.ir.id_exprs import IdExpr, Merge, Split, Swizzle
from compiler.ir.iter_domain import IterDomain, IterKind, axis
from compiler.ir.size import Size
from compiler.schedule import steps


class BadTransform(Exception):
    """The transform does not apply: (reason, fix). Turned into InvalidStep by the caller, who knows the step."""


@dataclass(frozen=True, slots=True)
class AxisList:
    """Axes outermost first, and the transforms that led to them."""

    axes: tuple[IterDomain, ...]
    exprs: tuple[IdExpr, ...] = ()

    def at(self, position: int) -> IterDomain:
        """The axis at a position. Raises BadTransform outside the list."""
        if not 0 <= position < len(self.axes):
            raise BadTransform(f"there is no axis {position}", f"The axes are 0 to {len(self.axes) - 1}.")
        return self.axes[position]


def transform(
    listed: AxisList, step: steps.Split | steps.Merge | steps.Reorder | steps.Swizzle, names: Iterator[str]
) -> AxisList:
    """Applies one step. New axes take their names from `names`. Raises BadTransform where it does not apply."""
    match step:
        case steps.Split():
            return _split(listed, step, names)
        case steps.Merge():
            return _merge(listed, step, names)
        case steps.Reorder():
            return replace(listed, axes=tuple(listed.axes[i] for i in order_after(step, len(listed.axes))))
        case steps.Swizzle():
            return _swizzle(listed, step, names)


def order_after(step: steps.Reorder, count: int) -> tuple[int, ...]:
    """For each new position, the old position of the axis that ends there."""
    old, new = [m[0] for m in step.moves], [m[1] for m in step.moves]
    if any(not 0 <= p < count for p in old + new) or len(set(old)) != len(old) or len(set(new)) != len(new):
        raise BadTransform(f"moves {step.moves} are not distinct positions", f"Positions are 0 to {count - 1}.")
    rest = iter(i for i in range(count) if i not in old)
    places = {n: o for o, n in step.moves}
    return tuple(places[i] if i in places else next(rest) for i in range(count))


def _split(listed: AxisList, step: steps.Split, names: Iterator[str]) -> AxisList:
    source = listed.at(step.axis)
    if step.factor < 1:
        raise BadTransform(f"the factor is {step.factor}", "A split factor is at least 1.")
    factor = Size(step.factor)
    other = source.size.ceil_div(factor)
    sizes = (other, factor) if step.inner else (factor, other)
    outer, inner = (axis(next(names), n, source.kind) for n in sizes)
    axes = (*listed.axes[: step.axis], outer, inner, *listed.axes[step.axis + 1 :])
    return AxisList(axes, (*listed.exprs, Split(source, outer, inner)))


def _merge(listed: AxisList, step: steps.Merge, names: Iterator[str]) -> AxisList:
    with_ = step.axis + 1 if step.other is None else step.other
    outer, inner = listed.at(step.axis), listed.at(with_)
    if step.axis == with_:
        raise BadTransform("an axis cannot be merged with itself", "Name two different axes.")
    if outer.is_reduction != inner.is_reduction:
        raise BadTransform("a reduction axis cannot be merged with another kind", "Merge axes of one kind.")
    both = outer.is_broadcast and inner.is_broadcast
    kind = outer.kind if outer.is_reduction or both else IterKind.ITERATION
    out = axis(next(names), outer.size * inner.size, kind)
    place = min(step.axis, with_)
    axes = [a for a in listed.axes if a not in (outer, inner)]
    axes.insert(place, out)
    return AxisList(tuple(axes), (*listed.exprs, Merge(outer, inner, out)))


def _swizzle(listed: AxisList, step: steps.Swizzle, names: Iterator[str]) -> AxisList:
    x, y = listed.at(step.x), listed.at(step.y)
    n = x.extent
    if step.x == step.y or n != y.extent or n < 2 or n & (n - 1):
        raise BadTransform(
            f"extents {x.extent} and {y.extent} cannot be swizzled", "XOR takes two axes of equal power-of-two extent."
        )
    if x.is_broadcast or y.is_broadcast:
        raise BadTransform("a broadcast axis cannot be swizzled", "Swizzle axes that carry data.")
    out = IterDomain(next(names), y.extent)
    axes = tuple(out if a == y else a for a in listed.axes)
    return AxisList(axes, (*listed.exprs, Swizzle(x, y, out)))
