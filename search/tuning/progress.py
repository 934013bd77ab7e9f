"""What a tuning shows while it runs: one live table in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from search.tuning.trial import Trial, TrialState

_LINE_EVERY_S = 5.0
"""Plain output gets a line this often, and one for each new best and phase."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tuning at one moment. `floor_us` is the least time that the card allows, if known; `first_s` when the first
    kernel was right and timed."""

    phase: str
    states: Mapping[TrialState, int] = field(default_factory=dict)
    best: Trial | None = None
    floor_us: float | None = None
    elapsed_s: float = 0.0
    budget_s: float | None = None
    compiling: int = 0
    waiting: int = 0
    first_s: float | None = None
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        return sum(self.states.values())

    @property
    def per_second(self) -> float:
        return self.trials / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def left_s(self) -> float | None:
        return None if self.budget_s is None else max(0.0, self.budget_s - self.elapsed_s)

    @property
    def floor_share(self) -> float | None:
        """Floor over best time: 1.0 is as fast as the card can be."""
        if self.best is None or self.best.median_us is None or self.floor_us is None:
            return None
        return self.floor_us / self.best.median_us


def failure_counts(trials: Iterable[Trial]) -> Mapping[str, int]:
    """Failed trials by state and, for illegal ones, by rule; most frequent first."""
    counts: Counter[str] = Counter()
    for trial in trials:
        if trial.state.is_failure:
            rules = sorted({violation.rule for violation in trial.violations})
            counts.update(f"{trial.state} ({rule})" for rule in rules)
            if not rules:
                counts[str(trial.state)] += 1
    return dict(counts.most_common())


class Progress(Protocol):
    """Shown a snapshot whenever something changed; shows notes as they come."""

    def show(self, snapshot: Snapshot) -> None:
        """The tuning now. Cheap: called many times a second."""
        ...

    def note(self, text: str) -> None:
        """One line that stays."""
        ...


class Silent:
    """A `Progress` that shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


class PlainProgress:
    """A `Progress` of lines, for logs and pipes."""

    def __init__(self, console: Console, title: str = "") -> None:
        self._console = console
        self._title = f"{title}: " if title else ""
        self._last_line = float("-inf")
        self._told: tuple[int | None, str] | None = None

    def show(self, snapshot: Snapshot) -> None:
        now = snapshot.best.number if snapshot.best else None, snapshot.phase
        is_due = time.monotonic() - self._last_line >= _LINE_EVERY_S
        if now != self._told or is_due:
            self._told, self._last_line = now, time.monotonic()
            self.note(", ".join(text for _, text in facts(snapshot)))

    def note(self, text: str) -> None:
        self._console.print(f"{self._title}{text}", highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Nothing to restore."""


class LiveProgress:
    """A `Progress` that redraws one table in a terminal. Use it in a `with`: the terminal is restored at the end."""

    def __init__(self, console: Console, title: str = "") -> None:
        self._title = title
        self._live = Live(console=console, refresh_per_second=8, transient=False)

    def show(self, snapshot: Snapshot) -> None:
        self._live.update(_table(self._title, snapshot))

    def note(self, text: str) -> None:
        self._live.console.print(text, highlight=False, markup=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()


def progress_on(console: Console, title: str = "") -> LiveProgress | PlainProgress:
    """The live table if `console` is a terminal, else lines."""
    return LiveProgress(console, title) if console.is_terminal else PlainProgress(console, title)


def facts(snapshot: Snapshot) -> list[tuple[str, str]]:
    """What there is to say of a snapshot: label and text, which says it without the label too."""
    measured = snapshot.states.get(TrialState.MEASURED, 0)
    duplicates = snapshot.states.get(TrialState.DUPLICATE, 0)
    shown = [("phase", snapshot.phase)]
    if snapshot.best is not None and snapshot.best.median_us is not None:
        share = "" if snapshot.floor_share is None else f", {snapshot.floor_share:.0%} of the roofline"
        shown.append(("best", f"best {snapshot.best.median_us:.2f} us{share} (trial {snapshot.best.number})"))
    shown.append(("trials", f"{snapshot.trials} trials, {measured} measured, {duplicates} duplicates"))
    shown.append(("rate", f"{snapshot.per_second:.1f} trials/s, {snapshot.compiling} compiling"))
    if snapshot.failures:
        listed = ", ".join(f"{count} {reason}" for reason, count in list(snapshot.failures.items())[:6])
        shown.append(("failed", f"failed: {listed}"))
    first = "" if snapshot.first_s is None else f", first kernel after {snapshot.first_s:.1f} s"
    left = "" if snapshot.left_s is None else f", {snapshot.left_s:.0f} s left"
    shown.append(("time", f"{snapshot.elapsed_s:.0f} s{left}{first}"))
    return shown


def _table(title: str, snapshot: Snapshot) -> RenderableType:
    table = Table(title=title or None, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for label, text in facts(snapshot):
        table.add_row(label, Text(text))
    if snapshot.best is not None:
        table.add_row("point", Text(str(snapshot.best.candidate)))
    if snapshot.budget_s:
        return Group(table, ProgressBar(total=snapshot.budget_s, completed=snapshot.elapsed_s, width=60))
    return table
