"""What is worked out in fewer passes, of fusions of floats on finite inputs, is the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.fusion import Fusion
from fusetune.fusion import FusionBuilder
from fusetune.wire.fusion import DTypeName
from search.proof.verify import expected as expected_module
from search.proof.verify.arrays import Arrays, NumpyArrays, TorchArrays
from search.proof.verify.expected import Expected, expect
from search.proof.verify.finite import FiniteIntervals, are_all_floats
from search.proof.verify.inputs import input_sets, make_inputs
from search.proof.verify.online_sums import OnlineIntervals
from tests.bound import dense

BOTH = pytest.mark.parametrize("arrays", [NumpyArrays(), TorchArrays("cpu")], ids=["numpy", "torch"])
SHAPE = (6, 40)

Body = Callable[[FusionBuilder, Any], Any]


def _spread(f: FusionBuilder, row: Any) -> Any:
    return f.broadcast_to(row, SHAPE, dims=(0, 1))


def _softmax(f: FusionBuilder, x: Any) -> Any:
    e = f.exp(f.sub(x, _spread(f, f.amax(x, dims=(1,), keepdim=True))))
    return f.div(e, _spread(f, f.sum(e, dims=(1,), keepdim=True)))


def _log_softmax(f: FusionBuilder, x: Any) -> Any:
    away = f.sub(x, _spread(f, f.amax(x, dims=(1,), keepdim=True)))
    return f.sub(away, _spread(f, f.log(f.sum(f.exp(away), dims=(1,), keepdim=True))))


def _layernorm(f: FusionBuilder, x: Any) -> Any:
    centred = f.sub(x, _spread(f, f.mean(x, dims=(1,), keepdim=True)))
    return f.mul(centred, _spread(f, f.rsqrt(f.add(f.mean(f.square(centred), dims=(1,), keepdim=True), 1e-5))))


def _column_share(f: FusionBuilder, x: Any) -> Any:
    column = f.sum(f.exp(x), dims=(0,), keepdim=True)
    return f.div(f.exp(x), f.broadcast_to(column, SHAPE, dims=(0, 1)))


def _least_sigmoid(f: FusionBuilder, x: Any) -> Any:
    return f.amin(f.sigmoid(x), dims=(1,), keepdim=True)


def _gelu_silu(f: FusionBuilder, x: Any) -> Any:
    return f.maximum(f.mul(f.gelu(x), 1.7), f.neg(f.silu(x)))


BODIES: dict[str, Body] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layernorm": _layernorm,
    "column_share": _column_share,
    "least_sigmoid": _least_sigmoid,
    "gelu_silu": _gelu_silu,
    "tanh_twice": lambda f, x: f.tanh(f.tanh(x)),
    "logarithm": lambda f, x: f.log(f.abs(x)),
    "differences": lambda f, x: (lambda e: f.sub(e, e))(f.exp(x)),
}


def made(body: Body, dtype: DTypeName, single: bool = True) -> Fusion:
    """`body` of a matrix of that type, in f32 or in the type itself."""
    builder = FusionBuilder()
    x = builder.input("x", SHAPE, dtype)
    found = body(builder, builder.cast(x, "f32") if single else x)
    builder.output(builder.cast(found, dtype) if single else found, "out")
    return dense(builder)


def bits(one: Expected, arrays: Arrays) -> tuple[object, ...]:
    ends = [arrays.bytes_of(end).tolist() for end in (one.lower, one.upper)]
    return (ends, one.tolerance, one.apart, one.zeros_are_signed, one.are_finite)


@BOTH
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("body", BODIES)
def test_both_ways_give_equal_ends(
    body: str, dtype: DTypeName, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion = made(BODIES[body], dtype)
    assert are_all_floats(fusion)
    monkeypatch.setattr(expected_module, "BLOCK_ELEMS", 2 * SHAPE[1])  # three blocks of rows
    for name in input_sets(fusion):
        storages = make_inputs(fusion, name, arrays)
        quick = expect(fusion, storages, arrays)
        with monkeypatch.context() as patch:
            patch.setattr(expected_module, "are_all_floats", lambda fusion: False)
            plain = expect(fusion, storages, arrays)
        assert [bits(one, arrays) for one in quick] == [bits(one, arrays) for one in plain], name


@BOTH
@pytest.mark.parametrize(
    ("set_name", "is_quick"),
    [("random", True), ("large", True), ("positive", True), ("peaks", True), ("inf_nan", False)],
)
def test_what_is_finite_is_worked_out_the_quick_way(
    set_name: str, is_quick: bool, arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion = made(_softmax, "bf16")
    storages = make_inputs(fusion, set_name, arrays)
    asked: list[OnlineIntervals] = []
    pointwise = OnlineIntervals.pointwise

    def told(self: OnlineIntervals, *args: Any) -> Any:
        asked.append(self)
        return pointwise(self, *args)

    monkeypatch.setattr(OnlineIntervals, "pointwise", told)
    expect(fusion, storages, arrays)
    assert all(isinstance(one, FiniteIntervals) for one in asked) == is_quick


@pytest.mark.parametrize(
    ("body", "works"),
    [
        pytest.param(lambda f, x: f.exp(x), True, id="functions"),
        pytest.param(lambda f, x: f.where(f.gt(x, 0.0), x, f.exp(x)), False, id="a-comparison"),
        pytest.param(lambda f, x: f.prod(f.exp(x), dims=(1,)), False, id="a-product"),
        pytest.param(lambda f, x: f.cast(f.cast(f.exp(x), "i32"), "f32"), False, id="integers"),
        pytest.param(lambda f, x: f.cast(f.exp(f.cast(x, "f64")), "f32"), False, id="f64"),
    ],
)
def test_only_floats_that_nothing_chooses_are_worked_out_so(body: Body, works: bool) -> None:
    assert are_all_floats(made(body, "f32", single=False)) == works


@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.5, 3e38, 1e-38, 88.0, -104.0, 3e4]), min_size=1, max_size=6),
    st.sampled_from(sorted(BODIES)),
    st.sampled_from(["f32", "bf16"]),
)
@settings(max_examples=40)
def test_rows_of_any_floats_have_equal_ends(numbers: list[float], body: str, dtype: DTypeName) -> None:
    arrays = NumpyArrays()
    fusion = made(BODIES[body], dtype)
    values = np.resize(np.array(numbers, np.float32), SHAPE[0] * SHAPE[1])
    storages = [arrays.store(values, fusion.value(fusion.inputs[0]).dtype)]
    quick = expect(fusion, storages, arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected_module, "are_all_floats", lambda fusion: False)
        plain = expect(fusion, storages, arrays)
    assert [bits(one, arrays) for one in quick] == [bits(one, arrays) for one in plain]
