"""In which order ranked candidates are tried once some were measured: what a prediction got wrong of these, it gets
wrong of those that are like them.

Logarithms of measured over predicted times, less their median, are taken for values of a Gaussian process over knobs,
whose mean at a candidate corrects its predicted time. What holds of one fusion alone is learnt so, in the search that
it is worth something to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from search.tuning.candidates.candidate import Candidate

BY_SHARE, BY_NEARNESS = 0.02, 0.02
"""Variances of what errors have in common by the share of knobs in which candidates agree, and by how few they differ
in. Replayed on 25 tables of an H200, half of both is as good."""

STEPS = 4.0
"""Knobs in which two candidates differ, at which a third of the second is left."""

NOISE = 0.004
"""Variance of what no knob tells: a deviation of 6 %."""

MOST_ORDERED, MOST_LEARNT = 128, 48
"""Candidates that are ordered, the others stay behind; and measured ones that are learnt from, the newest."""


def corrected(
    left: Sequence[Candidate], predicted_us: Mapping[Candidate, float], measured_us: Mapping[Candidate, float]
) -> list[Candidate]:
    """All of `left`: the fastest by corrected time first. Who has no predicted time keeps the place before the rest.
    Times that are none (0, infinite, NaN) tell nothing."""
    known = [one for one in measured_us if _is_time(measured_us[one]) and _is_time(predicted_us.get(one))]
    known = known[-MOST_LEARNT:]
    is_told = [_is_time(predicted_us.get(one)) for one in left]
    told, others = (
        [one for one, is_one in zip(left, is_told, strict=True) if is_one is wanted] for wanted in (True, False)
    )
    if len(known) < 2 or not told:
        return list(left)
    first = sorted(told, key=lambda one: predicted_us[one])[:MOST_ORDERED]
    behind = set(told).difference(first)
    errors = np.log([measured_us[one] / predicted_us[one] for one in known])
    alike = _alike([*known, *first], len(known))
    weights = np.linalg.solve(alike[: len(known)] + NOISE * np.eye(len(known)), errors - np.median(errors))
    times = np.log([predicted_us[one] for one in first]) + alike[len(known) :] @ weights
    order = np.argsort(times, kind="stable").tolist()
    return [*others, *(first[n] for n in order), *(one for one in told if one in behind)]


def _is_time(us: float | None) -> bool:
    return us is not None and 0.0 < us < math.inf


def _alike(candidates: Sequence[Candidate], known: int) -> NDArray[np.float64]:
    """By how much errors of each and of the first `known` vary together. The scheduler counts as a knob; a knob that
    one lacks has a value of its own; those that are equal in all do not count."""
    points = [{"scheduler": one.scheduler, **one.knobs} for one in candidates]
    columns: list[list[int]] = []
    for name in dict.fromkeys(name for point in points for name in point):
        codes: dict[object, int] = {}
        column = [codes.setdefault(point.get(name), len(codes)) for point in points]
        if len(codes) > 1:
            columns.append(column)
    if not columns:
        return np.full((len(points), known), BY_SHARE + BY_NEARNESS)
    differ = np.zeros((len(points), known))
    for values in np.array(columns):
        differ += values[:, None] != values[None, :known]
    return BY_SHARE * (1 - differ / len(columns)) + BY_NEARNESS * np.exp(-differ / STEPS)
