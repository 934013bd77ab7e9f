"""Outputs at chosen elements are those of the whole fusion there."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.emulate.fusions import random_fusion
from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Op, Value, dense_strides
from compiler.ir.ops import OpKind
from compiler.reference import evaluate
from search.verify.arrays import Array, NumpyArrays
from search.verify.expected import expect
from search.verify.inputs import make_inputs, only_moves
from search.verify.points import Offsets, at_points
from tests.search.schedulers.fusions import silu_of_sum

ARRAYS = NumpyArrays()


def f32(name: str, shape: tuple[int, ...]) -> Value:
    return Value(name, shape, DType.F32, dense_strides(shape))


def some_points(fusion: Fusion, output: str, seed: int) -> Offsets:
    elems = fusion.value(output).elems
    return np.sort(np.random.default_rng(seed).choice(elems, min(elems, 50), replace=False))


def test_random_fusions_at_random_points() -> None:
    """Permuted, broadcast, padded inputs, values that are used in several ways, results that are views."""
    for seed in range(60):
        fusion = random_fusion(np.random.default_rng(seed))
        storages = dict(zip(fusion.inputs, make_inputs(fusion, "random", ARRAYS), strict=True))
        whole = [
            ARRAYS.load(ARRAYS.strided(storages[name], v.shape, v.strides), v.dtype)
            for name, v in ((n, fusion.value(n)) for n in fusion.inputs)
        ]

        def read(name: str, offsets: Offsets, storages: dict[str, Array] = storages) -> Array:
            return storages[name][offsets]

        for output, reference in zip(fusion.outputs, evaluate(fusion, whole, np), strict=True):
            positions = some_points(fusion, output, seed)
            points = at_points(fusion, output, positions, read)
            values = [
                ARRAYS.load(storage, points.fusion.value(name).dtype)
                for name, storage in zip(points.fusion.inputs, points.storages, strict=True)
            ]
            (found,) = evaluate(points.fusion, values, np)
            np.testing.assert_array_equal(found, reference.reshape(-1)[positions])
            assert only_moves(points.fusion) == only_moves(fusion) or len(fusion.outputs) > 1
            (bounds,) = expect(points.fusion, points.storages, ARRAYS)
            assert bounds.dtype is fusion.value(output).dtype


def test_an_input_read_in_two_ways_is_two_vectors() -> None:
    values = (f32("i0", (4, 4)), f32("v0", (4, 4)), f32("v1", (4, 4)))
    ops = (Op(OpKind.PERMUTE, ("i0",), "v0", (1, 0)), Op(OpKind.ADD, ("i0", "v0"), "v1"))
    fusion = Fusion(values, ("i0",), ops, ("v1",), "f", "b")
    storage = np.arange(16, dtype=np.float32)
    points = at_points(fusion, "v1", np.array([1, 7]), lambda _, offsets: storage[offsets])
    assert [list(s) for s in points.storages] == [[1, 7], [4, 13]]


def test_an_output_that_is_a_view_is_copied() -> None:
    fusion = Fusion(
        (f32("i0", (3,)), f32("v0", (2, 3))),
        ("i0",),
        (Op(OpKind.BROADCAST_TO, ("i0",), "v0", (1,)),),
        ("v0",),
        "f",
        "b",
    )
    points = at_points(fusion, "v0", np.array([0, 4]), lambda _, offsets: offsets.astype(np.float32))
    assert [op.kind for op in points.fusion.ops] == [OpKind.COPY]
    assert list(points.storages[0]) == [0, 1]
    assert only_moves(points.fusion)


def test_operators_that_mix_positions_are_refused() -> None:
    base = silu_of_sum([4, 8], [1], "f32")
    sum_ = Op(OpKind.SUM, base.ops[-1].inputs, base.ops[-1].output)
    fusion = Fusion(base.values, base.inputs, (*base.ops[:-1], sum_), base.outputs, "f", "b")
    with pytest.raises(Unsupported, match="behind operator sum"):
        at_points(fusion, fusion.outputs[0], np.array([0]), lambda _, offsets: offsets.astype(np.float32))
