"""A ranking of candidates by predicted time: structures first, then what lies around the best of them.

1. Drawn points are given the hints that seldom lose; of those that become equal one is left (see `hints`). Each
   kind, a choice of words, has its turns: more of those whose best is predicted to be fast, but some of each.
2. The neighbours of the best are predicted: a structure that no draw has met, where the model sees a slope to it.
3. The best structures are predicted with other hints: prediction hardly tells them apart, measuring may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice, zip_longest
from math import log2

from search.space.knobs import KnobValue
from search.space.schedulers.launches import Scored, rank_by_rank
from search.space.space import Space
from search.tuning.budget import Clock
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Foresee
from search.tuning.candidates.hints import is_hint, neighbours, other_hints, settled
from search.tuning.candidates.spread import TYPICAL_ERROR, Ranked, spread

DRAWS = 8
"""Points drawn for each structure that is wanted: most spaces have each structure four to eighteen times."""

_SHARE_OF_DRAWN = 0.6
"""Of the seconds, what predicting drawn points may take."""

_IMPROVED = 8
"""Of so many drawn points the neighbours of one are looked at."""

_HINTED = 24
"""Of so many, other hints of one: with two to six hints a kernel, an eighth of what is predicted."""


@dataclass
class Ranker:
    """Ranks candidates of spaces by name. `rank` is called once; `launched`: what was predicted of several launches.

    Once `is_stopped` says so, nothing more is predicted.
    """

    spaces: Mapping[str, Space]
    foresee: Foresee
    clock: Clock = time.monotonic
    is_stopped: Callable[[], bool] = lambda: False
    _seen: set[Candidate] = field(default_factory=set)
    _ranked: list[Ranked] = field(default_factory=list)
    launched: dict[str, list[Scored]] = field(default_factory=dict)
    _fastest: dict[Hashable, float] = field(default_factory=dict)

    def rank(self, n: int, seed: int, seconds: float) -> list[Ranked]:
        """Up to `n` structures of each scheduler and half as many neighbours of theirs, and the best of them with other
        hints, the fastest predicted first; ends after `seconds`.

        Candidates that turn out not to be schedulable are left out. Of several launches, the points of each are ranked
        by themselves, and joined rank by rank: their times add up.
        """
        begun = self.clock()
        self._try(self.drawn(n, seed), begun + _SHARE_OF_DRAWN * seconds)
        if not self._found:
            self._try(self.drawn(n, seed), begun + seconds, at_least=1)
        best = max(1, n // _IMPROVED)
        in_order = sorted((*self._ranked, *self._joined()), key=lambda one: one.predicted_us)
        near = self._around((one.candidate for one in in_order[:best]), neighbours)
        self._try(islice(near, n // 2), begun + seconds)
        self._ranked += self._joined()
        best = max(1, n // _HINTED)
        self._try(self._around(spread(self._ranked, best), other_hints), begun + seconds, joins=False)
        return sorted(self._ranked, key=lambda one: one.predicted_us)

    def _joined(self) -> list[Ranked]:
        """Candidates of several launches: of the first, second, … best of each launch."""
        return [
            Ranked(Candidate.of(name, point), us)
            for name, scored in self.launched.items()
            for point, us in rank_by_rank(scored)
        ]

    @property
    def _found(self) -> bool:
        return bool(self._ranked or self.launched)

    def drawn(self, n: int, seed: int) -> Iterator[Candidate]:
        """Structures of all schedulers in turns, distinct and in random order."""
        for turn in zip_longest(*(self._structures(name, n, seed) for name in self.spaces)):
            yield from (candidate for candidate in turn if candidate is not None)

    def _structures(self, name: str, n: int, seed: int) -> Iterator[Candidate]:
        """Up to `n` structures. The next is of the kind whose best takes least, where a kind waits for the structures
        it has had as a candidate waits for those like it (see `search.tuning.candidates.spread`)."""
        space = self.spaces[name]
        hints = {knob.name for knob in space.knobs if is_hint(knob)}
        structures: dict[Hashable, Candidate] = {}
        for drawn in (Candidate.of(name, point) for point in space.sample(DRAWS * n, seed)):
            structures.setdefault(tuple(one for one in drawn.point if one[0] not in hints), drawn)
        kinds: dict[Hashable, list[Candidate]] = {}
        for drawn in structures.values():
            kinds.setdefault(self._kind(drawn), []).append(drawn)
        turns = [(0.0, 0, number, kind) for number, kind in enumerate(kinds)]  # in order: a heap
        slowest = 0.0
        for _ in range(min(n, sum(map(len, kinds.values())))):
            _, had, number, kind = heappop(turns)
            yield Candidate.of(name, settled(space, kinds[kind].pop().knobs))
            us = self._fastest.get(kind)
            slowest = max(slowest, us or 0.0)
            waits = 1 + TYPICAL_ERROR * log2(2 + had)
            if kinds[kind]:
                heappush(turns, ((us or slowest) * waits, had + 1, number, kind))

    def _kind(self, candidate: Candidate) -> Hashable:
        """A scheduler, and the words that choose how data moves and is walked over."""
        words = {k.name for k in self.spaces[candidate.scheduler].knobs if not k.is_numeric and not is_hint(k)}
        return candidate.scheduler, tuple(value for name, value in candidate.point if name in words)

    def _around(
        self,
        candidates: Iterable[Candidate],
        near: Callable[[Space, Mapping[str, KnobValue]], Iterable[dict[str, KnobValue]]],
    ) -> Iterator[Candidate]:
        """What `near` says is near the candidates, in their order."""
        for one in candidates:
            yield from (Candidate.of(one.scheduler, point) for point in near(self.spaces[one.scheduler], one.knobs))

    def _try(self, candidates: Iterable[Candidate], deadline: float, at_least: int = 0, joins: bool = True) -> None:
        """Predicts those not seen yet until the deadline; of several launches, keeps the time of each if it `joins`."""
        for candidate, each in self.foresee(self._new(candidates, deadline, at_least)):
            if each is None:
                continue
            kind = self._kind(candidate)
            self._fastest[kind] = min(sum(each), self._fastest.get(kind, sum(each)))
            if len(each) == 1 or not joins:
                self._ranked.append(Ranked(candidate, sum(each)))
            else:
                self.launched.setdefault(candidate.scheduler, []).append((candidate.knobs, each))

    def _new(self, candidates: Iterable[Candidate], deadline: float, at_least: int) -> Iterator[Candidate]:
        """Those not seen yet, until it is stopped, or until the deadline has passed and `at_least` so many have a
        prediction."""
        for candidate in candidates:
            if self.is_stopped():
                return
            if self.clock() > deadline and len(self._ranked) + len(self.launched) >= at_least:
                return
            if candidate not in self._seen:
                self._seen.add(candidate)
                yield candidate
