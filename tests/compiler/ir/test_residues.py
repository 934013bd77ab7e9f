"""Multiples that remainders make: a place less its remainder is one, whatever the place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.expr import Expr, Var, const, inside, relies_on_bounds, unmarked, var, without_marks

ROW, COLUMN = Var("r", 7), Var("c", 5)


@pytest.mark.parametrize("modulus", [2, 4, 8, 16])
def test_an_address_less_its_phase_is_a_multiple(modulus: int) -> None:
    for pitch, first in product(range(1, 20), range(modulus)):
        place = var(ROW) * pitch + var(COLUMN) * 3 + first
        assert (place - place % modulus).divisible_by(modulus)
        run = inside(var(COLUMN) * modulus - place % modulus, 3)
        assert (place + run).divisible_by(modulus)
        assert unmarked(place + run) == place + var(COLUMN) * modulus - place % modulus


def test_marks_are_taken_off_at_any_depth() -> None:
    """Wherever an index is inside its bounds, the expression is the same without what says so."""
    row = inside(var(ROW) * 2 - 3, 5)
    marked = (row // 3 * 5 + row % 3) % 4 + ((row // 2) ^ (row % 2)) + row
    plain = without_marks(marked)
    assert relies_on_bounds(marked)
    assert not relies_on_bounds(plain)
    assert without_marks(plain) is plain
    for r in range(7):
        if 0 <= 2 * r - 3 < 5:
            assert plain.evaluate({"r": r}) == marked.evaluate({"r": r})


@st.composite
def marked(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[tuple[Expr, Any, Any]]:
    """Expressions made of each other, with their values, and where all marks in them say what is true."""
    row, column = np.meshgrid(np.arange(ROW.extent), np.arange(COLUMN.extent), indexing="ij")
    everywhere = np.full(row.shape, fill_value=True)
    made = [(var(ROW), row, everywhere), (var(COLUMN), column, everywhere)]
    for _ in range(draw(st.integers(2, 9))):
        (e, values, ok), (other, values2, ok2) = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        factor, divisor = draw(st.integers(-6, 6)), draw(st.sampled_from([2, 3, 4, 6, 8]))
        match draw(st.sampled_from(["sum", "shifted", "//", "%", "inside", "inside", "^"])):
            case "sum":
                made.append((e + other * factor, values + values2 * factor, ok & ok2))
            case "shifted":
                made.append((e * abs(factor) + factor, values * abs(factor) + factor, ok))
            case "//":
                made.append((e // divisor, values // divisor, ok))
            case "%":
                made.append((e % divisor, values % divisor, ok))
            case "inside":
                made.append((inside(e, divisor), values, ok & (values >= 0) & (values < divisor)))
            case "^" if min(e.lo, other.lo) >= 0:
                made.append((e ^ other, values ^ values2, ok & ok2))
    return made


@settings(derandomize=True, deadline=None, max_examples=200)
@given(marked())
def test_where_marks_are_true_an_expression_is_its_value_with_and_without_them(
    made: list[tuple[Expr, Any, Any]],
) -> None:
    grid = dict(zip(("r", "c"), np.meshgrid(np.arange(7), np.arange(5), indexing="ij"), strict=True))
    for e, values, ok in made:
        if not ok.any():
            continue
        for form in (e, unmarked(e), without_marks(e)):
            found = np.broadcast_to(form.evaluate(grid), values.shape)
            np.testing.assert_array_equal(found[ok], values[ok], err_msg=f"{e} as {form}")
            assert form.lo <= values[ok].min(), f"{e} as {form}"
            assert form.hi >= values[ok].max(), f"{e} as {form}"
            for n in (2, 3, 4, 8):
                assert not form.divisible_by(n) or not (values[ok] % n).any(), f"{form} is no multiple of {n}"
        assert not relies_on_bounds(without_marks(e))


def test_what_is_said_to_be_a_multiple_is_one() -> None:
    said = 0
    for a, b, d, n in product(range(1, 6), range(9), (2, 3, 4, 6), (2, 3, 4)):
        e = var(ROW) * a + (var(ROW) * b + var(COLUMN)) % d * -1 + const(b) + var(COLUMN)
        if e.divisible_by(n):
            said += 1
            assert all(e.evaluate({"r": r, "c": c}) % n == 0 for r, c in product(range(7), range(5))), (e, n)
    assert said > 20


def test_a_sum_is_no_multiple_for_what_is_beside_the_remainder() -> None:
    place = var(ROW) * 3
    assert not (place - place % 4 + 2).divisible_by(4)
    assert not (place - place % 2).divisible_by(4)
    assert not (place - (place + 1) % 4).divisible_by(4)
    assert Expr().divisible_by(4)
