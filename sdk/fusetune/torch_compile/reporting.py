"""`fusetune.report()`: what was taken of the compiled graphs, what not, and why."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from fusetune.torch_compile.calls import RegionCall
from fusetune.torch_compile.regions.region import Region

_COLUMNS = (
    "region",
    "line",
    "operators",
    "bytes",
    "kernel",
    "evidence",
    "eager us",
    "kernel us",
    "speed-up",
    "why not",
)


@dataclass(frozen=True)
class Proposed:
    """A region of a graph. `call` is None where fusions cannot say it, for the reason in `why`."""

    graph: str
    number: int
    line: str
    region: Region
    call: RegionCall | None
    why: str = ""


@dataclass(frozen=True)
class ReportRow:
    """One region, as it stands now; times were measured in place, bytes are what a kernel moves at least."""

    region: str
    line: str
    operators: int
    moved_bytes: int
    kernel: str
    evidence: str
    eager_us: float | None
    kernel_us: float | None
    why: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, a column each."""
        speed_up = f"{self.eager_us / self.kernel_us:.2f}x" if self.eager_us and self.kernel_us else ""
        times = (f"{us:.1f}" if us is not None else "" for us in (self.eager_us, self.kernel_us))
        return (self.region, self.line, str(self.operators), str(self.moved_bytes), self.kernel, self.evidence, *times,
                speed_up, self.why)  # fmt: skip


@dataclass(frozen=True)
class RegionReport:
    """The regions of all graphs that were compiled in this process; a table as text, and in a notebook."""

    rows: tuple[ReportRow, ...]

    def __str__(self) -> str:
        table = [_COLUMNS, *(row.cells for row in self.rows)]
        widths = [max(len(line[n]) for line in table) for n in range(len(_COLUMNS))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in _COLUMNS)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row.cells)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def report_of(proposed: Sequence[Proposed]) -> RegionReport:
    """The table of these regions, as they stand now."""
    return RegionReport(tuple(_row(x) for x in proposed))


def _row(x: Proposed) -> ReportRow:
    name = f"{x.graph}/{x.number}"
    choice = None if x.call is None else next(iter(x.call.choices.values()), None)
    if choice is None:
        why = x.why or "its sizes were not seen yet"
        return ReportRow(name, x.line, x.region.operators, x.region.moved_bytes, "", "", None, None, why)
    kernel = choice.kernel
    evidence = kernel.artifact.evidence if kernel is not None else None
    told = f"{evidence.correct}, time {evidence.time}" if evidence is not None else ""
    return ReportRow(
        name, x.line, x.region.operators, x.region.moved_bytes, choice.key[0][:12] if kernel is not None else "", told,
        choice.eager_us, choice.kernel_us, choice.why,
    )  # fmt: skip


def summary(proposed: Sequence[Proposed]) -> str:
    """One line for the log."""
    calls = [x.call for x in proposed if x.call is not None]
    keys = {c.key for call in calls for c in call.choices.values()}
    taken = sum(any(c.is_taken for c in call.choices.values()) for call in calls)
    left = len(proposed) - len(calls)
    line = f"{len(proposed)} regions, {len(keys)} distinct, {taken} by kernels, {len(calls) - taken} in eager"
    return f"{line}, {left} that fusions cannot say" if left else line
