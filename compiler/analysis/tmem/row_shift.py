"""Shifts of rows inside tensor memory: which elements move to the next lane, and why a copy is no shift.

A tensor that is copied by tcgen05.shift lies in the columns of what it is copied from, every element one lane further:
the instruction moves 32 bytes of each of 31 lanes, of the 32 of a subpartition all but the last one (PTX ISA,
tcgen05.shift.down; data movement shape .31x256b). What it leaves in the first lane is no element of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.id.linear import index_of, reach, slope
from compiler.analysis.tmem.allocation import layout_of
from compiler.arch import (
    REGISTER_BYTES,
    TMEM_LANES,
    TMEM_SHIFT_BYTES,
    TMEM_SHIFT_LANES,
    TMEM_SHIFT_ROWS,
    TMEM_SUBPARTITIONS,
)
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, const
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorOp


@dataclass(frozen=True, slots=True)
class TmemRowShift:
    """One shift: of the source's rows from lane `lane` on, and from 4-byte column `column`; `fault`: why it is none."""

    output: str
    source: str
    lane: Expr = field(default_factory=Expr)
    column: Expr = field(default_factory=Expr)
    fault: str = ""


def infer_shift(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> TmemRowShift:
    """The shift of a copy inside tensor memory."""
    out, source = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    found = TmemRowShift(op.output, source.name)
    known: dict[Group, Expr] = {}
    bulk: list[Var] = []
    for position, (axis, type_) in enumerate(zip(out.loop, out.types, strict=True)):
        index = index_of(axis, f"b{position}" if type_ is ParallelType.BULK else f"i{position}")
        known[graph.group(axis)] = index
        bulk += index.variables if type_ is ParallelType.BULK else ()
    sides = [side for t in (source, out) for side in (layout_of(t).lanes, layout_of(t).columns)]
    domains = [graph.groups(side.axes) for side in sides]
    reached = reach(graph, known, [g for domain in domains for g in domain])
    if reached is None:
        return replace(found, fault="its loops do not lead to every allocated axis of both tensors")
    lane, column, to_lane, to_column = (
        reached.offset(domain, side.strides) for domain, side in zip(domains, sides, strict=True)
    )
    if to_lane - lane != const(TMEM_SHIFT_LANES) or to_column != column:
        moved = f"lane {lane}, element {column} of the columns to lane {to_lane}, element {to_column}"
        return replace(found, fault=f"it moves {moved}")
    steps = [(slope(lane, v).proved, slope(column, v).proved, v.extent) for v in bulk]
    if not _is_whole(steps, out.dtype.nbytes):
        return replace(found, fault=f"its Bulk axes move by {steps} (lanes, elements, places)")
    if column.hi >= sides[1].span.value:
        return replace(found, fault=f"it reaches element {column.hi} of columns that have {sides[1].span.value}")
    first = {v: Expr() for v in bulk}
    lane, column = lane.substitute(first), column.substitute(first)
    nbytes = column * out.dtype.nbytes
    if not lane.divisible_by(TMEM_LANES // TMEM_SUBPARTITIONS) or not nbytes.divisible_by(REGISTER_BYTES):
        return replace(found, fault=f"it begins at lane {lane}, element {column} of the columns")
    return replace(found, lane=lane, column=nbytes // REGISTER_BYTES)


def _is_whole(steps: Sequence[tuple[int | None, int | None, int]], nbytes: int) -> bool:
    """Whether axes that move by so many lanes and elements span 31 neighbouring lanes by 32 neighbouring bytes."""
    lanes = [n for lane, column, n in steps if (lane, column) == (1, 0)]
    along = sorted((column or 0, n) for lane, column, n in steps if lane == 0)
    count = 1
    for step, n in along:
        if step != count:
            return False
        count *= n
    return lanes == [TMEM_SHIFT_ROWS] and len(lanes) + len(along) == len(steps) and count * nbytes == TMEM_SHIFT_BYTES
