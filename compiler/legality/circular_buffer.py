"""Rules on circular buffers: how loops of several buffers agree, and what each loop does.

What may be buffered, and in which loop, is refused at the step (`schedule.refusals.circular_buffer`), and asked again
here.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.conditions import at_least
from compiler.analysis.sync.circular_buffer import filled_via
from compiler.errors import Kept, Stage, Violation
from compiler.ir.tensor import BufferKind, CircularBuffer, CopyVia, TensorView
from compiler.legality.rules import Schedule, asked_again, model_rule
from compiler.schedule import steps
from compiler.schedule.refusals import Site
from compiler.schedule.refusals import circular_buffer as refusals


def _buffered(s: Schedule) -> Iterator[tuple[TensorView, CircularBuffer]]:
    for t in s.sf.tensors:
        if t.circular is not None:
            yield t, t.circular


def _asked(s: Schedule) -> Iterator[tuple[Site, steps.CircularBuffer]]:
    for t, o in _buffered(s):
        prefetch = o.prefetch if o.prefetch >= 0 else o.prefetch - o.stages  # a step counts those from the stages
        own = (o.kind, o.on, o.registers, o.slice_position, o.war_mbarrier)
        step = steps.CircularBuffer(t.name, o.stages, prefetch, *own)
        yield Site(s.sf, t.name, is_settled=True), step


asked_again(refusals.circular_buffer_has_stages_to_fill, _asked)
asked_again(refusals.circular_buffer_is_filled_by_a_copy, _asked)
asked_again(refusals.circular_buffer_is_computed_where_it_is_allocated, _asked)
asked_again(refusals.circular_buffer_has_a_loop, _asked)
asked_again(refusals.circular_buffer_copies_what_is_complete, _asked)
asked_again(refusals.shared_registers_are_whole_units, _asked)


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
