"""Shifts: what may be shifted, which places of a shifted run are elements, and what guards keep the others out."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.id.indexing import Indexing
from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var, inside, unguarded, var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.lower.predicates import split_guards
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from compiler.schedule.steps import CacheInput, Parallelize, Shift, Split, Step
from tests.compiler.loop_points import is_valid, loop_points
from tests.compiler.schedules import from_wire


def load(*taken: Step) -> ScheduledFusion:
    """A copy of x [3, 5], whose register copy `s` these steps are taken on."""
    fusion = from_wire([{"name": "x", "shape": [3, 5], "dtype": "f32"}], [{"op": "copy", "in": ["x"], "out": "y"}], "y")
    sf = apply(start(fusion), CacheInput(fusion.inputs[0], "s", MemoryType.LOCAL))
    for step in taken:
        sf = apply(sf, step)
    return sf


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Shift("s", 1, (0,), (5,), 1), id="modulus"),
        pytest.param(Shift("s", 1, (1,), (5,), 4), id="by-itself"),
        pytest.param(Shift("s", 1, (0,), (5, 1), 4), id="one-factor-each"),
        pytest.param(Shift("s", 1, (0,), (-5,), 4), id="negative-factor"),
        pytest.param(Shift("s", 2, (0,), (5,), 4), id="no-such-axis"),
        pytest.param(Shift("s", 1, (2,), (5,), 4), id="no-such-row"),
    ],
)
def test_what_has_no_phase_is_refused(step: Shift) -> None:
    load(Shift("s", 1, (0,), (5,), 4))
    with pytest.raises(InvalidStep):
        load(step)


def test_a_parallel_axis_is_not_shifted() -> None:
    with pytest.raises(InvalidStep, match="already"):
        load(Parallelize("s", 1, ParallelType.TIDX), Shift("s", 1, (0,), (5,), 4))


def test_places_that_are_multiples_of_the_modulus_are_addresses_that_are() -> None:
    t = load(Shift("s", 1, (0,), (5,), 4), Split("s", 1, 4)).tensor("s")
    assert [a.extent for a in t.loop] == [3, 3, 4]
    found = set()
    for index in loop_points(t):
        if is_valid(t, index):
            row, column = (index[a] for a in t.logical)
            lane = index[t.loop[2]]
            assert (row * 5 + column - lane) % 4 == 0
            found.add((row, column))
    assert found == set(product(range(3), range(5)))


def test_guards_of_a_shifted_run_hold_for_its_elements_alone() -> None:
    sf = load(Shift("s", 1, (0,), (5,), 4))
    indexing, t = Indexing(sf, id_graph(sf)), sf.tensor("s")
    guards, tail = split_guards(indexing.bounds(t), 1, "s")
    assert tail is None
    rows, places = (
        v for v in sorted({v for g in guards for v in (g.right - g.left).variables}, key=lambda v: v.extent)
    )
    for row, place in product(range(3), range(9)):
        at = {rows.name: row, places.name: place}
        sides = [g.unsigned for g in guards]
        assert all(x.evaluate(at) >= 0 for pair in sides for x in pair)
        holds = all(left.evaluate(at) < right.evaluate(at) for left, right in sides)
        assert holds == (0 <= place - row * 5 % 4 < 5)


def test_what_is_known_to_be_inside_drops_quotients_and_comes_off_again() -> None:
    a, b = var(Var("a", 8)), var(Var("b", 4))
    known = inside(a - b, 5)
    assert (known.lo, known.hi) == (0, 4)
    assert (b * 5 + known) // 5 == b
    assert (b * 5 + known) % 5 == known
    assert unguarded(known) + b == a
    assert inside(b, 4) == b
