"""Inlining: how deep in its consumers' loops a tensor can be computed, and the steps that put it there.

The deepest position is the least of the tensor's own limit and those of its consumers (nvFuser, inlining).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.ir.domain import ScheduledFusion, downstream
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import TensorOp, TensorView, changed
from compiler.schedule.matching import (
    aligned_position,
    match_axes,
    matched_positions,
    matched_positions_by_index,
    unmappable_axes,
)
from compiler.schedule.propagate import Apply, carry_over, closest_position, edges_from
from compiler.schedule.steps import ComputeAt

_ENDS = frozenset((ParallelType.VECTORIZE, ParallelType.BULK))
_BEST_EFFORT_ENDS = _ENDS | {ParallelType.UNROLL}


def max_position(
    sf: ScheduledFusion,
    t: TensorView,
    wanted: int | None = None,
    unmappable: frozenset[IterDomain] | None = None,
) -> int:
    """The deepest position at which `t` can be inlined (nvFuser, inlining), or any from `wanted` on where that can be.

    Where the depth is up to us (`wanted` is None), loops are the same if they were made alike; a schedule that names a
    position may also have made them otherwise.

    It ends before the first axis of one of these kinds:

    - reduced, vectorized or bulk; unrolled too, where the depth is up to us;
    - an axis in whose loop a sum and a use of the sum would meet (`unmappable`);
    - an axis that some consumer does not have in that place, or has vectorized, bulk or unrolled.
    """
    ends = _BEST_EFFORT_ENDS if wanted is None else _ENDS
    position = _own_position(t, ends, unmappable_axes(sf) if unmappable is None else unmappable)
    for op in sf.consumers(t.name):
        if position:
            position = min(position, _position_in(op, t, sf.tensor(op.output), ends, wanted))
    return position


def _own_position(t: TensorView, ends: frozenset[ParallelType], unmappable: frozenset[IterDomain]) -> int:
    barred = set(unmappable.intersection(t.logical))
    if barred:
        for e in t.exprs:
            if not barred.isdisjoint(e.inputs):
                barred.update(e.outputs)
    for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
        if axis.is_reduction or type_ in ends or axis in barred:
            return i
    return len(t.loop)


def _position_in(
    op: TensorOp, producer: TensorView, consumer: TensorView, ends: frozenset[ParallelType], wanted: int | None
) -> int:
    """The deepest position that one consumer allows, looked for up to `wanted`."""
    at = matched_positions(op, producer, consumer)
    if wanted is not None and len(at) <= wanted:
        at = max(at, matched_positions_by_index(op, producer, consumer), key=len)
    for k in range(1, len(at)):
        if at[k] > at[k - 1] and consumer.types[at[k] - 1] in ends:
            return k - 1
    return len(at) - 1


def without_trailing_broadcasts(t: TensorView, position: int) -> int:
    """The position moved out of the broadcast axes left of it: their loops would do the same work again."""
    while position > 0 and t.loop[position - 1].is_broadcast:
        position -= 1
    return position


def compute_position(t: TensorView) -> int:
    """Axes left of it are loops of the consumers, and fixed."""
    return max(t.compute_at, t.compute_with or 0)


def producer_position(sf: ScheduledFusion, t: TensorView) -> int:
    """Axes left of it are loops in which some producer is computed, and fixed."""
    op = sf.producer(t.name)
    position = 0
    for name in op.tensor_inputs if op is not None else ():
        producer = sf.tensor(name)
        if op is not None and name not in sf.inputs and compute_position(producer):
            position = max(position, _aligned(op, producer, t))
    return position


def _aligned(op: TensorOp, producer: TensorView, consumer: TensorView) -> int:
    """The end of the consumer's last loop in which the producer is computed."""
    position = compute_position(producer)
    if len(matched_positions(op, producer, consumer)) > position:
        return aligned_position(match_axes(op, producer, consumer), producer, consumer, position)
    at = matched_positions_by_index(op, producer, consumer)
    return at[min(position, len(at) - 1)]


def inlined(sf: ScheduledFusion, t: TensorView, position: int) -> TensorView:
    """The tensor at least that deep. What is read from outside the kernel is not computed anywhere."""
    if t.name in sf.inputs or position <= t.compute_at:
        return t
    kept = t.compute_with if t.compute_with is not None and t.compute_with > position else None
    return changed(t, compute_at=position, compute_with=kept)


