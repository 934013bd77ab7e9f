"""A ranking of candidates by predicted time: structures first, then what lies around the best of them.

1. Drawn points are given the hints that seldom lose; of those that become equal one is left (see `search.hints`).
2. The neighbours of the best are predicted: a structure that no draw has met, where the model sees a slope to it.
3. The best structures are predicted with other hints: prediction hardly tells them apart, measuring may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from compiler.arch import Arch
from compiler.errors import IllegalSchedule, InvalidStep, Unsupported
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from search.budget import Clock
from search.build import Predict
from search.candidate import Candidate
from search.hints import neighbours, other_hints, settled
from search.space.knobs import KnobValue
from search.space.protocol import Scheduler
from search.space.schedulers.launches import Scored, rank_by_rank
from search.space.space import Space

DRAWS = 4
"""Points drawn for each structure that is wanted: most spaces have each structure four to eighteen times."""

_SHARE_OF_DRAWN = 0.6
"""Of the seconds, what predicting drawn points may take."""

_IMPROVED = 8
"""Of so many drawn points the neighbours of one are looked at."""

_HINTED = 48
"""Of so many, other hints of one: with three to five hints a kernel, a quarter of what is compiled of a ranking."""

_HINTS_WAIT = 1.03
"""A kernel with other hints comes after structures that are predicted to take this times as long: those may differ from
it by more than a hint does."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate and its predicted time in microseconds."""

    candidate: Candidate
    predicted_us: float


@dataclass
class Ranker:
    """Ranks candidates of one fusion. `rank` is called once."""

    fusion: Fusion
    arch: Arch
    schedulers: Mapping[str, Scheduler]
    spaces: Mapping[str, Space]
    predict: Predict
    clock: Clock = time.monotonic
    _seen: set[Candidate] = field(default_factory=set)
    _ranked: list[Ranked] = field(default_factory=list)
    _launched: dict[str, list[Scored]] = field(default_factory=dict)

    def rank(self, n: int, seed: int, seconds: float) -> list[Ranked]:
        """Up to `n` structures of each scheduler and half as many neighbours of theirs, the fastest predicted first,
        and among them the best with other hints, a little later; ends after `seconds`.

        Candidates that turn out not to be schedulable, or have no prediction, are left out. Of several launches, the
        points of each are ranked by themselves, and joined rank by rank: their times add up.
        """
        begun = self.clock()
        self._try(self.drawn(n, seed), begun + _SHARE_OF_DRAWN * seconds)
        if not self._found:
            self._try(self.drawn(n, seed), begun + seconds, at_least=1)
        best = max(1, n // _IMPROVED)
        self._try(islice(self._around(best, neighbours), n // 2), begun + seconds)
        for name, scored in self._launched.items():
            self._ranked += [Ranked(Candidate.of(name, point), us) for point, us in rank_by_rank(scored)]
        structures = len(self._ranked)
        self._try(self._around(max(1, n // _HINTED), other_hints), begun + seconds, joins=False)
        waits = [1.0] * structures + [_HINTS_WAIT] * (len(self._ranked) - structures)
        order = sorted(zip(waits, self._ranked, strict=True), key=lambda one: one[0] * one[1].predicted_us)
        return [ranked for _, ranked in order]

    @property
    def _found(self) -> bool:
        return bool(self._ranked or self._launched)

    def drawn(self, n: int, seed: int) -> Iterator[Candidate]:
        """Structures of all schedulers in turns, distinct and in random order."""
        for turn in zip_longest(*(self._structures(name, n, seed) for name in self.spaces)):
            yield from (candidate for candidate in turn if candidate is not None)

    def _structures(self, name: str, n: int, seed: int) -> Iterator[Candidate]:
        space = self.spaces[name]
        drawn = (Candidate.of(name, settled(space, point)) for point in space.sample(DRAWS * n, seed))
        met: set[Candidate] = set()
        for candidate in drawn:
            if len(met) == n:
                return
            if candidate not in met:
                met.add(candidate)
                yield candidate

    def _around(
        self, best: int, near: Callable[[Space, Mapping[str, KnobValue]], Iterable[dict[str, KnobValue]]]
    ) -> Iterator[Candidate]:
        """What `near` says is near the `best` so far, in their order."""
        for one in sorted(self._ranked, key=lambda one: one.predicted_us)[:best]:
            name = one.candidate.scheduler
            yield from (Candidate.of(name, point) for point in near(self.spaces[name], one.candidate.knobs))

    def _try(self, candidates: Iterable[Candidate], deadline: float, at_least: int = 0, joins: bool = True) -> None:
        """Predicts those not seen yet until the deadline; of several launches, keeps the time of each if it `joins`."""
        for candidate in candidates:
            if self.clock() > deadline and len(self._ranked) + len(self._launched) >= at_least:
                return
            if candidate in self._seen:
                continue
            self._seen.add(candidate)
            each = self._predicted(candidate)
            if each is None:
                continue
            if len(each) == 1 or not joins:
                self._ranked.append(Ranked(candidate, sum(each)))
            else:
                self._launched.setdefault(candidate.scheduler, []).append((candidate.knobs, each))

    def _predicted(self, candidate: Candidate) -> list[float] | None:
        """Microseconds of each launch; None where there is no kernel, or no prediction of one."""
        try:
            generated = generate(self.schedulers[candidate.scheduler].trace(self.fusion, candidate.knobs), self.arch)
        except (IllegalSchedule, InvalidStep, Unsupported):
            return None
        each = [self.predict(part) for part in generated.parts]
        known = [us for us in each if us is not None]
        return known if len(known) == len(each) else None
