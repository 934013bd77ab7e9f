"""Scan: fusions with sums up to each element along a dimension, each read and written once.

The loops of a tensor, along rows whose elements are neighbours in memory, and along columns:

    row block | row of the block | thread of the row | step | unrolled step | lane
    column block | thread | step | unrolled step | lane, another column

A thread's word is added up, lanes and warps hand on what they come to, and steps carry it (`analysis.loops.scan`).
Along columns each thread walks some of its own. What an unrolled step reads is loaded before the first is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.arch import Arch
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import SCANS
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.space.builder import TraceBuilder, refusal_by
from search.space.groups import MATH, set_cache
from search.space.schedulers.pointwise_body import is_packed_cast
from search.space.schedulers.row_shape import RowOperand
from search.space.schedulers.scan_space import ROWS, ScanShape, scan_shape, scan_space
from search.space.space import Space

P = ParallelType


@dataclass(frozen=True, slots=True)
class Scan:
    """The scheduler of scans."""

    name: str = "scan"

    def refusal(self, fusion: Fusion, arch: Arch) -> str | None:
        """Takes fusions whose scans go along the same dimension, with pointwise operators around them."""
        return refusal_by(scan_shape, fusion)

    def space(self, fusion: Fusion, arch: Arch) -> Space:
        return scan_space(fusion, arch)

    def trace(self, fusion: Fusion, point: Mapping[str, Any]) -> ScheduleTrace:
        """The schedule of a point. Raises InvalidStep where a step cannot be applied."""
        b = TraceBuilder(fusion, point[MATH])
        found = scan_shape(b.sf)
        assert isinstance(found, ScanShape), "refused fusions have no points"
        return _ScanTrace(b, point, found).build()


@dataclass
class _ScanTrace:
    b: TraceBuilder
    point: Mapping[str, Any]
    found: ScanShape
    loads: dict[str, RowOperand] = field(default_factory=dict)
    """Register tensor that is read from memory -> the operand."""
    stores: dict[str, RowOperand] = field(default_factory=dict)
    """Output -> the operand."""

    def __post_init__(self) -> None:
        self.is_row = self.found.way == ROWS
        self.thread_at = 2 if self.is_row else 1

    def build(self) -> ScheduleTrace:
        """All steps of the point. Raises InvalidStep."""
        b, p = self.b, self.point
        for o in self.found.runs.operands:
            if o.is_output:
                b.do(steps.CacheOutput(o.name, f"{o.name}_r", MemoryType.LOCAL))
                self.stores[o.name] = o
            elif o.is_direct:
                b.do(steps.CacheInput(o.name, f"{o.name}_r", MemoryType.LOCAL))
                self.loads[f"{o.name}_r"] = o
            else:
                self.loads[o.read] = o
        self.loops()
        between = [op.output for op in b.sf.ops if op.output not in self.loads and op.output not in self.stores]
        b.inline(self.loads, self.thread_at + 2)
        b.inline(between, self.thread_at + 3)
        streams = set(self.found.runs.streams)
        set_cache(b, [n for n, o in self.loads.items() if o in streams], p["cache_load"])
        set_cache(b, [n for n, o in self.stores.items() if o in streams], p["cache_store"])
        return b.trace()

    def loops(self) -> None:
        """The loops of all tensors, scans first, and their types."""
        b, vector = self.b, self.point["vector"]
        names = sorted((op.output for op in b.sf.ops), key=self.is_no_scan)
        b.alike(names, self.to_threads)
        widths = {name: self.width(name) for name in names}
        in_words = b.split_words(widths, vector)
        whole = sorted(names, key=lambda n: 1 < widths[n] < vector)
        types = [P.BIDX, *([P.TIDY] if self.is_row else []), P.TIDX, P.SERIAL, P.UNROLL, P.UNROLL]
        b.parallelize_alike(whole, types)
        b.vectorize_words(in_words)
        b.vectorize(n for n in names if widths[n] == vector > 1)

    def is_no_scan(self, name: str) -> bool:
        op = self.b.sf.producer(name)
        return op is None or op.kind not in SCANS

    def to_threads(self, tv: str) -> None:
        """The dimensions of the space -> [.., thread, step, unrolled step, lane]."""
        b, p, f = self.b, self.point, self.found
        b.reorder(tv, [*f.others, *f.walked])
        b.merge(tv, 0, len(f.others))
        b.merge(tv, 1, len(f.walked))
        if not self.is_row:
            b.split(tv, 0, p["vector"])
            b.split(tv, 0, p["threads"])
            b.split(tv, 3, p["unroll"])
            b.reorder(tv, [0, 1, 3, 4, 2])
            return
        b.split(tv, 0, p["rows"])
        b.split(tv, 2, p["vector"])
        b.split(tv, 2, p["threads"])
        b.split(tv, 2, p["unroll"])
        b.reorder(tv, [0, 1, 4, 2, 3, 5])

    def width(self, tv: str) -> int:
        """Elements by which a tensor is moved, converted or added up; 1 for what is computed one by one."""
        vector, runs = int(self.point["vector"]), self.found.runs
        if self.b.tensor(tv).loop[-1].is_broadcast:
            return 1
        operand = self.loads.get(tv) or self.stores.get(tv)
        if operand is not None:
            return runs.width(operand, vector) if operand.in_rows else 1
        op = self.b.sf.producer(tv)
        is_scan = op is not None and op.kind in SCANS
        return vector if (is_scan and self.is_row) or is_packed_cast(self.b, tv) else 1
