"""A ranker fitted to what was measured on a card: least squares with a penalty (ridge), in NumPy.

Told is the logarithm of measured over predicted time, less its mean over the fusion: what all candidates of a fusion
have in common says nothing of their order, and is another one's for another fusion. Each fusion counts alike, however
many of its candidates were timed. How much of what was learnt holds for a fusion that nothing was learnt of is found
out by leaving one fusion out at a time; the penalty is the one with which that goes best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.generator import GENERATOR
from search.cost.ranker import CardRanker, HeldOut, Learnt
from search.cost.ranker_features import features_of, is_number, launch_knobs
from search.tuning.timed import TimedFusion, TimedTrial

LEAST_FUSIONS = 3
"""Of fewer it cannot be told what holds for another one."""

LEAST_TRIALS = 24
"""Of a fusion; one with fewer is left out."""

PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of squared weights of features in units of their deviation, over the mean of a fusion's squared errors."""

FAST = 2.0
"""Power of the best time over a trial's by which it counts: of slow ones it matters less how slow they are."""

Vector = NDArray[np.float64]


class TooLittle(ValueError):
    """Nothing can be learnt of so little: the text says of how much."""


@dataclass(frozen=True)
class _Table:
    """One fusion: a row a trial and a column a feature, less its centre, 0 where a trial lacks it; times as logarithms.
    `inner`, `outer`: what least squares want of both, of a mean trial."""

    features: Vector
    predicted: Vector
    measured: Vector
    inner: Vector
    outer: Vector


def usable(fusions: Sequence[TimedFusion], card: str) -> list[TimedFusion]:
    """Those of the card, by today's generator, with trials enough; of one that comes several times all trials."""
    joined: dict[str, list[TimedTrial]] = {}
    for one in fusions:
        if one.card == card and one.generator == GENERATOR:
            joined.setdefault(one.fusion, []).extend(one.trials)
    return [
        TimedFusion(fusion, card, GENERATOR, trials) for fusion, trials in joined.items() if len(trials) >= LEAST_TRIALS
    ]


def fit(fusions: Sequence[TimedFusion], card: str) -> CardRanker:
    """What is learnt of the card from all of these that are of it. Raises TooLittle."""
    chosen = usable(fusions, card)
    if len(chosen) < LEAST_FUSIONS:
        raise TooLittle(
            f"{len(chosen)} fusions have {LEAST_TRIALS} trials measured on the {card} by {GENERATOR} with predicted "
            f"terms, expected {LEAST_FUSIONS}: what holds for others cannot be told of fewer."
        )
    names, centres, tables = _tables(chosen)
    model = float(np.mean([rank_correlation(one.predicted, one.measured) for one in tables]))
    found = dict(zip(PENALTIES, _held_out(tables), strict=True))
    penalty = max(PENALTIES, key=lambda one: found[one])
    (weights,) = _solved(*_means(tables), (penalty,))
    learnt = {
        name: Learnt(float(centre), float(weight))
        for name, centre, weight in zip(names, centres, weights, strict=True)
        if weight
    }
    count = sum(len(one.trials) for one in chosen)
    return CardRanker(card, learnt, len(chosen), count, HeldOut(model, found[penalty]))


def held_out_us(fusions: Sequence[TimedFusion]) -> list[Vector]:
    """Of each fusion the times of its trials, as told by what is learnt from all others of its card. Raises
    TooLittle."""
    return [
        ranked_us(fit([other for other in fusions if other.fusion != one.fusion], one.card), one.trials)
        for one in fusions
    ]


def ranked_us(ranker: CardRanker, trials: Sequence[TimedTrial]) -> Vector:
    """Microseconds by the ranker, of launches as one."""
    return np.array([one.predicted_us * ranker.factor(_read(one)) for one in trials])


def rank_correlation(some: Sequence[float] | Vector, others: Sequence[float] | Vector) -> float:
    """Spearman's: Pearson's of the ranks; 0 where all of one side are equal."""
    one, other = ranks(some), ranks(others)
    return float(np.corrcoef(one, other)[0, 1]) if one.std() and other.std() else 0.0


def ranks(values: Sequence[float] | Vector) -> Vector:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    means: Vector = np.cumsum(counts) - (counts + 1) / 2
    return means[inverse]


def _read(trial: TimedTrial) -> dict[str, float]:
    return features_of(trial.predicted_us, trial.terms, launch_knobs(trial.candidate.knobs))


def _tables(fusions: Sequence[TimedFusion]) -> tuple[list[str], Vector, list[_Table]]:
    """Names and centres of the features, and what is known of each fusion."""
    read = [[_read(trial) for trial in one.trials] for one in fusions]
    names = sorted({name for rows in read for row in rows for name in row})
    columns = {name: column for column, name in enumerate(names)}
    known = np.full((sum(map(len, read)), len(names)), np.nan)
    for n, row in enumerate(row for rows in read for row in rows):
        known[n, [columns[name] for name in row]] = list(row.values())
    centres = np.where([is_number(name) for name in names], np.nanmean(known, axis=0), 0.0)
    features = np.split(np.nan_to_num(known - centres), np.cumsum([len(rows) for rows in read])[:-1])
    return names, centres, [_table(one, own) for one, own in zip(fusions, features, strict=True)]


def _table(fusion: TimedFusion, features: Vector) -> _Table:
    predicted = np.log([trial.predicted_us for trial in fusion.trials])
    measured = np.log([trial.measured_us for trial in fusion.trials])
    counts = np.exp(FAST * (measured.min() - measured))
    counts /= counts.sum()
    rows, errors = features - counts @ features, measured - predicted
    weighed = rows.T * counts
    return _Table(features, predicted, measured, weighed @ rows, weighed @ (errors - counts @ errors))


def _held_out(tables: Sequence[_Table]) -> list[float]:
    """By penalty, the mean rank correlation of fusions, each by what the others tell."""
    inner, outer = _means(tables)
    found = []
    for one in tables:
        others = len(tables) - 1
        less = [(whole * len(tables) - own) / others for whole, own in ((inner, one.inner), (outer, one.outer))]
        told = [one.predicted + one.features @ weights for weights in _solved(less[0], less[1], PENALTIES)]
        found.append([rank_correlation(each, one.measured) for each in told])
    return [float(mean) for mean in np.mean(found, axis=0)]


def _means(tables: Sequence[_Table]) -> tuple[Vector, Vector]:
    """Of `inner` and `outer`."""
    return np.mean([one.inner for one in tables], axis=0), np.mean([one.outer for one in tables], axis=0)


def _solved(inner: Vector, outer: Vector, penalties: Sequence[float]) -> list[Vector]:
    """The weight of each feature, by penalty; 0 for one that differs within no fusion."""
    deviations = np.sqrt(np.maximum(np.diag(inner), 0.0))
    differ = deviations > _NOTHING
    scaled = inner[np.ix_(differ, differ)] / np.outer(deviations[differ], deviations[differ])
    values, vectors = np.linalg.eigh(scaled)
    along = vectors.T @ (outer[differ] / deviations[differ])
    found = []
    for penalty in penalties:
        weights = np.zeros(len(deviations))
        weights[differ] = vectors @ (along / (np.maximum(values, 0.0) + penalty)) / deviations[differ]
        found.append(weights)
    return found


_NOTHING = 1e-9
"""A deviation below which a feature is the same for all trials of each fusion."""
