"""Index expressions against integers: every value over the whole grid of their variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.expr import Div, Expr, Mod, Var, Xor, const, every_part, var

Grid = dict[str, Any]
Naive = Callable[[Grid], Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16])
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16, 24])
FACTORS = st.sampled_from([-12, -4, -1, 0, 1, 2, 3, 4, 6, 8, 12, 16])

X, Y, Z = Var("x", 10), Var("y", 8), Var("z", 3)
x, y, z = var(X), var(Y), var(Z)


def grid_of(*variables: Var) -> Grid:
    axes = np.meshgrid(*(np.arange(v.extent, dtype=np.int64) for v in variables), indexing="ij")
    return {v.name: a for v, a in zip(variables, axes, strict=True)}


@dataclass(frozen=True)
class Pair:
    """An expression, and what it must mean for a grid of variables."""

    expr: Expr
    mean: Naive

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.expr + other.expr, lambda g: self.mean(g) + other.mean(g))

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.expr - other.expr, lambda g: self.mean(g) - other.mean(g))

    def __xor__(self, other: Pair) -> Pair:
        return Pair(self.expr ^ other.expr, lambda g: self.mean(g) ^ other.mean(g))

    def __mul__(self, factor: int) -> Pair:
        return Pair(self.expr * factor, lambda g: self.mean(g) * factor)

    def __floordiv__(self, divisor: int) -> Pair:
        return Pair(self.expr // divisor, lambda g: self.mean(g) // divisor)

    def __mod__(self, divisor: int) -> Pair:
        return Pair(self.expr % divisor, lambda g: self.mean(g) % divisor)

    def with_variable(self, v: Var, value: Pair) -> Pair:
        """`v` replaced by the value, brought into the range of `v`."""
        inside = value % v.extent
        return Pair(self.expr.substitute({v: inside.expr}), lambda g: self.mean({**g, v.name: inside.mean(g)}))


def variable(v: Var) -> Pair:
    return Pair(var(v), lambda g: g[v.name])


def constant(value: int) -> Pair:
    return Pair(const(value), lambda g: np.full_like(g["a"], value))


@st.composite
def built(draw: Draw) -> tuple[Grid, list[Pair]]:
    """The grid of three variables, and expressions over them, each built by one operator from earlier ones."""
    variables = tuple(Var(name, draw(EXTENTS)) for name in "abc")
    grid = grid_of(*variables)
    made = [*map(variable, variables), constant(draw(st.integers(-20, 20)))]
    for _ in range(draw(st.integers(1, 9))):
        e, other = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        match draw(st.sampled_from(["+", "-", "*", "//", "%", "^", "substitute"])):
            case "+":
                new = e + other
            case "-":
                new = e - other
            case "*":
                new = e * draw(FACTORS)
            case "//":
                new = e // draw(DIVISORS)
            case "%":
                new = e % draw(DIVISORS)
            case "^" if min(e.mean(grid).min(), other.mean(grid).min()) >= 0:
                new = e ^ other
            case _:
                new = e.with_variable(draw(st.sampled_from(variables)), other)
        made.append(new)
    return grid, made


@settings(derandomize=True, deadline=None, max_examples=400)
@given(built())
def test_expressions_mean_what_they_were_built_from(case: tuple[Grid, list[Pair]]) -> None:
    grid, made = case
    for pair in made:
        e, expected = pair.expr, pair.mean(grid)
        found = np.broadcast_to(e.evaluate(grid), expected.shape)
        np.testing.assert_array_equal(found, expected, err_msg=str(e))
        assert e.lo <= expected.min(), f"{e}: lo {e.lo}, found {expected.min()}"
        assert e.hi >= expected.max(), f"{e}: hi {e.hi}, found {expected.max()}"
        for n in (2, 3, 4, 8, 16):
            assert not e.divisible_by(n) or not (expected % n).any(), f"{e} is no multiple of {n}"


@settings(derandomize=True, deadline=None, max_examples=200)
@given(built())
def test_the_form_is_canonical(case: tuple[Grid, list[Pair]]) -> None:
    for e in (pair.expr for pair in case[1]):
        assert Expr() + e == e
        assert e - e == const(0)
        assert e.substitute({v: var(v) for v in e.variables}) == e
        atoms = [atom for atom, _ in e.terms]
        assert len(set(atoms)) == len(atoms)
        assert all(c for _, c in e.terms)


@settings(derandomize=True, deadline=None)
@given(st.permutations(list(range(4))), st.lists(st.integers(-5, 5), min_size=4, max_size=4))
def test_the_order_of_a_sum_does_not_matter(order: list[int], factors: list[int]) -> None:
    terms = [x * factors[0], (y // 3) * factors[1], ((x + z) % 4) * factors[2], const(factors[3])]
    forward, shuffled = Expr(), Expr()
    for i in range(4):
        forward, shuffled = forward + terms[i], shuffled + terms[order[i]]
    assert forward == shuffled
    assert hash(forward) == hash(shuffled)
    assert str(forward) == str(shuffled)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4))
def test_the_range_of_a_sum_of_variables_is_attained(factors: list[int]) -> None:
    e = x * factors[0] + y * factors[1] + z * factors[2] + factors[3]
    values = np.broadcast_to(e.evaluate(grid_of(X, Y, Z)), (10, 8, 3))
    assert (e.lo, e.hi) == (values.min(), values.max())


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param((x * 8 + y) // 8, x, id="split-of-merge-outer"),
        pytest.param((x * 8 + y) % 8, y, id="split-of-merge-inner"),
        pytest.param((x * 8 + y + 16) // 8, x + 2, id="whole-multiples-come-out-of-a-quotient"),
        pytest.param((x * 8 + y + 16) % 8, y, id="whole-multiples-leave-a-remainder"),
        pytest.param((x // 4) * 4 + x % 4, x, id="merge-of-split"),
        pytest.param((x % 4) * 3 + (x // 4) * 12, x * 3, id="merge-of-split-scaled"),
        pytest.param(((x + y) // 4) * 4 + (x + y) % 4, x + y, id="merge-of-split-of-a-sum"),
        pytest.param((x // 2) // 3, x // 6, id="split-split-outer"),
        pytest.param((x // 2) % 3, (x % 6) // 2, id="split-split-middle"),
        pytest.param((x % 6) % 2, x % 2, id="split-split-inner"),
        pytest.param((x // 3 + y) // 4, (x + y * 3) // 12, id="one-quotient-instead-of-two"),
        pytest.param((y * 9 + z) // 6, (y * 3) // 2, id="common-step-of-a-quotient"),
        pytest.param((y * 9 + z) % 6, ((y * 3) % 2) * 3 + z, id="common-step-of-a-remainder"),
        pytest.param((y * 4 + x % 4) // 6, (y * 2 + (x // 2) % 2) // 3, id="remainders-by-multiples-are-divided"),
        pytest.param(
            ((y * 4 + x % 4) // 6) * 3 + (y * 2 + (x // 2) % 2) % 3,
            y * 2 + (x // 2) % 2,
            id="merge-of-split-of-what-was-divided",
        ),
        pytest.param(x // 10, const(0), id="quotient-below-the-divisor"),
        pytest.param(x % 10, x, id="remainder-below-the-divisor"),
        pytest.param((x - 9) // 10, (x + 1) // 10 - 1, id="euclidean-quotient-of-a-negative"),
        pytest.param((x - 9) % 10, (x + 1) % 10, id="euclidean-remainder-of-a-negative"),
        pytest.param(x // 1, x, id="by-one"),
        pytest.param(x % 1, const(0), id="modulo-one"),
        pytest.param(x * 0, const(0), id="times-zero"),
        pytest.param(x - x, const(0), id="difference"),
        pytest.param(x ^ const(0), x, id="xor-zero"),
        pytest.param(const(0) ^ x, x, id="zero-xor"),
        pytest.param(x ^ x, const(0), id="xor-self"),
        pytest.param(const(6) ^ const(3), const(5), id="xor-constants"),
        pytest.param(var(Var("one", 1)) + 2, const(2), id="a-variable-of-extent-one-is-zero"),
    ],
)
def test_simplifications(found: Expr, expected: Expr) -> None:
    assert found == expected
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    ("e", "atom"),
    [
        pytest.param(x // 9, Div(x, 9), id="x-reaches-9"),
        pytest.param(x % 9, Mod(x, 9), id="x-reaches-9-remainder"),
        pytest.param((y * 6 + z) // 4, Div(y * 6 + z, 4), id="z-reaches-past-the-step-of-2"),
        pytest.param((x // 4) * 4 + x % 3, None, id="quotient-and-remainder-of-different-divisors"),
        pytest.param((x // 4) * 2 + x % 4, None, id="quotient-with-another-factor"),
        pytest.param(x ^ y, Xor(x, y), id="xor-of-two"),
    ],
)
def test_what_must_not_simplify(e: Expr, atom: object) -> None:
    if atom is None:
        assert len(e.terms) == 2
    else:
        assert e.terms == ((atom, 1),)


@pytest.mark.parametrize(
    ("e", "n", "divides"),
    [
        pytest.param(x * 8 + 16, 8, True, id="all-terms"),
        pytest.param(x * 8 + 12, 8, False, id="constant-does-not"),
        pytest.param(x * 8 + y * 4, 8, False, id="one-term-does-not"),
        pytest.param(const(0), 128, True, id="zero"),
        pytest.param((x // 2) * 16 + (x % 2) * 8, 8, True, id="opaque-atoms-scaled"),
        pytest.param(x, 1, True, id="one-divides-all"),
    ],
)
def test_divisible_by(e: Expr, n: int, divides: bool) -> None:
    assert e.divisible_by(n) is divides


def test_evaluation_takes_integers_and_arrays() -> None:
    e = (x * 7 + y) // 3 + (x ^ y)
    array = e.evaluate(grid_of(X, Y))
    assert all(e.evaluate({"x": i, "y": j}) == array[i, j] for i in range(10) for j in range(8))


def test_variables_are_found_at_every_depth() -> None:
    e = ((x * 3 + y) // 7) ^ (z + 1)
    assert e.variables == {X, Y, Z}
    assert e.substitute({X: const(0), Y: const(0), Z: const(1)}) == const(2)
    assert e.substitute({Var("other", 4): const(3)}) is e


def test_every_part_looks_inside() -> None:
    e = ((x - 5) // 4) ^ y
    assert not every_part(e, lambda part: part.lo >= 0)
    assert every_part((x // 4) ^ y, lambda part: part.lo >= 0)


@pytest.mark.parametrize("divisor", [0, -2])
def test_divisors_are_positive(divisor: int) -> None:
    with pytest.raises(AssertionError, match=str(divisor)):
        x // divisor
    with pytest.raises(AssertionError, match=str(divisor)):
        x % divisor
