"""Reductions in two steps: when, into how many parts, and that they give what one step gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.reference import evaluate
from search.launches import cheapest_cut, split_factors, split_reductions
from search.launches.split_factors import WHOLE_ELEMS, place_of_split
from tests.cards import H200
from tests.search.launches.made import BF16, F32, Written, fusion_of, one_fold, run_launches, softmax, standardized


def fold(kind: str, shape: tuple[int, ...], dims: tuple[int, ...], dtype: DType = F32, *, keep: bool = False) -> Fusion:
    """One reduction of one input."""
    result = tuple((1 if d in dims else n) for d, n in enumerate(shape) if keep or d not in dims)
    op: Written = (kind, ["i0"], "v0", result, DType.I64 if kind == "sum" and dtype is DType.I32 else dtype, dims)
    return fusion_of([("i0", shape, dtype)], [op], "v0")


@pytest.mark.parametrize(
    ("shape", "dims", "factors"),
    [
        pytest.param((4, 1 << 20), (1,), (64, 128, 256), id="four-long-rows"),
        pytest.param((264, 1 << 16), (1,), (), id="rows-enough"),
        pytest.param((263, 1 << 16), (1,), (2, 4), id="one-row-short"),
        pytest.param((4, 8191), (1,), (), id="short-rows"),
        pytest.param((4, 16384), (1,), (4,), id="parts-fold-enough"),
        pytest.param((8192, 8192), (0,), (2, 4, 8), id="columns"),
        pytest.param((8192, 64 * 264), (0,), (), id="columns-enough"),
        pytest.param((4096, 4096), (0, 1), (256, 512, 1024), id="all"),
        pytest.param((3, 999983), (1,), (93, 186, 217), id="prime"),
        pytest.param((3, 5 * 199999), (1,), (93, 186, 217), id="one-divisor-is-far"),
        pytest.param((3, 53 * 20011), (1,), (53, 202, 227), id="one-divisor-is-near"),
        pytest.param((3, 8209), (1,), (2,), id="short-prime"),
        pytest.param((2, 3, 1 << 20), (0, 2), (64, 128, 256), id="folded-around"),
    ],
)
def test_the_factors_fill_the_card_and_divide(
    shape: tuple[int, ...], dims: tuple[int, ...], factors: tuple[int, ...]
) -> None:
    assert split_factors(fold("sum", shape, dims), H200) == factors


@pytest.mark.parametrize(
    ("fusion", "factors"),
    [
        pytest.param(standardized((2, 1 << 24)), (128, 256, 512, 1024), id="64-kib-parts-of-long-rows"),
        pytest.param(standardized((2, 1 << 22)), (128, 256, 512), id="short-enough"),
        pytest.param(softmax((2, 1 << 24)), (128, 256, 512), id="folded-along-with-the-maximum"),
        pytest.param(fold("sum", (2, 1 << 24), (1,)), (128, 256, 512), id="gone-through-once"),
    ],
)
def test_parts_that_are_gone_through_twice_are_held(fusion: Fusion, factors: tuple[int, ...]) -> None:
    assert split_factors(fusion, H200) == factors


@given(n=st.integers(2, 1 << 27), factor=st.integers(2, 4096))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_a_split_covers_all_and_asked_again_stays(n: int, factor: int) -> None:
    place = place_of_split((n,), (0,), factor)
    if place is None:
        assert n < factor * (factor // 2 + 1) * WHOLE_ELEMS, "else what is left is less than two parts"
        return
    assert place.count * place.part + place.rest == n
    assert 0 <= place.rest < 2 * place.part
    assert place_of_split((n,), (0,), place.count) == place


def test_what_has_no_reduction_is_not_split() -> None:
    fusion = fusion_of([("i0", (4, 1 << 20), F32)], [("exp", ["i0"], "v0", (4, 1 << 20), F32)], "v0")
    assert split_factors(fusion, H200) == ()
    assert split_reductions(fusion, 8, H200) is None


CASES: dict[str, Callable[[], Fusion]] = {
    **{kind: partial(fold, kind, (3, 20000), (1,)) for kind in ("sum", "mean", "amax", "amin")},
    "kept": lambda: fold("mean", (3, 20000), (1,), keep=True),
    "halves": lambda: fold("sum", (3, 20000), (1,), BF16),
    "half-means-kept": lambda: fold("mean", (2, 100, 200), (1, 2), BF16, keep=True),
    "integers": lambda: fold("sum", (2, 12000), (1,), DType.I32),
    "columns": lambda: fold("sum", (3000, 5), (0,)),
    "middle": lambda: fold("amax", (2, 3000, 5), (1,)),
    "around": lambda: fold("sum", (100, 3, 100), (0, 2)),
    "all": lambda: fold("mean", (150, 140), (0, 1)),
    "softmax": lambda: softmax((3, 20000)),
    "standardized": lambda: standardized((3, 20000)),
    "prime": lambda: fold("sum", (3, 20011), (1,), BF16),
    "prime-means-kept": lambda: fold("mean", (3, 20011), (1,), keep=True),
    "prime-columns": lambda: fold("amin", (3001, 5), (0,)),
    "primes-around": lambda: fold("sum", (127, 3, 131), (0, 2)),
    "prime-softmax": lambda: softmax((3, 20011)),
    "prime-standardized": lambda: standardized((3, 20011)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [2, 50])
def test_two_steps_give_what_one_gives(name: str, factor: int) -> None:
    fusion = CASES[name]()
    split = split_reductions(fusion, factor, H200)
    assert split is not None
    assert (split.inputs, split.value(split.outputs[0]).shape) == (
        fusion.inputs,
        fusion.value(fusion.outputs[0]).shape,
    )
    cut = cheapest_cut(split, H200, one_fold)
    assert cut is not None
    folds_a_rest_apart = name == "primes-around" and factor == 2
    assert len(cut.parts) == 2 + folds_a_rest_apart
    shape = fusion.value("i0").shape
    draw = np.random.default_rng(3)
    inputs = [draw.integers(-9, 9, shape) if name == "integers" else draw.standard_normal(shape) + 2.0]
    expected = evaluate(fusion, inputs, np, rounds=False)
    for want, whole, launched in zip(
        expected, evaluate(split, inputs, np, rounds=False), run_launches(cut, inputs), strict=True
    ):
        np.testing.assert_allclose(whole, want, rtol=1e-8)
        np.testing.assert_allclose(launched, want, rtol=1e-8)


@pytest.mark.parametrize(
    ("made", "dtypes"),
    [
        pytest.param(fold("sum", (3, 20000), (1,), BF16), {DType.F32}, id="half-sums-are-floats"),
        pytest.param(fold("amax", (3, 20000), (1,), BF16), {BF16}, id="maxima-need-no-more"),
        pytest.param(fold("sum", (3, 20000), (1,), DType.I32), {DType.I64}, id="integers"),
        pytest.param(fold("sum", (3, 20000), (1,), DType.F64), {DType.F64}, id="doubles"),
    ],
)
def test_parts_are_stored_in_the_accumulator_s_dtype(made: Fusion, dtypes: set[DType]) -> None:
    split = split_reductions(made, 50, H200)
    assert split is not None
    cut = cheapest_cut(split, H200, one_fold)
    assert cut is not None
    assert {split.value(name).dtype for name in cut.scratch} == dtypes
    assert split.value(split.outputs[0]).dtype is made.value("v0").dtype


def test_a_part_of_nothing_but_minus_infinity_adds_nothing() -> None:
    """Where all of a row is masked there is no answer, split or not; NaN comes through."""
    fusion = softmax((4, 20000))
    split = split_reductions(fusion, 4, H200)
    assert split is not None
    x = np.random.default_rng(0).standard_normal((4, 20000)) * 50 - 200
    x[0, :5000] = x[1, :9000] = x[2] = -np.inf
    x[3, 12345] = np.nan
    (want,), (have,) = evaluate(fusion, [x], np, rounds=False), evaluate(split, [x], np, rounds=False)
    assert np.isnan(want).all(axis=1).tolist() == [False, False, True, True]
    np.testing.assert_allclose(have, want, rtol=1e-12)


def test_only_f32_is_brought_to_a_common_shift() -> None:
    """With 16-bit values in between, rounding would move: maxima and sums are split one by one."""
    shape, rows = (3, 20000), (3,)
    ops: list[Written] = [
        ("amax", ["i0"], "v0", rows, BF16, (1,)),
        ("broadcast_to", ["v0"], "v1", shape, BF16, (0,)),
        ("sub", ["i0", "v1"], "v2", shape, BF16),
        ("exp", ["v2"], "v3", shape, BF16),
        ("sum", ["v3"], "v4", rows, BF16, (1,)),
    ]
    halves = split_reductions(fusion_of([("i0", shape, BF16)], ops, "v4"), 50, H200)
    floats = split_reductions(softmax(shape), 50, H200)
    assert halves is not None
    assert floats is not None
    assert [sum(op.kind is OpKind.MAXIMUM for op in one.ops) for one in (halves, floats)] == [0, 1]


def test_what_a_slice_leaves_out_and_masks_on_the_way_cost_nothing() -> None:
    """The mean of a loss that is chosen by a mask, and the largest difference, of elements that have no near divisor:
    nothing but parts is stored. A kernel's results have one shape here."""
    shape = (20_000_003,)
    ops: list[Written] = [
        ("sub", ["i0", "i1"], "v0", shape, F32),
        ("abs", ["v0"], "v1", shape, F32),
        ("le", ["v1", 1.0], "v2", shape, DType.BOOL),
        ("square", ["v0"], "v3", shape, F32),
        ("where", ["v2", "v3", "v1"], "v4", shape, F32),
        ("mean", ["v4"], "v5", (), F32, (0,)),
        ("amax", ["v1"], "v6", (), F32, (0,)),
    ]
    fusion = fusion_of([("i0", shape, F32), ("i1", shape, F32)], ops, "v5", "v6")
    split = split_reductions(fusion, 250, H200)
    assert split is not None
    cut = cheapest_cut(
        split, H200, lambda part: one_fold(part) and len({part.value(n).shape for n in part.outputs}) == 1
    )
    assert cut is not None
    assert len(cut.parts) == 2
    assert max(split.value(name).elems for name in cut.scratch) == 250
