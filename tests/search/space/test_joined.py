"""Legal points found by joining knobs are those of enumeration, or none are told where they are too many."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from search.space.constraints import Constraint
from search.space.joined import joined
from search.space.knobs import Knob


def allows_of(knobs: tuple[Knob, ...], constraints: tuple[Constraint, ...]) -> Any:
    arrays = {knob.name: knob.array for knob in knobs}

    def allows(number: int, positions: Mapping[str, NDArray[np.int16]]) -> NDArray[np.bool_]:
        c = constraints[number]
        return np.asarray(c.predicate(*(arrays[name][positions[name]] for name in c.axes)), np.bool_)

    return allows


@st.composite
def products(draw: st.DrawFn) -> tuple[tuple[Knob, ...], tuple[Constraint, ...]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    knobs = tuple(Knob(f"k{i}", tuple(range(n))) for i, n in enumerate(sizes))
    constraints = []
    for number in range(draw(st.integers(0, 4))):
        axes = tuple(draw(st.permutations([k.name for k in knobs])))[: draw(st.integers(1, len(knobs)))]
        modulus, rest = draw(st.integers(2, 3)), draw(st.integers(0, 2))
        constraints.append(
            Constraint(f"c{number}", axes, lambda *v, m=modulus, r=rest: sum(v) * 7 % 5 % m != r, "drawn")
        )
    return knobs, tuple(constraints)


@given(products(), st.integers(0, 3))
def test_joined_points_are_those_of_enumeration(
    drawn: tuple[tuple[Knob, ...], tuple[Constraint, ...]], tables: int
) -> None:
    """Constraints whose number is below `tables` are looked up, the others asked of single points."""
    knobs, constraints = drawn
    arrays = {knob.name: knob.array for knob in knobs}

    def table(number: int) -> NDArray[np.bool_] | None:
        c = constraints[number]
        return c.on([arrays[name] for name in c.axes]) if number < tables else None

    expected = [
        flat
        for flat, values in enumerate(itertools.product(*(k.values for k in knobs)))
        if all(
            c.predicate(*(np.asarray(dict(zip((k.name for k in knobs), values, strict=True))[a]) for a in c.axes))
            for c in constraints
        )
    ]
    found = joined(knobs, constraints, allows_of(knobs, constraints), table)
    assert found is not None
    assert found.tolist() == expected


@pytest.mark.parametrize(("most", "is_told"), [(64, True), (63, False)])
def test_more_points_than_are_held_are_not_told(most: int, is_told: bool) -> None:
    knobs = tuple(Knob(f"k{i}", (0, 1)) for i in range(6))
    found = joined(knobs, (), allows_of(knobs, ()), most=most)
    assert (found is not None) == is_told
    assert found is None or len(found) == prod(len(k.values) for k in knobs)


def test_a_knob_is_joined_when_a_constraint_can_be_settled_by_it() -> None:
    """Six knobs of 100 values make 10^12 points; tied in a chain, never more than 100 partial points are left."""
    knobs = tuple(Knob(f"k{i}", tuple(range(100))) for i in range(6))
    pairs = tuple(
        Constraint(f"pair{i}", (f"k{i}", f"k{i + 1}"), lambda a, b: a == b, "equal") for i in range(len(knobs) - 1)
    )
    found = joined(knobs, pairs, allows_of(knobs, pairs), most=10_000)
    assert found is not None
    assert len(found) == 100
