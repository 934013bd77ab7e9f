"""How many samples a candidate is worth: few at first, more only for those that may be among the best.

The rule is that of successive halving (Jamieson and Talwalkar, 2016): all get a little, those that are behind get no
more, the others get twice as much. There the slower half of a round goes. Here candidates come one after another and
their number is not known, so one goes that is beyond doubt slower than the best so far, however many these are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search.measure.marks import NOISY_SPREAD

CONFIDENCE_Z = 1.96
"""Half width, in standard errors, of the interval of a median: 95 %."""

FEW = 4
"""Samples that everyone gets: the fewest of which chance puts all on one side of the median in no more than an eighth
of cases (2 / 2^4)."""


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Distribution-free 95 % interval of the median: the order statistics n/2 -+ z sqrt(n)/2, by the normal
    approximation of the binomial. With fewer samples than that needs, the whole range; of none, everything.
    """
    if not samples:
        return (-math.inf, math.inf)
    ordered = sorted(samples)
    half = CONFIDENCE_Z * math.sqrt(len(ordered)) / 2
    low, high = math.floor(len(ordered) / 2 - half), math.ceil(len(ordered) / 2 + half)
    return ordered[max(low, 0)], ordered[min(high, len(ordered) - 1)]


def surely_slower(samples: Sequence[float], reach_us: float) -> bool:
    """Whether the interval of these samples lies beyond that of the best, which ends at `reach_us`, by more than
    samples of one kernel may lie apart (`NOISY_SPREAD`): a slow moment of the card makes no kernel slower by so much.
    """
    return len(samples) >= FEW and median_interval(samples)[0] > reach_us * NOISY_SPREAD


def more_samples(samples: Sequence[float], most: int, reach_us: float) -> int:
    """How many samples to take next, of `most` in all; 0 where these are enough. `reach_us` is infinite where there is
    nothing to be slower than. A round takes as many as there are; what is left after it goes with it, if that is less.
    """
    taken = len(samples)
    if taken >= most or surely_slower(samples, reach_us):
        return 0
    if math.isinf(reach_us):
        return most - taken
    step = max(taken, FEW)
    return most - taken if most - taken < 2 * step else step


@dataclass(slots=True)
class BestTimed:
    """The best time of an open fusion as this process has measured it: `reach_us` is where its interval ends."""

    reach_us: float = math.inf

    def saw(self, samples: Sequence[float]) -> None:
        """Samples of a right kernel, all that it was to have."""
        if samples:
            self.reach_us = min(self.reach_us, median_interval(samples)[1])

    def forget(self) -> None:
        """The fusion is another one, or the best may not have been right."""
        self.reach_us = math.inf
