"""Which threads are a warp, seen from the loops of one tensor.

A thread's number in its block is x + y * size of x + z * size of x * size of y, and a warp is 32 threads in that order.
The sizes are those of the kernel: an axis on a thread dimension may be shorter, and then the other threads of that
dimension are idle. So thread axes join into one run of threads only while the inner one fills its dimension (nvFuser,
tensor memory). A dimension that a tensor has no axis on repeats the work in all of its threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from compiler.analysis.id.conditions import is_multiple
from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.loops.axes import dimension_sizes
from compiler.arch import WARP_THREADS, WARPGROUP_THREADS
from compiler.errors import Condition
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.size import Size
from compiler.ir.tensor import BufferKind, TensorView

LANE_BITS = tuple(Var(f"t{i}", 2) for i in range(5))
"""The bits of a thread's number in its warp."""

_DIMENSIONS = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """Thread axes that join into one run of threads, innermost first (None: the threads repeat the work), and the
    distance between neighbours in the block."""

    axes: tuple[tuple[Group | None, Size], ...]
    stride: Size

    @property
    def extent(self) -> Size:
        """Threads of the run."""
        whole = Size(1)
        for _, size in self.axes:
            whole = whole * size
        return whole

    @property
    def is_whole_warps(self) -> Condition:
        """A run of neighbours makes whole warps."""
        return is_multiple(self.extent, Size(WARP_THREADS))

    @property
    def starts_at_warps(self) -> Condition | None:
        """An outer run steps from warp to warp; None for one of one thread, which does not step."""
        return is_multiple(self.stride, Size(WARP_THREADS)) if self.extent.value > 1 else None


@dataclass(frozen=True, slots=True)
class TmemWarps:
    """The threads of a block as the loops of one tensor see them.

    `index`: the index of each thread axis, by the bits of the thread's number in its warp and by the number of the
    warp; `warp`: that number, None where the threads of `runs` do not make whole warps; `sizes`: unknown sizes at whose
    present values alone this is so. `runs`: the thread axes, innermost first.
    """

    runs: tuple[ThreadRun, ...] = ()
    index: Mapping[Group, Expr] = field(default_factory=dict)
    warp: Expr | None = None
    sizes: frozenset[Size] = frozenset()


def block_shape(sf: ScheduledFusion) -> dict[ParallelType, Size]:
    """Threads of a block along each dimension in use: the longest axis of any tensor, and the threads that warp
    specialisation appends (nvFuser, warp specialisation)."""
    dimensions = dimension_sizes(sf)
    sizes = {type_: reduce(_longest, dimensions[type_]) for type_ in _DIMENSIONS if type_ in dimensions}
    on = {t.circular.on for t in sf.tensors if t.circular and t.circular.kind is BufferKind.WARP_SPECIALIZED}
    for type_ in (d for d in _DIMENSIONS if d in on):
        others = prod(size.value for other, size in sizes.items() if other is not type_)
        appended = max(1, WARPGROUP_THREADS // others)
        own = sizes.get(type_, Size(1))
        more = own.value + appended
        sizes[type_] = Size(more) if own.is_constant else Size.symbol(f"({own} + {appended})", more)
    return sizes


def _longest(a: Size, b: Size) -> Size:
    if a == b or b == Size(1):
        return a
    if a == Size(1):
        return b
    larger = max(a.value, b.value)
    return Size(larger) if a.is_constant and b.is_constant else Size.symbol(f"max({a}, {b})", larger)


def warps_of(graph: IdGraph, block: Mapping[ParallelType, Size], t: TensorView) -> TmemWarps:
    """The warps that carry out the operator that makes `t` (nvFuser, tensor memory: warp collective)."""
    runs = tuple(_runs(graph, block, t))
    if not _make_warps(runs):
        return TmemWarps(runs)
    sizes = [size for run in runs for size in (run.stride, *(s for _, s in run.axes))]
    unknown = frozenset(s for s in sizes if not s.is_constant)
    index: dict[Group, Expr] = {}
    warp = Expr()
    for n, run in enumerate(runs):
        number = var(Var(f"w{n}", run.extent.value if n else run.extent.value // WARP_THREADS))
        warp = warp + number * (run.stride.value // WARP_THREADS if n else 1)
        if n == 0:
            number = number * WARP_THREADS
            for i, bit in enumerate(LANE_BITS):
                number = number + var(bit) * (1 << i)
        for at, (group, size) in enumerate(run.axes):
            inner = number if at == len(run.axes) - 1 else number % size.value
            if group is not None:
                index[group] = inner
            number = number // size.value
    return TmemWarps(runs, index, warp, unknown)


def _make_warps(runs: Sequence[ThreadRun]) -> bool:
    steps = (run.starts_at_warps for run in runs[1:])
    return bool(runs) and runs[0].is_whole_warps.holds and all(step is None or step.holds for step in steps)


def _runs(graph: IdGraph, block: Mapping[ParallelType, Size], t: TensorView) -> list[ThreadRun]:
    """Runs of thread axes, innermost first; dimensions of one thread are left out."""
    axes = {type_: axis for axis, type_ in zip(t.loop, t.types, strict=True) if type_.is_thread}
    runs: list[ThreadRun] = []
    stride, fills = Size(1), True
    for type_ in _DIMENSIONS:
        size = block.get(type_, Size(1))
        if size == Size(1):
            continue
        axis = axes.get(type_)
        member = (graph.group(axis), axis.size) if axis is not None else (None, size)
        if runs and fills:
            runs[-1] = ThreadRun((*runs[-1].axes, member), runs[-1].stride)
        else:
            runs.append(ThreadRun((member,), stride))
        fills = member[1] == size
        stride = stride * size
    return runs
