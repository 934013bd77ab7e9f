"""Where each tensor is computed and what of it is kept in memory, in words."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.sync.sync import SyncNeeds
from compiler.explain.names import axes_names, axis_name, counted, listed
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import BufferKind, CircularBuffer, TensorView

_SHARED_ACROSS = {
    MemoryType.LOCAL: "each thread has its own",
    MemoryType.SHARED: "each block has its own",
    MemoryType.TENSOR: "each block has its own",
    MemoryType.GLOBAL: "all blocks share it",
}


def nest_words(sf: ScheduledFusion) -> Iterator[str]:
    """Lines on every tensor, in the order of the computation."""
    for t in sf.tensors:
        made = sf.producer(t.name)
        via = "" if made is None else f" = {made.kind}({', '.join(made.tensor_inputs)})"
        yield f"{t.name}: {t.dtype} {t.memory}{via}"
        if made is None:
            continue
        yield f"  loops: {_loops(t)}"
        yield f"  computed: {_computed(sf, t)}"
        if t.compute_with is not None:
            yield f"  computed deeper than it is allocated: inside {counted(t.compute_with, 'loop')}"
        if t.memory is not MemoryType.GLOBAL:
            yield f"  memory: {_SHARED_ACROSS[t.memory]}; {_order(t)}"
        if t.circular is not None:
            yield f"  circular buffer: {_circular(t.circular)}"


def _loops(t: TensorView) -> str:
    words = [
        axis_name(a) if p is ParallelType.SERIAL else f"{axis_name(a)} {p}"
        for a, p in zip(t.loop, t.types, strict=True)
    ]
    return ", ".join(words) or "none"


def _computed(sf: ScheduledFusion, t: TensorView) -> str:
    consumers = [op.output for op in sf.consumers(t.name)]
    if not t.compute_at:
        return "in a loop nest of its own"
    inside = f"inside the first {counted(t.compute_at, 'loop')}"
    return f"{inside} of {listed(consumers)}" if consumers else inside


def _order(t: TensorView) -> str:
    if t.allocation is None:
        return "laid out in the order of its loops"
    strides = [s for s in t.allocation.strides if s is not None]
    return f"laid out as {axes_names(t.allocation.axes)}{', strides given' if strides else ''}"


def _circular(c: CircularBuffer) -> str:
    words = f"{counted(c.stages, 'stage')}, {c.prefetch} filled ahead"
    if c.kind is BufferKind.WARP_SPECIALIZED:
        words += f", filled by warps of their own{f' on {c.on}' if c.on is not None else ''}"
    if c.registers is not None:
        words += f", registers {c.registers[0]} for a thread that loads and {c.registers[1]} for one that computes"
    if c.slice_position is not None:
        words += f", loops left of position {c.slice_position} share a stage"
    return words


def sync_words(sync: SyncNeeds) -> Iterator[str]:
    """A line for each value that other threads or blocks read than wrote it."""
    for need in sync.needs:
        across = listed((*need.threads, *need.blocks))
        barrier = "a barrier of the grid" if need.blocks else "a barrier of the block"
        yield f"{need.producer} to {need.consumer}: across {across}, behind {barrier}"
