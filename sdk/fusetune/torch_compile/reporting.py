"""`fusetune.report()`: what was taken of the compiled graphs, what not, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from fusetune.environment import Environment
from fusetune.torch_compile.calls import RegionCall
from fusetune.torch_compile.choosing import Engine, KernelChoice
from fusetune.torch_compile.regions.region import Region
from fusetune.wire.artifact import Evidence

_COLUMNS = (
    "region",
    "line",
    "operators",
    "bytes",
    "kernel",
    "evidence",
    "otherwise",
    "otherwise us",
    "kernel us",
    "speed-up",
    "why not",
)


class ReportedRegion(Protocol):
    """A region of a graph. `choices`: for each of its sizes; `why`: why fusions cannot say it, where they cannot."""

    @property
    def name(self) -> str: ...
    @property
    def line(self) -> str: ...
    @property
    def operators(self) -> int: ...
    @property
    def moved_bytes(self) -> int: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def choices(self) -> Sequence[KernelChoice]: ...
    @property
    def why(self) -> str: ...


@dataclass(frozen=True)
class Proposed:
    """A region beside eager. `call` is None where fusions cannot say it, for the reason in `why`."""

    graph: str
    number: int
    line: str
    region: Region
    call: RegionCall | None
    why: str = ""
    engine: Engine = "eager"

    @property
    def name(self) -> str:
        """Graph and number."""
        return f"{self.graph}/{self.number}"

    @property
    def operators(self) -> int:
        """Torch's."""
        return self.region.operators

    @property
    def moved_bytes(self) -> int:
        """What a kernel moves at least."""
        return self.region.moved_bytes

    @property
    def choices(self) -> Sequence[KernelChoice]:
        """As they stand now."""
        return () if self.call is None else tuple(self.call.choices.values())


@dataclass(frozen=True)
class ReportRow:
    """One region, as it stands now; times were measured in place, bytes are what a kernel moves at least. `otherwise`:
    who runs it without a kernel, and what the kernel is timed against; `page`: where the service shows the kernel."""

    region: str
    line: str
    operators: int
    moved_bytes: int
    kernel: str
    evidence: str
    otherwise: Engine
    otherwise_us: float | None
    kernel_us: float | None
    why: str
    page: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, a column each."""
        speed_up = f"{self.otherwise_us / self.kernel_us:.2f}x" if self.otherwise_us and self.kernel_us else ""
        times = (f"{us:.1f}" if us is not None else "" for us in (self.otherwise_us, self.kernel_us))
        return (self.region, self.line, str(self.operators), str(self.moved_bytes), self.kernel, self.evidence,
                self.otherwise, *times, speed_up, self.why)  # fmt: skip


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
        """A notebook's; a kernel that the service made leads to its page."""
        head = "".join(f"<th>{escape(name)}</th>" for name in _COLUMNS)
        body = "".join(f"<tr>{''.join(_html_cells(row))}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def report_of(regions: Sequence[ReportedRegion]) -> RegionReport:
    """The table of these regions, as they stand now."""
    return RegionReport(tuple(_row(x) for x in regions))


def _row(x: ReportedRegion) -> ReportRow:
    choice = next(iter(x.choices), None)
    if choice is None:
        why = x.why or "its sizes were not seen yet"
        return ReportRow(x.name, x.line, x.operators, x.moved_bytes, "", "", x.engine, None, None, why)
    kernel = choice.kernel
    told = "" if kernel is None else getattr(kernel, "told", None) or _evidence(kernel.artifact.evidence)
    return ReportRow(
        x.name, x.line, x.operators, x.moved_bytes, choice.key[0][:12] if kernel is not None else "", told, x.engine,
        choice.otherwise_us, choice.kernel_us, x.why or choice.why, _page(kernel),
    )  # fmt: skip


def _evidence(evidence: Evidence) -> str:
    return f"{evidence.correct}, time {evidence.time}"


def _page(kernel: object) -> str | None:
    """The kernel's page, where it came from the service of this environment."""
    info = getattr(kernel, "info", None)
    return None if info is None else f"{Environment.read().url.rstrip('/')}/kernels/{info.id}"


def _html_cells(row: ReportRow) -> list[str]:
    cells = [escape(cell) for cell in row.cells]
    if row.page is not None:
        at = _COLUMNS.index("kernel")
        cells[at] = f'<a href="{escape(row.page)}">{cells[at]}</a>'
    return [f"<td>{cell}</td>" for cell in cells]


def summary(regions: Sequence[ReportedRegion], engine: Engine) -> str:
    """One line for the log."""
    said = [x for x in regions if x.choices]
    keys = {choice.key for x in said for choice in x.choices}
    taken = sum(any(choice.is_taken for choice in x.choices) for x in said)
    left = sum(bool(x.why) for x in regions)
    line = (
        f"{len(regions)} regions, {len(keys)} distinct, {taken} by kernels, {len(regions) - taken - left} in {engine}"
    )
    return f"{line}, {left} that fusions cannot say" if left else line
