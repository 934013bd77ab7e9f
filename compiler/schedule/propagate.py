"""Carries the loops of one tensor over to those that it reads or that read it (nvFuser, inlining)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule import steps
from compiler.schedule.matching import before_round_trips, match_axes, positions_in, split_factors

Apply = Callable[[ScheduledFusion, steps.Step], ScheduledFusion]


@dataclass(frozen=True, slots=True)
class Edge:
    """`op` reads `producer`; loops go from the result up to it (`upwards`), or down from it to the result."""

    op: TensorOp
    producer: str
    upwards: bool

    @property
    def source(self) -> str:
        return self.op.output if self.upwards else self.producer

    @property
    def target(self) -> str:
        return self.producer if self.upwards else self.op.output

    def ends(self, sf: ScheduledFusion) -> tuple[TensorView, TensorView]:
        """Producer and consumer as they are now."""
        return sf.tensor(self.producer), sf.tensor(self.op.output)


def edges_from(sf: ScheduledFusion, name: str) -> Iterator[Edge]:
    """To all neighbours of a tensor, those that it is computed from first."""
    op = sf.producer(name)
    if op is not None:
        yield from (Edge(op, p, upwards=True) for p in dict.fromkeys(op.tensor_inputs))
    yield from (Edge(op, name, upwards=False) for op in sf.consumers(name))


def position_across(sf: ScheduledFusion, edge: Edge, position: int) -> int | None:
    """Where the source's first `position` loops end in the target, None if they are not its first loops."""
    producer, consumer = edge.ends(sf)
    m = match_axes(edge.op, producer, consumer)
    at = positions_in(m, producer, consumer)
    if not edge.upwards:
        return at[position] if position < len(at) else None
    while position and consumer.loop[position - 1] in m.fresh:
        position -= 1
    return at.index(position) if position in at else None


def closest_position(sf: ScheduledFusion, edge: Edge, position: int) -> int:
    """The same for as many of the source's first loops as the target begins with."""
    return next(found for p in range(position, -1, -1) if (found := position_across(sf, edge, p)) is not None)


def carry_over(sf: ScheduledFusion, edge: Edge, position: int, apply: Apply) -> ScheduledFusion:
    """The fusion in which the target's first loops are the source's first `position`, where its own transforms allow
    it: an axis that is already transformed otherwise stays as it is."""
    if position_across(sf, edge, position) is not None:
        return sf
    source = sf.tensor(edge.source)
    undone = before_round_trips(source)
    cuts = {frozenset(e.inputs) for e in source.exprs if not undone.keys().isdisjoint(e.outputs)}
    for e in _leading_to(source.loop[:position], source.exprs):
        if frozenset(e.outputs) in cuts or not undone.keys().isdisjoint(e.outputs):
            continue
        there, loop = _images(sf, edge), sf.tensor(edge.target).loop
        needed = (*e.inputs, *e.by) if isinstance(e, Shift) else e.inputs
        at = [loop.index(image) for a in needed if (image := there.get(a)) in loop and image is not None]
        if len(at) == len(needed) and not all(a in there for a in e.outputs):
            sf = apply(sf, step_like(edge.target, e, at))
    there, loop = _images(sf, edge), sf.tensor(edge.target).loop
    first = dict.fromkeys(loop.index(there[a]) for a in source.loop[:position] if there.get(a) in loop)
    moves = tuple((old, new) for new, old in enumerate(first) if old != new)
    return apply(sf, steps.Reorder(edge.target, tuple((old, new) for new, old in enumerate(first)))) if moves else sf


def _images(sf: ScheduledFusion, edge: Edge) -> dict[IterDomain, IterDomain]:
    """Axes of the source -> axes of the target that they are."""
    m = match_axes(edge.op, *edge.ends(sf))
    return m.producer_axis if edge.upwards else {p: c for c, p in m.producer_axis.items()}


def _leading_to(axes: tuple[IterDomain, ...], exprs: tuple[IdExpr, ...]) -> list[IdExpr]:
    """The transforms that these axes come from, in order."""
    wanted = set(axes)
    found = []
    for e in reversed(exprs):
        if not wanted.isdisjoint(e.outputs):
            wanted.update(e.inputs)
            found.append(e)
    return found[::-1]


def step_like(tv: str, e: IdExpr, at: list[int]) -> steps.Step:
    """The step that does on the axes at these positions what `e` does."""
    match e:
        case Split():
            inner, factor = max(split_factors(e), key=lambda given: given[0])
            return steps.Split(tv, at[0], factor.value if factor.is_constant else factor, inner)
        case Merge():
            return steps.Merge(tv, at[0], at[1])
        case Swizzle():
            return steps.Swizzle(tv, at[0], at[1])
        case Resize():
            return steps.Resize(tv, at[0], e.left, e.right)
        case Shift():
            return steps.Shift(tv, at[0], tuple(at[1:]), e.factors, e.modulus, e.start)
        case Window():
            return steps.Window(tv, at[0], e.step, e.size, e.before)
