"""Rules on warp specialisation: the loading warps of circular buffers, the block's shape, registers and slices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.analysis.id.conditions import split_divides
from compiler.analysis.sync.circular_buffer import barrier_position, filled_via, specialized_block
from compiler.arch import WARPGROUP_THREADS
from compiler.errors import Kept, Violation
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.tensor import BufferKind, CircularBuffer, CopyVia, TensorOp, TensorView
from compiler.ir.trivial import before_trivial
from compiler.legality.rules import Schedule, model_rule
from compiler.schedule.circular_buffer import buffered_position
from compiler.schedule.matching import Matching, match_axes

MAX_ROLES = 4
"""Loops that load at the same time, one warp each of the loading group (nvFuser, warp specialisation)."""


def _specialized(s: Schedule) -> Iterator[tuple[TensorView, CircularBuffer, ParallelType]]:
    """Each tensor that warps of their own load, its options, and the dimension that they are appended to."""
    for t in s.sf.tensors:
        o = t.circular
        if o is not None and o.kind is BufferKind.WARP_SPECIALIZED and o.on is not None:
            yield t, o, o.on


def _sliced(s: Schedule) -> Iterator[tuple[TensorView, int, TensorOp | None]]:
    """Each tensor whose stages are slices, the slice position, and the first op that reads it."""
    for t, o, _ in _specialized(s):
        if o.slice_position is not None:
            yield t, o.slice_position, next(iter(s.sf.consumers(t.name)), None)


@model_rule
def loading_warps_are_on_a_thread_dimension(s: Schedule) -> Iterator[Violation]:
    """Loading warps are appended to a thread dimension, which a warp-specialised buffer names. (nvFuser, warp
    specialisation)"""
    for t in s.sf.tensors:
        o = t.circular
        if o is not None and o.kind is BufferKind.WARP_SPECIALIZED and (o.on is None or not o.on.is_thread):
            yield Violation(
                "loading_warps_are_on_a_thread_dimension", t.name, str(o.on), "TIDx, TIDy or TIDz", "Name one of them."
            )


@model_rule
def registers_are_shared_in_the_outermost_loop(s: Schedule) -> Iterator[Violation]:
    """Where warps share registers, the loop in which a stage is waited for is the outermost: left of it, unless a slice
    position says where stages end, are parallel axes, broadcast axes and axes of one place alone. (nvFuser, warp
    specialisation)"""
    for t, o, _ in _specialized(s):
        if o.registers is None or o.slice_position is not None:
            continue
        for i in range(max(barrier_position(t, o), 0)):
            axis, type_ = t.loop[i], t.types[i]
            if not (type_.is_block or type_.is_thread or axis.is_broadcast or axis.is_trivial):
                yield Violation(
                    "registers_are_shared_in_the_outermost_loop",
                    f"{t.name}: axis {i}",
                    f"a loop outside the buffered axis {barrier_position(t, o)}",
                    "the buffered loop outermost",
                    "Put outer loops on block or thread dimensions, or share no registers.",
                )


@model_rule
def one_dimension_is_warp_specialized(s: Schedule) -> Iterator[Violation]:
    """All loading warps of a kernel are appended to one thread dimension. (nvFuser, warp specialisation)"""
    dimensions = {on: t.name for t, _, on in reversed(list(_specialized(s)))}
    if len(dimensions) > 1:
        yield Violation(
            "one_dimension_is_warp_specialized",
            " and ".join(dimensions.values()),
            " and ".join(dimensions),
            "one thread dimension",
            "Append all loading warps to the same dimension.",
        )


@model_rule
def warp_specialized_block_is_whole_warp_groups(s: Schedule) -> Iterator[Violation]:
    """The 128 loading threads fill up one dimension: the other two are known when the kernel is compiled and divide
    128 together, and the block so padded is a multiple of 128 threads. (nvFuser, warp specialisation)"""
    block = specialized_block(s.sf)
    if block is None:
        return
    rule, where = "warp_specialized_block_is_whole_warp_groups", f"block, warps appended to {block.on}"
    others = block.others
    if others is None:
        unknown = [p.value for p, n in block.threads.items() if n is None and p is not block.on]
        yield Violation(
            rule,
            where,
            f"{', '.join(unknown)} of unknown extent",
            "known extents",
            "Split by a number known beforehand.",
        )
    elif WARPGROUP_THREADS % others:
        yield Violation(
            rule,
            where,
            f"{others} threads in the other dimensions",
            f"a divisor of {WARPGROUP_THREADS}",
            "Append the loading warps to a larger dimension, or use fewer threads in the others.",
        )
    else:
        # An extent that is not known can only be trusted where every slot of the dimension is a whole group.
        own = block.threads.get(block.on)
        if others * (own if own is not None else -1) % WARPGROUP_THREADS:
            yield Violation(
                rule,
                where,
                f"{own * others} threads that compute" if own is not None else f"{block.on} of unknown extent",
                f"a multiple of {WARPGROUP_THREADS}",
                "Compute with whole warp groups.",
            )


@model_rule
def warp_specialized_loads_are_bulk_copies(s: Schedule) -> Iterator[Violation]:
    """Warps that only load use bulk copies alone. (nvFuser, warp specialisation)"""
    for loop in s.circular_buffers.loops:
        for name in loop.tensors:
            if loop.is_specialized and not filled_via(s.sf, name).is_bulk:
                yield Violation(
                    "warp_specialized_loads_are_bulk_copies",
                    name,
                    f"loaded via {filled_via(s.sf, name)}",
                    "tma or bulk1d",
                    "Load it by a bulk copy, or pipeline the loop.",
                )


@model_rule
def warp_specialized_dimension_is_not_loaded_by(s: Schedule) -> Iterator[Violation]:
    """The dimension that the loading warps are appended to cannot split up the load itself: there it is as wide as the
    warps appended, not as the tensor's axis. (nvFuser, warp specialisation)"""
    for t, _, on in _specialized(s):
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if type_ is on and not axis.is_broadcast:
                yield Violation(
                    "warp_specialized_dimension_is_not_loaded_by",
                    f"{t.name}: axis {i}",
                    f"on {on}",
                    "another type",
                    "Inline the load outside that axis, or append the loading warps to another dimension.",
                )


