"""What a sampler is to the tuner."""

from __future__ import annotations

from typing import Protocol

from search.tuning.candidates.candidate import Candidate
from search.tuning.trial import TrialState


class Sampler(Protocol):
    """Proposes legal candidates, each at most once in its life; several may be out at the same time."""

    def ask(self) -> Candidate | None:
        """A legal candidate never proposed nor told before; None when there is none left."""
        ...

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        """What became of a candidate: its time in microseconds (less is better), or None and the state it ended in.

        Telling a candidate that was not asked for is how a sampler is rebuilt from the trials of an earlier run.
        """
        ...
