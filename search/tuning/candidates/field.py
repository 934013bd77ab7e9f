"""What is known of the points of one space while they are ranked: which are there, what some take, what others may.

Points are rows of positions. Of a space of several launches each launch is a part with rows of its own, since what a
launch takes does not depend on the others; of any other space there is one part, which has all knobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from search.space.schedulers.launches import Scored, rank_by_rank
from search.space.space import Rows, Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.foretold import Foretelling
from search.tuning.candidates.hints import is_hint, neighbouring_rows, settled_rows
from search.tuning.candidates.spread import TYPICAL_ERROR, Ranked

DRAWS = 8
"""Points drawn for each structure that is wanted: most spaces have each structure four to eighteen times."""

LEAST_KNOWN = 8
"""Points of a part that are known before others are foretold."""

LEAST_OF_KIND = 8
"""Points of each kind that are looked at before the kinds compete, if that takes no more than half of the first."""

CURIOSITY = 2.0
"""By how many times what a foretold time may be off it counts as faster: what little is known of is looked at too.
Of the twelve cases of the suites in which the best of ten was furthest from that of 400 made candidates, with kinds
waiting for each other, it is 0.6 % slower on average by 2, and 2.0 % by 1; without waiting 1.7 and 1.8 %."""

_LIKELY = 16
"""How far foretold times may be off is asked of so many times as many as are wanted: it costs more than the times."""

_GROWN = 4
"""Of so many of the fastest known points of a part the neighbours are added at a time."""


class LaunchPoints:
    """The points of one launch, as rows of the whole space: `columns` are the launch's own, others are anybody's."""

    def __init__(self, space: Space, columns: Sequence[int], rows: Rows) -> None:
        self.columns = list(columns)
        self._structure = [c for c in self.columns if not is_hint(space.knobs[c])]
        self._words = [c for c in self.columns if not space.knobs[c].is_numeric and not is_hint(space.knobs[c])]
        self._telling = Foretelling([space.knobs[c] for c in self.columns])
        self._numbers: dict[bytes, int] = {}
        self._grown: set[int] = set()
        self.rows = rows[:0]
        self.us = np.zeros(0)
        """Predicted microseconds; NaN where nothing was predicted, infinity where there is no kernel."""
        self._placed = self._telling.placed(self.rows[:, self.columns])
        self.add(rows)

    def add(self, rows: Rows) -> None:
        """Adds the points that are not there yet; those that differ in hints alone are one."""
        new = []
        for i, key in enumerate(map(bytes, np.ascontiguousarray(rows[:, self._structure]))):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                new.append(i)
        if new:
            self.rows = np.concatenate([self.rows, rows[new]])
            self.us = np.concatenate([self.us, np.full(len(new), np.nan)])
            self._placed = np.concatenate([self._placed, self._telling.placed(rows[new][:, self.columns])])

    def turns(self, least: int = 1) -> Iterator[int]:
        """Numbers of points, each kind (a choice of words) in turn: the `least` of each first, since the first points
        of a kind may all miss what makes it fast; then the kind whose best takes least, where a kind waits for the
        points it has had as a candidate waits for those like it (see `spread`)."""
        kinds: dict[bytes, list[int]] = {}
        for number, words in enumerate(np.ascontiguousarray(self.rows[:, self._words])):
            kinds.setdefault(bytes(words), []).append(number)
        waiting = [(0.0, 0, order, kind) for order, kind in enumerate(kinds)]
        had: dict[bytes, list[int]] = {kind: [] for kind in kinds}
        slowest = 0.0
        while waiting:
            _, _, order, kind = heappop(waiting)
            number = kinds[kind].pop()
            yield number
            had[kind].append(number)
            fastest = min((us for us in self.us[had[kind]].tolist() if math.isfinite(us)), default=None)
            slowest = max(slowest, fastest or 0.0)
            if kinds[kind]:
                waits = 1 + TYPICAL_ERROR * math.log2(1 + len(had[kind])) if len(had[kind]) >= least else 0.0
                heappush(waiting, ((fastest or slowest) * waits, len(had[kind]), order, kind))

    @property
    def kinds(self) -> int:
        """How many choices of words there are."""
        return len(np.unique(self.rows[:, self._words], axis=0)) if self._words else 1

    def learn(self, number: int, us: float) -> None:
        """Keeps what a point takes."""
        if math.isnan(self.us[number]) and math.isfinite(us):
            self._telling.learn(self.rows[number : number + 1][:, self.columns], [us])
        self.us[number] = us

    @property
    def is_telling(self) -> bool:
        """Whether enough is known to foretell what is not."""
        return self._telling.known >= LEAST_KNOWN

    def best(self, count: int) -> list[tuple[int, float]]:
        """Numbers and predicted times of the fastest points that are known."""
        order = np.argsort(self.us, kind="stable")[:count].tolist()
        return [(number, float(self.us[number])) for number in order if math.isfinite(self.us[number])]

    def foretold(self, count: int, curiosity: float) -> list[tuple[int, float]]:
        """Numbers and foretold times of the fastest points that are not known. With curiosity: less what they may be
        off, so many times, and in an order in which points wait for the known ones of their kind."""
        unknown = np.flatnonzero(np.isnan(self.us))
        if not len(unknown):
            return []
        bounds = self._telling.foretell(self._placed[unknown])
        if curiosity:
            likely = np.argsort(bounds, kind="stable")[: _LIKELY * count]
            unknown, bounds = unknown[likely], bounds[likely]
            bounds = bounds - curiosity * self._telling.errors(self._placed[unknown])
            turns = bounds + np.log(1 + TYPICAL_ERROR * np.log2(1 + self._had(unknown)))
        order = np.argsort(turns if curiosity else bounds, kind="stable")[:count]
        return list(zip(unknown[order].tolist(), np.exp(bounds[order]).tolist(), strict=True))

    def _had(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many points of the kind of each are known."""
        kinds, kind_of = np.unique(self.rows[:, self._words], axis=0, return_inverse=True)
        known = np.bincount(kind_of.reshape(-1)[~np.isnan(self.us)], minlength=len(kinds))
        found: NDArray[np.int64] = known[kind_of.reshape(-1)[numbers]]
        return found

    def grow(self, space: Space) -> None:
        """Adds the neighbours of the fastest known points: structures that no draw has met."""
        for number, _ in [one for one in self.best(_GROWN) if one[0] not in self._grown]:
            self._grown.add(number)
            near = neighbouring_rows(space, self.rows[number], self.columns)
            self.add(near[space.are_legal(near)])