@model_rule
def warp_specialized_loop_is_not_inside_a_pipelined_one(s: Schedule) -> Iterator[Violation]:
    """A loop with loading warps of its own is not inside a loop that is pipelined. (nvFuser, warp specialisation)"""
    pipelined = {loop.loop: loop.tensors[0] for loop in s.circular_buffers.loops if not loop.is_specialized}
    for loop in s.circular_buffers.loops:
        if not loop.is_specialized:
            continue
        name, position = loop.tensors[0], loop.positions[0]
        for outer in range(position):
            inside = pipelined.get(s.loops.loop(name, outer))
            if inside is not None:
                yield Violation(
                    "warp_specialized_loop_is_not_inside_a_pipelined_one",
                    f"{name}: axis {position}",
                    f"inside the loop that {inside} is pipelined in",
                    "no pipelined loop around it",
                    "Specialize the outer loop, or pipeline inside the specialized one.",
                )


@model_rule
def loading_warps_have_at_most_four_roles(s: Schedule) -> Iterator[Violation]:
    """At most four loops have loading warps of their own: the loading group has four warps. (nvFuser, warp
    specialisation)"""
    roles = [loop for loop in s.circular_buffers.loops if loop.is_specialized]
    if len(roles) > MAX_ROLES:
        yield Violation(
            "loading_warps_have_at_most_four_roles",
            ", ".join(loop.tensors[0] for loop in roles),
            len(roles),
            MAX_ROLES,
            "Load tensors in a common loop, or pipeline some of the loops.",
        )


