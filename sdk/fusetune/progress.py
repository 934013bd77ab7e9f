"""A tuning's progress as a person reads it: one line that is rewritten on a terminal, a line a change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from fusetune.waiting import Progress
from fusetune.wire.service import ACTIVE, TuningView


class StatusLine:
    """Writes each state of a tuning to `stream`, stderr by default. `close` ends the line that is rewritten."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._rewrites = self._stream.isatty()
        self._width = 0
        self._last: object = None

    def __call__(self, view: TuningView) -> None:
        """Shows one state; what a log does not gain by (counts, seconds) is shown on a terminal only."""
        text = status_text(view)
        if self._rewrites:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            change = (view.state, view.phase, view.best and view.best.number)
            if change != self._last:
                self._stream.write(text + "\n")
            self._last = change
        self._stream.flush()

    def close(self) -> None:
        """Ends the line."""
        if self._rewrites and self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0


@contextmanager
def told_to(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Who is told every state of a tuning: `progress` itself, or for True a line, which ends with what is done here."""
    if progress is not True:
        yield progress if callable(progress) else None
        return
    line = StatusLine()
    try:
        yield line
    finally:
        line.close()


def status_text(view: TuningView) -> str:
    """`bias_gelu on NVIDIA H200: running, timing; 120 trials, 80 measured; best 34.2 us; 12 of 60 s (tuning 3f2a…)`"""
    state = view.state + (f", {view.phase}" if view.phase and view.state in ACTIVE else "")
    facts = [f"{view.name or view.fingerprint[:12]} on {view.card.name}: {state}"]
    if view.state == "queued" and view.ahead:
        facts.append(f"{view.ahead} ahead")
    if view.trials:
        facts.append(f"{sum(view.trials.values())} trials, {view.trials.get('measured', 0)} measured")
    if view.best is not None:
        facts.append(f"best {view.best.median_us:.1f} us")
    facts.append(f"{view.spent_s:.0f} of {view.budget_s:.0f} s")
    return f"{'; '.join(facts)} (tuning {view.id[:8]})"
