"""The first kernel of a search that may be served, long before the search knows the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from search.tuning.leaders import Finals, Winner
from search.tuning.trial import Trial

FAR, FEW = 2.0, 4
"""A kernel that takes so many times what the fastest is predicted to take is served when so many were measured, not
before: what compiles first may be the simplest of all. On an H200 the first of a column sum took 121 times the floor;
of 71 other cases none was over three times it."""


@dataclass
class FirstKernel:
    """Takes the fastest kernel so far that is right on all input sets and was timed, as soon as somebody wants it. One
    that is far from what is predicted waits for a few more.

    `is_wanted` is asked between measurements: who wants it may come when the search is under way. `publish` is called
    once, and may raise whatever shall end the search. `best_predicted_us` is what the ranking expects of its fastest
    candidate, once there is a ranking.
    """

    is_wanted: Callable[[], bool]
    publish: Callable[[Winner, float | None], None]
    best_predicted_us: float | None = None
    _tried: set[int] = field(default_factory=set)
    _is_there: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is wanted and not there."""
        return not self._is_there and self.is_wanted()

    def offer(self, ranking: Iterable[Trial], finals: Finals) -> None:
        """Verifies one trial on all input sets, the fastest that was not tried yet, and publishes it if it is right."""
        measured = [*ranking]
        trial = next((trial for trial in measured if trial.number not in self._tried), None)
        if trial is None or (len(measured) < FEW and self._is_far(trial)):
            return
        self._tried.add(trial.number)
        winner = finals.settled(trial)
        if winner is not None:
            self._is_there = True
            self.publish(winner, self.best_predicted_us)

    def _is_far(self, trial: Trial) -> bool:
        best = self.best_predicted_us
        return best is not None and trial.median_us is not None and trial.median_us > FAR * best
