"""How long a tuning may go on: seconds, trials, or both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(slots=True)
class Budget:
    """A budget that starts when it is made, and may be extended. None is no limit; `clock` is monotonic, in seconds."""

    seconds: float | None = None
    trials: int | None = None
    clock: Clock = time.monotonic
    started: float = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("seconds", self.seconds), ("trials", self.trials)):
            if value is not None and value < 0:
                raise ValueError(f"budget: {name} is {value}, expected 0 or more.")
        self.started = self.clock()

    def extend(self, seconds: float | None, trials: int | None) -> None:
        """Allow at least so many, counted from the start; nothing that was allowed before is taken back."""
        self.seconds = None if self.seconds is None or seconds is None else max(self.seconds, seconds)
        self.trials = None if self.trials is None or trials is None else max(self.trials, trials)

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.started

    @property
    def left_s(self) -> float:
        """Seconds left, never negative; infinite without a limit."""
        return float("inf") if self.seconds is None else max(0.0, self.seconds - self.elapsed_s)

    def trials_left(self, done: int) -> float:
        """Trials left after `done` of them; infinite without a limit."""
        return float("inf") if self.trials is None else max(0, self.trials - done)

    def allows(self, done: int, keep_s: float = 0.0) -> bool:
        """True if one more trial may begin after `done`, leaving `keep_s` seconds for what follows the search."""
        return self.left_s > keep_s and self.trials_left(done) > 0
