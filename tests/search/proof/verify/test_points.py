"""Outputs at chosen elements are those of the whole fusion there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.index_ranges import index_ranges
from compiler.ir.ops import OpKind
from compiler.reference import Values, evaluate, round_to, settled
from search.proof.verify import points
from search.proof.verify.points import Offsets, at_points
from tests.search.random_fusions.cases import random_case

Storage = dict[str, Any]


def f32(name: str, shape: tuple[int, ...]) -> Value:
    return Value(name, shape, DType.F32, dense_strides(shape))


def storages(fusion: Fusion, seed: int) -> Storage:
    """Values for every element of the inputs' storages."""
    rng = np.random.default_rng(seed)
    found: Storage = {}
    for value in map(fusion.value, fusion.inputs):
        elems = value.storage_elems
        if value.dtype.is_float:
            found[value.name] = round_to(rng.standard_normal(elems), value.dtype, np)
        elif value.dtype is DType.BOOL:
            found[value.name] = rng.integers(0, 2, elems)
        else:
            low, high = index_ranges(fusion).get(value.name, value.dtype.integer_range)
            found[value.name] = rng.integers(max(low, -99), min(high, 99), elems, endpoint=True)
    return found


def whole(fusion: Fusion, held: Storage) -> list[Any]:
    values = [fusion.value(name) for name in fusion.inputs]
    return [
        np.lib.stride_tricks.as_strided(held[v.name], v.shape, [s * held[v.name].itemsize for s in v.strides])
        for v in values
    ]


def some_points(fusion: Fusion, output: str, seed: int) -> Offsets:
    """In any order, and some of them twice."""
    return np.random.default_rng(seed).integers(0, fusion.value(output).elems, 50)


def check(fusion: Fusion, seed: int) -> None:
    fusion = settled(fusion, [seed % 5 - 2] * len(fusion.scalars))
    held = storages(fusion, seed)
    with np.errstate(all="ignore"):
        for output, reference in zip(fusion.outputs, evaluate(fusion, whole(fusion, held), np), strict=True):
            positions = some_points(fusion, output, seed)
            found = at_points(fusion, output, positions, lambda name, offsets: held[name][offsets], Values(np))
            np.testing.assert_allclose(found, np.asarray(reference).reshape(-1)[positions], rtol=1e-9, atol=1e-12)


def test_random_fusions_at_random_points() -> None:
    """Every operator; padded, permuted and repeated inputs; values that are used in several ways."""
    for seed in range(150):
        check(random_case(seed, "tiny").bound(), seed)


def test_runs_of_a_reduction_are_folded_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "FOLD_ELEMS", 16)
    for seed in range(60):
        check(random_case(seed, "tiny").bound(), seed)


def test_an_input_read_in_two_ways() -> None:
    values = (f32("i0", (4, 4)), f32("v0", (4, 4)), f32("v1", (4, 4)))
    ops = (Op(OpKind.PERMUTE, ("i0",), "v0", (1, 0)), Op(OpKind.ADD, ("i0", "v0"), "v1"))
    fusion = Fusion(values, ("i0",), ops, ("v1",), "f", "b")
    found = at_points(fusion, "v1", np.array([1, 7]), lambda _, offsets: offsets, Values(np))
    assert list(found) == [1 + 4, 7 + 13]


def test_a_run_that_several_elements_share_is_read_once() -> None:
    """The elements of a softmax need their row, and all of a row need the same one."""
    values = (f32("i0", (3, 5)), f32("v0", (3,)), f32("v1", (3, 5)))
    ops = (Op(OpKind.SUM, ("i0",), "v0", (1,)), Op(OpKind.BROADCAST_TO, ("v0",), "v1", (0,)))
    fusion = Fusion(values, ("i0",), ops, ("v1",), "f", "b")
    asked: list[int] = []

    def read(_: str, offsets: Offsets) -> Offsets:
        asked.extend(offsets.tolist())
        return offsets

    found = at_points(fusion, "v1", np.array([5, 6, 7, 9]), read, Values(np))
    assert list(found) == [35.0] * 4
    assert asked == [5, 6, 7, 8, 9]
