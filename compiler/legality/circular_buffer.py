"""Rules on circular buffers: what may be buffered, in which loop, and how loops of several buffers agree."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.conditions import at_least
from compiler.analysis.memory.vectorize import COPIES
from compiler.analysis.sync.circular_buffer import buffered_position, filled_via
from compiler.errors import Kept, Stage, Violation
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import BufferKind, CircularBuffer, CopyVia, TensorView
from compiler.legality.rules import Schedule, model_rule
from compiler.schedule.inline import compute_position

ROUTES = (
    (MemoryType.GLOBAL, MemoryType.SHARED),
    (MemoryType.GLOBAL, MemoryType.LOCAL),
    (MemoryType.SHARED, MemoryType.LOCAL),
)
"""Memories between which a buffered tensor is copied (nvFuser, circular buffers)."""


def _buffered(s: Schedule) -> Iterator[tuple[TensorView, CircularBuffer]]:
    for t in s.sf.tensors:
        if t.circular is not None:
            yield t, t.circular


@model_rule
def circular_buffer_has_stages_to_fill(s: Schedule) -> Iterator[Violation]:
    """Two stages or more, of which fewer than all are filled ahead. (nvFuser, circular buffers)"""
    for t, o in _buffered(s):
        if o.stages < 2 or not 0 <= o.prefetch < o.stages:
            yield Violation(
                "circular_buffer_has_stages_to_fill",
                t.name,
                f"{o.stages} stages, {o.prefetch} prefetched",
                "two stages or more, fewer prefetched",
                "Use more stages, or prefetch fewer of them.",
            )


@model_rule
def circular_buffer_is_filled_by_a_copy(s: Schedule) -> Iterator[Violation]:
    """A buffered tensor is copied from global memory to shared memory or registers, or from shared memory to registers.
    (nvFuser, circular buffers)"""
    for t, _ in _buffered(s):
        made = s.sf.producer(t.name)
        if made is None or made.kind not in COPIES:
            found = "an input" if made is None else f"made by {made.kind}"
        elif (route := (s.sf.tensor(made.tensor_inputs[0]).memory, t.memory)) not in ROUTES:
            found = f"copied from {route[0]} to {route[1]} memory"
        else:
            continue
        yield Violation(
            "circular_buffer_is_filled_by_a_copy",
            t.name,
            found,
            ", ".join(f"{a} to {b}" for a, b in ROUTES),
            "Buffer a copy on one of these ways.",
        )


@model_rule
def circular_buffer_is_computed_where_it_is_allocated(s: Schedule) -> Iterator[Violation]:
    """A buffered tensor is not computed deeper in its consumers than it is allocated. (nvFuser, circular buffers)"""
    for t, _ in _buffered(s):
        if t.compute_with is not None and t.compute_with > t.compute_at:
            yield Violation(
                "circular_buffer_is_computed_where_it_is_allocated",
                t.name,
                f"computed at {t.compute_with}",
                f"allocated at {t.compute_at}",
                "Leave out compute_with.",
            )


@model_rule
def circular_buffer_has_a_loop(s: Schedule) -> Iterator[Violation]:
    """A buffer turns with a loop that is neither parallel nor broadcast, left of the compute-at position and of
    unrolled loops: the innermost, or where warps of their own load the outermost. (nvFuser, circular buffers)"""
    for name in s.circular_buffers.without:
        t = s.sf.tensor(name)
        yield Violation(
            "circular_buffer_has_a_loop",
            name,
            "no serial loop" if t.compute_at else "no loop",
            f"one left of position {t.compute_at}",
            "Inline it into a loop that is not parallelized.",
        )


@model_rule
def circular_buffer_copies_what_is_complete(s: Schedule) -> Iterator[Violation]:
    """What a buffered tensor is copied from is computed outside the buffered loop: stages are filled ahead of it.
    (nvFuser, circular buffers)"""
    for t, o in _buffered(s):
        made, position = s.sf.producer(t.name), buffered_position(t, o)
        if made is None or position is None:
            continue
        source = s.sf.tensor(made.tensor_inputs[0])
        inlined = 0 if source.name in s.sf.inputs else compute_position(source)
        if inlined > position:
            yield Violation(
                "circular_buffer_copies_what_is_complete",
                f"{t.name} <- {source.name}",
                inlined,
                position,
                f"Inline {source.name} left of the buffered loop, or {t.name} deeper.",
                f"{source.name} is computed inside {inlined} loops, the buffered loop, axis {position}, among them",
            )


@model_rule
def buffered_bulk_runs_have_loading_warps(s: Schedule) -> Iterator[Violation]:
    """A 1-D bulk copy into a circular buffer is issued by warps of their own: nothing guards it element by element.
    (nvFuser, 1-D bulk)"""
    for t, o in _buffered(s):
        if filled_via(s.sf, t.name) is CopyVia.BULK1D and o.kind is BufferKind.PIPELINED:
            yield Violation(
                "buffered_bulk_runs_have_loading_warps",
                t.name,
                o.kind.value,
                BufferKind.WARP_SPECIALIZED.value,
                "Let warps of their own load it, or load it by a tensor map.",
            )


@model_rule
def buffers_of_one_loop_agree(s: Schedule) -> Iterator[Violation]:
    """Tensors buffered by one loop have the same stages, prefetch and kind of loading. (nvFuser, circular buffers)"""
    for loop in s.circular_buffers.loops:
        options = [o if o.kind is BufferKind.WARP_SPECIALIZED else _pipelined(o) for o in loop.options]
        for name, other in zip(loop.tensors, options, strict=True):
            if other != options[0]:
                yield Violation(
                    "buffers_of_one_loop_agree",
                    f"{loop.tensors[0]} and {name}",
                    _text(other),
                    _text(options[0]),
                    "Give all tensors of a loop the same options, or buffer them in different loops.",
                )


def _pipelined(o: CircularBuffer) -> CircularBuffer:
    """Only what a pipelined buffer looks at."""
    return CircularBuffer(o.stages, o.prefetch, o.kind, war_mbarrier=o.war_mbarrier)


def _text(o: CircularBuffer) -> str:
    parts = [f"{o.stages} stages", f"prefetch {o.prefetch}", o.kind.value]
    parts += [str(x) for x in (o.on, o.registers) if x is not None]
    parts += [f"slice {o.slice_position}"] if o.slice_position is not None else []
    return ", ".join(parts + (["second mbarrier"] if o.war_mbarrier else []))


@model_rule
def pipelined_loop_fills_its_stages(s: Schedule) -> Iterator[Violation | Kept]:
    """A pipelined buffer's loop runs at least as often as there are stages; checked with the sizes of each launch.
    (nvFuser, circular buffers)"""
    for loop in s.circular_buffers.loops:
        for name, o, position in zip(loop.tensors, loop.options, loop.positions, strict=True):
            if o.kind is BufferKind.PIPELINED:
                size = s.sf.tensor(name).loop[position].size
                breach = Violation(
                    "pipelined_loop_fills_its_stages",
                    f"{name}: axis {position}",
                    size.value,
                    o.stages,
                    "Use fewer stages, or let the loop run longer.",
                    stage=Stage.RUNTIME,
                )
                yield from at_least(size, o.stages).require(breach)


@model_rule
def write_after_read_mbarrier_needs_bulk_loads(s: Schedule) -> Iterator[Violation]:
    """The second mbarrier, for a stage to be free again, needs a loop that bulk copies fill. (nvFuser, circular
    buffers)"""
    for loop in s.circular_buffers.loops:
        bulk = any(filled_via(s.sf, name).is_bulk for name in loop.tensors)
        for name, o in zip(loop.tensors, loop.options, strict=True):
            if o.war_mbarrier and o.kind is BufferKind.PIPELINED and not bulk:
                yield Violation(
                    "write_after_read_mbarrier_needs_bulk_loads",
                    name,
                    f"filled via {filled_via(s.sf, name)}",
                    "a bulk copy",
                    "Load the tensor by a bulk copy, or leave out war_mbarrier.",
                )
