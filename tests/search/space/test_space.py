"""Counts, indices and nearest points of a space, against enumerating it one point at a time."""

import itertools
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search.space import space as space_module
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.knobs import Knob
from search.space.space import Space

POOL = {"n": (1, 2, 4, 8, 16), "x": (0.5, 1.0, 2.0), "path": ("vector", "bulk", "tma"), "flag": (False, True)}


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Up to 5 knobs of every sort and up to 5 constraints on random axes, in random order."""
    sorts = draw(st.lists(st.sampled_from(sorted(POOL)), min_size=1, max_size=5))
    knobs = tuple(
        Knob(f"{sort}{i}", POOL[sort][: draw(st.integers(1, len(POOL[sort])))]) for i, sort in enumerate(sorts)
    )
    constraints = []
    for number in range(draw(st.integers(0, 5))):
        axes = draw(st.permutations([k.name for k in knobs]))[: draw(st.integers(0, min(3, len(knobs))))]
        salt = draw(st.integers(0, 10))
        constraints.append(Constraint(f"rule{number // 2}", tuple(axes), refuses_some(knobs, axes, salt), "because"))
    return Space("drawn", knobs, tuple(constraints))


def refuses_some(knobs: tuple[Knob, ...], axes: Sequence[str], salt: int) -> Callable[..., Any]:
    """A predicate over any knobs that allows about three quarters of their combinations."""
    values = [next(k for k in knobs if k.name == axis).values for axis in axes]

    def predicate(*arrays: Any) -> Any:
        total: Any = salt
        for weight, (array, listed) in enumerate(zip(arrays, values, strict=True), start=1):
            total = total + weight * sum(i * (array == value) for i, value in enumerate(listed))
        return total % 4 != 0

    return predicate


def every_point(space: Space) -> list[dict[str, Any]]:
    return [
        dict(zip([k.name for k in space.knobs], values, strict=True))
        for values in itertools.product(*(k.values for k in space.knobs))
    ]


def allowed(constraint: Constraint, point: dict[str, Any]) -> bool:
    """The constraint at one point, from scalars of Python."""
    return bool(constraint.predicate(*(point[axis] for axis in constraint.axes)))


@pytest.fixture(params=[1, 7, 1 << 18], ids=["one-point-blocks", "small-blocks", "one-block"], autouse=True)
def block_points(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_module, "BLOCK_POINTS", request.param)


LAW = settings(derandomize=True, max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@LAW
@given(spaces())
def test_counts_and_indices_are_those_of_enumeration(space: Space) -> None:
    points = every_point(space)
    legal = [i for i, p in enumerate(points) if all(allowed(c, p) for c in space.constraints)]
    assert (space.points, space.legal) == (len(points), len(legal))
    assert space.legal_indices().tolist() == legal
    assert space.refused == {
        rule: sum(any(c.rule == rule and not allowed(c, p) for c in space.constraints) for p in points)
        for rule in dict.fromkeys(c.rule for c in space.constraints)
    }
    for flat, point in enumerate(points):
        assert space.unravel(flat) == point
        assert space.ravel(point) == flat
        assert space.is_legal(point) == (flat in legal)
        breaches = [c.rule for c in space.constraints if not allowed(c, point)]
        assert [v.rule for v in space.violations(point)] == breaches


@LAW
@given(spaces(), st.randoms(use_true_random=False))
def test_nearest_legal_is_the_nearest_unseen_one(space: Space, random: Random) -> None:
    legal = space.legal_indices().tolist()
    origin = random.choice(every_point(space))
    seen = set(random.sample(legal, random.randint(0, len(legal))))
    left = [flat for flat in legal if flat not in seen]

    def distance(flat: int) -> int:
        here = space.positions(space.unravel(flat))
        return sum(abs(a - b) for a, b in zip(here, space.positions(origin), strict=True))

    found = space.nearest_legal(origin, seen)
    expected = min(left, key=lambda flat: (distance(flat), flat), default=None)
    assert found == (None if expected is None else space.unravel(expected))


@LAW
@given(spaces(), st.randoms(use_true_random=False))
def test_a_step_around_a_point_is_as_legal_as_the_point_that_it_leads_to(space: Space, random: Random) -> None:
    here = random.choice(every_point(space))
    is_legal = space.around(here)
    for knob in space.knobs:
        for value in knob.values:
            assert is_legal(knob, value) == space.is_legal({**here, knob.name: value})


@pytest.mark.parametrize("free", [0, 1, 3, 400])
def test_nearest_legal_of_joined_points_is_that_of_blocks(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """A space whose legal points are at hand as rows, with all but so many of them taken."""
    knobs = tuple(Knob(f"k{i}", tuple(range(8))) for i in range(7))
    ties = tuple(Constraint(f"c{i}", (f"k{i}", f"k{i + 1}"), lambda a, b: (a + b) % 3 == 0, "tied") for i in range(6))
    by_rows, random = Space("joined", knobs, ties), Random(1)
    monkeypatch.setattr("search.space.space._MOST_POSITIONS", 0)
    by_blocks = Space("joined", knobs, ties)
    assert by_blocks._joined_rows is None
    monkeypatch.undo()
    assert by_rows._joined_rows is not None
    legal = by_rows.legal_indices().tolist()
    for _ in range(5):
        taken = set(legal) - set(random.sample(legal, free))
        origin = by_rows.unravel(random.randrange(by_rows.points))
        assert by_rows.nearest_legal(origin, taken) == by_blocks.nearest_legal(origin, taken)


@LAW
@given(spaces(), st.integers(0, 40))
def test_a_sample_is_distinct_legal_and_as_large_as_asked(space: Space, n: int) -> None:
    flat = [space.ravel(point) for point in space.sample(n, seed=3)]
    assert len(flat) == len(set(flat)) == min(n, space.legal)
    assert set(flat) <= set(space.legal_indices().tolist())
    assert flat == [space.ravel(point) for point in space.sample(n, seed=3)]


def products_below(sizes: tuple[int, ...], limit: int) -> Space:
    """Knobs 1..n of each size, where neighbours multiply to at most `limit` and four span the space."""
    knobs = tuple(Knob(f"k{i}", tuple(range(1, n + 1))) for i, n in enumerate(sizes))
    pairs = [
        Constraint(f"pair{i}", (f"k{i}", f"k{i + 1}"), lambda a, b: a * b <= limit, "product")
        for i in range(len(sizes) - 1)
    ]
    span = ("k0", "k2", "k4", "k6")
    return Space("large", knobs, (*pairs, Constraint("span", span, lambda a, b, c, d: a * b * c * d <= 90, "span")))


@pytest.mark.parametrize("block_points", [1 << 18], indirect=True)
@pytest.mark.parametrize(
    ("sizes", "seconds", "mebibytes"),
    [
        pytest.param((8, 5, 8, 5, 5, 5, 5, 4, 2, 2, 3), 2.0, 4, id="a-million-points"),
        pytest.param((8, 8, 8, 5, 5, 5, 5, 4, 5, 5), 5.0, 16, id="ten-million-points"),
    ],
)
def test_large_spaces_are_counted_quickly_in_little_memory(
    sizes: tuple[int, ...], seconds: float, mebibytes: int
) -> None:
    space = products_below(sizes, 20)
    tracemalloc.start()
    begun = time.perf_counter()
    assert 0 < space.legal < space.points
    assert time.perf_counter() - begun < seconds
    assert tracemalloc.get_traced_memory()[1] < mebibytes << 20
    tracemalloc.stop()
    assert len(space.sample(10, seed=0)) == 10


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param((), "no values", id="empty"),
        pytest.param((1, 2, 1), "twice", id="twice"),
        pytest.param((1, "a"), "mixes", id="number-and-string"),
        pytest.param((0, False, True), "twice", id="zero-and-false-are-equal"),
        pytest.param((2, True), "mixes", id="number-and-boolean"),
    ],
)
def test_a_knob_refuses(values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Knob("k", values)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        pytest.param({"n": 1}, "expected", id="missing-knob"),
        pytest.param({"n": 1, "flag": True, "z": 0}, "expected", id="unknown-knob"),
        pytest.param({"n": 3, "flag": True}, "expected one of 1, 2", id="unknown-value"),
        pytest.param({"n": True, "flag": True}, "found True", id="true-is-not-one"),
    ],
)
def test_a_point_that_is_not_of_the_space_is_refused(point: dict[str, Any], message: str) -> None:
    space = Space("s", (Knob("n", (1, 2)), Knob("flag", (False, True))))
    with pytest.raises(ValueError, match=message):
        space.is_legal(point)


def test_a_constraint_on_no_knob_refuses_everything() -> None:
    space = Space("s", (Knob("n", (1, 2)),), (Constraint("card", (), lambda: False, "the card has no TMA"),))
    assert (space.legal, space.refused, space.nearest_legal({"n": 1})) == (0, {"card": 2}, None)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        pytest.param(Constraint("r", ("gone",), lambda a: a > 0, ""), "not a knob", id="unknown-axis"),
        pytest.param(Constraint("r", ("n",), lambda a: [True] * 7, ""), "shape", id="wrong-mask-shape"),
    ],
)
def test_a_faulty_constraint_is_named(constraint: Constraint, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Space("s", (Knob("n", (1, 2)),), (constraint,)).legal_indices()


def test_a_violation_says_what_was_found_and_why_it_is_refused() -> None:
    rule = Constraint("box_fits", ("rows", "cols"), lambda r, c: r * c <= 8, "a box has at most 8 elements")
    space = Space("tile", (Knob("rows", (2, 4)), Knob("cols", (2, 4))), (rule,))
    (violation,) = space.violations({"rows": 4, "cols": 4})
    assert (violation.where, violation.found) == ("tile: rows, cols", "rows=4, cols=4")
    assert violation.limit == "a box has at most 8 elements"
    assert "rows or cols" in violation.fix


def test_of_a_point_and_its_neighbours_a_constraint_is_asked_once_for_the_same_values() -> None:
    asked: list[tuple[int, int]] = []

    def predicate(a: int, b: int) -> bool:
        asked.append((a, b))
        return a + b < 3

    knobs = (Knob("a", (0, 1, 2)), Knob("b", (0, 1, 2)), Knob("c", (0, 1, 2)))
    rule = Constraint("rule", ("b", "a"), lambda b, a: looked_up("small", predicate, a, b), "because")
    space = Space("s", knobs, (rule,))
    points = every_point(space)
    for point in (*points, *reversed(points)):
        assert space.is_legal(point) == (point["a"] + point["b"] < 3)
    assert sorted(asked) == list(itertools.product(range(3), range(3)))


def test_a_space_may_have_more_knobs_than_an_array_has_axes() -> None:
    """Several launches have the knobs of all of them; NumPy's arrays have 64 axes at most."""
    knobs = tuple(Knob(f"k{n}", (1, 2, 3)) for n in range(90))
    ties = tuple(
        Constraint("rising", (f"k{n}", f"k{n + 1}"), lambda a, b: a <= b, "One is no less than the one before.")
        for n in range(0, 90, 2)
    )
    space = Space("many", knobs, ties)
    assert space.has_legal
    (drawn,) = space.sample(1, seed=3)
    assert space.is_legal(drawn)
    spoiled = drawn | {"k88": 3, "k89": 2}
    assert not space.is_legal(spoiled)
    assert [v.found for v in space.violations(spoiled)] == ["k88=3, k89=2"]
    assert space.nearest_legal(spoiled, ()) is not None