@model_rule
def stage_slice_lies_in_the_tensor(s: Schedule) -> Iterator[Violation]:
    """A slice position is that of a loop axis or the end, no axis of the copy engine lies left of it, and the buffered
    loop does. (nvFuser, warp specialisation)"""
    for t, at, _ in _sliced(s):
        breach = Violation(
            "stage_slice_lies_in_the_tensor",
            t.name,
            at,
            len(t.loop),
            "Place the slice right of the buffered loop and left of Bulk axes.",
        )
        position = buffered_position(t, t.circular) if t.circular is not None else None
        if not 0 <= at <= len(t.loop):
            yield replace(breach, message=f"slice position {at} of {len(t.loop)} axes")
        elif ParallelType.BULK in t.types[:at]:
            yield replace(
                breach, limit=t.types.index(ParallelType.BULK), message=f"a Bulk axis lies left of slice position {at}"
            )
        elif position is not None and at <= position:
            yield replace(
                breach,
                limit=position + 1,
                message=f"slice position {at} is left of the end of the buffered loop, axis {position}",
            )


@model_rule
def stage_slice_is_the_same_for_who_reads_it(s: Schedule) -> Iterator[Violation]:
    """Axes left of a slice position are those of the first consumer at the same places, and the consumer has an axis on
    the specialised dimension that is one of the tensor's: it tells the warp groups apart. (nvFuser, warp
    specialisation)"""
    for t, at, op in _sliced(s):
        if op is None or t.circular is None:
            continue
        reader = s.sf.tensor(op.output)
        matching = match_axes(op, t, reader)
        for i in range(max(min(at, len(t.loop)), 0)):
            if i >= len(reader.loop) or not _is_one(s, t.loop[i], reader.loop[i], matching):
                yield Violation(
                    "stage_slice_is_the_same_for_who_reads_it",
                    f"{t.name}: axis {i}",
                    f"another axis than axis {i} of {reader.name}",
                    f"the same {at} outer axes in both",
                    "Transform both alike left of the slice, or move the slice outwards.",
                )
        on = t.circular.on
        groups = [a for a, p in zip(reader.loop, reader.types, strict=True) if p is on]
        if not any(_is_one(s, a, g, matching) for g in groups for a in t.loop):
            yield Violation(
                "stage_slice_is_the_same_for_who_reads_it",
                f"{t.name} read by {reader.name}",
                f"no axis on {on} that {t.name} has too",
                f"one axis on {on}",
                f"Put the axis that tells the computing warp groups apart on {on}.",
            )


def _is_one(s: Schedule, a: IterDomain, b: IterDomain, matching: Matching) -> bool:
    """True where the two axes are one, a broadcast axis one with what it is expanded to."""
    return s.graph.is_same(a, b) or matching.is_same(a, b)


@model_rule
def loading_warps_share_one_slice(s: Schedule) -> Iterator[Violation]:
    """Bulk loads into circular buffers have one slice position, or none of them has any. (nvFuser, warp
    specialisation)"""
    slices = {t.circular.slice_position: t.name for t, _, _ in _specialized(s) if t.circular is not None}
    if len(slices) > 1:
        yield Violation(
            "loading_warps_share_one_slice",
            " and ".join(slices.values()),
            " and ".join("none" if p is None else str(p) for p in slices),
            "one slice position",
            "Give all loads the same slice position.",
        )


@model_rule
def unguarded_loops_under_a_circular_buffer_divide(s: Schedule) -> Iterator[Violation | Kept]:
    """A 1-D bulk copy into a circular buffer is guarded once a stage: the loops of the stage must come from splits
    without holes. (nvFuser, 1-D bulk)"""
    for t, o, _ in _specialized(s):
        if filled_via(s.sf, t.name) is not CopyVia.BULK1D:
            continue
        made = {a: e for e in t.exprs for a in e.outputs}
        for i in range(max(barrier_position(t, o) + 1, 0), len(t.loop)):
            split = made.get(before_trivial(t.loop[i], made))
            if not isinstance(split, Split) or t.types[i] is ParallelType.BULK:
                continue
            breach = Violation(
                "unguarded_loops_under_a_circular_buffer_divide",
                f"{t.name}: axis {i}",
                split.source.extent,
                f"a multiple of {split.inner.extent}",
                "Split by a divisor, or slice the stage inside this loop.",
            )
            yield from split_divides(split).require(breach)
