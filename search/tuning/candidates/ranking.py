"""A ranking of candidates by predicted time: few of them are made, chosen by what those tell of the many others.

1. Points are drawn from each space, and given the hints that seldom lose; of those that become equal one is left. Each
   kind, a choice of words, has its turns: more of those whose best is predicted to be fast, but some of each.
2. What is known foretells the times of all others (`foretold`). Those that may be fastest are predicted next, whatever
   scheduler they are of, and the neighbours of the fastest join the others; until nothing that is left may be among the
   ten fastest, or enough was made.
3. The best structures are tried with other hints: prediction hardly tells them apart, measuring may. What a hint costs
   is predicted of one structure of each scheduler, and taken for that of the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from search.space.knobs import KnobValue
from search.space.space import Space
from search.tuning.budget import Clock
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Foresee
from search.tuning.candidates.field import LEAST_KNOWN, Field
from search.tuning.candidates.hints import other_hints
from search.tuning.candidates.spread import Ranked, spread

_MADE, _LEAST_MADE = 4, 32
"""Of so many structures that are ranked one is made, at most; of few, up to so many."""

_FIRST = 8
"""Of so many structures one is made before others are foretold; at least one of each kind, and as many as foretelling
takes, but no more than half of all that are made."""

_SHARE_OF_FIRST = 0.5
"""Of the seconds, what those may take."""

_TOGETHER, _OWN = 16, 8
"""Candidates that are chosen at a time by what is foretold: making them takes longer than foretelling all. At first so
many of each scheduler, whatever the others' are foretold to take: its first structures may all have missed its best."""

_LEADERS = 10
"""A ranking ends once nothing more may be among so many of the fastest."""

_HINTED = 24
"""Of so many structures, other hints of one: with two to six hints a kernel, an eighth of what is predicted."""

_Asked = tuple[Field, Sequence[int]]


@dataclass
class Ranker:
    """Ranks candidates of spaces by name. `rank` is called once; `made` counts the candidates that were predicted,
    `fields` has what is known of each scheduler's.

    Once `is_stopped` says so, nothing more is predicted.
    """

    spaces: Mapping[str, Space]
    foresee: Foresee
    clock: Clock = time.monotonic
    is_stopped: Callable[[], bool] = lambda: False
    made: int = 0
    fields: dict[str, Field] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _guided: set[str] = field(default_factory=set)

    def rank(self, n: int, seed: int, seconds: float) -> list[Ranked]:
        """Up to `n` structures of each scheduler beside what lies around the best, and the best of them with other
        hints, the fastest first; ends after `seconds`.

        Candidates that turn out not to be schedulable are left out. Of several launches, the points of each are ranked
        by themselves, and joined rank by rank: their times add up.
        """
        begun = self.clock()
        most = max(n // _MADE, min(n, _LEAST_MADE))
        self.fields = {name: Field.of(name, space, n, seed) for name, space in self.spaces.items()}
        first = self._first(n, most)
        self._predict(first, begun + _SHARE_OF_FIRST * seconds)
        if not self._found:
            self._predict(first, begun + seconds, at_least=1)
        while chosen := self._next(most):
            before = self.made
            self._predict(iter(chosen), begun + seconds)
            if self.made == before:
                break
            for name in {one.name for one, _ in chosen}:
                self.fields[name].grow()
        ranked = [one for each in self.fields.values() for one in each.ranked(n)]
        ranked.sort(key=lambda one: one.predicted_us)
        ranked += self._hinted(ranked, max(1, n // _HINTED), begun + seconds)
        return sorted(ranked, key=lambda one: one.predicted_us)

    @property
    def _found(self) -> bool:
        return any(each.exact for each in self.fields.values())

    def _first(self, n: int, most: int) -> Iterator[_Asked]:
        """Structures of all schedulers in turns, each kind in turn."""

        def drawn(one: Field) -> Iterator[_Asked]:
            count = max(min(max(n // _FIRST, one.kinds), most // 2), min(LEAST_KNOWN, most))
            return ((one, numbers) for numbers in one.first(count))

        for turn in zip_longest(*map(drawn, self.fields.values())):
            yield from (asked for asked in turn if asked is not None)

    def _next(self, most: int) -> list[_Asked]:
        """What may be fastest of all that is not known; nothing if that is not among the fastest."""
        found: list[tuple[float, _Asked]] = []
        own: list[_Asked] = []
        for name, one in self.fields.items():
            left = most - self._counts.get(name, 0)
            chosen = one.next(min(left, _TOGETHER))
            if name not in self._guided and chosen:
                self._guided.add(name)
                own += [(one, numbers) for _, numbers in chosen[:_OWN]]
            found += [(us, (one, numbers)) for us, numbers in chosen]
        if own:
            return own
        found.sort(key=lambda one: one[0])
        leaders = sorted(sum(each) for one in self.fields.values() for _, each in one.exact)[:_LEADERS]
        if len(leaders) == _LEADERS:
            found = [one for one in found if one[0] < leaders[-1]]
        return [asked for _, asked in found[:_TOGETHER]]

    def _predict(self, asked: Iterator[_Asked], deadline: float, at_least: int = 0) -> None:
        """Predicts candidates and keeps their times until the deadline, at which `at_least` so many are known."""
        waiting: dict[Candidate, _Asked] = {}

        def candidates() -> Iterator[Candidate]:
            for one, numbers in asked:
                if self.is_stopped() or (self.clock() > deadline and self.made >= at_least):
                    return
                candidate = one.candidate(numbers)
                waiting[candidate] = one, numbers
                yield candidate

        for candidate, each in self.foresee(candidates()):
            one, numbers = waiting.pop(candidate)
            one.learn(numbers, candidate, each)
            self.made += each is not None
            self._counts[one.name] = self._counts.get(one.name, 0) + 1

    def _hinted(self, ranked: Sequence[Ranked], count: int, deadline: float) -> list[Ranked]:
        """The best structures with other hints."""
        us = {one.candidate: one.predicted_us for one in ranked}
        costs: dict[str, dict[_Hints, float]] = {}
        found: dict[Candidate, float] = {}
        for parent in spread(ranked, count):
            space = self.spaces[parent.scheduler]
            changed = [Candidate.of(parent.scheduler, point) for point in other_hints(space, parent.knobs)]
            if parent.scheduler not in costs:
                costs[parent.scheduler] = {}
                for one, each in self.foresee(self._until(changed, deadline)):
                    if each is not None:
                        self.made += 1
                        costs[parent.scheduler][_differing(one, parent)] = sum(each) / us[parent]
            for one in changed:
                if one not in us and _differing(one, parent) in costs[parent.scheduler]:
                    found.setdefault(one, us[parent] * costs[parent.scheduler][_differing(one, parent)])
        return [Ranked(candidate, predicted_us) for candidate, predicted_us in found.items()]

    def _until(self, candidates: Sequence[Candidate], deadline: float) -> Iterator[Candidate]:
        for one in candidates:
            if self.is_stopped() or self.clock() > deadline:
                return
            yield one


_Hints = tuple[tuple[str, KnobValue], ...]


def _differing(one: Candidate, parent: Candidate) -> _Hints:
    """The knobs that one has otherwise than its parent."""
    own = parent.knobs
    return tuple((name, value) for name, value in one.point if own[name] != value)
