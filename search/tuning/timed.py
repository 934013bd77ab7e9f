"""Trials that hold both times, predicted and measured, out of journals and tables in T4: what a ranker is fitted to."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from fusetune.wire import t4
from search.space.renamed import point_today
from search.tuning.candidates.candidate import Candidate, checked
from search.tuning.journal import FORMAT
from search.tuning.trial import Trial, TrialState


class TimedError(Exception):
    """A file of which nothing can be learnt: `path` and `reason`."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class TimedTrial:
    """A candidate: the time that the model predicts, the terms that it makes it of, and what was measured, once or a
    second time. Microseconds."""

    candidate: Candidate
    predicted_us: float
    terms: Mapping[str, float]
    measured_us: float
    again_us: float | None = None


@dataclass(frozen=True, slots=True)
class TimedFusion:
    """What was measured of one fusion, as bound, on a card of this name. `is_measured`: by a GPU; else it is
    invented."""

    fusion: str
    card: str
    generator: str
    trials: Sequence[TimedTrial]
    is_measured: bool = True


def timed_of(trials: Iterable[Trial]) -> Iterator[TimedTrial]:
    """Those that were measured and predicted term by term; what has the kernel of another one is left out."""
    for trial in trials:
        if trial.state is TrialState.MEASURED and trial.median_us and trial.predicted_us and trial.predicted_terms:
            yield TimedTrial(trial.candidate, trial.predicted_us, trial.predicted_terms, trial.median_us)


def read_timed(path: Path) -> TimedFusion:
    """Of a journal, or of a table in T4 that may be packed. Raises TimedError, and OSError."""
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()
        first = text.partition("\n")[0]
        if FORMAT in first[:100]:
            return _of_journal(json.loads(first), text.splitlines()[1:])
        return _of_t4(json.loads(text))
    except (
        ArithmeticError, AttributeError, KeyError, TypeError, ValueError, EOFError, RecursionError, zlib.error,
        gzip.BadGzipFile,
    ) as error:  # fmt: skip
        why = str(error) or type(error).__name__
        raise TimedError(path, f"no journal and no table with predicted terms ({why}).") from None


def _of_journal(header: Mapping[str, str], lines: Sequence[str]) -> TimedFusion:
    trials: dict[int, Trial] = {}
    for number, line in enumerate(lines, start=1):
        try:
            trial = Trial.from_json(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise
            continue  # the last line was cut off
        trials[trial.number] = trial
    card = checked(header, "card", str).partition(",")[0]  # its figures follow its name
    fusion = f"{header['fingerprint']} {header['binding']}"
    timed = [_numbers(one) for one in timed_of(trials.values())]
    return TimedFusion(fusion, card, checked(header, "generator", str), timed, card != "fake")


def _of_t4(document: Any) -> TimedFusion:
    results, told = t4.read(document), document["metadata"]
    predicted, terms = told["predicted_us"], told["predicted_terms"]
    again = told.get("again_us") or [None] * len(results)
    columns = [predicted, again, *terms.values()]
    if any(len(column) != len(results) for column in columns):
        raise ValueError("metadata has lists of another length than the results")
    trials = []
    for n, result in enumerate(results):
        is_twin = not document["results"][n].get("times", {}).get("runtimes")  # its time is another one's
        own = {name: us for name, column in terms.items() if (us := _us(column[n])) is not None}
        predicted_us = _us(predicted[n])
        if result.us is None or is_twin or not predicted_us or not own:
            continue
        knobs = dict(result.configuration)
        candidate = Candidate.of(str(knobs.pop(t4.SCHEDULER)), point_today(knobs))
        trials.append(TimedTrial(candidate, predicted_us, own, result.us, _us(again[n])))
    fusion = f"{told['fingerprint']} {told['binding']}"
    card, generator = checked(told, "card", str), checked(told, "generator", str)
    return TimedFusion(fusion, card, generator, trials, told.get("evidence") != "invented")


def _numbers(trial: TimedTrial) -> TimedTrial:
    """The trial itself. Raises ValueError where a time or a term is no number."""
    for value in (trial.predicted_us, trial.measured_us, *trial.terms.values()):
        if _us(value) is None:
            raise ValueError("found null for microseconds, expected a number from 0")
    return trial


def _us(value: object) -> float | None:
    """Microseconds, None where there are none. Raises ValueError for what is neither."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < inf:
        raise ValueError(f"found {value!r} for microseconds, expected a number from 0")
    return float(value)
