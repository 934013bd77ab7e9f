"""Fusions whose times a formula makes, for what is fitted to them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from compiler.generator import GENERATOR
from search.tuning.candidates.candidate import Candidate
from search.tuning.fitting import LEAST_FUSIONS
from search.tuning.timed import TimedFusion, TimedTrial

Errors = Callable[[str, float], float]
"""The logarithm by which the model is off, by a word and the share of a term."""


def invented(name: str, errors: Errors, seed: int, count: int = 60, apart: float = 0.0) -> TimedFusion:
    """A fusion whose candidates differ in a word, a number and a term that is up to half of the predicted time."""
    chance = random.Random(seed)
    trials = []
    for number in range(count):
        word, share = chance.choice(("vector", "tma")), chance.uniform(0.0, 0.5)
        us = 100.0 * math.exp(chance.uniform(0.0, 0.3))
        candidate = Candidate.of("flat", {"load": word, "threads": 2 ** (number % 4 + 5)})
        terms = {"bandwidth": us * (1 - share), "latency": us * share}
        trials.append(TimedTrial(candidate, us, terms, us * math.exp(apart + errors(word, share))))
    return TimedFusion(name, "H200", GENERATOR, trials)


def common(word: str, share: float) -> float:
    return 0.2 * (word == "tma") + 0.6 * share


def several(errors: Errors = common) -> list[TimedFusion]:
    """As many as are needed, each slower by a factor of its own."""
    return [invented(f"f{n}", errors, seed=n, apart=0.7 * n) for n in range(LEAST_FUSIONS + 1)]
