"""Guards and trip counts against every thread, lane and iteration, counted out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from compiler.analysis.id.indexing import IndexBound
from compiler.errors import Unsupported
from compiler.ir.expr import Expr, Var, const, var
from compiler.lower.operands import Less
from compiler.lower.predicates import holds_for_block, split_guards, trip_count

BLOCK, OUTER, LOOP, THREAD, UNROLLED = Var("bx", 3), Var("k0", 2), Var("k1", 5), Var("tx", 4), Var("uk2", 3)
LANE = Var("lane", 4)


def values_of(*variables: Var) -> Iterator[dict[str, int]]:
    for chosen in product(*(range(v.extent) for v in variables)):
        yield dict(zip((v.name for v in variables), chosen, strict=True))


def linear(*terms: tuple[Var, int], plus: int = 0) -> Expr:
    total = const(plus)
    for v, c in terms:
        total = total + var(v) * c
    return total


@pytest.mark.parametrize("extent", range(1, 16))
def test_the_trip_count_of_persistent_blocks_is_exact(extent: int) -> None:
    """index = block + blocks * iteration: as many iterations as tiles lie below the extent."""
    index = linear((BLOCK, 1), (LOOP, 3))
    count = trip_count(IndexBound(index, extent), LOOP, frozenset())
    for at in values_of(BLOCK):
        inside = sum(index.evaluate(at | {"k1": k}) < extent for k in range(5))
        if count is None:
            assert at["bx"] >= extent  # a block without a tile: its count would be negative
            return
        assert count.evaluate(at) == inside


NOT_ONE_NUMBER = {
    "a thread": linear((BLOCK, 20), (LOOP, 4), (THREAD, 1)),
    "a lane": linear((BLOCK, 20), (LOOP, 4), (LANE, 1)),
    "a loop that is not around it": linear((OUTER, 15), (LOOP, 3)),
    "a loop that counts down": linear((LOOP, -3), plus=20),
    "no such loop": linear((BLOCK, 3)),
    "the loop inside a quotient as well": linear((LOOP, 3)) + linear((LOOP, 1), (BLOCK, 1)) // 2,
}


@pytest.mark.parametrize("why", NOT_ONE_NUMBER)
def test_a_bound_that_varies_in_the_block_gives_no_trip_count(why: str) -> None:
    assert trip_count(IndexBound(NOT_ONE_NUMBER[why], 13), LOOP, frozenset()) is None


def test_loops_around_it_may_stand_in_a_trip_count() -> None:
    index = linear((OUTER, 1), (LOOP, 2))
    count = trip_count(IndexBound(index, 9), LOOP, frozenset((OUTER,)))
    assert count is not None
    assert [count.evaluate({"k0": k}) for k in range(2)] == [5, 4]


@given(
    step=some.integers(1, 6),
    block=some.integers(0, 6),
    outer=some.integers(0, 6),
    plus=some.integers(0, 6),
    extent=some.integers(1, 40),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_trip_count_counts_the_iterations_inside(step: int, block: int, outer: int, plus: int, extent: int) -> None:
    index = linear((LOOP, step), (BLOCK, block), (OUTER, outer), plus=plus)
    count = trip_count(IndexBound(index, extent), LOOP, frozenset((OUTER,)))
    if count is None:
        return
    for at in values_of(BLOCK, OUTER):
        inside = sum(index.evaluate(at | {"k1": k}) < extent for k in range(LOOP.extent))
        assert count.evaluate(at) == inside


# Guards ---------------------------------------------------------------------------------------------------------------

TERMS = some.lists(
    some.tuples(some.sampled_from([BLOCK, LOOP, THREAD, UNROLLED, LANE]), some.integers(-3, 9)),
    max_size=5,
    unique_by=lambda t: t[0],
)


@given(terms=TERMS, plus=some.integers(-5, 30), limit=some.integers(1, 60), nested=some.booleans())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_block_condition_implies_the_guard_of_every_thread(
    terms: list[tuple[Var, int]], plus: int, limit: int, nested: bool
) -> None:
    left = linear(*terms, plus=plus)
    if nested:
        left = left + linear((THREAD, 3), (UNROLLED, 2)) // 2
    found = holds_for_block(Less(left, const(limit)))
    assert found is not None
    assert {v.name for v in found.left.variables} <= {"bx", "k1"}
    for block in values_of(BLOCK, LOOP):
        if found.left.evaluate(block) >= found.right.const:
            continue
        for thread in values_of(THREAD, UNROLLED, LANE):
            assert left.evaluate(block | thread) < limit


@given(
    step=some.integers(0, 9),
    factors=some.tuples(some.integers(0, 7), some.integers(0, 7)),
    modulus=some.integers(2, 8),
    plus=some.integers(-9, 9),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_block_condition_implies_the_first_place_of_every_row(
    step: int, factors: tuple[int, int], modulus: int, plus: int
) -> None:
    """Rows of a block and of its threads, each moved by its phase."""
    phase = linear((BLOCK, factors[0]), (THREAD, factors[1])) % modulus
    first = linear((BLOCK, step), (THREAD, 1), plus=plus) - phase
    found = holds_for_block(Less(const(-1), first))
    if found is None:
        return
    assert {v.name for v in found.right.variables} <= {"bx"}
    for block in values_of(BLOCK):
        if found.right.evaluate(block) >= 0:
            assert all(first.evaluate(block | thread) >= 0 for thread in values_of(THREAD))


def test_the_first_place_of_a_full_block_is_found_full() -> None:
    """However its rows are moved."""
    phase = linear((BLOCK, 5), (THREAD, 3)) % 8
    found = holds_for_block(Less(const(-1), linear((BLOCK, 64), (LANE, 1)) - phase))
    assert found == Less(const(-1), linear((BLOCK, 64), plus=-7))


def test_a_full_block_is_found_full() -> None:
    """The condition is no stricter than the block's last element."""
    found = holds_for_block(Less(linear((BLOCK, 64), (THREAD, 4), (LANE, 1)), const(100)))
    assert found == Less(linear((BLOCK, 64), plus=15), const(100))


