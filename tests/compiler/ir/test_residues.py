"""Multiples that remainders make: a place less its remainder is one, whatever the place."""

from __future__ import annotations

from itertools import product

import pytest

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