@dataclass
class Field:
    """The points of one scheduler. `exact`: the predicted points, with what each of their launches takes."""

    name: str
    space: Space
    parts: list[LaunchPoints]
    exact: list[Scored] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set)

    @classmethod
    def of(cls, name: str, space: Space, n: int, seed: int) -> Field:
        """The structures among `DRAWS` times `n` points, with hints that seldom lose."""
        rows = settled_rows(space, space.draw(DRAWS * n, seed))
        launches = sorted({knob.name.partition(".")[0] for knob in space.knobs if "." in knob.name}, key=int)
        if not launches:
            return cls(name, space, [LaunchPoints(space, range(len(space.knobs)), rows)])
        shared = [i for i, knob in enumerate(space.knobs) if "." not in knob.name]
        rows[:, shared] = rows[:1, shared]
        owns = ([i for i, k in enumerate(space.knobs) if k.name.partition(".")[0] == launch] for launch in launches)
        return cls(name, space, [LaunchPoints(space, [*shared, *own], rows) for own in owns])

    @property
    def kinds(self) -> int:
        """Kinds of the part that has most."""
        return max(part.kinds for part in self.parts)

    def first(self, count: int) -> Iterator[Sequence[int]]:
        """Up to `count` points by the number of each part's: kinds in turns. A part that has no more begins anew."""
        return islice(self._turns(max(1, min(LEAST_OF_KIND, count // (2 * self.kinds)))), count)

    def _turns(self, least: int) -> Iterator[Sequence[int]]:
        turns = [part.turns(least) for part in self.parts]
        for _ in range(max(len(part.rows) for part in self.parts)):
            numbers = []
            for i, part in enumerate(self.parts):
                number = next(turns[i], None)
                if number is None:
                    turns[i] = part.turns(least)
                    number = next(turns[i])
                numbers.append(number)
            if self._is_new(numbers):
                yield numbers

    def next(self, count: int) -> list[tuple[float, Sequence[int]]]:
        """Up to `count` points that may be fastest of those not predicted, with the time that they may take."""
        if count <= 0 or not all(part.is_telling for part in self.parts):
            return []
        each = [part.foretold(count, CURIOSITY) for part in self.parts]
        found = []
        for rank in range(max(map(len, each))):
            chosen = [
                one[rank] if rank < len(one) else part.best(1)[0] for part, one in zip(self.parts, each, strict=True)
            ]
            found.append((sum(us for _, us in chosen), [number for number, _ in chosen]))
        return [one for one in found if self._key(one[1]) not in self._seen]

    def candidate(self, numbers: Sequence[int]) -> Candidate:
        """The candidate of a point."""
        return Candidate.of(self.name, self.space.at(tuple(self._row(numbers).tolist())))

    def learn(self, numbers: Sequence[int], candidate: Candidate, each: Sequence[float] | None) -> None:
        """Keeps what the launches of a point take; None: that it has no kernel."""
        self._seen.add(self._key(numbers))
        if each is None:
            if len(self.parts) == 1:
                self.parts[0].learn(numbers[0], math.inf)
            return
        self.exact.append((candidate.knobs, list(each)))
        for part, number, us in zip(self.parts, numbers, each, strict=True):
            part.learn(number, us)

    def grow(self) -> None:
        """Adds points near the fastest."""
        for part in self.parts:
            part.grow(self.space)

    def ranked(self, n: int) -> list[Ranked]:
        """The points that were predicted, of several launches joined rank by rank, and up to `n` that are foretold."""
        told = list(self.exact)
        if all(part.is_telling for part in self.parts):
            each = [part.foretold(n, 0.0) or part.best(n) for part in self.parts]
            for rank in range(min(n, max(map(len, each)))):
                chosen = [one[rank % len(one)] for one in each]
                row = self._row([number for number, _ in chosen])
                told.append((self.space.at(tuple(row.tolist())), [us for _, us in chosen]))
        if len(self.parts) > 1:
            return [Ranked(Candidate.of(self.name, point), us) for point, us in rank_by_rank(told)]
        return [Ranked(Candidate.of(self.name, point), sum(each)) for point, each in told]

    def _is_new(self, numbers: Sequence[int]) -> bool:
        key = self._key(numbers)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _key(self, numbers: Sequence[int]) -> bytes:
        return bytes(np.array(numbers, dtype=np.int64))

    def _row(self, numbers: Sequence[int]) -> NDArray[np.int16]:
        row: NDArray[np.int16] = self.parts[0].rows[numbers[0]].copy()
        for part, number in zip(self.parts[1:], numbers[1:], strict=True):
            row[part.columns] = part.rows[number][part.columns]
        return row