@pytest.mark.parametrize(
    "less",
    [
        Less(linear((BLOCK, 1), (THREAD, 3)) // 2, const(9)),
        Less(linear((BLOCK, 1), (LANE, 3)) % 5, const(4)),
        Less(linear((BLOCK, 1)), linear((THREAD, 1))),
        Less(const(-1), linear((BLOCK, 1), (THREAD, 3)) // 2),
        Less(const(-1), linear((THREAD, 1)) - linear((BLOCK, 1), (THREAD, 3)) % 5),
    ],
    ids=str,
)
def test_a_quotient_of_block_and_thread_has_no_block_condition(less: Less) -> None:
    assert holds_for_block(less) is None


WIDTH = LANE.extent
GUARDS = (
    ("lanes agree", linear((THREAD, 4), (LANE, 1)), 12, "guard"),
    ("the extent cuts a vector", linear((THREAD, 4), (LANE, 1)), 10, "tail"),
    ("the first lane is not on a vector", linear((THREAD, 2), (LANE, 1)), 8, "tail"),
    ("no lane in the index", linear((THREAD, 3)), 10, "guard"),
)


@pytest.mark.parametrize(("index", "extent", "kind"), [g[1:] for g in GUARDS], ids=[g[0] for g in GUARDS])
def test_guards_and_tail_say_which_lanes_are_inside(index: Expr, extent: int, kind: str) -> None:
    guards, tail = split_guards([IndexBound(index, extent)], WIDTH, "t")
    assert (len(guards), tail is not None) == ((1, False) if kind == "guard" else (0, True))
    for at in values_of(THREAD, LANE):
        said = all(g.left.evaluate(at) < g.right.evaluate(at) for g in guards)
        if tail is not None:
            said = said and tail.left.evaluate(at) < tail.right.evaluate(at)
        assert said == (index.evaluate(at) < extent)


def test_a_vector_cut_twice_is_not_lowered() -> None:
    cut = [IndexBound(linear((THREAD, 4), (LANE, 1)), 10), IndexBound(linear((THREAD, 4), (LANE, 1)), 14)]
    with pytest.raises(Unsupported, match="v0: a vector that two bounds cut"):
        split_guards(cut, WIDTH, "v0")
