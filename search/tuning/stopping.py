"""When a search has found enough, before its budget is spent or its space exhausted.

What is left of a ranking may still be faster than the best that was measured. By how much is expected of what the model
got wrong so far: measured over predicted times of this very search have a mean and a spread, and each candidate that is
left has a time of that distribution. Errors are taken for independent of each other. Those of kernels that are alike
are not, so what is left is worth less than this says, and a search goes on for longer rather than too short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import erfc, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.spread import Ranked
from search.tuning.trial import Trial

EnoughReason = Literal["floor", "improvement"]
"""Why a search ended early."""

LEAST_MEASURED = 16
"""Measured candidates from which on errors of the model are known."""

_EVERY = 8
"""Improvement is asked of after so many more."""

_NEAR = 0.25
"""Share beyond the best time within which errors are looked at: those of slow kernels say little of fast ones."""

_LEAST_SPREAD = 0.005
"""Standard deviation of measured over predicted times, at the least: measured twice, a kernel differs by as much."""

_STEPS = 48
_upper = np.vectorize(lambda z: 0.5 * erfc(z / sqrt(2.0)), otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class StopRules:
    """Shares of a time; None is no rule. `within_floor`: the best takes at most so much more than the least that the
    card allows. `improvement`: what is left is expected to save less than that of the best's time."""

    within_floor: float | None = None
    improvement: float | None = None


@dataclass
class Stopping:
    """Says when a search has enough. `rules` are asked each time: who joins a search may want more of it.

    `ranking` may be filled after this is made, before the search begins.
    """

    rules: Callable[[], StopRules]
    floor_us: float | None = None
    ranking: Sequence[Ranked] = ()
    _asked_at: int = 0
    _left: float | None = field(default=None)

    def reason(self, trials: Sequence[Trial]) -> EnoughReason | None:
        """Why the search of these trials may end, if it may."""
        rules = self.rules()
        if rules == StopRules():
            return None
        times = [trial.median_us for trial in trials if trial.median_us is not None]
        if not times:
            return None
        best_us = min(times)
        if rules.within_floor is not None and self.floor_us and best_us <= self.floor_us * (1 + rules.within_floor):
            return "floor"
        if rules.improvement is None or len(times) < LEAST_MEASURED:
            return None
        if len(times) >= self._asked_at + _EVERY or self._left is None:
            self._asked_at, self._left = len(times), self._expected(trials, best_us)
        return "improvement" if self._left is not None and self._left < rules.improvement else None

    def _expected(self, trials: Sequence[Trial], best_us: float) -> float | None:
        """What trying all that is left is expected to save; None where nothing is known of the model's errors."""
        predicted: dict[Candidate, float] = {one.candidate: one.predicted_us for one in self.ranking}
        errors = [
            trial.median_us / predicted[trial.candidate]
            for trial in trials
            if trial.median_us is not None and trial.candidate in predicted and trial.median_us <= (1 + _NEAR) * best_us
        ]
        if len(errors) < LEAST_MEASURED // 2:
            return None
        tried = {trial.candidate for trial in trials}
        left = np.array([us for candidate, us in predicted.items() if candidate not in tried])
        return expected_improvement(best_us, left, np.array(errors))


def expected_improvement(best_us: float, predicted_us: NDArray[np.float64], errors: NDArray[np.float64]) -> float:
    """The share of the best time that the fastest of candidates is expected to save, if their measured over predicted
    times are distributed as `errors`: the integral over t of the chance that one of them saves more than t."""
    if not len(predicted_us):
        return 0.0
    logs = np.log(errors)
    spread = max(float(logs.std()), _LEAST_SPREAD)
    gains = np.log(best_us) - np.log(predicted_us) - float(logs.mean())
    most = max(0.0, float(gains.max())) + 6.0 * spread
    steps = np.linspace(0.0, most, _STEPS)
    none_saves = np.prod(1.0 - _upper((steps[:, None] - gains[None, :]) / spread), axis=1)
    return 1.0 - float(np.exp(-np.trapezoid(1.0 - none_saves, steps)))
