"""The first kernel of a search that may be served, long before the search knows the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from search.tuning.leaders import Finals, Winner
from search.tuning.trial import Trial


@dataclass
class FirstKernel:
    """Takes the fastest kernel so far that is right on all input sets and was timed, as soon as somebody wants it.

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
        trial = next((trial for trial in ranking if trial.number not in self._tried), None)
        if trial is None:
            return
        self._tried.add(trial.number)
        winner = finals.settled(trial)
        if winner is not None:
            self._is_there = True
            self.publish(winner, self.best_predicted_us)
