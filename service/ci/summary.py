"""The report for people: a table for the terminal and the log, and Markdown for a CI job's summary page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from service.ci.verdict import BAD_INPUT, BAD_KERNEL, GOOD, LOCK_MISS, NEEDS_GPU, CiReport, CiVerdict

_MEANING = {
    GOOD: "all good",
    BAD_KERNEL: "a kernel is wrong, changed or slower, or could not be rebuilt or run",
    BAD_INPUT: "a file cannot be used",
    LOCK_MISS: "lock miss",
    NEEDS_GPU: "nothing was wrong, but something needs a GPU that this machine lacks",
}
_HEAD = ("fusion", "result", "us", "lock us", "floor us")


def text_summary(report: CiReport) -> str:
    """The table, then what each fusion that is not plainly good has to say, the notes, and the last word."""
    rows = [_HEAD, *map(_row, report.verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_aligned(row, widths) for row in rows]
    for verdict in report.verdicts:
        lines += ["", f"{verdict.name}: {verdict.status}: {verdict.message}"]
        lines += [f"  {detail}" for detail in verdict.details]
    lines += ["", f"ran on: {report.device}", *report.notes, _last_word(report)]
    return "\n".join(lines)


def markdown_summary(report: CiReport) -> str:
    """A table with a line for each fusion; what is to be read about the others in a list below."""
    lines = [f"### fusetune: {_MEANING[report.exit_code]}", "", _md_row(_HEAD), _md_row(("---", "---", *["---:"] * 3))]
    lines += [_md_row([_md(cell) for cell in _row(verdict)]) for verdict in report.verdicts]
    lines.append("")
    for verdict in report.verdicts:
        lines.append(f"- **{_md(verdict.name)}**: {_md(f'{verdict.status}: {verdict.message}')}")
        lines += [f"  - {_md(detail)}" for detail in verdict.details]
    lines += ["", *(f"- {_md(line)}" for line in (f"ran on: {report.device}", *report.notes)), "", _last_word(report)]
    return "\n".join(lines) + "\n"


def _row(verdict: CiVerdict) -> tuple[str, ...]:
    """Cells of a verdict. `us` is of this run alone: what was not run here has none."""
    times = (verdict.measured_us, verdict.locked_us, verdict.floor_us)
    return (verdict.name, verdict.status.value, *("-" if us is None else f"{us:.2f}" for us in times))


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    numbers = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join((*texts, *numbers)).rstrip()


def _last_word(report: CiReport) -> str:
    counts = Counter(verdict.status for verdict in report.verdicts)
    counted = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    fusions = "1 fusion" if len(report.verdicts) == 1 else f"{len(report.verdicts)} fusions"
    return f"{fusions}: {counted}. Exit code {report.exit_code}: {_MEANING[report.exit_code]}."


def _md_row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]|~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " "})


def _md(text: str) -> str:
    """Text that shows as it is: a file's name must not become a table's column, a link or a tag."""
    return "".join(_escaped(text))


def _escaped(text: str) -> Iterator[str]:
    for character in text:
        yield character.translate(_SPECIAL)
