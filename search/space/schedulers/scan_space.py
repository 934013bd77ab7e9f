"""Knobs and constraints of the scheduler of scans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from compiler.arch import WARP_THREADS, Arch
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion
from compiler.ir.ops import SCANS
from compiler.schedule.start import start
from search.space.constraints import Constraint
from search.space.groups import STREAMING, hint_knob, math_knob
from search.space.knobs import Knob, powers_of_two
from search.space.schedulers.row_shape import VECTORS, RowShape, chosen_refusal, product_refusal, shape_of_rows
from search.space.space import Space

ROWS, COLUMNS = "rows", "columns"

MOST_STEPS = 16
"""Words of a thread that are loaded before the first is added: more only lengthen the code."""

MOST_VECTOR_BYTES = 64
"""Bytes of a thread's word of the widest stream: it lies in registers, twice for what is read and made."""

WIDTHS = 3
"""Widths of words that are tried: the widest ones."""


@dataclass(frozen=True)
class ScanShape:
    """What is walked in one pass: `walked` dimensions, and the `others`. Of `rows` neighbours along the walked ones are
    neighbours in memory, of `columns` those along the others; `runs` has either as the rows of `RowShape`."""

    way: str
    runs: RowShape
    walked: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def length(self) -> int:
        """Elements of one scan."""
        return self.runs.cols if self.way == ROWS else self.runs.rows

    @property
    def count(self) -> int:
        """Scans."""
        return self.runs.rows if self.way == ROWS else self.runs.cols

    @cached_property
    def vectors(self) -> tuple[int, ...]:
        """Elements by which some operand is moved: the widest ones, and one by one where there are no others."""
        able = {1, *(v for v in VECTORS for o in self.runs.streams if self.runs.width(o, v) == v)}
        widest = max((o.nbytes for o in self.runs.operands), default=4)
        fit = [v for v in sorted(able) if v * widest <= MOST_VECTOR_BYTES and (v <= self.runs.cols or v == 1)]
        return tuple(fit[-WIDTHS:])


def scan_shape(sf: ScheduledFusion) -> ScanShape | str:
    """How the scans of an unscheduled fusion are walked, or why they are not walked together."""
    dims = {op.dims for op in sf.ops if op.kind in SCANS}
    if not dims:
        return "it has no scan"
    if len(dims) > 1:
        return "it has scans along different dimensions; leave each to a launch of its own"
    if (refused := product_refusal(sf) or chosen_refusal(sf)) is not None:
        return refused
    (walked,) = dims
    first = next(op.output for op in sf.ops if op.kind in SCANS)
    others = tuple(d for d in range(len(sf.tensor(first).logical)) if d not in walked)
    rows = shape_of_rows(sf, walked)
    if isinstance(rows, RowShape) and rows.folded == walked:
        return ScanShape(ROWS, rows, walked, others)
    columns = shape_of_rows(sf, others)
    if isinstance(columns, RowShape):
        return ScanShape(COLUMNS, columns, walked, columns.folded)
    return f"no input has neighbours in memory along {walked}, and none along {others}"


def scan_space(fusion: Fusion, arch: Arch) -> Space:
    """The space of a fusion that the scheduler takes."""
    found = scan_shape(start(fusion))
    assert isinstance(found, ScanShape), "refused fusions have no space"
    most = arch.max_threads_per_block
    is_row = found.way == ROWS
    knobs = (
        Knob("vector", found.vectors),
        Knob("threads", powers_of_two(most) if is_row else tuple(n for n in powers_of_two(most) if n >= WARP_THREADS)),
        Knob("rows", powers_of_two(WARP_THREADS) if is_row else (1,)),
        Knob("unroll", powers_of_two(MOST_STEPS)),
        hint_knob("cache_load", STREAMING),
        hint_knob("cache_store", STREAMING),
        math_knob(fusion),
    )
    return Space("scan", knobs, tuple(_constraints(found, most)))


def _constraints(f: ScanShape, most: int) -> list[Constraint]:
    steps = [
        Constraint(
            "block_has_threads_enough",
            ("threads", "rows"),
            lambda threads, rows: threads * rows <= most,
            f"A block has at most {most} threads.",
        )
    ]
    if f.way == COLUMNS:
        return [
            *steps,
            Constraint(
                "tile_exceeds_the_problem",
                ("vector", "threads"),
                lambda vector, threads: (vector * threads < 2 * f.count) | (threads == WARP_THREADS),
                "Threads are not twice the columns.",
            ),
            Constraint(
                "tile_exceeds_the_problem",
                ("unroll",),
                lambda unroll: unroll <= f.length,
                "Words that are loaded ahead are not more than a column has.",
            ),
        ]
    return [
        *steps,
        Constraint(
            "scans_are_shared_by_whole_warps",
            ("threads", "rows"),
            lambda threads, rows: (threads * rows >= WARP_THREADS) | (rows >= f.count),
            "A block has whole warps, or all rows.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("vector", "threads"),
            lambda vector, threads: (vector * threads < 2 * f.length) | (threads == 1),
            "Threads along a row are not twice its words.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("rows",),
            lambda rows: rows < 2 * f.count,
            "Rows of a block are not twice all rows.",
        ),
        Constraint(
            "tile_exceeds_the_problem",
            ("vector", "threads", "unroll"),
            lambda vector, threads, unroll: (vector * threads * unroll < 2 * f.length) | (unroll == 1),
            "Words that are loaded ahead are not twice a row.",
        ),
    ]
