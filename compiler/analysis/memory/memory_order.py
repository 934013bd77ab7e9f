"""Which of a tensor's domains is its memory order: the allocation domain that was set, or the loop domain."""

from __future__ import annotations

from dataclasses import replace

from compiler.analysis.id.graph import transforms_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Shift, Swizzle
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.tensor import TensorView
from compiler.ir.trivial import loop_of


def as_allocated(sf: ScheduledFusion, t: TensorView) -> TensorView:
    """The tensor without its allocation domain where a shared one is laid out by its loop domain instead. Any other
    tensor's is kept."""
    if t.allocation is None or t.memory is not MemoryType.SHARED or is_honoured(sf, t):
        return t
    return replace(t, allocation=None)


def is_honoured(sf: ScheduledFusion, t: TensorView) -> bool:
    """Whether the allocation domain that was set is the memory order; otherwise the loop domain is.

    In shared memory it is only if a swizzle leads to it, one of its axes is Bulk, it is a permutation of the loop
    domain, or a bulk copy stores from it (nvFuser, memory order); and if a shift leads from it to the loops, whose
    holes are no elements. Axes count as loops through transforms that change nothing, and as Bulk where all that was
    made of them is: how a tile is transformed is ignored (nvFuser, TMA: "Step 4: schedule the shared memory tensor").
    """
    if t.allocation is None or t.memory is not MemoryType.SHARED:
        return t.memory is MemoryType.GLOBAL
    loops = [loop_of(t, a) for a in t.allocation.axes]
    return (
        (len(loops) == len(t.loop) and set(loops) == set(range(len(t.loop))))
        or not _bulk_axes(t).isdisjoint(t.allocation.axes)
        or any(op.via.takes_tiles for op in sf.consumers(t.name))
        or is_swizzled(t)
        or is_shifted(t)
    )


def _bulk_axes(t: TensorView) -> set[IterDomain]:
    """The axes of a tensor of which all that was made is Bulk; axes of extent one make nothing."""
    bulk = {a for a, type_ in zip(t.loop, t.types, strict=True) if type_ is ParallelType.BULK}
    for e in reversed(t.exprs):
        made = [a for a in e.outputs if not a.is_trivial]
        if made and bulk.issuperset(made):
            bulk.update(e.inputs)
    return bulk


def is_shifted(t: TensorView) -> bool:
    """True where a shift lies between the memory order that was set and the loops."""
    axes = t.allocation.axes if t.allocation is not None else ()
    return any(isinstance(e, Shift) and e.source in axes for e in t.exprs)


def is_swizzled(t: TensorView) -> bool:
    """True where a swizzle lies between the logical axes and the memory order."""
    axes = t.allocation.axes if t.allocation is not None else t.loop
    wanted: set[IterDomain] = set(axes)
    for e in reversed(transforms_of(t)):
        if wanted.intersection(e.outputs):
            if isinstance(e, Swizzle):
                return True
            wanted.update(e.inputs)
    return False
