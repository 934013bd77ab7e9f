"""How well candidates are ordered before any has run: `python -m benchmarks.search.ranked TABLE.t4.json.gz …`.

Tables of measured points (`benchmarks.search.table`) of one card, with what the model predicted of each. A ranker is
fitted to all of them but one and orders the points of that one: nothing of a fusion is known when it is ordered. Beside
it stand the model alone, and what was measured twice: how well the first time orders by the second is all that any
prediction can reach.

Printed of each table: the rank correlations with what was measured, Spearman's and Kendall's; and by how much the best
of the first five is slower than the best of the table. Nothing runs, no GPU is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search.tuning.candidates.spread import Ranked, spread
from search.tuning.fitting import TooLittle, held_out_us, rank_correlation
from search.tuning.timed import TimedError, TimedFusion, TimedTrial, read_timed

FIRST = 5
"""So many are tried."""

NEAR = 0.005
"""Share beyond the best of the table within which the best of them is looked for."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OrderFigures:
    """How an order agrees with what was measured. `first`: by how much the best of the first `FIRST` is slower than the
    best; `tried`: the same in the order in which a search tries them (`search.tuning.candidates.spread`)."""

    spearman: float
    kendall: float
    first: float
    tried: float

    def __str__(self) -> str:
        return f"{self.spearman:6.3f} {self.kendall:6.3f} {self.first:7.2%} {self.tried:7.2%}"


@dataclass(frozen=True, slots=True)
class OrderedTable:
    """A table: points with a time, the share of them within 5 % of the best, and its orders. `again`: of `twice` points
    that were measured twice, the second time for the first; None of too few."""

    table: str
    points: int
    near: float
    model: OrderFigures
    ranker: OrderFigures
    twice: int
    again: OrderFigures | None


def order_of(told_us: Vector, trials: Sequence[TimedTrial]) -> OrderFigures:
    """By told times, of equal ones the earlier first."""
    measured = np.array([one.measured_us for one in trials])
    ranked = [Ranked(one.candidate, us) for one, us in zip(trials, told_us.tolist(), strict=True)]
    times = {one.candidate: one.measured_us for one in trials}
    tried = min(times[one] for one in spread(ranked, FIRST))
    first = float(measured[np.argsort(told_us, kind="stable")[:FIRST]].min())
    best = float(measured.min())
    return OrderFigures(
        spearman=round(rank_correlation(told_us, measured), 4),
        kendall=round(kendall(told_us, measured), 4),
        first=round(first / best - 1.0, 5),
        tried=round(tried / best - 1.0, 5),
    )


def kendall(some: Vector, others: Vector) -> float:
    """Kendall's tau-b; 0 where all of one side are equal."""
    one, other = (np.sign(values[:, None] - values[None, :]) for values in (some, others))
    most = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum()) / most if most else 0.0


def ordered(tables: Sequence[tuple[str, TimedFusion]]) -> list[OrderedTable]:
    """A row a table. Raises TooLittle."""
    told = held_out_us([one for _, one in tables])
    rows = []
    for (name, one), ranked in zip(tables, told, strict=True):
        times = np.array([trial.measured_us for trial in one.trials])
        twice = [trial for trial in one.trials if trial.again_us is not None]
        rows.append(
            OrderedTable(
                table=name,
                points=len(times),
                near=round(float((times <= 1.05 * times.min()).mean()), 4),
                model=order_of(np.array([trial.predicted_us for trial in one.trials]), one.trials),
                ranker=order_of(ranked, one.trials),
                twice=len(twice),
                again=order_of(np.array([trial.again_us for trial in twice]), twice) if len(twice) >= FIRST else None,
            )
        )
    return rows


def summary(rows: Sequence[OrderedTable]) -> list[str]:
    """In words, what was reached of what can be."""
    found = []
    for way in ("spearman", "kendall"):
        model, ranker, again = (_mean([getattr(one, way) for one in orders]) for orders in _orders(rows).values())
        told = f"{way}, mean: {model:.3f} by the model, {ranker:.3f} by the ranker"
        if again > model:
            told += f", {(ranker - model) / (again - model):.0%} of the way to {again:.3f}"
        found.append(told)
    for name, orders in _orders(rows).items():
        first, tried = (sum(getattr(one, way) <= NEAR for one in orders) for way in ("first", "tried"))
        found.append(f"best of {FIRST} within {NEAR:.1%} by {name}: {first} of {len(orders)} tables, as tried {tried}")
    return found


def _orders(rows: Sequence[OrderedTable]) -> dict[str, list[OrderFigures]]:
    return {
        "the model": [row.model for row in rows],
        "the ranker": [row.ranker for row in rows],
        "measuring twice": [row.again for row in rows if row.again is not None],
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.ranked")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    try:
        tables = [(path.name.partition(".")[0], read_timed(path)) for path in asked.tables]
        rows = ordered(tables)
    except (OSError, TimedError, TooLittle) as error:
        raise SystemExit(f"error: {error}") from None
    heads = " ".join(f"{name + ': rho, tau, first, tried':>30}" for name in ("model", "ranker", "measured twice"))
    print(f"{'table':36} {'points':>6} {'near':>6} {heads}")
    for row in rows:
        print(f"{row.table:36} {row.points:6} {row.near:6.1%} {row.model!s:>30} {row.ranker!s:>30} {row.again!s:>30}")
    print("\n".join(summary(rows)))
    if not all(one.is_measured for _, one in tables):
        print("Times of these tables are invented: they show that this runs.")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
