"""Samplers replayed on tables of measured points: `python -m benchmarks.search.replay TABLE.t4.json … [--seeds 30]`.

A table is a T4 file, of ours (`benchmarks.search.table`) or of any tuner: configurations and their times. Its space has
the values that its configurations have. A sampler asks as in a search; what it asks for and the table lacks is answered
with the nearest point of the table that it was not told yet, so every trial is one measured point. Nothing runs, no GPU
is needed.

Printed for each sampler: by how much the best after so many trials is slower than the best of the table, the median
over seeds, and in how many seeds it is within 5 %. Beside them: how hard the table is, as the share of its points
within 5 %.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fusetune.wire import t4
from search.space.knobs import Knob, KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.spread import Ranked, spread
from search.tuning.samplers.guided import GuidedSampler
from search.tuning.samplers.optuna import OptunaSampler
from search.tuning.samplers.protocol import Sampler
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import TrialState

NEAR = 0.05
"""Share beyond the best time within which a point counts as near it."""

AFTER = (10, 30, 100)
"""Trials after which the best is looked at."""

MOST_RANKED = 200
"""Points of a table in the order of a ranking: more than are tried."""

FOREIGN = "foreign"
"""The scheduler of configurations that name none: those of other tuners."""


@dataclass(frozen=True)
class Table:
    """Points with their times; None for those that failed. `ranked`: as a search tries them by predicted times
    (`search.tuning.candidates.spread`), where those are known."""

    name: str
    us: Mapping[Candidate, float | None]
    ranked: tuple[Candidate, ...] = ()
    predicted_us: Mapping[Candidate, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Table:
        """From a T4 file, which may be packed. Raises OSError, ValueError and T4Error."""
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
        results = t4.read(document)
        points = [_candidate(result.configuration) for result in results]
        us = {point: result.us for point, result in zip(points, results, strict=True)}
        if not any(us.values()):
            raise ValueError(f"{path}: no configuration of it has a time")
        told = document.get("metadata", {}).get("predicted_us", [])
        known = [(one, point) for one, point in zip(told, points, strict=False) if one is not None]
        by_time = [Ranked(point, told_us) for told_us, point in sorted(known, key=lambda pair: pair[0])]
        ranked = spread(by_time, MOST_RANKED)
        predicted_us = {one.candidate: one.predicted_us for one in by_time}
        return cls(path.name.partition(".")[0], us, tuple(ranked), predicted_us)

    @property
    def best_us(self) -> float:
        """The least time of all."""
        return min(us for us in self.us.values() if us is not None)

    @property
    def near(self) -> float:
        """The share of its timed points that lie near the best."""
        times = [us for us in self.us.values() if us is not None]
        return sum(us <= (1 + NEAR) * self.best_us for us in times) / len(times)

    @property
    def spaces(self) -> dict[str, Space]:
        """A space a scheduler, of the values that its points have."""
        values: dict[str, dict[str, set[KnobValue]]] = {}
        for point in self.us:
            for name, value in point.point:
                values.setdefault(point.scheduler, {}).setdefault(name, set()).add(value)
        return {
            scheduler: Space(scheduler, tuple(Knob(name, _ordered(found)) for name, found in sorted(knobs.items())))
            for scheduler, knobs in values.items()
        }


def _candidate(configuration: Mapping[str, t4.Setting]) -> Candidate:
    point = {name: value for name, value in configuration.items() if name != t4.SCHEDULER}
    return Candidate.of(str(configuration.get(t4.SCHEDULER, FOREIGN)), point)


def _ordered(values: set[KnobValue]) -> tuple[KnobValue, ...]:
    """In the order of numbers; of anything else, and of mixed sorts, as texts."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return tuple(sorted(values))
    return tuple(sorted(values, key=str))


