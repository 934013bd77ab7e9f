"""Which neighbouring dimensions are merged, and that the fusion over them gives what it gave."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.fusion import Fusion, Value
from compiler.ir.ops import FOLDS
from compiler.reference import evaluate
from search.launches import merged_dims, merging_helps
from tests.cards import H200
from tests.search.launches.made import F32, Written, fusion_of


def fold(shape: tuple[int, ...], dims: tuple[int, ...], *, keep: bool = False) -> Fusion:
    result = tuple(1 if d in dims else n for d, n in enumerate(shape) if keep or d not in dims)
    return fusion_of([("i0", shape, F32)], [("sum", ["i0"], "v0", result, F32, dims)], "v0")


def centred(shape: tuple[int, ...], dims: tuple[int, ...]) -> Fusion:
    """x less its mean, and the mean of the squares of that."""
    kept = tuple(d for d in range(len(shape)) if d not in dims)
    small = tuple(shape[d] for d in kept)
    ops: list[Written] = [
        ("mean", ["i0"], "v0", small, F32, dims),
        ("broadcast_to", ["v0"], "v1", shape, F32, kept),
        ("sub", ["i0", "v1"], "v2", shape, F32),
        ("square", ["v2"], "v3", shape, F32),
        ("mean", ["v3"], "v4", small, F32, dims),
    ]
    return fusion_of([("i0", shape, F32)], ops, "v2", "v4")


def shifted(shape: tuple[int, ...], dims: tuple[int, ...]) -> Fusion:
    """x less its maximum, which keeps its dimensions as ones."""
    small = tuple(1 if d in dims else n for d, n in enumerate(shape))
    ops: list[Written] = [
        ("amax", ["i0"], "v0", small, F32, dims),
        ("broadcast_to", ["v0"], "v1", shape, F32, tuple(range(len(shape)))),
        ("sub", ["i0", "v1"], "v2", shape, F32),
    ]
    return fusion_of([("i0", shape, F32)], ops, "v2")


def weighted(shape: tuple[int, ...], place: int) -> Fusion:
    """The sum of all of x by a weight along one dimension."""
    ops: list[Written] = [
        ("broadcast_to", ["i1"], "v0", shape, F32, (place,)),
        ("mul", ["i0", "v0"], "v1", shape, F32),
        ("sum", ["v1"], "v2", (), F32, tuple(range(len(shape)))),
    ]
    return fusion_of([("i0", shape, F32), ("i1", (shape[place],), F32)], ops, "v2")


def counted(shape: tuple[int, ...], place: int) -> Fusion:
    """The sum of all of x where it is more than an index."""
    ops: list[Written] = [
        ("iota", [], "v0", shape, F32, (place,)),
        ("mul", ["i0", "v0"], "v1", shape, F32),
        ("sum", ["v1"], "v2", (), F32, tuple(range(len(shape)))),
    ]
    return fusion_of([("i0", shape, F32)], ops, "v2")


def strided(fusion: Fusion, strides: tuple[int, ...]) -> Fusion:
    def lies(value: Value) -> Value:
        return replace(value, strides=strides) if value.name == "i0" else value

    return replace(fusion, values=tuple(map(lies, fusion.values)))


CASES = {
    "all": (fold((5, 7, 11), (0, 1, 2)), ((385,),)),
    "kept-inside": (fold((5, 7, 11), (0, 1)), ((35, 11),)),
    "kept-outside": (fold((3, 5, 7, 11), (2, 3)), ((15, 77),)),
    "kept-as-ones": (fold((3, 5, 7, 11), (2, 3), keep=True), ((15, 77),)),
    "two-runs": (fold((2, 3, 4, 5, 6), (0, 1, 3, 4)), ((6, 4, 30),)),
    "channels": (centred((4, 3, 5, 6), (0, 1, 2)), ((60, 6), (60, 6))),
    "images": (centred((4, 3, 5, 6), (2, 3)), ((12, 30), (12, 30))),
    "ones-that-are-expanded": (shifted((4, 3, 5, 6), (2, 3)), ((12, 30),)),
    "weight": (weighted((4, 5, 6), 2), ((20, 6),)),
    "index": (counted((4, 5, 6), 0), ((4, 30),)),
    "padded-outside": (strided(fold((5, 7, 11), (0, 1, 2)), (80, 11, 1)), ((5, 77),)),
}


@pytest.mark.parametrize("name", CASES)
def test_neighbours_that_are_treated_alike_are_merged(name: str) -> None:
    fusion, folded = CASES[name]
    found = merged_dims(fusion)
    assert found is not None
    shapes = tuple(found.value(op.tensor_inputs[0]).shape for op in found.ops if op.kind in FOLDS)
    assert shapes == folded
    draw = np.random.default_rng(5)
    inputs = [draw.standard_normal(fusion.value(i).shape) for i in fusion.inputs]
    for want, have in zip(
        evaluate(fusion, inputs, np, rounds=False), evaluate(found, inputs, np, rounds=False), strict=True
    ):
        np.testing.assert_allclose(have, want, rtol=1e-12)


@pytest.mark.parametrize(
    "fusion",
    [
        pytest.param(fold((5, 7), (0,)), id="one"),
        pytest.param(fold((5, 7, 11), (0, 2)), id="one-between"),
        pytest.param(fold((5, 1, 7), (0, 1)), id="size-one"),
        pytest.param(weighted((4, 5), 1), id="weight-between"),
        pytest.param(strided(fold((5, 7), (0, 1)), (8, 1)), id="padded"),
    ],
)
def test_what_is_folded_in_one_dimension_or_cannot_be_stays(fusion: Fusion) -> None:
    assert merged_dims(fusion) is None


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), data=st.data())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_folds_of_any_dimensions_give_the_same(sizes: list[int], data: st.DataObject) -> None:
    dims = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(sizes))), min_size=1))))
    made = fold(tuple(sizes), dims, keep=data.draw(st.booleans()))
    for fusion in (made, centred(tuple(sizes), dims), shifted(tuple(sizes), dims)):
        found = merged_dims(fusion)
        x = np.arange(prod(sizes), dtype=np.float64).reshape(sizes)
        if found is not None:
            for want, have in zip(
                evaluate(fusion, [x], np, rounds=False), evaluate(found, [x], np, rounds=False), strict=True
            ):
                np.testing.assert_allclose(have, want, rtol=1e-12)


@pytest.mark.parametrize(
    ("fusion", "helps"),
    [
        pytest.param(fold((5, 7, 11, 1001, 131), (0, 1, 2, 3, 4)), True, id="inside"),
        pytest.param(fold((4096, 4097), (0, 1)), False, id="outermost"),
        pytest.param(fold((1, 4096, 4096), (0, 1, 2)), False, id="inside-a-size-of-one"),
        pytest.param(fold((64, 8, 4096, 4), (0, 2, 3)), False, id="inside-one-that-is-kept"),
        pytest.param(fold((8192, 8192), (1,)), False, id="not-split"),
        pytest.param(centred((128, 112, 112, 64), (0, 1, 2)), True, id="more-parts-than-a-dimension-has"),
        pytest.param(fold((128, 112, 112, 64), (0, 1, 2)), False, id="as-many-as-suffice"),
    ],
)
def test_where_splits_would_gain(fusion: Fusion, helps: bool) -> None:
    assert merging_helps(fusion, H200) is helps
