"""Random search: every unseen legal point of every scheduler is equally likely. The yardstick of other samplers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.unseen import Unseen
from search.tuning.trial import TrialState

_BATCH = 64
"""Points drawn from a space at once: drawing walks over the whole space."""


class RandomSampler:
    """A `Sampler` that learns nothing; one seed gives one sequence."""

    def __init__(self, spaces: Mapping[str, Space], seed: int) -> None:
        self._unseen = Unseen(spaces)
        self._rng = np.random.default_rng(seed)
        self._drawn: dict[str, list[Candidate]] = {name: [] for name in spaces}

    def ask(self) -> Candidate | None:
        names = list(self._unseen.spaces)
        left = np.array([self._unseen.left(name) for name in names], dtype=np.float64)
        if not left.any():
            return None
        name = names[int(self._rng.choice(len(names), p=left / left.sum()))]
        return self._unseen.claim(self._draw(name))

    def _draw(self, name: str) -> Candidate:
        drawn = self._drawn[name]
        if not drawn:
            points = self._unseen.spaces[name].sample(_BATCH, seed=int(self._rng.integers(2**32)))
            drawn.extend(Candidate.of(name, point) for point in points)
        return drawn.pop()

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        self._unseen.mark(candidate)
