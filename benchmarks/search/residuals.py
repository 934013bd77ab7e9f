"""Where predictions are wrong: `python -m benchmarks.search.residuals TABLE.t4.json.gz … [--least 30]`.

Of each table (`benchmarks.search.table`) measured over predicted times, over their median in the table: by the values
of its knobs, and by quarters of the points in the order of each term's share of the predicted time. A value whose
points all err alike is a hint at what the model lacks; how much of the variance of the logarithm a knob or a term tells
by itself stands beside it. Nothing runs, no GPU is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search.tuning.timed import TimedError, TimedTrial, read_timed

QUARTERS = 4


@dataclass(frozen=True, slots=True)
class Group:
    """Points that share a value: how many, and the median of their measured over predicted times, over the table's."""

    value: str
    count: int
    over: float


@dataclass(frozen=True, slots=True)
class ToldBy:
    """What a knob or a term tells of errors: `share` of the variance of their logarithms, and its groups."""

    name: str
    share: float
    groups: tuple[Group, ...]

    def __str__(self) -> str:
        groups = ", ".join(f"{one.value}: {one.over - 1:+.1%} ({one.count})" for one in self.groups)
        return f"{self.name:24} {self.share:5.0%}  {groups}"


def told_by(name: str, values: Sequence[str], logs: NDArray[np.float64], least: int) -> ToldBy:
    """`logs`: of measured over predicted times. Groups of fewer points than `least` are not named."""
    kinds = sorted(set(values), key=_place)
    place = np.array([kinds.index(value) for value in values])
    own = logs - logs.mean()
    means = np.array([own[place == number].mean() for number in range(len(kinds))])
    share = float((means[place] ** 2).mean() / (own**2).mean()) if own.any() else 0.0
    counts = np.bincount(place, minlength=len(kinds)).tolist()
    groups = tuple(
        Group(kind, count, float(np.exp(np.median(logs[place == number]) - np.median(logs))))
        for number, (kind, count) in enumerate(zip(kinds, counts, strict=True))
        if count >= least
    )
    return ToldBy(name, share, groups)


def _place(value: str) -> tuple[bool, float, str]:
    try:
        return False, float(value), ""
    except ValueError:
        return True, 0.0, value


def residuals(trials: Sequence[TimedTrial], least: int) -> list[ToldBy]:
    """Of every knob and term that differs among the points, those that tell most first."""
    logs = np.log([one.measured_us / one.predicted_us for one in trials])
    knobs = [{"scheduler": one.candidate.scheduler, **one.candidate.knobs} for one in trials]
    names = dict.fromkeys(name for each in knobs for name in each)
    found = [told_by(name, [str(each.get(name, "-")) for each in knobs], logs, least) for name in names]
    found += [told_by(f"share of {name}", values, logs, least) for name, values in _quarters(trials)]
    return sorted((one for one in found if len(one.groups) > 1), key=lambda one: -one.share)


def _quarters(trials: Sequence[TimedTrial]) -> Iterator[tuple[str, list[str]]]:
    """Of each term the quarter of each point, in the order of its share."""
    for term in dict.fromkeys(name for one in trials for name in one.terms):
        shares = np.array([one.terms.get(term, 0.0) / one.predicted_us for one in trials])
        bounds = np.unique(np.quantile(shares, np.arange(1, QUARTERS) / QUARTERS))
        places = np.searchsorted(bounds, shares, side="right")
        means = {place: float(np.median(shares[places == place])) for place in set(places.tolist())}
        yield term, [f"{means[place]:.3f}" for place in places.tolist()]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what tells most of each table."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.residuals")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--least", type=int, default=30, help="points of a value that is named")
    parser.add_argument("--slowest", type=float, default=1.5, help="points beyond so many times the best are left out")
    parser.add_argument("--lines", type=int, default=16)
    asked = parser.parse_args(arguments)
    for path in asked.tables:
        try:
            trials = read_timed(path).trials
        except (OSError, TimedError) as error:
            raise SystemExit(f"error: {error}") from None
        best = min((one.measured_us for one in trials), default=0.0)
        near = [one for one in trials if one.measured_us <= asked.slowest * best]
        spread = float(np.std(np.log([one.measured_us / one.predicted_us for one in near]))) if near else 0.0
        print(f"{path.name.partition('.')[0]}: {len(near)} of {len(trials)} points, errors deviate by {spread:.1%}")
        for told in residuals(near, asked.least)[: asked.lines]:
            print(f"  {told}")


if __name__ == "__main__":
    main()