class Replay:
    """Answers samplers out of a table, each point once in a run."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._points = list(table.us)
        self._place = {point: number for number, point in enumerate(self._points)}
        names = sorted({name for point in self._points for name, _ in point.point})
        self._codes: dict[Any, int] = {}
        self._columns = names
        self._rows = np.array([self._row(point) for point in self._points])
        self._is_left = np.ones(len(self._points), dtype=np.bool_)

    def run(self, sampler: Sampler, trials: int, seed: int) -> list[float]:
        """The best time after each trial; infinite while none has one."""
        chance, best, found = random.Random(seed), float("inf"), list[float]()
        self._is_left[:] = True
        while len(found) < min(trials, len(self._points)):
            asked = sampler.ask()
            if asked is None:
                break
            point = self._nearest(asked, chance)
            us = self._table.us[point]
            state = TrialState.MEASURED if us is not None else TrialState.UNSUPPORTED
            if point != asked:
                sampler.tell(asked, None, TrialState.CANCELLED)  # nothing is known of it
            sampler.tell(point, us, state)
            best = min(best, us if us is not None else best)
            found.append(best)
        return found

    def _nearest(self, asked: Candidate, chance: random.Random) -> Candidate:
        """The point itself where it is left, else one that differs in the fewest values."""
        number = self._place.get(asked)
        if number is None or not self._is_left[number]:
            differs = (self._rows != self._row(asked)).sum(axis=1).astype(np.float64)
            differs[~self._is_left] = np.inf
            number = chance.choice(np.flatnonzero(differs == differs.min()).tolist())
        self._is_left[number] = False
        return self._points[number]

    def _code(self, value: object) -> int:
        """Equal values have equal codes; True is not 1."""
        return self._codes.setdefault((type(value) is bool, value), len(self._codes))

    def _row(self, point: Candidate) -> list[int]:
        knobs = point.knobs
        return [self._code(point.scheduler), *(self._code(knobs.get(name)) for name in self._columns)]


Make = Callable[[Table, Mapping[str, Space], int], Sampler]

SAMPLERS: Mapping[str, Make] = {
    "random": lambda table, spaces, seed: RandomSampler(spaces, seed),
    "plain TPE": lambda table, spaces, seed: OptunaSampler(spaces, seed),
    "guided": lambda table, spaces, seed: GuidedSampler(spaces, seed, ()),
    "guided, ranked": lambda table, spaces, seed: GuidedSampler(
        spaces, seed, table.ranked, predicted_us=table.predicted_us
    ),
}
"""By name; the last is left out of tables that know of no predictions."""


def replayed(table: Table, seeds: int, after: Sequence[int] = AFTER) -> list[dict[str, Any]]:
    """A row a sampler."""
    spaces, replay, rows = table.spaces, Replay(table), []
    for name, make in SAMPLERS.items():
        if name.endswith("ranked") and not table.ranked:
            continue
        runs = [replay.run(make(table, spaces, seed), max(after), seed) for seed in range(seeds)]
        row: dict[str, Any] = {"table": table.name, "sampler": name, "seeds": seeds}
        for count in after:
            slower = [run[min(count, len(run)) - 1] / table.best_us - 1.0 for run in runs]
            row[f"after {count}"] = round(median(slower), 4)
            row[f"near after {count}"] = round(sum(one <= NEAR for one in slower) / seeds, 3)
        rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Replays every table and prints the rows."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.replay")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    rows = []
    for path in asked.tables:
        try:
            table = Table.read(path)
        except (OSError, ValueError) as error:  # a T4Error is one
            raise SystemExit(f"error: {path}: {error}") from None
        near = f"{table.near:.1%} within {NEAR:.0%} of the best {table.best_us:.2f} us"
        print(f"{table.name}: {len(table.us)} points, {near}")
        for row in replayed(table, asked.seeds):
            rows.append(row)
            told = ", ".join(f"{n}: {row[f'after {n}']:.1%} ({row[f'near after {n}']:.0%})" for n in AFTER)
            print(f"  {row['sampler']:16} {told}")
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
