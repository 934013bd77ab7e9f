"""The cheapest cut of a fusion into launches that one kernel can hold each.

Launches are segments of a topological order of the operators, so that a path from its start to its end is a cut and
the cheapest cut is the shortest path. What a segment costs is known at once, by the bytes that it moves; whether a
kernel holds it is not, and takes milliseconds to find out. So the shortest path is taken first, as if all segments
held, and only its segments are asked for; those refused are left out, and the next shortest path is taken.

Which values are stored where they cross from one segment to another, and which are computed again, is decided before
(`recompute.policies`), and so is the order (`orders`): several of each are tried, and the best is kept. Of many
operators fewer are tried, at fewer places (`places`), and what a refused segment is part of counts as refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf

from compiler.arch import Card
from compiler.ir.fusion import Fusion, Op
from search.launches.cut import Cut, cut_at, part_of
from search.launches.orders import late_order, orders, steps_of_folds
from search.launches.places import MOST_PLACES, places_of
from search.launches.pricing import Pricing, Segment
from search.launches.recompute import policies

_Way = tuple[float, int, int]
"""From a place to the end: microseconds, launches, and where its first segment ends."""

_NO_WAY: _Way = (inf, 0, 0)

Accepts = Callable[[Fusion], bool]
"""Whether one kernel can hold a fusion: an unscheduled form exists, and a scheduler takes it."""

MOST_ASKED = 3600
"""Operators in all the segments that are asked for."""

MOST_PRICED = 16000
"""Segments that are priced."""


@dataclass
class Allowance:
    """What may still be done to cut a fusion and its rewritings, which together take a second at most.

    Counted, not timed, so that it gives the same cuts on every machine: of few operators every choice is tried, of many
    the ones that come first. `known`: what was asked, and answered.
    """

    operators: int = MOST_ASKED
    segments: int = MOST_PRICED
    known: dict[str, bool] = field(default_factory=dict)

    @property
    def is_short(self) -> bool:
        """Whether little is left to ask."""
        return self.operators < MOST_ASKED // 6

    def half(self) -> Allowance:
        """Half of it, for one of the fusions; `spent` takes what was used off the whole."""
        return Allowance(self.operators // 2, self.segments // 2, self.known)

    def spent(self, half: Allowance) -> None:
        """Takes off what was used of a half."""
        self.operators -= self.operators // 2 - half.operators
        self.segments -= self.segments // 2 - half.segments


def cheapest_cut(
    fusion: Fusion, card: Card, accepts: Accepts, allowance: Allowance | None = None, *, late_first: bool = False
) -> Cut | None:
    """The cut into launches that `accepts` takes and that is cheapest on a card; one launch where it takes the whole.

    None where there is no cut, which means that a single operator of it is in no launch. `late_first`: before all
    else the order in which everything comes as late as may be is cut between the steps of its folds: of many operators
    that takes few questions, and the other orders may take all that may be asked.
    """
    allowance = allowance or Allowance()
    whole = cut_at(fusion, [fusion.outputs])
    asked = _Asked(accepts, allowance)
    if asked(whole.parts[0].fusion):
        return whole
    best: Cut | None = None
    if late_first:
        ops = late_order(fusion)
        best = _cheapest_of(fusion, card, ops, next(policies(fusion)), asked, inf, steps_of_folds(fusion, ops))
    for ops, kept in _choices(fusion, allowance):
        found = _cheapest_of(fusion, card, ops, kept, asked, inf if best is None else best.us(card))
        if found is not None and (best is None or _cost(found, card) < _cost(best, card)):
            best = found
    return best


def _choices(fusion: Fusion, allowance: Allowance) -> list[tuple[tuple[Op, ...], frozenset[str]]]:
    """Orders of the operators, and values to compute again in each: as many as may be priced, one at least."""
    ordered, kept = list(orders(fusion)), list(policies(fusion))
    every = list(product(ordered, kept))
    places = min(len(fusion.ops) + 1, MOST_PLACES)
    count = max(1, allowance.segments // (places * (places - 1) // 2))
    if count >= len(every):
        return every
    return [(ops, again) for again in kept for ops in ordered][:count]


def _cheapest_of(
    fusion: Fusion,
    card: Card,
    ops: tuple[Op, ...],
    again: frozenset[str],
    asked: _Asked,
    bound: float,
    places: tuple[int, ...] = (),
) -> Cut | None:
    """The cheapest cut of one order below `bound` microseconds; steps that no kernel holds are cut up. `places`: where
    it is cut at first, if not everywhere worth looking."""
    places = places or places_of(fusion, ops)
    while True:
        segments = _Segments(fusion, card, ops, again, places, asked)
        found = segments.shortest(bound)
        more = () if found is not None or bound < inf else segments.inside_refused_steps()
        if not more:
            return found
        places = tuple(sorted({*places, *more}))


def _cost(cut: Cut, card: Card) -> tuple[float, int]:
    return cut.us(card), len(cut.parts)


@dataclass
class _Asked:
    """What was asked of `accepts` for a fusion, and answered."""

    accepts: Accepts
    allowance: Allowance
    by_names: dict[tuple[frozenset[str], frozenset[str]], bool] = field(default_factory=dict)
    """By the values that a launch writes and reads, which say what it is: making it takes a millisecond."""

    def __call__(self, part: Fusion) -> bool:
        key = part.fingerprint + part.binding_hash
        known = self.allowance.known
        if key not in known:
            self.allowance.operators -= len(part.ops)
            known[key] = self.accepts(part)
        return known[key]

    def launch(self, fusion: Fusion, writes: tuple[str, ...], reads: frozenset[str], available: set[str]) -> bool:
        """The answer for the launch that computes `writes` from the values `available`, of which it reads `reads`."""
        key = frozenset(writes), reads
        if key not in self.by_names:
            self.by_names[key] = self(part_of(fusion, writes, available).fusion)
        return self.by_names[key]


class _Segments:
    """The segments of one order of the operators between some places, and the shortest ways along them.

    `again` are the values that are computed anew where they cross.
    """

    def __init__(
        self,
        fusion: Fusion,
        card: Card,
        ops: tuple[Op, ...],
        again: frozenset[str],
        places: Sequence[int],
        asked: _Asked,
    ) -> None:
        self.fusion = fusion
        self.asked = asked
        self.ops = ops
        self.places = places
        asked.allowance.segments -= len(places) * (len(places) - 1) // 2
        self.prices = Pricing(fusion, card, ops, again, places, MOST_PLACES)
        self.us = self.prices.us
        self.steps = len(places) - 1
        self.held: set[Segment] = set()
        self.shortest_from: list[_Way] = [_NO_WAY] * self.steps + [(0.0, 0, self.steps)]
        self._find_ways(self.steps - 1)

    def shortest(self, bound: float) -> Cut | None:
        """The cheapest cut of this order, if it is below `bound` microseconds."""
        is_over = False
        while True:
            if self.asked.allowance.operators <= 0 and not is_over:
                self._leave_out_what_is_unknown()
                is_over = True
            path = self._path()
            if path is None or self.shortest_from[0][0] >= bound:
                return None
            refused = [segment for segment in path if not self._holds(segment)]
            if not refused:
                return self._cut(path)
            if self._is_sparing:
                self._find_ways(self.steps - 1)
            else:
                self._find_ways_around({first for first, _ in refused})

    def inside_refused_steps(self) -> list[int]:
        """Places between neighbouring ones that no kernel holds what lies between."""
        steps = zip(self.places, self.places[1:], self.us, strict=False)
        return [n for low, high, us in steps if us[0] == inf for n in range(low + 1, high)]

    def _leave_out_what_is_unknown(self) -> None:
        """From here on ways go along segments that are held, and along single steps."""
        for first, us in enumerate(self.us):
            self.us[first] = [n if k == 0 or (first, first + 1 + k) in self.held else inf for k, n in enumerate(us)]
        self._find_ways(self.steps - 1)

    def _cut(self, path: list[Segment]) -> Cut:
        return cut_at(self.fusion, [names for names in map(self.prices.written, path) if names])

    def _holds(self, segment: Segment) -> bool:
        """Whether a kernel holds the segment; one that writes nothing is no launch. A refused one takes for ever."""
        if segment in self.held:
            return True
        names = self.prices.written(segment)
        if names:
            before = self.prices.stored_before(segment[0])
            if not self.asked.launch(self.fusion, names, self.prices.read(segment), before):
                self._leave_out(*segment)
                return False
        self.held.add(segment)
        return True

    def _leave_out(self, first: int, end: int) -> None:
        """No way goes along a refused segment; nor, of many operators or where little is left to ask, along one that
        it is a part of: asking for those too would take most of what may be asked, and few are held."""
        if not self._is_sparing:
            self.us[first][end - first - 1] = inf
            return
        for begin in range(first + 1):
            kept = self.us[begin][: end - begin - 1]
            self.us[begin] = kept + [inf] * (len(self.us[begin]) - len(kept))

    @property
    def _is_sparing(self) -> bool:
        return len(self.ops) >= MOST_PLACES or self.asked.allowance.is_short

    # Ways -------------------------------------------------------------------------------------------------------------

    def _find_ways(self, last: int) -> None:
        """The shortest ways to the end from place `last` and those before it; of equals, that of fewer launches."""
        for first in reversed(range(last + 1)):
            self.shortest_from[first] = self._shortest_way(first)

    def _find_ways_around(self, refused: set[int]) -> None:
        """The shortest ways once those from these places begin with segments that were refused. A way stays the
        shortest as long as neither it nor the one that it leads to gets longer: others only ever do."""
        longer = set[int]()
        for first in reversed(range(max(refused) + 1)):
            known = self.shortest_from[first]
            if first in refused or known[2] in longer:
                self.shortest_from[first] = self._shortest_way(first)
                if self.shortest_from[first] != known:
                    longer.add(first)

    def _shortest_way(self, first: int) -> _Way:
        """From place `first`, where those from the later ones are known."""
        rests = self.shortest_from[first + 1 : first + 1 + len(self.us[first])]
        ways = (
            (us + rest[0], rest[1] + (us > 0), first + 1 + k)
            for k, (us, rest) in enumerate(zip(self.us[first], rests, strict=True))
        )
        return min(ways, default=_NO_WAY)

    def _path(self) -> list[Segment] | None:
        """The segments of the shortest way from the start; None where there is none."""
        if self.shortest_from[0][0] == inf:
            return None
        path, first = list[Segment](), 0
        while first < self.steps:
            end = self.shortest_from[first][2]
            path.append((first, end))
            first = end
        return path
