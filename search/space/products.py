"""Points of a space whose knobs fall apart into parts that no constraint ties together, found part by part.

The space of several launches is such a product: its points are far too many for masks, its parts' are not.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from math import prod
from typing import Protocol

import numpy as np

from search.space.knobs import Knob, KnobValue, Point

Values = dict[str, KnobValue]

_FIRST = 8
"""Nearest points of each part that are joined at first; where all joins are excluded, eight times as many are."""

_DRAWS = 8
"""Rounds of drawing before what was found is all there is: the points of a large product are hardly drawn twice."""


class LegalPoints(Protocol):
    """What is asked of the product and of its parts, which are spaces alike (`space.Space`)."""

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The axes, in the order of its points."""

    @property
    def legal(self) -> int:
        """Exact number of legal points."""

    def ravel(self, point: Point) -> int:
        """Flat index of a point."""

    def sample(self, n: int, seed: int) -> list[Values]:
        """`n` distinct legal points drawn evenly (all of them, if fewer)."""

    def nearest(self, point: Point, count: int) -> list[tuple[int, Values]]:
        """Up to `count` legal points nearest to `point`, each with its distance, nearest first."""


def sample_parts(whole: LegalPoints, parts: Sequence[LegalPoints], n: int, rng: np.random.Generator) -> list[Values]:
    """`n` distinct legal points of the product: each part's are drawn evenly, and joined at random.

    All of them, if they are fewer; none where a part has none.
    """
    drawn = [part.sample(n, int(rng.integers(1 << 32))) for part in parts]
    if not all(drawn):
        return []
    wanted = min(n, prod(part.legal for part in parts) if n > 1 else 1)
    found: dict[int, Values] = {}
    for _ in range(_DRAWS):
        for _ in range(wanted):
            point = _joined(whole, [points[int(rng.integers(len(points)))] for points in drawn])
            found.setdefault(whole.ravel(point), point)
            if len(found) == wanted:
                return list(found.values())
    return list(found.values())


def nearest_in_parts(
    whole: LegalPoints, parts: Sequence[LegalPoints], point: Point, exclude: Collection[int]
) -> Values | None:
    """The legal point of the product nearest to `point` that is not excluded; None when all of them are.

    Distances of parts add up: their nearest points are joined in the order of the sum, until a join is not excluded.
    """
    deepest = len(exclude) + 1
    kept = min(deepest, _FIRST)
    while True:
        near = [part.nearest({knob.name: point[knob.name] for knob in part.knobs}, kept) for part in parts]
        found, joins = _first_join(whole, near, exclude)
        # Before a join with a point that was left out come `kept` that are no farther: with those of its part kept.
        is_settled = found is not None and joins <= kept
        if is_settled or kept == deepest or all(len(one) < kept for one in near):
            return found
        kept = min(deepest, 8 * kept)


def _first_join(
    whole: LegalPoints, near: Sequence[list[tuple[int, Values]]], exclude: Collection[int]
) -> tuple[Values | None, int]:
    """The nearest join that is not excluded, and how many were looked at."""
    if not all(near):
        return None, 0
    joins = 0
    start = (0,) * len(near)
    waiting = [(sum(one[0][0] for one in near), start)]
    seen = {start}
    while waiting:
        _, ranks = heapq.heappop(waiting)
        joins += 1
        joined = _joined(whole, [one[rank][1] for one, rank in zip(near, ranks, strict=True)])
        if whole.ravel(joined) not in exclude:
            return joined, joins
        for i, rank in enumerate(ranks):
            following = (*ranks[:i], rank + 1, *ranks[i + 1 :])
            if rank + 1 < len(near[i]) and following not in seen:
                seen.add(following)
                distance = sum(one[r][0] for one, r in zip(near, following, strict=True))
                heapq.heappush(waiting, (distance, following))
    return None, joins


def _joined(whole: LegalPoints, points: Sequence[Values]) -> Values:
    """One point of all parts, its knobs in the order of the space."""
    every = {name: value for point in points for name, value in point.items()}
    return {knob.name: every[knob.name] for knob in whole.knobs}
