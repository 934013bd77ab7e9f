"""Whether a kernel that is timed again has become slower, beyond what noise explains."""

from __future__ import annotations

from collections.abc import Sequence

from search.measure.halving import median_interval
from search.tuning.leaders import AS_FAST


def slower_by(before_us: float, before_p90_us: float, samples_us: Sequence[float]) -> float:
    """The share of the time before by which it is slower, 0 where that may be noise.

    Noise is what lies within the interval of today's median, or below the 90th percentile of before, and 1 %.
    """
    if not samples_us or before_us <= 0.0:
        return 0.0
    least = median_interval(samples_us)[0]
    if least <= before_p90_us or least <= before_us * (1 + AS_FAST):
        return 0.0
    ordered = sorted(samples_us)
    return ordered[len(ordered) // 2] / before_us - 1.0
