"""What is called wrong: the nearest case on either side of each line."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.dtypes import DType
from tests.mutants.fresh import SETS, fresh
from tests.mutants.fusions import fusions
from tests.mutants.judging import Range, wrong_elements
from tests.mutants.machine.numbers import Array

INF, NAN = float("inf"), float("nan")


def known(lowest: float, highest: float, agreed: bool) -> Range:
    return Range(DType.F32, np.array([[lowest]]), np.array([[highest]]), np.array([[agreed]]))


def f32(value: float) -> Array:
    return np.array([[value]], np.float32)


@pytest.mark.parametrize(
    ("spread", "right", "have", "is_wrong"),
    [
        pytest.param((1.0, 1.25), 1.0, 2.0, False, id="four-spreads-off"),
        pytest.param((1.0, 1.25), 1.0, 2.0 + 2.0**-20, True, id="more-than-four-spreads-off"),
        pytest.param((1.0, 1.0), 1.0, 1.0, False, id="the-same"),
        pytest.param((1.0, 1.0), 1.0, 1.0 + 2.0**-23, True, id="a-unit-off-where-all-agree"),
        pytest.param((1.0, 1.25), 1.0, NAN, True, id="nan-for-a-number"),
        pytest.param((1.0, 1.25), 1.0, INF, True, id="infinity-for-a-number"),
        pytest.param((NAN, NAN), NAN, NAN, False, id="nan-for-nan"),
        pytest.param((NAN, NAN), NAN, 0.0, True, id="number-for-nan"),
        pytest.param((INF, INF), INF, INF, False, id="infinity-for-infinity"),
        pytest.param((INF, INF), INF, -INF, True, id="infinity-of-the-other-sign"),
        pytest.param((INF, INF), INF, 3e38, True, id="number-for-infinity"),
        pytest.param((0.0, 0.0), 0.0, -0.0, True, id="zero-of-the-other-sign"),
    ],
)
def test_a_float_is_wrong_beyond_what_right_kernels_spread(
    spread: tuple[float, float], right: float, have: float, is_wrong: bool
) -> None:
    agreed = spread[0] == spread[1] or np.isnan(spread[0])
    found = wrong_elements(known(*spread, agreed=bool(agreed)), f32(have), f32(right))
    assert bool(found) is is_wrong


@pytest.mark.parametrize("have", [NAN, INF, 0.0])
def test_where_right_kernels_disagree_on_a_special_value_nothing_is_wrong(have: float) -> None:
    assert not wrong_elements(known(1.0, INF, agreed=False), f32(have), f32(INF)).any()


def test_zeros_of_either_sign_are_right_where_right_kernels_make_both() -> None:
    assert not wrong_elements(known(-0.0, 0.0, agreed=False), f32(-0.0), f32(0.0)).any()


@pytest.mark.parametrize(("agreed", "is_wrong"), [(True, True), (False, False)])
def test_an_integer_is_wrong_where_all_right_kernels_make_another(agreed: bool, is_wrong: bool) -> None:
    three = np.array([[3]], np.int32)
    of_all = Range(DType.I32, three, three, np.array([[agreed]]))
    assert bool(wrong_elements(of_all, three + 1, three)) is is_wrong
    assert not wrong_elements(of_all, three, three).any()


@pytest.mark.parametrize("name", ["greedy_token", "view_mixed_dtypes", "integers"])
def test_fresh_inputs_are_many_and_stay(name: str) -> None:
    first, again = fresh(fusions()[name]), fresh(fusions()[name])
    for mine, same in zip(first, again, strict=True):
        assert len(mine) == SETS
        np.testing.assert_array_equal(mine.view(np.uint8), same.view(np.uint8))
        assert len({one.tobytes() for one in mine}) > SETS // 2