def test_advice_leaves_points_undrawn_that_are_legal() -> None:
    law = Constraint("law", ("n",), lambda n: n < 16, "because")
    advice = Constraint("advice", ("n",), lambda n: n < 4, "slower", measured_on="H200", refuses=False)
    space = Space("advised", (Knob("n", (1, 2, 4, 8, 16)),), (law, advice))
    assert sorted(p["n"] for p in space.sample(9, 0)) == [1, 2]
    legal, counted = ([n for n in (1, 2, 4, 8, 16) if f({"n": n})] for f in (space.is_legal, space.is_drawn))
    assert (legal, counted, space.legal) == ([1, 2, 4, 8], [1, 2], 2)
    assert [v.rule for v in space.violations({"n": 16})] == ["law"]
    assert space.reachable is space


def test_advice_that_leaves_nothing_is_not_taken() -> None:
    law = Constraint("law", ("n",), lambda n: n > 1, "because")
    advice = Constraint("advice", ("n",), lambda n: n < 2, "slower", measured_on="H200", refuses=False)
    assert Space("advised", (Knob("n", (1, 2, 4)),), (law, advice)).reachable.legal == 2
    refused = Space("refused", (Knob("n", (1, 2, 4)),), (law, replace(advice, refuses=True)))
    assert refused.reachable.legal == 0
