"""What stands beside samples that may be worth less for it, and how often such samples are taken again.

A mark is no verdict on a kernel. A marked timing is repeated a few times; what is still marked then is kept as it is,
with its marks. A mark that stays over several kernels is lived with until it goes: a search never waits for a quiet
machine.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusetune.wire.artifact import Timing

REPEATS = 3
"""Times that a marked timing is taken again, at most."""

PATIENCE = 3
"""Kernels in a row that end with a mark after all repeats: from then on it is lived with."""

NOISY_SPREAD = 1.1
"""90th over 10th percentile from which samples are noisy."""

PAUSE_S = 0.02
"""Before a repeat: a neighbour may be done by then."""

SLOWER_THAN = "slower_than_us"
"""The condition of samples that ended early: where the interval of the best so far ended, beyond which theirs lies.
What is slower beyond doubt is not timed again for being noisy."""

_SLOWDOWNS = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons for low clocks that are a fault of the moment: hardware slowdown, thermal (software and hardware),
power brake. A power cap is none: it is part of the card's key, and heavy kernels run under it."""

_LOW_CLOCK = 0.6
"""Share of the clock limit below which an SM clock right after samples is low, whatever the reasons say."""


def marks_of(conditions: Mapping[str, Any], samples_us: Sequence[float], clock_limit_mhz: int = 0) -> tuple[str, ...]:
    """`throttled`, `low clock`, `other processes`, `noisy`: those that hold of samples taken under these conditions."""
    found = []
    if int(conditions.get("throttle_reasons") or 0) & _SLOWDOWNS:
        found.append("throttled")
    clock = conditions.get("sm_clock_mhz")
    if clock is not None and clock_limit_mhz and clock < _LOW_CLOCK * clock_limit_mhz:
        found.append("low clock")
    if conditions.get("other_processes"):
        found.append("other processes")
    if spread(samples_us) > NOISY_SPREAD and SLOWER_THAN not in conditions:
        found.append("noisy")
    return tuple(found)


def spread(samples: Sequence[float]) -> float:
    """90th over 10th percentile; 1.0 of none."""
    ordered = sorted(samples)
    return ordered[len(ordered) * 9 // 10] / ordered[len(ordered) // 10] if ordered else 1.0


class Repeats:
    """Takes timings of one device, marked ones again."""

    def __init__(self, clock_limit_mhz: int = 0, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock_limit_mhz = clock_limit_mhz
        self._sleep = sleep
        self._in_a_row: Counter[str] = Counter()

    def taken(self, take: Callable[[], Timing]) -> Timing:
        """A timing without marks, or the last of a few. Its conditions have `marks` if any, and in `marked` the median
        of each that was taken again."""
        marked: list[dict[str, Any]] = []
        while True:
            timing = take()
            marks = marks_of(timing.conditions, timing.samples_us, self._clock_limit_mhz)
            if len(marked) == REPEATS or not (set(marks) - self.lived_with):
                break
            marked.append({"marks": list(marks), "median_us": timing.median_us})
            self._sleep(PAUSE_S)
        self._in_a_row = Counter({mark: self._in_a_row[mark] + 1 for mark in marks})
        told: dict[str, Any] = {"marks": list(marks)} if marks else {}
        if marked:
            told["marked"] = marked
        return timing.model_copy(update={"conditions": {**timing.conditions, **told}}) if told else timing

    @property
    def lived_with(self) -> set[str]:
        """Marks that have not gone for a while."""
        return {mark for mark, count in self._in_a_row.items() if count >= PATIENCE}
