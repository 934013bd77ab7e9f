"""Sizes: what is cancelled, rounded up and decided without knowing the unknowns, held against numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.size import CeilDiv, Size

N, M = Size.symbol("n", 12), Size.symbol("m", 5)
FOUR = Size(4)


@pytest.mark.parametrize(
    ("size", "text", "value"),
    [
        pytest.param(Size(12), "12", 12, id="constant"),
        pytest.param(N, "n", 12, id="unknown"),
        pytest.param(N * FOUR, "4 * n", 48, id="multiple"),
        pytest.param(M * N, "m * n", 60, id="product"),
        pytest.param(N.ceil_div(FOUR), "((n + 4 - 1) // 4)", 3, id="rounded-up"),
        pytest.param(N.ceil_div(M), "((n + m - 1) // (m))", 3, id="by-an-unknown"),
        pytest.param(N.ceil_div(FOUR) * FOUR, "4 * ((n + 4 - 1) // 4)", 12, id="rounded-up-to-a-multiple"),
    ],
)
def test_sizes_are_formulas_of_guards(size: Size, text: str, value: int) -> None:
    assert (str(size), size.value) == (text, value)
    assert eval(text, {"n": 12, "m": 5}) == value


def test_products_do_not_depend_on_the_order() -> None:
    assert N * M == M * N
    assert hash(N * M) == hash(M * N)
    assert N * Size(1) == N


@pytest.mark.parametrize(
    ("size", "divisor", "quotient"),
    [
        pytest.param(Size(12), FOUR, Size(3), id="constants"),
        pytest.param(Size(10), FOUR, None, id="constants-that-do-not-divide"),
        pytest.param(N * FOUR, FOUR, N, id="a-known-factor"),
        pytest.param(N * FOUR, N, FOUR, id="an-unknown-factor"),
        pytest.param(N * N, N, N, id="one-of-two"),
        pytest.param(N, M, None, id="another-unknown"),
        pytest.param(N, FOUR, None, id="nothing-known"),
        pytest.param(N.ceil_div(FOUR) * FOUR, FOUR, N.ceil_div(FOUR), id="a-rounded-one"),
    ],
)
def test_exact_quotients(size: Size, divisor: Size, quotient: Size | None) -> None:
    assert size.quotient(divisor) == quotient


def test_rounding_up_twice_is_rounding_up_once() -> None:
    assert N.ceil_div(FOUR).ceil_div(Size(3)) == N.ceil_div(Size(12))
    assert N.ceil_div(N) == Size(1)
    assert (N * FOUR).ceil_div(Size(2)) == N * Size(2)
    assert isinstance((N * FOUR).ceil_div(Size(3)).atoms[0], CeilDiv), "4 n / 3 is not n / 3 rounded, times 4"


@pytest.mark.parametrize(
    ("size", "divisor", "known"),
    [
        pytest.param(Size(12), FOUR, True, id="yes"),
        pytest.param(Size(10), FOUR, False, id="no"),
        pytest.param(N * FOUR, FOUR, True, id="whatever-the-unknown-is"),
        pytest.param(N, FOUR, None, id="the-unknown-decides"),
        pytest.param(N * Size(2), FOUR, None, id="the-unknown-decides-half"),
        pytest.param(FOUR, N, None, id="an-unknown-divisor"),
    ],
)
def test_divisibility_has_three_outcomes(size: Size, divisor: Size, known: bool | None) -> None:
    assert size.is_multiple_of(divisor) is known


@st.composite
def derived(draw: st.DrawFn) -> tuple[Size, int]:
    """A size and its value, by the same multiplications and rounded divisions."""
    n = draw(st.integers(1, 50))
    size, value = (Size.symbol("n", n), n) if draw(st.booleans()) else (Size(n), n)
    for _ in range(draw(st.integers(0, 5))):
        k = draw(st.integers(1, 9))
        if draw(st.booleans()):
            size, value = size * Size(k), value * k
        else:
            size, value = size.ceil_div(Size(k)), -(-value // k)
    return size, value


@given(derived(), derived())
def test_forms_have_the_value_of_what_they_stand_for(a: tuple[Size, int], b: tuple[Size, int]) -> None:
    (x, n), (y, m) = a, b
    assert (x.value, y.value, (x * y).value, x.ceil_div(y).value) == (n, m, n * m, -(-n // m))
    exact = x.quotient(y)
    if exact is not None:
        assert exact * y == x
    known = x.is_multiple_of(y)
    if known is not None:
        assert known == (n % m == 0)
