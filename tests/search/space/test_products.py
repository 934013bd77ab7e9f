"""Spaces of independent parts that are too large for masks: sampled, counted and searched part by part."""

from __future__ import annotations

import time

import pytest

from search.space.constraints import Constraint
from search.space.knobs import Knob, KnobValue
from search.space.space import KEPT_POINTS, Space


def part(prefix: str, size: int = 32) -> tuple[tuple[Knob, ...], tuple[Constraint, ...]]:
    """Three knobs of `size` values whose sum has to be a multiple of `size`, and a knob that nothing ties."""
    knobs = tuple(Knob(f"{prefix}.{name}", tuple(range(size))) for name in "abc")
    rule = Constraint("sum", tuple(k.name for k in knobs), lambda a, b, c: (a + b + c) % size == 0, "sums are whole")
    return (*knobs, Knob(f"{prefix}.free", ("x", "y"))), (rule,)


def product(count: int, size: int = 32) -> Space:
    parts = [part(str(n), size) for n in range(count)]
    return Space(
        "product", tuple(k for knobs, _ in parts for k in knobs), tuple(r for _, rules in parts for r in rules)
    )


LARGE = product(6)


def test_counts_multiply() -> None:
    assert LARGE.points == (32**3 * 2) ** 6 > 2**63 > KEPT_POINTS
    assert LARGE.legal == (32**2 * 2) ** 6
    assert LARGE.has_legal


def test_a_sample_is_legal_distinct_spread_and_the_same_for_one_seed() -> None:
    begun = time.process_time()
    points = LARGE.sample(500, seed=3)
    assert time.process_time() - begun < 2  # takes 0.1 s
    assert len({LARGE.ravel(point) for point in points}) == 500
    assert all(LARGE.is_legal(point) for point in points)
    assert points == LARGE.sample(500, seed=3) != LARGE.sample(500, seed=4)
    assert all({point[f"{n}.a"] for point in points} == set(range(32)) for n in range(6))
    assert list(points[0]) == [knob.name for knob in LARGE.knobs]


def test_unravel_undoes_ravel() -> None:
    (point,) = LARGE.sample(1, seed=0)
    assert LARGE.unravel(LARGE.ravel(point)) == point


def test_the_nearest_points_come_in_the_order_of_their_distance() -> None:
    """Each part is one step from legal: six steps at the least, then legal points a step or more farther away."""
    origin = {knob.name: (knob.values[0] if knob.name[-1] != "c" else 31) for knob in LARGE.knobs}
    taken: set[int] = set()
    found = []
    for _ in range(40):
        point = LARGE.nearest_legal(origin, taken)
        assert point is not None
        assert LARGE.is_legal(point)
        taken.add(LARGE.ravel(point))
        found.append(distance(LARGE, origin, point))
    assert len(taken) == 40
    assert found[0] == 6
    assert found == sorted(found)


@pytest.mark.parametrize("excluded", [0, 1, 9, 60, 200])
def test_parts_give_the_distances_that_the_whole_gives(monkeypatch: pytest.MonkeyPatch, excluded: int) -> None:
    """A product small enough for masks, looked through both ways."""
    space = product(2, size=4)
    origin = {knob.name: knob.values[-1] for knob in space.knobs}

    excluded_points = {space.ravel(point) for point in space.sample(excluded, seed=1)}
    by_masks = nearest(space, origin, excluded_points)
    monkeypatch.setattr("search.space.space.KEPT_POINTS", 1)
    assert nearest(space, origin, excluded_points) == by_masks


def nearest(space: Space, origin: dict[str, KnobValue], excluded: set[int]) -> list[int]:
    """Distances of the five nearest points that are not excluded."""
    taken, distances = set(excluded), list[int]()
    for _ in range(5):
        point = space.nearest_legal(origin, taken)
        assert point is not None
        taken.add(space.ravel(point))
        distances.append(distance(space, origin, point))
    return distances


def test_when_all_are_excluded_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    space = product(2, size=2)
    every = {space.ravel(point) for point in space.sample(space.legal, seed=0)}
    assert len(every) == space.legal == 64
    monkeypatch.setattr("search.space.space.KEPT_POINTS", 1)
    origin = {knob.name: knob.values[0] for knob in space.knobs}
    assert space.nearest_legal(origin, every) is None
    last = every.pop()
    assert space.nearest_legal(origin, every) == space.unravel(last)
    assert len(space.sample(1000, seed=0)) <= 64


@pytest.mark.parametrize("excluded", [7, 8, 9, 63, 64, 200])
def test_a_part_of_one_point_does_not_end_the_search(monkeypatch: pytest.MonkeyPatch, excluded: int) -> None:
    """All joins of the nearest points of each part may be excluded where the parts' are few: others are farther."""
    knobs, rules = part("0", size=16)
    space = Space("s", (*knobs[:3], Knob("only", (1,))), rules)
    monkeypatch.setattr("search.space.space.KEPT_POINTS", 1)
    origin = {knob.name: knob.values[0] for knob in space.knobs}
    taken: set[int] = set()
    for _ in range(excluded + 1):
        point = space.nearest_legal(origin, taken)
        assert point is not None, f"{len(taken)} of {space.legal} are taken"
        taken.add(space.ravel(point))
    assert len(taken) == excluded + 1 < space.legal


def test_a_part_without_legal_points_leaves_none() -> None:
    never = Constraint("never", ("0.a",), lambda a: a < 0, "nothing is")
    space = Space("empty", LARGE.knobs, (*LARGE.constraints, never))
    assert (space.legal, space.has_legal, space.sample(5, 0)) == (0, False, [])
    assert space.nearest_legal({knob.name: knob.values[0] for knob in space.knobs}) is None


def distance(space: Space, a: dict[str, KnobValue], b: dict[str, KnobValue]) -> int:
    return sum(abs(knob.position(a[knob.name]) - knob.position(b[knob.name])) for knob in space.knobs)
