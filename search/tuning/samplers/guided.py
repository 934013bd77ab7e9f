"""Trials in turns: what the ranking has next, what lies around the fastest that was measured, and what TPE proposes.

A prediction knows a kernel before it is compiled and errs by a few percent; the last percents lie in neighbours of what
was measured to be fast, a knob or two away; and TPE finds what neither has in sight.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain, cycle
from types import MappingProxyType
from typing import Literal

from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.corrected import corrected
from search.tuning.candidates.hints import neighbours, other_hints
from search.tuning.samplers.optuna import OptunaSampler, Proposals
from search.tuning.trial import TrialState

WARM_START = 32
"""Ranked candidates that are tried before anything else: enough of a space's kinds to start from."""

TURNS: tuple[Literal["near", "ranked", "tpe"], ...] = ("near", "ranked", "near", "tpe")
"""Whose candidate is next, over and over."""

LEARN_FROM, LEARN_EVERY = 10, 6
"""Measured candidates from which on predictions are corrected by them, and after how many more it is done again."""

PARENTS = 8
"""So many of the fastest are looked around."""

NOTHING: Mapping[Candidate, float] = MappingProxyType({})

PAIRS = 64
"""Points two steps away that are drawn around one candidate, once its neighbours have been tried."""


class GuidedSampler:
    """A `Sampler`: first `ranked[:WARM_START]`, then in turns. `ranked` is in the order in which it is to be tried,
    until some were measured: then `predicted_us`, times by candidate, are corrected by those (`corrected`). `first`:
    those of them that stay before the others whatever is learnt.

    `better` is a ranking that is still being made: once it is there it takes the place of `ranked`. What it raises,
    `ask` raises. `proposals`: of TPE, where they are made elsewhere; a turn for which there is none is the ranking's.
    """

    def __init__(
        self,
        spaces: Mapping[str, Space],
        seed: int,
        ranked: Sequence[Candidate],
        better: Future[Sequence[Candidate]] | None = None,
        proposals: Proposals | None = None,
        predicted_us: Mapping[Candidate, float] = NOTHING,
        first: Collection[Candidate] = (),
    ) -> None:
        self._spaces = spaces
        self._better = better
        self._random = random.Random(seed)
        self._predicted_us = predicted_us
        self._first = frozenset(first)
        self._measured_us: dict[Candidate, float] = {}
        self._learn_at = LEARN_FROM
        self._tried = 0
        self._left: deque[Candidate] = deque(ranked)
        self._turns = cycle(TURNS)
        self._tpe = OptunaSampler(spaces, seed, proposals)
        self._fastest: list[tuple[float, Candidate]] = []
        self._around: dict[Candidate, Iterator[Candidate]] = {}

    def ask(self) -> Candidate | None:
        if self._better is not None and self._better.done():
            (ranked, self._better) = (self._better.result(), None)
            self._left, self._tried = deque(ranked), 0
        if self._predicted_us and len(self._measured_us) >= self._learn_at:
            self._learn_at = len(self._measured_us) + LEARN_EVERY
            first, left = (
                [one for one in self._left if (one in self._first) is is_first] for is_first in (True, False)
            )
            self._left = deque([*first, *corrected(left, self._predicted_us, self._measured_us)])
        if self._tried < WARM_START and (first := self._next_ranked()) is not None:
            return first
        match next(self._turns):
            case "near":
                found = self._near() or self._next_ranked()
            case "ranked":
                found = self._next_ranked() or self._near()
            case "tpe":
                found = self._tpe.ask(waits=False) or self._next_ranked() or self._near()
        return found or self._tpe.ask()

    def tell(self, candidate: Candidate, value: float | None, state: TrialState) -> None:
        if value is not None and state is not TrialState.DUPLICATE:
            self._fastest.append((value, candidate))
            self._fastest.sort(key=lambda one: one[0])
            del self._fastest[PARENTS:]
            self._measured_us[candidate] = value
        self._tpe.tell(candidate, value, state)

    def _next_ranked(self) -> Candidate | None:
        """The next of the ranking that nobody has tried."""
        while self._left:
            self._tried += 1
            if self._tpe.take(one := self._left.popleft()):
                return one
        return None

    def _offered(self, candidates: Iterator[Candidate]) -> Candidate | None:
        """The next that nobody has tried."""
        return next((one for one in candidates if self._tpe.take(one)), None)

    def _near(self) -> Candidate | None:
        """One around a fast candidate: the faster, the more often."""
        parents = [candidate for _, candidate in self._fastest]
        while parents:
            parent = parents.pop(int(len(parents) * self._random.random() ** 2))
            if parent not in self._around:
                self._around[parent] = self._steps(parent)
            if (found := self._offered(self._around[parent])) is not None:
                return found
        return None

    def _steps(self, parent: Candidate) -> Iterator[Candidate]:
        """Neighbours and other hints in random order, then points two steps away."""
        space, name = self._spaces[parent.scheduler], parent.scheduler
        one_away = [*neighbours(space, parent.knobs), *other_hints(space, parent.knobs)]
        self._random.shuffle(one_away)
        yield from (Candidate.of(name, point) for point in one_away)
        for _ in range(PAIRS if one_away else 0):
            between = self._random.choice(one_away)
            two_away = list(chain(neighbours(space, between), other_hints(space, between)))
            if two_away:
                yield Candidate.of(name, self._random.choice(two_away))