def inline_most(sf: ScheduledFusion) -> ScheduledFusion:
    """Every tensor inlined as deep as it can be."""
    unmappable = unmappable_axes(sf)
    tensors = []
    for t in sf.tensors:
        deepest = max_position(sf, t, unmappable=unmappable)
        tensors.append(inlined(sf, t, without_trailing_broadcasts(t, deepest)))
    return sf.with_tensors(tensors)


def inline_selected(sf: ScheduledFusion, names: Iterable[str], position: int) -> ScheduledFusion:
    """Each of the tensors inside the first `position` loops of its consumers, or as many as it shares with them."""
    unmappable = unmappable_axes(sf)
    tensors = []
    for t in map(sf.tensor, names):
        deepest = min(position, max_position(sf, t, position, unmappable))
        tensors.append(inlined(sf, t, without_trailing_broadcasts(t, deepest)))
    return sf.with_tensors(tensors)


def computed_between(sf: ScheduledFusion, producer: str, consumer: str) -> frozenset[str]:
    """The tensors to inline so that `producer` is computed at `consumer` (nvFuser, inlining).

    They are those from the producer up to the first tensor, `consumer` or one after it, that every use of the producer
    leads to; all that is computed from the producer and read again where there is no such tensor.
    """
    after = downstream(sf, producer)
    ends = [op.output for op in sf.ops if op.output == consumer or op.output in downstream(sf, consumer)]
    meeting = next((name for name in ends if _all_uses_lead_to(sf, producer, name)), None)
    if meeting is None:
        return frozenset(name for name in after | {producer} if sf.consumers(name))
    return frozenset(name for name in after | {producer} if name != meeting and meeting in downstream(sf, name))


def _all_uses_lead_to(sf: ScheduledFusion, name: str, end: str) -> bool:
    """True where every chain of operators from the tensor to one that nothing reads goes through `end`."""
    open_ = {name}
    for op in sf.ops:
        if op.output != end and not open_.isdisjoint(op.tensor_inputs):
            open_.add(op.output)
    return all(sf.consumers(t) for t in open_)


def with_loops_of(sf: ScheduledFusion, step: ComputeAt, apply: Apply) -> ScheduledFusion:
    """The fusion in which all tensors around `step.consumer` that it inlines begin with its first loops."""
    chosen = computed_between(sf, step.tv, step.consumer)
    position = {step.consumer: step.position}
    waiting = [step.consumer]
    for source in waiting:
        for edge in edges_from(sf, source):
            reached = edge.target in chosen or (not edge.upwards and source in chosen)
            if reached and edge.target not in position:
                sf = carry_over(sf, edge, position[source], apply)
                position[edge.target] = closest_position(sf, edge, position[source])
                waiting.append(edge.target)
    return sf


def mapped_positions(sf: ScheduledFusion, reference: str, position: int) -> dict[str, int]:
    """For every tensor that operators connect with the reference: where the reference's first loops end in it."""
    found = {reference: position}
    waiting = [reference]
    for source in waiting:
        for edge in edges_from(sf, source):
            if edge.target not in found:
                found[edge.target] = closest_position(sf, edge, found[source])
                waiting.append(edge.target)
    return found


def compute_positions(sf: ScheduledFusion, step: ComputeAt) -> dict[str, int]:
    """For every tensor that the step inlines, the position that the consumer's stands for."""
    mapped = mapped_positions(sf, step.consumer, step.position)
    return {name: mapped[name] for name in sorted(computed_between(sf, step.tv, step.consumer))}


def compute_at(sf: ScheduledFusion, step: ComputeAt) -> ScheduledFusion:
    """Every tensor that the step inlines at its position; their loops are the consumer's already."""
    positions = compute_positions(sf, step)
    chosen = [sf.tensor(name) for name in positions]
    return sf.with_tensors(inlined(sf, t, without_trailing_broadcasts(t, positions[t.name])) for t in chosen)


def compute_with(sf: ScheduledFusion, t: TensorView, position: int) -> TensorView:
    """The tensor computed at a position right of where it is allocated; a lesser one than before changes nothing."""
    position = without_trailing_broadcasts(t, position)
    if t.name in sf.inputs or position <= compute_position(t):
        return t
    return replace(t, compute_with=position)
