"""Rules on who reads what: a value is read where it is, by a thread that can reach it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.allocation import allocated_axes
from compiler.errors import Violation
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType
from compiler.legality.rules import Schedule, rule


@rule
def values_are_read_where_they_were_made(s: Schedule) -> Iterator[Violation]:
    """An axis that is not allocated stands at one index: the consumer must read exactly that one.

    For registers these are block, thread and inlined axes, for shared memory block and inlined axes: a mismatch would
    need another thread's register or another block's memory (nvFuser, parallel types: read after write). A folded axis
    has no index: all threads have the result.
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
                if read[axis] != (at := s.indexing.nest.variable(t, i)):
                    yield Violation(
                        "values_are_read_where_they_were_made",
                        f"{op.output} reads {name}: axis {i} on {t.types[i]}",
                        str(read[axis]),
                        str(at),
                        "Schedule both tensors alike, or pass the value through shared memory.",
                    )


@rule
def reads_stay_inside_the_allocation(s: Schedule) -> Iterator[Violation]:
    """An index into shared memory or registers stays below what is allocated."""
    for op in s.sf.ops:
        for name in op.tensor_inputs:
            t = s.sf.tensor(name)
            if t.memory is MemoryType.GLOBAL:
                continue
            read = s.indexing.read(op, name)
            status = allocated_axes(t)
            for axis in t.loop:
                at: Expr | None = read.get(axis)
                if status.get(axis) and at is not None and at.hi >= axis.extent:
                    yield Violation(
                        "reads_stay_inside_the_allocation",
                        f"{op.output} reads {name}: {axis}",
                        at.hi,
                        axis.extent - 1,
                        "Make the producer's tile cover what the consumer reads.",
                    )
