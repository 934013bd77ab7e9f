"""Circular buffers, as far as they can be judged before types and memories are settled (nvFuser, circular buffers)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.arch import REGISTER_UNIT, SETMAXNREG_LEAST, SETMAXNREG_MOST
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import TensorView
from compiler.schedule import steps
from compiler.schedule.inline import compute_position
from compiler.schedule.refusals.registry import Refusal, Site, step_rule

_ROUTES = (
    (MemoryType.GLOBAL, MemoryType.SHARED),
    (MemoryType.GLOBAL, MemoryType.LOCAL),
    (MemoryType.SHARED, MemoryType.LOCAL),
)


@step_rule(steps.CircularBuffer)
def circular_buffers_have_stages_to_fill_ahead(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """At least two stages, of which fewer than all are filled ahead of use (nvFuser, circular buffers)."""
    prefetch = step.prefetch + step.stages if step.prefetch < 0 else step.prefetch
    if step.stages < 2 or not 0 <= prefetch < step.stages:
        yield Refusal(
            site.name,
            f"stages {step.stages}, prefetch {step.prefetch}",
            "stages above 1, prefetch in [0, stages)",
            "Give stages that exceed 1, and a prefetch in [0, stages).",
            f"stages {step.stages} with prefetch {step.prefetch}",
        )


@step_rule(steps.CircularBuffer)
def registers_are_shared_in_steps_of_8(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
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
def circular_buffers_are_filled_by_copies(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """A buffered tensor is a copy of another one, and no input of the fusion (nvFuser, circular buffers)."""
    op = site.sf.producer(site.name)
    if op is None or op.kind not in (OpKind.COPY, OpKind.PERMUTE):
        made = "an input" if op is None else f"made by {op.kind}"
        yield Refusal(
            site.name, made, "made by a copy", "Copy the tensor and buffer the copy.", f"{site.name} is {made}"
        )


@step_rule(steps.CircularBuffer)
def circular_buffers_lie_nearer_than_what_they_copy(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """Copies from global to shared memory or registers, and from shared memory to registers (nvFuser, circular
    buffers)."""
    source, t = _source(site), site.tensor
    if (source.memory, t.memory) not in _ROUTES:
        yield Refusal(
            f"{site.name} <- {source.name}",
            f"{source.memory} to {t.memory}",
            ", ".join(f"{a} to {b}" for a, b in _ROUTES),
            "Circular-buffer a shared tensor that is loaded from global memory, or registers.",
            f"{site.name} is {t.memory}, copied from {source.memory}",
        )


@step_rule(steps.CircularBuffer)
def circular_buffers_are_inlined(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """A loop left of the compute-at position, outside every Unroll, is the one that the stages belong to (nvFuser,
    circular buffers)."""
    t = site.tensor
    if _outer_loops(t) == 0:
        found = "Unroll outermost" if t.compute_at else "compute-at position 0"
        yield Refusal(
            site.name,
            found,
            "a loop outside",
            "Inline the tensor below a loop that is not unrolled.",
            f"{site.name} has {found}",
        )


@step_rule(steps.CircularBuffer)
def circular_buffers_are_not_computed_with_consumers(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """computeWith and circular buffers exclude each other (nvFuser, circular buffers)."""
    with_ = site.tensor.compute_with
    if with_ is not None and with_ > site.tensor.compute_at:
        fix = "Inline the tensor instead."
        yield Refusal(site.name, f"computeWith {with_}", "none", fix, f"{site.name} is computed with its consumers")


@step_rule(steps.CircularBuffer)
def circular_buffers_copy_what_is_whole(site: Site, step: steps.CircularBuffer) -> Iterator[Refusal]:
    """What a buffered tensor copies is computed outside the loop of the stages (nvFuser, circular buffers).

    That loop is the innermost one outside the tensor that is neither parallel nor broadcast.
    """
    source, t = _source(site), site.tensor
    position = compute_position(source) if source.name not in site.sf.inputs else 0
    loop = next((i for i in range(_outer_loops(t) - 1, -1, -1) if _is_serial(t, i)), len(t.loop))
    if position > loop:
        yield Refusal(
            f"{site.name} <- {source.name}",
            position,
            loop,
            f"Inline {source.name} at {loop} or less, or {site.name} deeper.",
            f"{source.name} is computed at position {position}, inside the loop {loop} of the stages",
        )


def _source(site: Site) -> TensorView:
    op = site.sf.producer(site.name)
    return site.sf.tensor(op.tensor_inputs[0]) if op is not None else site.tensor


def _outer_loops(t: TensorView) -> int:
    """The number of loops outside the tensor and outside every unrolled one."""
    unrolled = next((i for i, type_ in enumerate(t.types) if type_ is ParallelType.UNROLL), len(t.loop))
    return min(t.compute_at, unrolled)


def _is_serial(t: TensorView, position: int) -> bool:
    type_ = t.types[position]
    return not (type_.is_block or type_.is_thread or t.loop[position].is_broadcast)
