"""In which order predicted candidates are compiled and measured: the fastest first, but not all of one kind.

What a prediction gets wrong, it gets wrong for all candidates that share the cause. The more alike a candidate is to
those chosen before it, the less it can tell; so it waits as if it took longer, by as much as predictions typically err.
Among equals by prediction this spreads the choice over all knobs; what is predicted to be far slower still comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.tuning.candidates.candidate import Candidate

TYPICAL_ERROR = 0.04
"""Share by which a candidate waits that has one like it before it, twice that with three, and so on by powers of two.
Of 12,582 candidates of 80 fusions on an H200, measured over predicted times of those within 15 % of a fusion's best
have a standard deviation of 4 % within the fusion. Replayed on them, waits of 2 to 7 % find bests of the first 10 to 60
that lie within 0.2 % of each other; without a wait the best of ten is 0.2 %, that of thirty 0.3 % slower."""

LIKENESS = 4
"""Power of the share of knobs in which two candidates agree: one that differs in a quarter counts a third. Replayed on
the same candidates, 2 to 8 find bests within 0.2 % of each other."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate and its predicted time in microseconds."""

    candidate: Candidate
    predicted_us: float


def spread(ranked: Sequence[Ranked], n: int | None = None) -> list[Candidate]:
    """Up to `n` of the candidates (all of them by default), in the order in which they are to be tried.

    The first is the fastest by prediction; of equals the earlier in `ranked` comes first.
    """
    count = len(ranked) if n is None else min(n, len(ranked))
    times = np.array([one.predicted_us for one in ranked], dtype=np.float64)
    groups = [_Group.of(name, ranked) for name in dict.fromkeys(one.candidate.scheduler for one in ranked)]
    group_of = {number: group for group in groups for number in group.members.tolist()}
    costs = times.copy()
    chosen: list[Candidate] = []
    for _ in range(count):
        number = int(np.argmin(costs))
        chosen.append(ranked[number].candidate)
        group = group_of[number]
        group.choose(number)
        costs[group.members] = times[group.members] * (1 + TYPICAL_ERROR * np.log2(1 + group.alike))
        costs[group.members[group.is_chosen]] = np.inf
    return chosen


@dataclass(slots=True)
class _Group:
    """The candidates of one scheduler: their numbers, a code of each value of the knobs that differ among them, how
    many chosen ones each is like, and which are chosen."""

    members: NDArray[np.int64]
    values: NDArray[np.int64]
    alike: NDArray[np.float64]
    is_chosen: NDArray[np.bool_]

    @classmethod
    def of(cls, scheduler: str, ranked: Sequence[Ranked]) -> _Group:
        members = [number for number, one in enumerate(ranked) if one.candidate.scheduler == scheduler]
        points = [ranked[number].candidate.knobs for number in members]
        columns: list[list[int]] = []
        for name in dict.fromkeys(name for point in points for name in point):
            codes: dict[object, int] = {}
            column = [codes.setdefault(point.get(name), len(codes)) for point in points]
            if len(codes) > 1:
                columns.append(column)
        values = np.array(columns, dtype=np.int64).reshape(len(columns), len(members)).T
        return cls(
            np.array(members, dtype=np.int64), values, np.zeros(len(members)), np.zeros(len(members), dtype=np.bool_)
        )

    def choose(self, number: int) -> None:
        """Counts the candidate as chosen, and the others as the more alike to it."""
        own = int(np.searchsorted(self.members, number))
        self.is_chosen[own] = True
        agree = 1 + (self.values == self.values[own]).sum(axis=1)  # in the scheduler as well
        self.alike += (agree / (1 + self.values.shape[1])) ** LIKENESS
