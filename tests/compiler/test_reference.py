"""The reference against torch's own f64 functions and against exact rounding, in numpy and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import BINARY, UNARY, OpKind
from compiler.reference import FLOAT_FORMATS, evaluate, evaluate_rows, round_to
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from tests.sdk.fusion_strategies import COMPILED, Document, documents, sizes_for

MODULES = [pytest.param(np, id="numpy"), pytest.param(torch, id="torch")]

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 20.0, -20.0, 1e-30, 700.0, -800.0, math.inf, -math.inf, math.nan]

TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": torch.relu,
    "gelu": lambda x: functional.gelu(x, approximate="tanh"), "silu": functional.silu,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "square": torch.square,
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "minimum": torch.minimum,
}  # fmt: skip


def fusion_of(ops: list[Document], inputs: list[list[int]], *outputs: str) -> Fusion:
    tensors = [{"name": f"x{i}", "shape": shape, "dtype": "f32"} for i, shape in enumerate(inputs)]
    document = {"format": "fusetune.fusion/1", "inputs": tensors, "ops": ops, "outputs": [{"name": n} for n in outputs]}
    return bind(parse_fusion(document), parse_binding({}))


def in_module(x: Any, xp: ModuleType) -> Any:
    return xp.asarray(np.asarray(x, dtype=np.float64))


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(UNARY))
def test_unary_operators_mean_what_torch_says(kind: OpKind, xp: ModuleType) -> None:
    fusion = fusion_of([{"op": kind.value, "in": ["x0"], "out": "y"}], [[len(VALUES)]], "y")
    (found,) = evaluate(fusion, [in_module(VALUES, xp)], xp)
    expected = TORCH[kind.value](torch.tensor(VALUES, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(BINARY))
def test_binary_operators_mean_what_torch_says(kind: OpKind, xp: ModuleType) -> None:
    left, right = (np.array(x).ravel() for x in np.meshgrid(VALUES, VALUES))
    fusion = fusion_of([{"op": kind.value, "in": ["x0", "x1"], "out": "y"}], [[left.size], [right.size]], "y")
    (found,) = evaluate(fusion, [in_module(left, xp), in_module(right, xp)], xp)
    expected = TORCH[kind.value](torch.from_numpy(left), torch.from_numpy(right)).numpy()
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("xp", MODULES)
def test_numbers_views_and_casts(xp: ModuleType) -> None:
    ops: list[Document] = [
        {"op": "sub", "in": [2, "x0"], "out": "a"},
        {"op": "cast", "in": ["a"], "out": "h", "dtype": "bf16"},
        {"op": "cast", "in": ["h"], "out": "k", "dtype": "f32"},
        {"op": "broadcast_to", "in": ["k"], "out": "b", "shape": [2, 3, 4], "dims": [0, 2]},
        {"op": "permute", "in": ["b"], "out": "p", "dims": [2, 0, 1]},
        {"op": "maximum", "in": ["p", "-inf"], "out": "y"},
    ]
    x = np.arange(8.0).reshape(2, 4) + 1e-9
    found, unrounded = evaluate(fusion_of(ops, [[2, 4]], "y", "k"), [in_module(x, xp)], xp)
    assert tuple(found.shape) == (4, 2, 3)
    for i, j, k in np.ndindex(4, 2, 3):
        assert float(found[i, j, k]) == 2 - x[j, i]
    np.testing.assert_array_equal(np.asarray(unrounded), 2 - x)


def test_size_one_expands_only_where_it_is_named() -> None:
    ops = [{"op": "broadcast_to", "in": ["x0"], "out": "y", "shape": [3, 3, 2], "dims": [1, 2]}]
    (found,) = evaluate(fusion_of(ops, [[1, 2]], "y"), [np.array([[1.0, 2.0]])], np)
    np.testing.assert_array_equal(found, np.broadcast_to([1.0, 2.0], (3, 3, 2)))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(documents(COMPILED, ["f32", "f16", "bf16"]), st.sampled_from([np, torch]), st.data())
def test_row_blocks_are_the_rows_of_the_whole(document: Document, xp: ModuleType, data: st.DataObject) -> None:
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    random = np.random.default_rng(0)
    inputs = [in_module(random.standard_normal(fusion.value(name).shape), xp) for name in fusion.inputs]
    whole = evaluate(fusion, inputs, xp)
    for position, expected in enumerate(whole):
        rows = expected.shape[0] if len(expected.shape) else 1
        start = data.draw(st.integers(0, rows - 1))
        stop = data.draw(st.integers(start + 1, rows))
        found = evaluate_rows(fusion, inputs, xp, output=position, start=start, stop=stop)
        wanted = expected[start:stop] if len(expected.shape) else expected
        # Vector and scalar paths of a library may differ in the last bit.
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-13)


def test_rows_past_the_end_are_refused() -> None:
    fusion = fusion_of([{"op": "neg", "in": ["x0"], "out": "y"}], [[4]], "y")
    with pytest.raises(ValueError, match="which has 4"):
        evaluate_rows(fusion, [np.zeros(4)], np, output=0, start=0, stop=5)


def nearest_even(x: float, dtype: DType) -> float:
    """Rounding by exact fractions: the witness for `round_to`."""
    form = FLOAT_FORMATS[dtype]
    exponent = max(math.frexp(x)[1] - 1, form.min_exponent)
    quantum = Fraction(2) ** (exponent - form.precision + 1)
    rounded = round(Fraction(x) / quantum) * quantum
    return math.copysign(math.inf if abs(rounded) > form.largest else float(abs(rounded)), x)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.lists(st.one_of(FINITE, st.floats(-1e5, 1e5), st.floats(-1e-6, 1e-6)), min_size=1))
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_rounding_is_to_nearest_even(dtype: DType, values: list[float]) -> None:
    expected = [nearest_even(x, dtype) for x in values]
    for xp in (np, torch):
        found = np.asarray(round_to(in_module(values, xp), dtype, xp))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize(
    ("dtype", "x", "expected"),
    [
        pytest.param(DType.F16, 65519.99, 65504.0, id="f16-largest"),
        pytest.param(DType.F16, 65520.0, math.inf, id="f16-tie-above-the-largest"),
        pytest.param(DType.BF16, 1.00390625, 1.0, id="bf16-tie-to-even"),
        pytest.param(DType.F16, 2.0**-25, 0.0, id="f16-half-the-smallest"),
        pytest.param(DType.F32, -math.inf, -math.inf, id="infinity"),
        pytest.param(DType.BF16, math.nan, math.nan, id="nan"),
        pytest.param(DType.F64, 1e300, 1e300, id="f64-is-kept"),
    ],
)
def test_rounding_at_the_edges(dtype: DType, x: float, expected: float) -> None:
    np.testing.assert_array_equal(round_to(np.array([x]), dtype, np), [expected])


@pytest.mark.parametrize(("dtype", "of_torch"), [
    (DType.F64, torch.float64), (DType.F32, torch.float32), (DType.F16, torch.float16), (DType.BF16, torch.bfloat16),
])  # fmt: skip
def test_float_formats_are_those_of_torch(dtype: DType, of_torch: torch.dtype) -> None:
    info, form = torch.finfo(of_torch), FLOAT_FORMATS[dtype]
    assert (form.largest, form.unit_roundoff, form.smallest) == (
        info.max,
        info.eps / 2,
        info.smallest_normal * info.eps,
    )
