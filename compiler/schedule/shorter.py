"""The same schedule in fewer steps: what comes of them is equal, axis names included.

[a, b, c]: reorder, split, reorder, merge, reorder is split, merge, reorder. Where an axis lies decides nothing about
its transforms, so the order of a tensor's loops is given once, before the first step that asks for it. Tensors inlined
at one position one after the other are inlined by one step, for how deep one can be does not depend on how deep others
are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.schedule import steps
from compiler.schedule.axes import merge_partner, order_after


def shortened(taken: Iterable[steps.Step]) -> tuple[steps.Step, ...]:
    """The steps with one reorder for several, and one inlining for several at one position."""
    return tuple(_inlined_together(_ordered_once(taken)))


def _ordered_once(taken: Iterable[steps.Step]) -> list[steps.Step]:
    """Reorders put off until a step asks where a loop lies."""
    orders: dict[str, list[int]] = {}
    done: list[steps.Step] = []
    for step in taken:
        if isinstance(step, steps.Reorder):
            orders[step.tv] = _order_then(orders.get(step.tv, []), step)
        elif isinstance(step, steps.Transform | steps.SetAllocationDomain):
            done.append(_where_axes_lie(step, orders.get(step.tv, [])))
        else:
            done += [*_reorders(orders), step]
            orders = {}
    return done + _reorders(orders)


def _order_then(order: list[int], step: steps.Reorder) -> list[int]:
    """`order` after one more reorder. Axes behind those that it names lie where they are."""
    count = max(len(order), 1 + max((at for move in step.moves for at in move), default=-1))
    return [_place(order, old) for old in order_after(step, count)]


def _place(order: list[int], axis: int) -> int:
    return order[axis] if axis < len(order) else axis


def _reorders(orders: dict[str, list[int]]) -> list[steps.Step]:
    """What brings axes into these orders: of each tensor, for every position the one at which its axis lies."""
    return [
        steps.Reorder(tv, tuple((old, new) for new, old in enumerate(order)))
        for tv, order in orders.items()
        if order != sorted(order)
    ]


def _where_axes_lie(
    step: steps.Split
    | steps.Merge
    | steps.Swizzle
    | steps.Resize
    | steps.Shift
    | steps.Window
    | steps.SetAllocationDomain,
    order: list[int],
) -> steps.Step:
    """The step on axes that lie at the positions `order`, which becomes the order of the axes after it."""

    def at(axis: int) -> int:
        return _place(order, axis)

    match step:
        case steps.SetAllocationDomain():
            return replace(step, axes=tuple(map(at, step.axes)))
        case steps.Swizzle():
            return replace(step, x=at(step.x), y=at(step.y))
        case steps.Resize():
            return replace(step, axis=at(step.axis))
        case steps.Shift():
            return replace(step, axis=at(step.axis), by=tuple(map(at, step.by)))
        case steps.Split() | steps.Window():
            cut = at(step.axis)
            if step.axis < len(order):
                order[:] = [i + (i > cut) for i in order]
                order.insert(step.axis + 1, cut + 1)
            return replace(step, axis=cut)
        case steps.Merge():
            return _merge_where_axes_lie(step, order)


def _merge_where_axes_lie(step: steps.Merge, order: list[int]) -> steps.Merge:
    """The merged axis comes to the smaller position, wherever that is."""
    other = merge_partner(step)
    outer, inner = _place(order, step.axis), _place(order, other)
    low, high = sorted((outer, inner))
    if min(step.axis, other) < len(order):
        order.extend(range(len(order), max(step.axis, other) + 1))
        order[min(step.axis, other)] = low
        del order[max(step.axis, other)]
        order[:] = [i - (i > high) for i in order]
    return replace(step, axis=outer, other=None if inner == outer + 1 else inner)


def _inlined_together(taken: Iterable[steps.Step]) -> list[steps.Step]:
    """Neighbouring steps of one position as one, where the first of them stands."""
    done: list[steps.Step] = []
    first: dict[int, int] = {}
    for step in taken:
        if not isinstance(step, steps.InlineSelectedAt):
            first = {}
            done.append(step)
        elif step.position in first:
            at = first[step.position]
            joined = done[at]
            assert isinstance(joined, steps.InlineSelectedAt), "positions are remembered of these"
            done[at] = replace(joined, tensors=(*joined.tensors, *step.tensors))
        else:
            first[step.position] = len(done)
            done.append(step)
    return done
