"""Sums that are scaled whenever their maximum rises are right; those that are not scaled, or otherwise, are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.reference import Walk
from search.proof.verify.arrays import NumpyArrays
from search.proof.verify.expected import expect
from search.proof.verify.intervals import Intervals
from search.proof.verify.online_sums import OnlineIntervals
from tests.compiler.schedule.online_fusions import PLAIN, Made, exponentials

HOST = NumpyArrays()
EX2 = 2.0**-22
"""Relative error of ex2.approx (PTX ISA, "ex2")."""

Row = npt.NDArray[np.float64]


def f32(x: Row) -> Row:
    return x.astype(np.float32).astype(np.float64)


def approximate_exp(x: Row, rng: np.random.Generator) -> Row:
    """ex2.approx of the rounded product with log2(e): exact for 0, else off by as much as it may be."""
    y = np.exp2(f32(f32(x) * 1.4426950216293335))
    return f32(np.where(x == 0, y, y * (1 + EX2 * rng.choice([-1, 1], x.shape))))


def folded_online(row: Row, chunks: int, rng: np.random.Generator, spoil: int | None = None) -> float:
    """The sum as a thread folds it, in f32; without the factor of chunk `spoil`."""
    top, total = -np.inf, np.zeros(1)
    for number, chunk in enumerate(np.array_split(row, chunks)):
        after = max(top, float(chunk.max()))
        if number and number != spoil:
            total = f32(total * approximate_exp(f32(np.array([top - after])), rng))
        for term in approximate_exp(f32(chunk - after), rng):
            total = f32(total + term)
        top = after
    return float(total[0])


def with_error(fusion: Fusion, inputs: Sequence[Row], arithmetic: Intervals) -> tuple[Row, Row]:
    """The first output, a value a row, and how far its ends are from it."""
    bounded = Walk(pinned(fusion), inputs, np, arithmetic).rows(0, 0, len(inputs[0]))
    low, high = arithmetic.ends(bounded)
    value = np.asarray(bounded.value)
    return value[:, 0], np.maximum(value - low, high - value)[:, 0]


@settings(max_examples=15, deadline=None)
@given(
    chunks=st.integers(1, 64),
    rise=st.floats(-1.0, 1.0),
    spread=st.floats(0.0, 4.0),
    seed=st.integers(0, 1 << 16),
)
def test_a_sum_that_is_scaled_as_its_maximum_rises_is_right(chunks: int, rise: float, spread: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = f32(rise * np.arange(128.0) + spread * rng.normal(size=(2, 128)))
    value, error = with_error(exponentials(PLAIN, rows.shape), [rows], OnlineIntervals(np, {}))
    found = np.array([folded_online(row, chunks, rng) for row in rows])
    assert (np.abs(found - value) <= error).all()
    assert (error < 2.0**-14 * value).all()


@pytest.mark.parametrize("spoil", [1, 15])
def test_a_sum_that_is_not_scaled_is_wrong(spoil: int) -> None:
    rng = np.random.default_rng(0)
    rows = f32(0.01 * np.arange(128.0) + rng.normal(size=(4, 128)))
    rows[:, ::8] += 0.02 * np.arange(16)
    (want,) = expect(exponentials(PLAIN, rows.shape), [HOST.store(rows.reshape(-1), DType.F32)], HOST)
    found = np.array([folded_online(np.sort(row), 16, rng, spoil) for row in rows])
    assert ((found < want.lower) | (found > want.upper)).all()


@pytest.mark.parametrize(
    ("body", "more"),
    [
        pytest.param(PLAIN, True, id="exp-of-a-distance"),
        pytest.param([*PLAIN[:1], ("mul", ("d", 0.5), "c"), ("exp", ("c",), "e")], True, id="of-a-share-of-it"),
        pytest.param([*PLAIN[:1], ("exp", ("d",), "h"), ("mul", ("h", "y"), "e")], True, id="weighted"),
        pytest.param([("exp", ("x",), "e")], False, id="exp-alone"),
        pytest.param([*PLAIN[:1], ("square", ("d",), "e")], False, id="square-of-a-distance"),
        pytest.param([*PLAIN[:1], ("exp", ("d",), "h"), ("add", ("h", 1.0), "e")], False, id="and-a-number"),
    ],
)
def test_only_sums_that_may_be_scaled_have_the_error_of_it(body: list[Made], more: bool) -> None:
    fusion = exponentials(body, (4, 40), outputs=("s", "m"))
    rng = np.random.default_rng(3)
    inputs = [f32(rng.normal(size=(4, 40))) for _ in fusion.inputs]
    before, plain = with_error(fusion, inputs, Intervals(np, {}))
    after, scaled = with_error(fusion, inputs, OnlineIntervals(np, {}))
    assert (before == after).all()
    assert list(scaled > plain) == [more] * 4
    assert list(scaled == plain) == [not more] * 4


def test_a_row_of_nothing_but_minus_infinity_stays_known() -> None:
    rows = np.full((2, 40), -np.inf)
    rows[1] = 0.0
    (want,) = expect(exponentials(PLAIN, rows.shape), [HOST.store(rows.reshape(-1), DType.F32)], HOST)
    assert np.isnan(want.lower[0])
    assert np.isnan(want.upper[0])
    assert want.lower[1] <= 40.0 <= want.upper[1]
