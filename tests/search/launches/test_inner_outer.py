"""Column reductions in groups of rows: for which fusions, how many groups, and that the meaning stays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.reference import evaluate
from search.launches import group_counts, in_groups
from search.launches.inner_outer import FEWEST_ROWS
from tests.search.launches.made import BF16, F32, Written, fusion_of

SMS = 132


def folds(shape: tuple[int, ...], *dims: tuple[int, ...], kind: str = "sum", keep: bool = False) -> Fusion:
    """Reductions of one input, each of some dimensions."""
    ops: list[Written] = []
    for n, folded in enumerate(dims):
        result = tuple((1 if d in folded else size) for d, size in enumerate(shape) if keep or d not in folded)
        ops.append((kind, ["i0"], f"v{n}", result, F32, folded))
    return fusion_of([("i0", shape, F32)], ops, *(f"v{n}" for n in range(len(dims))))


@pytest.mark.parametrize(
    ("shape", "dims", "counts"),
    [
        pytest.param((8192, 512), [(0,), (1,)], (128, 256, 512), id="powers-of-two"),
        pytest.param((1320, 512), [(0,), (1,)], (132, 264), id="as-many-as-multiprocessors"),
        pytest.param((4 * 132, 512), [(0,), (1,)], (132,), id="few-rows"),
        pytest.param((3 * 132, 512), [(0,), (1,)], (99,), id="fewer-rows"),
        pytest.param((4 * 180, 512), [(0,), (1,)], (120,), id="none-at-twice"),
        pytest.param((4 * 181, 512), [(0,), (1,)], (121,), id="none-near"),
        pytest.param((4 * 701, 512), [(0,), (1,)], (128, 255, 468), id="none-in-reach"),
        pytest.param((8191, 512), [(0,), (1,)], (128, 256, 512), id="prime"),
        pytest.param((4099, 512), [(0,), (1,)], (129, 257, 513), id="odd-rows"),
        pytest.param((131, 512), [(0,), (1,)], (), id="too-few-rows"),
        pytest.param((8192, 512), [(0,)], (), id="columns-alone"),
        pytest.param((8192, 512), [(1,)], (), id="rows-alone"),
        pytest.param((8192, 512), [(0, 1), (1,)], (), id="all-is-no-column"),
        pytest.param((64, 128, 512), [(0, 1), (2,)], (128, 256, 512), id="two-leading-dimensions"),
        pytest.param((77, 130, 512), [(0, 1), (2,)], (132, 251, 501), id="parts-of-one-dimension"),
        pytest.param((77, 130, 512), [(0,), (1, 2)], (), id="one-of-two"),
        pytest.param((1024, 8, 64), [(0,), (2,)], (128, 256), id="heads"),
        pytest.param((1024, 8, 64), [(1,), (2,)], (), id="batches-of-few-rows"),
        pytest.param((32, 1024, 64), [(1,), (2,)], (128, 256, 512), id="batches"),
        pytest.param((3, 1021, 64), [(1,), (2,)], (), id="groups-of-batches-far-from-the-card"),
        pytest.param((32, 1021, 64), [(1,), (2,)], (), id="batches-of-a-prime"),
        pytest.param((7, 1021, 64), [(1,), (0, 1), (2,)], (128, 256, 511), id="batches-beside-all-rows"),
        pytest.param((8, 4, 1024, 64), [(1, 2), (2,), (3,)], (), id="batches-of-two-sizes"),
    ],
)
def test_groups_are_as_many_as_the_card_takes_and_divide_the_rows_if_they_can(
    shape: tuple[int, ...], dims: list[tuple[int, ...]], counts: tuple[int, ...]
) -> None:
    assert group_counts(folds(shape, *dims), SMS) == counts


@pytest.mark.parametrize(("rows", "counts"), [(1320, (132, 264)), (4 * 701, ()), (4 * 181, (181,))])
def test_groups_of_integers_divide_the_rows(rows: int, counts: tuple[int, ...]) -> None:
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (64,), DType.I32, (0,)),
        ("sum", ["i0"], "v1", (rows,), DType.I32, (1,)),
    ]
    assert group_counts(fusion_of([("i0", (rows, 64), DType.I32)], ops, "v0", "v1"), SMS) == counts


def test_rows_may_be_folded_in_another_shape_than_columns() -> None:
    ops: list[Written] = [
        ("sum", ["i0"], "v0", (64, 128), F32, (2,)),
        ("reshape", ["i0"], "v1", (8192, 512), F32),
        ("sum", ["v1"], "v2", (512,), F32, (0,)),
    ]
    assert group_counts(fusion_of([("i0", (64, 128, 512), F32)], ops, "v0", "v2"), SMS) == (128, 256, 512)


def test_parts_of_halves_are_kept_in_f32() -> None:
    ops: list[Written] = [("sum", ["i0"], "v0", (64,), BF16, (0,)), ("amax", ["i0"], "v1", (1024,), BF16, (1,))]
    grouped = in_groups(fusion_of([("i0", (1024, 64), BF16)], ops, "v0", "v1"), 128)
    parts = [v.dtype for v in grouped.values if v.shape == (128, 64)]
    assert parts == [F32]
    assert [grouped.value(name).dtype for name in grouped.outputs] == [BF16, BF16]


@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    groups=st.integers(2, 6),
    rows=st.integers(FEWEST_ROWS, 7),
    missing=st.integers(0, 3),
    columns=st.integers(2, 9),
    kind=st.sampled_from(["sum", "mean", "amax", "amin"]),
    keep=st.booleans(),
)
def test_groups_change_nothing(groups: int, rows: int, missing: int, columns: int, kind: str, keep: bool) -> None:
    there = groups * rows - missing
    fusion = folds((there, columns), (0,), (1,), kind=kind, keep=keep)
    grouped = in_groups(fusion, groups)
    assert (groups, columns) in {v.shape for v in grouped.values}
    inputs = [np.random.default_rng(rows).normal(size=(there, columns))]
    for found, expected in zip(
        evaluate(grouped, inputs, np, rounds=False), evaluate(fusion, inputs, np, rounds=False), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["sum", "mean", "amax"])
@pytest.mark.parametrize("dims", [[(1,), (2,)], [(1,), (0, 1), (2,)]])
def test_groups_of_batches_change_nothing(kind: str, dims: list[tuple[int, ...]]) -> None:
    fusion = folds((3, 8, 5), *dims, kind=kind)
    grouped = in_groups(fusion, 6)
    assert (3, 2, 5) in {v.shape for v in grouped.values}
    inputs = [np.random.default_rng(1).normal(size=(3, 8, 5))]
    for found, expected in zip(
        evaluate(grouped, inputs, np, rounds=False), evaluate(fusion, inputs, np, rounds=False), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
