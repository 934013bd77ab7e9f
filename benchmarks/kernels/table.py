"""Results of a run: one row a case, as JSON and as a text table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.kernels.limits import CardLimits
from benchmarks.kernels.reference import Agreement
from benchmarks.kernels.timing import Timed

UNSTEADY = 0.10
"""Rounds whose medians lie further apart than this are marked `~`."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What one implementation did on one case. `error` says why a time or a comparison is missing."""

    timed: Timed | None = None
    agreement: Agreement | None = None
    error: str = ""

    @property
    def counts(self) -> bool:
        """A wrong result is never a time."""
        return self.timed is not None and self.agreement is not None and self.agreement.ok

    def cell(self) -> str:
        if self.error:
            return "error"
        if self.timed is None:
            return "-"
        if not self.counts:
            return f"{_us(self.timed.us)}!"
        return _us(self.timed.us) + ("~" if self.timed.spread > UNSTEADY else "")


@dataclass(slots=True)
class TableRow:
    """One case: the bytes it moves, its limits in microseconds where they were measured, and a result for each mode."""

    case: str
    bytes: int
    limit_us: float | None = None
    copy_us: float | None = None
    results: dict[str, CaseResult] = field(default_factory=dict)
    winner: dict[str, Any] | None = None
    """The tuned kernel: its launches, resources and predicted cost terms."""
    like_us: float | None = None
    """What the case takes that is this one's floor, if one is: moving the same rows, say."""

    @property
    def floor_us(self) -> float | None:
        if self.like_us is not None:
            return self.like_us
        return max(self.limit_us, self.copy_us) if self.limit_us is not None and self.copy_us is not None else None

    def over_floor(self, mode: str) -> float | None:
        """The mode's time over the floor; None where either is unknown."""
        result = self.results.get(mode)
        if result is None or result.timed is None or not result.counts or self.floor_us is None:
            return None
        return result.timed.us / self.floor_us

    def least_us(self) -> float | None:
        """The best time of a right implementation."""
        return min((r.timed.us for r in self.results.values() if r.timed is not None and r.counts), default=None)

    def to_json(self) -> dict[str, Any]:
        results = {}
        for mode, result in self.results.items():
            results[mode] = {
                **(result.timed.to_json() if result.timed else {}),
                **(
                    {"rel_l2": result.agreement.rel_l2, "rel_max": result.agreement.rel_max} if result.agreement else {}
                ),
                "correct": result.agreement.ok if result.agreement else None,
                "error": result.error or (result.agreement.why if result.agreement else ""),
            }
        return {
            "case": self.case,
            "bytes": self.bytes,
            "limit_us": self.limit_us,
            "copy_us": self.copy_us,
            "like_us": self.like_us,
            "floor_us": self.floor_us,
            "results": results,
            "winner": self.winner,
        }


def to_json(rows: Sequence[TableRow], limits: CardLimits | None, command: str) -> dict[str, Any]:
    """The whole run, with the command that made it."""
    return {
        "format": "fusetune.benchmark/1",
        "command": command,
        "limits": limits.to_json() if limits else None,
        "rows": [row.to_json() for row in rows],
    }


def to_text(rows: Sequence[TableRow], modes: Sequence[str]) -> str:
    """A Markdown table; times in microseconds, the last column the plugin's (or else the best) time over the floor.

    What only some cases have beside the modes has a column, too.
    """
    modes = list(dict.fromkeys([*modes, *(mode for row in rows for mode in row.results)]))
    head = ["case", "MB", "limit", "copy", *modes, "time/floor"]
    cells = [head, ["---"] * len(head)]
    for row in rows:
        ratio = row.over_floor("plugin") if "plugin" in modes else _least(row.over_floor(mode) for mode in modes)
        times = [row.results.get(mode, CaseResult()).cell() for mode in modes]
        cells.append([row.case, f"{row.bytes / 1e6:.1f}", _us(row.limit_us), _us(row.copy_us), *times, _ratio(ratio)])
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in cells]
    for row in rows:
        for mode, result in row.results.items():
            why = result.error or (result.agreement.why if result.agreement else "")
            if why:
                lines.append(f"! {row.case} {mode}: {why[:300]}")
    return "\n".join(lines)


def geometric_mean(rows: Sequence[TableRow], mode: str) -> float | None:
    """Of the mode's time over the floor, over the rows that have both; None for no row."""
    ratios = [r for row in rows if (r := row.over_floor(mode)) is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def summary(limits: CardLimits) -> str:
    """One line about the card."""
    matmul = f", bf16 matmul {limits.matmul_tflop_s:.0f} TFLOP/s" if limits.matmul_tflop_s else ""
    return (
        f"{limits.device}, torch {limits.torch}: copy {limits.copy_tb_s:.2f} TB/s, read {limits.read_tb_s:.2f}, "
        f"two reads and a write {limits.add_tb_s:.2f}, write {limits.write_tb_s:.2f}{matmul}"
    )


def _least(ratios: Any) -> float | None:
    return min((r for r in ratios if r is not None), default=None)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _us(value: float | None) -> str:
    return "-" if value is None else (f"{value:.1f}" if value < 1000 else f"{value:.0f}")
