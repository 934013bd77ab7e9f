"""What of a tensor is allocated, and where each element of it goes.

Three rules (nvFuser, allocation rules): an axis on a parallel type that the memory is partitioned across is never
allocated; one on a type that the memory is shared across always is; any other is allocated if it lies right of the
compute-at position. Broadcast axes add nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from compiler.ir.expr import Expr
from compiler.ir.id_exprs import Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class AllocatedLayout:
    """Allocated axes outermost first with their strides in elements; `elems` is what one copy of the tensor takes."""

    axes: tuple[IterDomain, ...]
    strides: tuple[int, ...]
    elems: int

    def offset(self, index: Mapping[IterDomain, Expr]) -> Expr:
        """Element offset, given the index of every allocated axis."""
        total = Expr()
        for axis, stride in zip(self.axes, self.strides, strict=True):
            total = total + index[axis] * stride
        return total


def is_partitioned(memory: MemoryType, type_: ParallelType) -> bool:
    """True where each thread, block or device owns its own part of that memory (nvFuser, memory types)."""
    if type_.is_device:
        return True
    match memory:
        case MemoryType.LOCAL:
            return type_.is_block or type_.is_thread
        case MemoryType.SHARED | MemoryType.TENSOR:
            return type_.is_block
        case MemoryType.GLOBAL:
            return False


def loop_axis_is_allocated(t: TensorView, position: int) -> bool:
    """The three rules, for one axis of the loop domain."""
    axis, type_ = t.loop[position], t.types[position]
    if axis.is_broadcast or axis.is_reduction or is_partitioned(t.memory, type_):
        return False
    if type_.is_thread or type_.is_block:
        return True
    return position >= t.compute_at


@lru_cache(maxsize=4096)
def allocated_axes(t: TensorView) -> dict[IterDomain, bool | None]:
    """For every axis of the tensor's tree: allocated, not allocated, or None where only a part of it is."""
    status: dict[IterDomain, bool | None] = {a: loop_axis_is_allocated(t, i) for i, a in enumerate(t.loop)}
    for e in reversed(t.exprs):
        match e:
            case Split():
                status[e.source] = _join(status.get(e.outer), status.get(e.inner), e.outer, e.inner)
            case Merge():
                status[e.outer] = status[e.inner] = status.get(e.out)
            case Swizzle():
                status[e.y] = status.get(e.out)
            case Resize() | Shift():
                status[e.source] = status.get(e.out)
            case Window():
                status[e.source] = _join(status.get(e.tile), status.get(e.place), e.tile, e.place)
    if t.allocation is not None:
        for e in t.allocation.exprs:
            match e:
                case Split() | Window():
                    source = status.get(e.source)
                case Merge():
                    source = _join(status.get(e.outer), status.get(e.inner), e.outer, e.inner)
                case Swizzle():
                    source = status.get(e.y)
                case Resize() | Shift():
                    source = status.get(e.source)
            for out in e.outputs:
                status.setdefault(out, False if out.is_broadcast else source)
    return status


def _join(a: bool | None, b: bool | None, axis_a: IterDomain, axis_b: IterDomain) -> bool | None:
    """Status of an axis from its two pieces; pieces of extent one or broadcast do not matter."""
    counts = [s for s, x in ((a, axis_a), (b, axis_b)) if x.extent > 1 and not x.is_broadcast]
    if not counts:
        return bool(a) or bool(b)
    return counts[0] if all(s == counts[0] for s in counts) else None


def memory_order(t: TensorView) -> tuple[IterDomain, ...]:
    """The axes whose order is the memory order: the allocation domain, else the loop domain (nvFuser, memory order)."""
    return t.allocation.axes if t.allocation is not None else t.loop


@lru_cache(maxsize=4096)
def layout_of(t: TensorView) -> AllocatedLayout:
    """The layout of one copy of the tensor (circular-buffer stages not counted)."""
    order = memory_order(t)
    status = allocated_axes(t)
    given = t.allocation.strides if t.allocation is not None else (None,) * len(order)
    if t.memory is MemoryType.GLOBAL:
        strides = tuple(s or 0 for s in given)
        return AllocatedLayout(order, strides, 1 + sum((a.extent - 1) * s for a, s in zip(order, strides, strict=True)))
    axes: list[IterDomain] = []
    steps: list[int] = []
    whole, last, elems = 1, 0, 1
    for axis, stride in zip(reversed(order), reversed(given), strict=True):
        if status.get(axis) is False:
            continue
        step = whole if stride is None else stride
        axes.append(axis)
        steps.append(step)
        whole = step * axis.extent
        # Given strides need not grow outwards: the longest axis and the last element both lie inside.
        last += step * (axis.extent - 1)
        elems = max(elems, whole, last + 1)
    return AllocatedLayout(tuple(reversed(axes)), tuple(reversed(steps)), elems)
