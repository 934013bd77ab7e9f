"""Inner and outer: reductions of rows and of columns of the same tensors, which are read once for both.

    group of rows (block) | row of the group | thread row | block of the cluster | thread | step | unrolled step | lane

A block goes through the rows of its group as a persistent block of the row scheduler does: a row in registers, or in
shared memory with the next ones on their way. Each thread keeps the partial results of its columns in registers for the
whole loop over rows; thread rows fold theirs at the end, and the block stores one partial result a column. What all
groups left is folded by another launch (`search.launches.inner_outer`), in one order (nvFuser, inner and outer
reductions: partial results of columns in a buffer with a row for each block).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import APART, AS_THEY_ARE, HELD, MATH
from search.space.schedulers.inner_outer_facts import inner_outer_shape, refusal_of
from search.space.schedulers.inner_outer_space import inner_outer_space
from search.space.schedulers.row import RowTrace
from search.space.schedulers.row_facts import steps_of
from search.space.schedulers.row_shape import RowShape, computed_across, fold_sets, is_full
from search.space.space import Space

_FIXED: Mapping[str, Any] = {
    "rows_begin": AS_THEY_ARE,
    "fold": APART,
    "unroll": 1,
    "blocks_per_sm": 1,
    "parked": 0,
}
"""What knobs of the row scheduler say that these rows have no choice of: columns stay with their threads."""


@dataclass(frozen=True, slots=True)
class InnerOuter:
    """The scheduler of row and column reductions in one pass; `sm_count` says how many groups of rows are enough."""

    sm_count: int
    name: str = "inner_outer"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions that fold rows in memory and across them, in groups of rows that fill the card."""
        return refusal_by(lambda sf: refusal_of(fusion, sf, arch, self.sm_count), fusion)

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return inner_outer_space(fusion, arch, self.sm_count)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        return _InnerOuterTrace(TraceBuilder(fusion, point[MATH]), {**_FIXED, **point}, self.sm_count).build()


@dataclass
class _InnerOuterTrace(RowTrace):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.unroll = steps_of(self.rows.cols, self.point)  # partial results of all steps are in registers

    def shape(self) -> RowShape:
        """The rows of the fusion, in groups."""
        found = inner_outer_shape(self.b.sf)
        assert isinstance(found, RowShape), "refused fusions have no points"
        return found

    @cached_property
    def across(self) -> frozenset[str]:
        """What is computed from reductions of columns, once for each group. Asked for when all tensors are there."""
        columns = next(names for dims, names in fold_sets(self.b.sf).items() if set(dims) == set(self.rows.crossed))
        return computed_across(self.b.sf, columns)

    def to_rows(self, tv: str) -> None:
        """[group, row, column]; [group, row] of a tensor over the kept dimensions, [group, column] of one across."""
        b, rows = self.b, self.rows
        dims = list(rows.order)
        if not is_full(b.tensor(tv), self.rank):
            left_out = rows.crossed if tv in self.across else rows.folded
            dims = [d for d in dims if d not in left_out]
        ascending = sorted(dims)
        b.reorder(tv, [ascending.index(d) for d in dims])
        at = 0
        for part in (rows.groups, rows.crossed, rows.folded):
            if part[0] in dims:
                b.merge(tv, at, len(part))
                at += 1

    def to_blocks(self, tv: str) -> None:
        """[group, iteration, row of the block, ...]."""
        self.to_rows(tv)
        if tv not in self.across:
            self.b.split(tv, 1, self.point["rows"])

    def is_kept(self, name: str) -> bool:
        """Whether what is loaded stays in registers: an operand of all rows does for all of them."""
        return self.is_held(name) or super().is_kept(name)

    def load_position(self, name: str) -> int:
        """Where a load stands: before the loop over rows where it is held, else as in the row scheduler."""
        if self.is_held(name):
            return 1
        return self.row_at if self.is_kept(name) else super().load_position(name)

    def is_held(self, name: str) -> bool:
        """True for what all rows read, loaded once by the threads that own its columns.

        Rows that lie in one place, of a tensor expanded by a stride of 0, are as many tensors to its loops: each loads
        its own.
        """
        logical = self.b.tensor(name).logical
        repeats = all(logical[d].is_broadcast or logical[d].extent == 1 for d in self.rows.crossed)
        return self.point["operands"] == HELD and not self.loads[name].in_kept and repeats

    def has_row(self, tv: str) -> bool:
        """Whether a tensor has an axis for the elements of a row."""
        return tv in self.across or super().has_row(tv)
