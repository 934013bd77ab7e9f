"""Circular buffers: what may be buffered, and in which loop (nvFuser, circular buffers).

Asked when the step is taken, as far as types and memories are settled then, and again of the finished schedule.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.arch import REGISTER_UNIT, SETMAXNREG_LEAST, SETMAXNREG_MOST
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import COPIES
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from compiler.schedule.circular_buffer import buffer_limit, buffered_position, serial_positions
from compiler.schedule.inline import compute_position
from compiler.schedule.refusals.registry import Refusal, Site, step_rule

ROUTES = (
    (MemoryType.GLOBAL, MemoryType.SHARED),
    (MemoryType.GLOBAL, MemoryType.LOCAL),
    (MemoryType.SHARED, MemoryType.LOCAL),
)
"""Memories between which a buffered tensor is copied (nvFuser, circular buffers)."""


@step_rule(steps.CircularBuffer)
def circular_buffer_has_stages_to_fill(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """Two stages or more, of which fewer than all are filled ahead of use (nvFuser, circular buffers)."""
    if step.stages < 2 or not 0 <= step.options.prefetch < step.stages:
        yield Refusal(
            site.name,
            f"stages {step.stages}, prefetch {step.prefetch}",
            "stages above 1, prefetch in [0, stages)",
            "Give stages that exceed 1, and a prefetch in [0, stages).",
            f"stages {step.stages} with prefetch {step.prefetch}",
        )


@step_rule(steps.CircularBuffer)
def shared_registers_are_whole_units(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """Registers of a loading and of a computing thread: 24 to 256, multiples of 8, the loading one's the fewer
    (nvFuser, circular buffers; PTX ISA, setmaxnreg)."""
    if step.registers is None:
        return
    load, compute = step.registers
    fits = all(SETMAXNREG_LEAST <= n <= SETMAXNREG_MOST and n % REGISTER_UNIT == 0 for n in step.registers)
    if not fits or load > compute:
        yield Refusal(
            site.name,
            f"{load} and {compute}",
            f"multiples of {REGISTER_UNIT} from {SETMAXNREG_LEAST} to {SETMAXNREG_MOST}, the first at most the second",
            "Take multiples of 8 from 24 to 256, no more for threads that load than for those that compute.",
            f"registers {load} for threads that load and {compute} for those that compute",
        )


@step_rule(steps.CircularBuffer)
def circular_buffer_is_filled_by_a_copy(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """A buffered tensor is no input, but copied from global memory to shared memory or registers, or from shared memory
    to registers (nvFuser, circular buffers). What comes asynchronously is copied, though the operator spreads it."""
    op, t = site.sf.producer(site.name), site.tensor
    if op is None or (op.kind not in COPIES and op.via is CopyVia.PLAIN):
        made = "an input" if op is None else f"made by {op.kind}"
        yield Refusal(
            site.name, made, "made by a copy", "Copy the tensor and buffer the copy.", f"{site.name} is {made}"
        )
        return
    source = site.sf.tensor(op.tensor_inputs[0])
    if (source.memory, t.memory) not in ROUTES:
        yield Refusal(
            f"{site.name} <- {source.name}",
            f"{source.memory} to {t.memory}",
            ", ".join(f"{a} to {b}" for a, b in ROUTES),
            "Circular-buffer a shared tensor that is loaded from global memory, or registers.",
            f"{site.name} is {t.memory}, copied from {source.memory}",
        )


@step_rule(steps.CircularBuffer)
def circular_buffer_has_a_loop(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """A buffer turns with a loop that is neither parallel nor broadcast, left of the compute-at position and of
    unrolled loops: the innermost, or where warps of their own load the outermost (nvFuser, circular buffers). When the
    step is taken there is any loop in that place, whose type may still be given."""
    t = site.tensor
    if serial_positions(t) if site.is_settled else buffer_limit(t):
        return
    if t.compute_at == 0:
        found = "compute-at position 0"
    else:
        found = "no serial loop" if buffer_limit(t) else "Unroll outermost"
    yield Refusal(
        site.name,
        found,
        "a loop outside",
        "Inline the tensor below a loop that is neither unrolled nor parallel.",
        f"{site.name} has {found}",
    )


@step_rule(steps.CircularBuffer)
def circular_buffer_is_computed_where_it_is_allocated(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """A buffered tensor is not computed deeper in its consumers than it is allocated: computeWith and circular buffers
    exclude each other (nvFuser, circular buffers)."""
    with_ = site.tensor.compute_with
    if with_ is not None and with_ > site.tensor.compute_at:
        fix = "Inline the tensor instead."
        yield Refusal(site.name, f"computeWith {with_}", "none", fix, f"{site.name} is computed with its consumers")


@step_rule(steps.CircularBuffer)
def circular_buffer_copies_what_is_complete(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """What a buffered tensor is copied from is computed outside the loop of the stages, which are filled ahead of it
    (nvFuser, circular buffers). When the step is taken that is the innermost loop that may be it."""
    op, t = site.sf.producer(site.name), site.tensor
    loop = _loop_of_stages(site, step)
    if op is None or loop is None:
        return
    source = site.sf.tensor(op.tensor_inputs[0])
    position = compute_position(source) if source.name not in site.sf.inputs else 0
    if position > loop:
        yield Refusal(
            f"{site.name} <- {source.name}",
            position,
            loop,
            f"Inline {source.name} at {loop} or less, or {t.name} deeper.",
            f"{source.name} is computed at position {position}, inside the loop {loop} of the stages",
        )


def _loop_of_stages(site: Site, step: steps.CircularBuffer) -> int | None:
    if site.is_settled:
        return buffered_position(site.tensor, step.options)
    return next(iter(serial_positions(site.tensor)[-1:]), None)
