"""Circular buffers: the loops that they turn with, what is filled in each, and the warps that fill them."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.loops.axes import Loop, LoopMap, dimension_sizes
from compiler.arch import WARPGROUP_THREADS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind, CircularBuffer, CopyVia, TensorView
from compiler.schedule.circular_buffer import buffered_position, serial_positions

_THREAD = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)


@dataclass(frozen=True, slots=True)
class CircularLoop:
    """A loop that buffers turn with: its tensors in the order of the fusion, and each one's options and position."""

    loop: Loop
    tensors: tuple[str, ...]
    options: tuple[CircularBuffer, ...]
    positions: tuple[int, ...]

    @property
    def is_specialized(self) -> bool:
        """True where warps of their own load some of its tensors."""
        return any(o.kind is BufferKind.WARP_SPECIALIZED for o in self.options)


@dataclass(frozen=True, slots=True)
class CircularBuffers:
    """The loops of a scheduled fusion that buffers turn with, and buffered tensors for which there is none."""

    loops: tuple[CircularLoop, ...]
    without: tuple[str, ...]


def circular_buffers(sf: ScheduledFusion, loops: LoopMap) -> CircularBuffers:
    """The buffers of a scheduled fusion whose axes have the types of their loops."""
    members: dict[Loop, list[tuple[str, CircularBuffer, int]]] = {}
    without: list[str] = []
    for t in sf.tensors:
        if t.circular is None:
            continue
        position = buffered_position(t, t.circular)
        if position is None:
            without.append(t.name)
        else:
            members.setdefault(loops.loop(t.name, position), []).append((t.name, t.circular, position))
    found = []
    for loop, parts in members.items():
        names, options, positions = zip(*parts, strict=True)
        found.append(CircularLoop(loop, names, options, positions))
    return CircularBuffers(tuple(found), tuple(without))


def filled_via(sf: ScheduledFusion, name: str) -> CopyVia:
    """How the tensor of that name is filled."""
    made = sf.producer(name)
    return made.via if made is not None else CopyVia.PLAIN


def barrier_position(t: TensorView, options: CircularBuffer) -> int:
    """Position of the loop in which one stage is waited for: the last of the slice, else the innermost that could be
    buffered (nvFuser, circular buffers)."""
    if options.kind is BufferKind.WARP_SPECIALIZED and options.slice_position is not None:
        return options.slice_position - 1
    found = serial_positions(t)
    return found[-1] if found else -1


def barriers_of(options: CircularBuffer) -> int:
    """mbarriers of one circular loop that bulk copies fill: for each stage one to wait for the data, and one for the
    stage to be free where that is not a barrier of the block (nvFuser, circular buffers)."""
    by_mbarrier = options.war_mbarrier or options.kind is BufferKind.WARP_SPECIALIZED
    return options.stages * (2 if by_mbarrier else 1)


def specialized_dimension(sf: ScheduledFusion) -> ParallelType | None:
    """The thread dimension that loading warps are appended to, of the first tensor that asks for them."""
    asked = (t.circular for t in sf.tensors if t.circular is not None)
    return next((o.on for o in asked if o.kind is BufferKind.WARP_SPECIALIZED), None)


def extra_threads(sf: ScheduledFusion) -> int:
    """Threads that a block has besides those that compute."""
    return WARPGROUP_THREADS if specialized_dimension(sf) is not None else 0


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Threads that compute in each dimension, None where the extent is not known when the kernel is compiled; and the
    dimension that the loading warps are appended to."""

    threads: dict[ParallelType, int | None]
    on: ParallelType

    @property
    def others(self) -> int | None:
        """Threads of the other two dimensions together."""
        product = 1
        for type_, extent in self.threads.items():
            if type_ is self.on:
                continue
            if extent is None:
                return None
            product *= extent
        return product


def specialized_block(sf: ScheduledFusion) -> BlockShape | None:
    """The shape of the computing block of a warp-specialised kernel, None for any other."""
    on = specialized_dimension(sf)
    if on is None:
        return None
    threads: dict[ParallelType, int | None] = {}
    sizes = dimension_sizes(sf)
    for type_ in _THREAD:
        extents = sizes.get(type_, ())
        is_known = all(n.is_constant for n in extents)
        threads[type_] = max((n.value for n in extents), default=1) if is_known else None
    return BlockShape(threads, on)
