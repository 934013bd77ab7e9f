"""How well predicted times rank candidates: by the journals of searches, which hold both times of each.

    python -m benchmarks.ranking FOLDER ... [--fusions FOLDER [--card NAME]] [--tried] [--json FILE]

A FOLDER holds one journal, or folders with one each, as `search measure` leaves them. A line a fusion: Spearman's rank
correlation of predicted and measured times (1: the same order; of equal times the mean rank), and how much slower than
the fastest the best of the first 1, 10 and 30 by prediction is, or with `--tried` of the first in the order in which a
search tries what it has predicted (`search.tuning.candidates.spread`). With `--fusions` kernels are generated again and
predicted by the model as it is now, with the registers and spills that the journal knows; points with knobs that no
longer exist are left out. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from compiler.arch import Card, card_or_default
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.pipeline import generate
from search.cli.load import load_many
from search.cost.predicting import refiner
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.spread import Ranked, spread
from search.tuning.fitting import rank_correlation
from search.tuning.trial import Trial, TrialState

FIRST = (1, 10, 30)
"""How many of the first are looked at for what a search would find among them."""

LEAST = 3
"""Trials of a fusion below which a rank correlation means nothing."""


@dataclass(frozen=True, slots=True)
class RankedCase:
    """One fusion: trials that have both times, their rank correlation, the fastest in microseconds, the spread of the
    measured times (median over fastest), and for each of `FIRST` the best of so many over the fastest."""

    name: str
    trials: int
    correlation: float
    best_us: float
    spread: float
    found: tuple[float, ...]

    def __str__(self) -> str:
        found = " ".join(f"{one:6.3f}" for one in self.found)
        return f"{self.name:44} {self.trials:6} {self.correlation:6.2f} {self.best_us:10.2f} {self.spread:6.3f} {found}"


def row_of(
    name: str, predicted: Sequence[float], measured: Sequence[float], order: Sequence[int] | None = None
) -> RankedCase:
    """The line of a fusion of which each candidate has both times, looked at in `order`: by default by prediction, of
    equal ones the earlier first."""
    times = np.array(measured)[np.argsort(np.array(predicted), kind="stable") if order is None else list(order)]
    best = float(times.min())
    found = tuple(float(times[:first].min()) / best for first in FIRST)
    return RankedCase(
        name, len(times), rank_correlation(predicted, measured), best, float(np.median(times)) / best, found
    )


def journals(folder: Path) -> Iterator[Path]:
    """The journal of the folder, or those of the folders in it."""
    own = folder / "journal.jsonl"
    yield from [own] if own.exists() else sorted(folder.glob("*/journal.jsonl"))


def measured_trials(journal: Path) -> list[Trial]:
    """Trials with both times. A last line that was cut off is left out, as `search.tuning.journal` does."""
    lines = journal.read_text().splitlines()[1:]
    found: dict[int, Trial] = {}
    for number, line in enumerate(lines, 1):
        try:
            trial = Trial.from_json(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise
            continue
        found[trial.number] = trial
    both = (t for t in found.values() if t.predicted_us is not None and t.median_us is not None)
    return [trial for trial in both if trial.state is TrialState.MEASURED]


def predicted_now(plan: Plan, card: Card, trials: Sequence[Trial]) -> list[tuple[Trial, float]]:
    """Trials whose kernels this version can generate, with its prediction in microseconds."""
    refine = refiner(card)
    plain = {name: {knob.name: knob.values[0] for knob in space.knobs} for name, space in plan.spaces.items()}
    found: list[tuple[Trial, float]] = []
    for trial in trials:
        scheduler = plan.schedulers.get(trial.candidate.scheduler)
        if scheduler is None or trial.resources is None:
            continue
        point = _completed(trial.candidate.knobs, plain[scheduler.name])
        try:
            generated = generate(scheduler.trace(plan.fusion, point), plan.arch)
        except (IllegalSchedule, InvalidStep, Unsupported, KeyError):  # KeyError: a knob of an older version
            continue
        found.append((trial, refine(generated, trial.resources).total_us))
    return found


def _completed(point: Mapping[str, object], plain: Mapping[str, object]) -> dict[str, object]:
    """The point with the first value of each knob that came later."""
    return {**plain, **{name: value for name, value in point.items() if name in plain}}


def tried(trials: Sequence[Trial], predicted: Sequence[float]) -> list[int]:
    """The numbers of the trials in the order in which a search would try them."""
    numbers = {trial.candidate: number for number, trial in enumerate(trials)}
    found = [Ranked(candidate, predicted[number]) for candidate, number in numbers.items()]
    return [numbers[candidate] for candidate in spread(found)]


def rows(folders: Sequence[Path], fusions: Path | None, card: Card, as_tried: bool = False) -> Iterator[RankedCase]:
    """A line for each journal with trials enough."""
    found = {journal: journal.parent.name for folder in folders for journal in journals(folder)}
    named = load_many([fusions], {}) if fusions else []
    plans = {one.name: Plan.of(one.bound(), card) for one in named if one.name in found.values()}
    for journal, name in found.items():
        trials = measured_trials(journal)
        pairs = [(trial, trial.predicted_us or 0.0) for trial in trials]
        if fusions is not None:
            pairs = predicted_now(plans[name], card, trials) if name in plans else []
        if len(pairs) >= LEAST:
            predicted = [us for _, us in pairs]
            order = tried([trial for trial, _ in pairs], predicted) if as_tried else None
            yield row_of(name, predicted, [trial.median_us or 0.0 for trial, _ in pairs], order)


def means(found: Sequence[RankedCase]) -> RankedCase:
    """The last line: trials in all, mean correlation, geometric means of the rest."""

    def geometric(values: Sequence[float]) -> float:
        return float(np.exp(np.mean(np.log(np.array(values)))))

    return RankedCase(
        f"mean of {len(found)}",
        sum(row.trials for row in found),
        float(np.mean([row.correlation for row in found])),
        geometric([row.best_us for row in found]),
        geometric([row.spread for row in found]),
        tuple(geometric(column) for column in zip(*(row.found for row in found), strict=True)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 if no journal has trials enough."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranking", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--fusions", type=Path, help="predict again, with the fusions of this folder")
    parser.add_argument("--card", help="the card to predict for")
    parser.add_argument("--tried", action="store_true", help="the first as a search tries them, not by prediction")
    parser.add_argument("--json", type=Path, help="write the lines here as well")
    given = parser.parse_args(arguments)
    firsts = " ".join(f"{f'of {first}':>6}" for first in FIRST)
    print(f"{'fusion':44} {'trials':>6} {'rank':>6} {'best us':>10} {'median':>6} {firsts}")
    found: list[RankedCase] = []
    for row in rows(given.folders, given.fusions, card_or_default(given.card), given.tried):
        print(row, flush=True)
        found.append(row)
    if not found:
        print(f"No journal in {', '.join(map(str, given.folders))} has {LEAST} measured trials.", file=sys.stderr)
        return 1
    print(means(found))
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in (*found, means(found))], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
