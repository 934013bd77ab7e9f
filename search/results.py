"""What a tuning leaves behind: the winner as a kernel artifact, and one table of results for the folder.

OUT/kernels/NAME.json    the winner of NAME, a kernel artifact (`fusetune.kernel/1`)
OUT/results.json         for each NAME: times, evidence, counts, and the winning candidate
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.ir.fusion import Fusion
from search.prepared import write_whole
from search.trial import Trial
from search.tuner import Outcome

FORMAT = "fusetune.results/1"


@dataclass(frozen=True, slots=True)
class Subject:
    """What was tuned, and where: the part of a result that is known before the search."""

    name: str
    fusion: Fusion
    card: str
    points: int
    legal: int
    floor_us: float | None = None


def kernel_path(out: Path, name: str) -> Path:
    """Where the winner of `name` is kept."""
    return out / "kernels" / f"{name}.json"


def write_outcome(out: Path, subject: Subject, outcome: Outcome) -> dict[str, Any]:
    """Keep the winner and the subject's row of `results.json`; returns the row."""
    row: dict[str, Any] = {
        "fingerprint": subject.fusion.fingerprint,
        "binding": subject.fusion.binding_hash,
        "card": subject.card,
        "points": subject.points,
        "legal": subject.legal,
        "trials": dict(Counter(str(trial.state) for trial in outcome.trials)),
        "ended": outcome.ended,
        "floor_us": subject.floor_us,
    }
    if outcome.winner is not None:
        trial = outcome.winner.trial
        write_whole(kernel_path(out, subject.name), outcome.winner.artifact.model_dump_json(indent=1))
        row |= {
            "kernel": str(kernel_path(out, subject.name).relative_to(out)),
            "evidence": outcome.winner.artifact.evidence.model_dump(),
            "median_us": trial.median_us,
            "p10_us": trial.p10_us,
            "p90_us": trial.p90_us,
            "predicted_us": trial.predicted_us,
            "winner": trial.candidate.to_json(),
            "tied": [_tied(outcome.trials, number) for number in outcome.winner.tied],
        }
    results = read_results(out)
    results[subject.name] = row
    write_whole(out / "results.json", json.dumps({"format": FORMAT, "results": results}, indent=1))
    return row


def read_results(out: Path) -> dict[str, Any]:
    """The rows of `results.json` by name; none if there is no such file, or it is not ours."""
    try:
        document = json.loads((out / "results.json").read_text(encoding="utf-8"))
        return dict(document["results"]) if document["format"] == FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _tied(trials: tuple[Trial, ...], number: int) -> dict[str, Any]:
    trial = next(trial for trial in trials if trial.number == number)
    return {**trial.candidate.to_json(), "median_us": trial.median_us}
