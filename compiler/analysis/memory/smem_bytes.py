"""What shared memory a schedule takes: which axes of each shared tensor are allocated, stages, barriers, alignment.

Three rules (nvFuser, allocation rules): an axis on a block dimension is never allocated, one on a thread dimension
always, any other if it lies right of the allocation position. Axes of size one, broadcast and reduction axes add
nothing, and places that a split rounds up to are allocated like others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.loops.axes import LoopMap
from compiler.analysis.memory.memory_order import is_honoured, is_shifted
from compiler.analysis.memory.swizzle import repeat_bytes
from compiler.analysis.mma.accumulators import accumulators_of
from compiler.analysis.sync.circular_buffer import barriers_of, circular_buffers
from compiler.arch import BARRIER_BYTES
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Merge, Split
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, TensorView
from compiler.ir.trivial import loop_of


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """One shared tensor: the extents of its allocated axes, outermost first, and how many copies it has.

    `align`: its address is a multiple of so many bytes. `lost`: loop axes that are not allocated and do not show in the
    memory order that was set: it cannot be told what of that order is allocated.
    """

    tensor: str
    extents: tuple[Size, ...]
    element_bits: int
    stages: int
    align: int
    lost: tuple[IterDomain, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all copies at the binding."""
        return -(-self.element_bits * self.stages * prod(e.value for e in self.extents) // 8)

    @property
    def is_constant(self) -> bool:
        return all(e.is_constant for e in self.extents)

    def __str__(self) -> str:
        size = Size(self.element_bits * self.stages)
        for extent in self.extents:
            size = size * extent
        bytes_ = size.quotient(Size(8))
        return str(bytes_) if bytes_ is not None else f"({size} + 7) // 8"


@dataclass(frozen=True, slots=True)
class SharedBytes:
    """Shared memory of a block: the tensors, most aligned first, then `barriers` of 8 bytes."""

    tensors: tuple[SharedTensor, ...]
    barriers: int

    @property
    def total(self) -> int:
        """Bytes at the binding."""
        end = 0
        for t in self.tensors:
            end = -(-end // t.align) * t.align + t.bytes
        return -(-end // BARRIER_BYTES) * BARRIER_BYTES + BARRIER_BYTES * self.barriers if self.barriers else end

    @property
    def is_constant(self) -> bool:
        return all(t.is_constant for t in self.tensors)

    def __str__(self) -> str:
        """The total as a formula of the unknown sizes."""
        end = "0"
        for t in self.tensors:
            start = f"({end} + {t.align - 1}) // {t.align} * {t.align} + " if end != "0" else ""
            end = f"{start}{t}"
        if not self.barriers:
            return end
        return f"({end} + {BARRIER_BYTES - 1}) // {BARRIER_BYTES} * {BARRIER_BYTES} + {BARRIER_BYTES * self.barriers}"


def shared_bytes(
    sf: ScheduledFusion, graph: IdGraph, loops: LoopMap, swizzle_span: Callable[[str], int]
) -> SharedBytes:
    """The shared memory of a scheduled fusion whose axes have the types of their loops. `swizzle_span`: bytes by which
    copies swizzle a tensor; its address is a multiple of those after which the pattern repeats."""
    shared = (t for t in sf.tensors if t.memory is MemoryType.SHARED)
    found = [_shared_tensor(sf, graph, t, repeat_bytes(swizzle_span(t.name))) for t in shared]
    return SharedBytes(tuple(sorted(found, key=lambda t: -t.align)), _barriers(sf, loops))


def allocation_position(t: TensorView) -> int:
    """Loop axes left of it are not allocated: the stage's slice, else the compute-at position, but outside unrolled
    loops and outside what is summed over (nvFuser, allocation position)."""
    last = t.compute_at
    if t.circular is not None and t.circular.kind is BufferKind.WARP_SPECIALIZED:
        last = t.compute_at if t.circular.slice_position is None else t.circular.slice_position
    pairs = zip(t.loop[: max(last, 0)], t.types, strict=False)
    stops = (i for i, (a, p) in enumerate(pairs) if a.is_reduction or p is ParallelType.UNROLL)
    return next(stops, min(max(last, 0), len(t.loop)))


def allocated_loop_axes(t: TensorView) -> tuple[IterDomain, ...]:
    """The loop axes of which the tensor holds elements, by the three rules."""
    at = allocation_position(t)
    return tuple(a for i, a in enumerate(t.loop) if not _adds_nothing(a) and _is_kept(t.memory, t.types[i], i < at))


def _shared_tensor(sf: ScheduledFusion, graph: IdGraph, t: TensorView, align: int) -> SharedTensor:
    stages = t.circular.stages if t.circular is not None else 1
    if not is_honoured(sf, t):
        extents = tuple(a.size for a in allocated_loop_axes(t))
        return SharedTensor(t.name, extents, t.dtype.nbits, stages, align)
    axes, lost = _unshifted_axes(t) if is_shifted(t) else _ordered_axes(graph, t)
    return SharedTensor(t.name, tuple(a.size for a in axes), t.dtype.nbits, stages, align, lost)


def _ordered_axes(graph: IdGraph, t: TensorView) -> tuple[tuple[IterDomain, ...], tuple[IterDomain, ...]]:
    """Allocated axes of the memory order that was set, and loop axes left of the allocation position that it lacks."""
    at = allocation_position(t)
    outside = {graph.group(a): a for i, a in enumerate(t.loop[:at]) if not t.types[i].is_thread}
    kept: list[IterDomain] = []
    for a in t.allocation.axes if t.allocation is not None else ():
        if outside.pop(graph.group(a), None) is not None or _adds_nothing(a):
            continue
        loop = loop_of(t, a)
        if _is_kept(t.memory, t.types[loop] if loop is not None else ParallelType.SERIAL, outside=False):
            kept.append(a)
    return tuple(kept), tuple(a for a in outside.values() if not _adds_nothing(a))


def _unshifted_axes(t: TensorView) -> tuple[tuple[IterDomain, ...], tuple[IterDomain, ...]]:
    """The same of a tensor whose memory order is that before a shift: its axes were merged and split to loops later,
    and one is not allocated where all that was made of it stands left of the allocation position."""
    at = allocation_position(t)
    left = {a for i, a in enumerate(t.loop[:at]) if not t.types[i].is_thread}
    outside = set(left)
    shown: dict[IterDomain, set[IterDomain]] = {a: {a} for a in left}
    for e in reversed(t.exprs):
        if not isinstance(e, Split | Merge) or not all(a in outside or a.is_trivial for a in e.outputs):
            continue
        outside.update(e.inputs)
        for a in e.inputs:
            shown[a] = set[IterDomain]().union(*(shown.get(out, set()) for out in e.outputs))
    order = t.allocation.axes if t.allocation is not None else ()
    kept = tuple(a for a in order if a not in outside and not _adds_nothing(a))
    seen = set[IterDomain]().union(*(shown.get(a, set()) for a in order))
    return kept, tuple(a for a in t.loop if a in left - seen and not _adds_nothing(a))


def _is_kept(memory: MemoryType, type_: ParallelType, outside: bool) -> bool:
    """The three rules, for an axis `outside` the allocation position or right of it."""
    if type_.is_device:
        return False
    if type_.is_block:
        return memory is MemoryType.GLOBAL
    if type_.is_thread:
        return memory is not MemoryType.LOCAL
    return not outside


def _adds_nothing(a: IterDomain) -> bool:
    return a.is_trivial or a.is_broadcast or a.is_reduction


def _barriers(sf: ScheduledFusion, loops: LoopMap) -> int:
    """mbarriers of all bulk loads: one that no circular buffer holds has its own, those of a circular loop share. A
    copy by the tensor cores has one, results in tensor memory theirs."""
    loads = [op.output for op in sf.ops if op.via.is_bulk and sf.tensor(op.output).memory is MemoryType.SHARED]
    single = sum(sf.tensor(name).circular is None for name in loads)
    single += sum(op.via.by_tensor_cores for op in sf.ops)
    single += sum(group.barriers for group in accumulators_of(sf))
    buffered = [
        next((o for n, o in zip(c.tensors, c.options, strict=True) if n in loads), None)
        for c in circular_buffers(sf, loops).loops
    ]
    return single + sum(barriers_of(options) for options in buffered if options is not None)
