"""Rules on who reads what: a value is read where it is, by a thread that can reach it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.indexing import IndexBound, lane_variable
from compiler.analysis.memory.allocation import allocated_axes
from compiler.analysis.mma.product import is_held_by_warps
from compiler.errors import Violation
from compiler.ir.algebra import Indices
from compiler.ir.expr import Expr
from compiler.ir.id_exprs import Shift
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.legality.rules import Schedule, rule


@rule
def values_are_read_where_they_were_made(s: Schedule) -> Iterator[Violation]:
    """An axis that is not allocated stands at one index: the consumer must read exactly that one.

    For registers these are block, thread and inlined axes, for shared memory block and inlined axes: a mismatch would
    need another thread's register or another block's memory (nvFuser, parallel types: read after write). A folded axis
    has no index: all threads have the result. Instructions of tensor cores read the registers of a whole warp.
    """
    for op in s.sf.ops:
        for name in op.tensor_inputs:
            t = s.sf.tensor(name)
            if t.memory is MemoryType.GLOBAL:
                continue
            read = s.indexing.read(op, name)
            status = allocated_axes(t)
            for i, axis in enumerate(t.loop):
                if axis.is_broadcast or axis.is_reduction or axis.extent == 1 or status.get(axis) is not False:
                    continue
                if t.types[i] is ParallelType.TIDX and is_held_by_warps(s.products, op, name):
                    continue
                at, nest = s.indexing.nest.variable(t, i), s.indexing.nest
                if read[axis] not in (at, nest.standing(t, i)):
                    yield Violation(
                        "values_are_read_where_they_were_made",
                        f"{op.output} reads {name}: axis {i} on {t.types[i]}",
                        str(read[axis]),
                        str(at),
                        "Schedule both tensors alike, or pass the value through shared memory.",
                    )


@rule
def rows_share_what_begins_alike(s: Schedule) -> Iterator[Violation]:
    """What all rows share is made once for those that a tensor has no loop for, at the places of one of them: along
    shifted runs the others begin at the same phase."""
    for op in s.sf.ops:
        for name in op.tensor_inputs:
            t = s.sf.tensor(name)
            for e in t.exprs if t.memory is not MemoryType.GLOBAL else ():
                if not isinstance(e, Shift) or e.source.is_broadcast:
                    continue
                made, read = (_shared_phase(at, e) for at in (s.indexing.own(t), s.indexing.read(op, name)))
                if made != read:
                    yield Violation(
                        "rows_share_what_begins_alike",
                        f"{op.output} reads {name}: {e.out}",
                        str(read),
                        str(made),
                        "Inline it into the loop over rows, or take rows so far apart that they begin alike.",
                    )


def _shared_phase(index: Indices, e: Shift) -> Expr:
    """The part of a row's phase that axes decide along which a tensor repeats."""
    found = Expr()
    for axis, factor in zip(e.by, e.factors, strict=True):
        found = found + index[axis] * factor if axis.is_broadcast else found
    return found % e.modulus


@rule
def reads_stay_inside_the_allocation(s: Schedule) -> Iterator[Violation]:
    """An index into shared memory or registers stays below what is allocated; or past the end of shared memory are only
    places past the end of the consumer, whose reads are guarded there (`lower.shared_bounds`)."""
    for op in s.sf.ops:
        out = s.sf.tensor(op.output)
        bounds = s.indexing.bounds(out)
        width = 1 if out.vector_axis is None else out.vector_axis.extent
        for name in op.tensor_inputs:
            t = s.sf.tensor(name)
            if t.memory is MemoryType.GLOBAL:
                continue
            read = s.indexing.read(op, name)
            status = allocated_axes(t)
            for axis in t.loop:
                at: Expr | None = read.get(axis)
                if status.get(axis) and at is not None and at.hi >= axis.extent:
                    if t.memory is MemoryType.SHARED and any(_guards(b, at, axis.extent, width) for b in bounds):
                        continue
                    yield Violation(
                        "reads_stay_inside_the_allocation",
                        f"{op.output} reads {name}: {axis}",
                        at.hi,
                        axis.extent - 1,
                        "Make the producer's tile cover what the consumer reads.",
                    )


def _guards(bound: IndexBound, at: Expr, extent: int, width: int) -> bool:
    """True if nothing is read at `at` where the bound does not hold, so that what is read lies below `extent`.

    The bound is on the index itself, or on that of whole vectors, rows or tiles that it lies in, and cuts no vector of
    `width`.
    """
    size = extent // bound.extent
    inside = at - bound.index * size
    cuts = lane_variable(width) in bound.index.variables and bound.extent % width != 0
    return not bound.is_shifted and not cuts and size >= 1 and inside.lo >= 0 and inside.hi < size
