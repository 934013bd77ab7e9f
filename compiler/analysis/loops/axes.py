"""Which loop axes of which tensors are one loop, and what each loop's parallel type and each dimension's extent is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.ir.domain import ScheduledFusion, kept
from compiler.ir.form import DomainShape, Reading
from compiler.ir.iter_domain import ParallelType
from compiler.ir.joined import Joined
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.inline import compute_position
from compiler.schedule.matching import match_axes, match_indices

Loop = tuple[str, int]
"""A loop axis: the tensor and the position in its loop domain. The loops of one set share one representative."""


@dataclass(frozen=True)
class LoopMap:
    """Sets of loop axes that one loop carries: those of a tensor left of its compute position, with its consumers'.

    `roots`: a representative for each axis that shares its loop.
    """

    roots: dict[Loop, Loop]

    def loop(self, tensor: str, position: int) -> Loop:
        """The representative of the loop that carries this axis."""
        return self.roots.get((tensor, position), (tensor, position))

    def shared(self) -> dict[Loop, tuple[Loop, ...]]:
        """The members of every loop that more than one tensor has, in the order of the fusion."""
        members: dict[Loop, list[Loop]] = {}
        for member, root in self.roots.items():
            members.setdefault(root, []).append(member)
        return {root: tuple(found) for root, found in members.items()}


@kept
def loop_map(sf: ScheduledFusion) -> LoopMap:
    """Sets of loops of a scheduled fusion (nvFuser, inlining). Inputs are not computed and so share no loop."""
    joined: Joined[Loop] = Joined()
    seen: dict[Loop, None] = {}
    for op in sf.ops:
        consumer = sf.tensor(op.output)
        for name in op.tensor_inputs:
            producer = sf.tensor(name)
            if name in sf.inputs or not compute_position(producer):
                continue
            for i, j in aligned_positions(op, producer, consumer):
                seen |= {(name, i): None, (op.output, j): None}
                joined.join((name, i), (op.output, j))
    return LoopMap({at: joined.of(at) for at in seen})


def aligned_positions(op: TensorOp, producer: TensorView, consumer: TensorView) -> tuple[tuple[int, int], ...]:
    """For each loop of the consumer that the producer is computed in: the producer's axis and the consumer's.

    An axis goes with the one that equal transforms of corresponding axes lead to; where there is none, with the one
    that does the same, and else with the one in its own place (nvFuser, inlining).
    """
    reading = op.read_as(producer.name).reading
    return _aligned(reading, producer.shape, consumer.shape, compute_position(producer))


@remembered(2048)
def _aligned(op: Reading, first: DomainShape, second: DomainShape, position: int) -> tuple[tuple[int, int], ...]:
    producer, consumer = first.producer, second.consumer
    matching = match_axes(op, producer, consumer)
    place = {matching.producer_axis[c]: j for j, c in enumerate(consumer.loop) if c in matching.producer_axis}
    shared = producer.loop[:position]
    if any(axis not in place for axis in shared):
        alike = match_indices(op, producer, consumer).equal
        # All axes of extent one do the same: each stays in its own place.
        own = [p for p in shared if not p.is_trivial]
        place = {p: j for j, c in enumerate(consumer.loop) for p in own if (c, p) in alike} | place
    pairs = ((i, place.get(axis, i)) for i, axis in enumerate(shared))
    return tuple((i, j) for i, j in pairs if j < len(consumer.loop))


def with_types_of_their_loops(sf: ScheduledFusion) -> ScheduledFusion:
    """The fusion in which every axis has the parallel type that its loop has anywhere (nvFuser, compute-at map).

    Loops whose axes disagree keep their types; `axes_of_one_loop_agree` refuses them.
    """
    changed: dict[str, dict[int, ParallelType]] = {}
    types = {t.name: t.types for t in sf.tensors}
    for members in loop_map(sf).shared().values():
        found = {types[name][i] for name, i in members} - {ParallelType.SERIAL}
        if len(found) != 1:
            continue
        (type_,) = found
        for name, i in members:
            if types[name][i] is not type_:
                changed.setdefault(name, {})[i] = type_
    if not changed:
        return sf
    tensors = tuple(
        replace(t, types=tuple(changed[t.name].get(i, old) for i, old in enumerate(t.types)))
        if t.name in changed
        else t
        for t in sf.tensors
    )
    return replace(sf, tensors=tensors)


@kept
def dimension_sizes(sf: ScheduledFusion) -> dict[ParallelType, tuple[Size, ...]]:
    """Extents asked of every block and thread dimension in use; the largest is the launch's (nvFuser, parallel
    dimension map). Inputs are not computed, and broadcast axes ask for nothing."""
    found: dict[ParallelType, dict[Size, None]] = {}
    for t in sf.tensors:
        if t.name in sf.inputs:
            continue
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if (type_.is_block or type_.is_thread) and not axis.is_broadcast:
                found.setdefault(type_, {})[axis.size] = None
    return {type_: tuple(sizes) for type_, sizes in found.items()}
