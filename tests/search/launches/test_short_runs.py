"""Reductions of short runs that lie apart, runs last: when, and that they give what one step gives."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.reference import evaluate
from search.launches import cheapest_cut, runs_last
from tests.cards import H200
from tests.search.launches.made import BF16, F32, Written, fusion_of, one_fold, run_launches

IMAGES = (2, 60, 4, 10)
"""Images of pixels, of groups of channels."""


def fold(kind: str, shape: tuple[int, ...], dims: tuple[int, ...], dtype: DType = F32, *, keep: bool = False) -> Fusion:
    """One reduction of one input."""
    result = tuple((1 if d in dims else n) for d, n in enumerate(shape) if keep or d not in dims)
    return fusion_of([("i0", shape, dtype)], [(kind, ["i0"], "v0", result, dtype, dims)], "v0")


def group_norm() -> Fusion:
    """(x - mean) / variance of each group of channels of an image, and the means."""
    small = (IMAGES[0], 1, IMAGES[2], 1)
    ops: list[Written] = [
        ("mean", ["i0"], "v0", small, F32, (1, 3)),
        ("broadcast_to", ["v0"], "v1", IMAGES, F32, (0, 1, 2, 3)),
        ("sub", ["i0", "v1"], "v2", IMAGES, F32),
        ("square", ["v2"], "v3", IMAGES, F32),
        ("mean", ["v3"], "v4", small, F32, (1, 3)),
        ("broadcast_to", ["v4"], "v5", IMAGES, F32, (0, 1, 2, 3)),
        ("div", ["v2", "v5"], "v6", IMAGES, F32),
    ]
    return fusion_of([("i0", IMAGES, F32)], ops, "v6", "v0")


@pytest.mark.parametrize(
    ("shape", "dims", "dtype", "is_taken"),
    [
        pytest.param((2, 60, 4, 31), (1, 3), F32, True, id="run-of-less-than-a-line"),
        pytest.param((2, 60, 4, 32), (1, 3), F32, False, id="run-of-a-line"),
        pytest.param((2, 60, 4, 63), (1, 3), BF16, True, id="halves"),
        pytest.param((60, 4, 10), (0, 2), F32, True, id="one-image"),
        pytest.param((2, 60, 4, 10, 1), (1, 3, 4), F32, True, id="ones-beside"),
        pytest.param((2, 60, 4, 10), (3,), F32, False, id="runs-alone"),
        pytest.param((2, 60, 4, 10), (2, 3), F32, False, id="one-longer-run"),
        pytest.param((2, 60, 1, 10), (1, 3), F32, False, id="runs-that-follow-one-another"),
        pytest.param((2, 60, 4, 10), (1,), F32, False, id="columns"),
        pytest.param((2, 60, 4, 10), (1, 2), F32, False, id="runs-of-columns"),
    ],
)
def test_short_runs_apart_are_folded_last(
    shape: tuple[int, ...], dims: tuple[int, ...], dtype: DType, is_taken: bool
) -> None:
    assert (runs_last(fold("sum", shape, dims, dtype)) is not None) == is_taken


@pytest.mark.parametrize(
    "fusion",
    [
        *(pytest.param(fold(kind, IMAGES, (1, 3)), id=kind) for kind in ("sum", "mean", "amax", "amin")),
        pytest.param(fold("mean", IMAGES, (1, 3), BF16, keep=True), id="half-means-kept"),
        pytest.param(group_norm(), id="group-norm"),
    ],
)
def test_two_steps_give_what_one_gives(fusion: Fusion) -> None:
    made = runs_last(fusion)
    assert made is not None
    cut = cheapest_cut(made, H200, one_fold)
    assert cut is not None
    assert len(cut.parts) >= 2
    inputs = [np.random.default_rng(3).standard_normal(IMAGES) + 2.0]
    expected = evaluate(fusion, inputs, np, rounds=False)
    for want, whole, launched in zip(
        expected, evaluate(made, inputs, np, rounds=False), run_launches(cut, inputs), strict=True
    ):
        np.testing.assert_allclose(whole, want, rtol=1e-8)
        np.testing.assert_allclose(launched, want, rtol=1e-8)


def test_means_and_variances_are_folded_in_one_pass_over_the_pixels() -> None:
    """The parts of both, of each channel, are one launch: squares are of differences to the channel's own mean."""
    made = runs_last(group_norm())
    assert made is not None
    cut = cheapest_cut(made, H200, one_fold)
    assert cut is not None
    first = cut.parts[0]
    assert [first.fusion.value(name).shape for name in first.fusion.outputs] == [(2, 4, 10), (2, 4, 10)]
