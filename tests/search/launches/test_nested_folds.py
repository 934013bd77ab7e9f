"""Reductions that share a first step with others: which do, and that the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import FOLDS
from compiler.reference import evaluate
from search.launches import cheapest_cut, nested_folds
from tests.cards import H200
from tests.search.launches.made import BF16, F32, Written, fusion_of, one_fold, run_launches

S = (4, 6, 5)


def folds(*dims: tuple[int, ...], kind: str = "sum", keep: bool = False, dtype: DType = F32) -> Fusion:
    """Reductions of one input, each of some dimensions."""
    ops: list[Written] = []
    for n, folded in enumerate(dims):
        result = tuple((1 if d in folded else size) for d, size in enumerate(S) if keep or d not in folded)
        ops.append((kind, ["i0"], f"v{n}", result, dtype, folded))
    return fusion_of([("i0", S, dtype)], ops, *(f"v{n}" for n in range(len(dims))))


def steps(fusion: Fusion) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What each reduction folds: the shape, and its dimensions."""
    return [(fusion.value(op.tensor_inputs[0]).shape, op.dims) for op in fusion.ops if op.kind in FOLDS]


@pytest.mark.parametrize(
    ("dims", "found"),
    [
        pytest.param([(2,), (0, 2)], [(S, (2,)), (S, (2,)), (S[:2], (0,))], id="rows-and-more"),
        pytest.param([(0, 2), (2,)], [(S, (2,)), (S[:2], (0,)), (S, (2,))], id="more-comes-first"),
        pytest.param([(1,), (0, 1, 2)], [(S, (1,)), (S, (1,)), ((4, 5), (0, 1))], id="all"),
        pytest.param([(1, 2), (2,)], [(S, (2,)), (S[:2], (1,)), (S, (2,))], id="the-last-of-two"),
        pytest.param(
            [(2,), (1, 2), (0, 1, 2)],
            [(S, (2,)), (S, (2,)), (S[:2], (1,)), (S, (1, 2)), (S[:1], (0,))],
            id="the-most-that-is-shared",
        ),
        pytest.param([(0, 1), (1, 2)], None, id="neither-holds-the-other"),
        pytest.param([(2,), (2,)], None, id="the-same"),
        pytest.param([(1,), (2,)], None, id="apart"),
        pytest.param([(0, 1, 2)], None, id="one"),
    ],
)
def test_what_others_fold_is_folded_first(
    dims: list[tuple[int, ...]], found: list[tuple[tuple[int, ...], tuple[int, ...]]] | None
) -> None:
    nested = nested_folds(folds(*dims))
    assert (nested and steps(nested)) == found


def test_reductions_of_other_shapes_share_nothing() -> None:
    ops: list[Written] = [("sum", ["i0"], "v0", S[:2], F32, (2,)), ("sum", ["i1"], "v1", (), F32, (0, 1))]
    assert nested_folds(fusion_of([("i0", S, F32), ("i1", S[:2], F32)], ops, "v0", "v1")) is None


def test_halves_are_summed_in_f32_between_the_steps() -> None:
    nested = nested_folds(folds((2,), (0, 2), dtype=BF16))
    assert nested is not None
    assert [nested.value(op.output).dtype for op in nested.ops if op.kind in FOLDS] == [BF16, F32, F32]


@settings(derandomize=True, deadline=None)
@given(
    kind=st.sampled_from(["sum", "mean", "amax", "amin"]),
    inner=st.sampled_from([(0,), (1,), (2,), (0, 2), (1, 2)]),
    outer=st.sampled_from([(0, 2), (0, 1, 2), (1, 2), (0, 1)]),
    keep=st.booleans(),
)
def test_two_steps_give_what_one_gives(kind: str, inner: tuple[int, ...], outer: tuple[int, ...], keep: bool) -> None:
    fusion = folds(inner, outer, kind=kind, keep=keep)
    nested = nested_folds(fusion)
    assert (nested is not None) == (set(inner) < set(outer) or set(outer) < set(inner))
    inputs = [np.random.default_rng(len(inner)).normal(size=S)]
    expected = evaluate(fusion, inputs, np, rounds=False)
    cut = cheapest_cut(nested or fusion, H200, one_fold)
    assert cut is not None
    for found, wanted in zip(run_launches(cut, inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
