"""The reference against torch's own f64 functions and against exact rounding, in numpy and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import FP8, DType
from compiler.ir.fusion import Fusion
from compiler.ir.ops import BINARY, UNARY, OpKind
from compiler.reference import FLOAT_FORMATS, evaluate, evaluate_rows, round_to, walk
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for

MODULES = [pytest.param(np, id="numpy"), pytest.param(torch, id="torch")]

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 20.0, -20.0, 1e-30, 700.0, -800.0, math.inf, -math.inf, math.nan]


def torch_call(kind: OpKind) -> Callable[..., torch.Tensor]:
    return partial(attrgetter(kind.row.torch or kind.value)(torch), **dict(kind.row.torch_options))


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
    (found,) = evaluate(fusion, [in_module(VALUES, xp)], xp, rounds=False)
    expected = torch_call(kind)(torch.tensor(VALUES, dtype=torch.float64)).numpy()
    # Torch's gelu cancels far below zero, the reference does not.
    atol = 1e-16 if kind is OpKind.GELU else 1e-300
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=atol)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(BINARY))
def test_binary_operators_mean_what_torch_says(kind: OpKind, xp: ModuleType) -> None:
    left, right = (np.array(x).ravel() for x in np.meshgrid(VALUES, VALUES))
    fusion = fusion_of([{"op": kind.value, "in": ["x0", "x1"], "out": "y"}], [[left.size], [right.size]], "y")
    (found,) = evaluate(fusion, [in_module(left, xp), in_module(right, xp)], xp, rounds=False)
    expected = torch_call(kind)(torch.from_numpy(left), torch.from_numpy(right)).numpy()
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
    x = (np.arange(8.0).reshape(2, 4) / 7).astype(np.float32).astype(np.float64)
    found, rounded = evaluate(fusion_of(ops, [[2, 4]], "y", "k"), [in_module(x, xp)], xp)
    expected = (2 - torch.from_numpy(x).float()).bfloat16().double().numpy()
    assert tuple(found.shape) == (4, 2, 3)
    for i, j, k in np.ndindex(4, 2, 3):
        assert float(found[i, j, k]) == expected[j, i]
    np.testing.assert_array_equal(np.asarray(rounded), expected)
    (unrounded,) = evaluate(fusion_of(ops[:3], [[2, 4]], "k"), [in_module(x, xp)], xp, rounds=False)
    np.testing.assert_array_equal(np.asarray(unrounded), 2 - x)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "sqrt", "cast"])
def test_results_have_the_bits_that_torch_gives_them(kind: str, dtype: str, xp: ModuleType) -> None:
    """Operators that IEEE 754 rounds, on the operands' own type: 4,096 of every exponent, torch's on the host."""
    rng = np.random.default_rng(11)
    torch_type = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    wide = torch.from_numpy((rng.normal(size=(2, 4096)) * 2.0 ** rng.integers(-30, 30, (2, 4096))).astype(np.float32))
    if kind == "cast":
        fusion = one_op({"op": "cast", "in": ["x0"], "dtype": dtype}, ("f32", [4096]))
        args, expected = [wide[0]], wide[0].to(torch_type)
    else:
        args = [x.to(torch_type).abs() if kind == "sqrt" else x.to(torch_type) for x in wide]
        args = args[:1] if kind == "sqrt" else args
        names = [f"x{i}" for i in range(len(args))]
        fusion = one_op({"op": kind, "in": names}, *((dtype, [4096]) for _ in args))
        # The host's vector form of torch's square root is not correctly rounded; numpy's is.
        is_root = kind == "sqrt" and dtype == "f32"
        expected = torch.from_numpy(np.sqrt(args[0].numpy())) if is_root else getattr(torch, kind)(*args)
    (found,) = evaluate(fusion, [in_module(x.double().numpy(), xp) for x in args], xp)
    np.testing.assert_array_equal(np.asarray(found), expected.double().numpy())


def test_size_one_expands_only_where_it_is_named() -> None:
    ops = [{"op": "broadcast_to", "in": ["x0"], "out": "y", "shape": [3, 3, 2], "dims": [1, 2]}]
    (found,) = evaluate(fusion_of(ops, [[1, 2]], "y"), [np.array([[1.0, 2.0]])], np)
    np.testing.assert_array_equal(found, np.broadcast_to([1.0, 2.0], (3, 3, 2)))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(documents(BINDABLE), st.sampled_from([np, torch]), st.data())
def test_row_blocks_are_the_rows_of_the_whole(document: Document, xp: ModuleType, data: st.DataObject) -> None:
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    inputs = random_inputs(fusion, xp)
    whole = evaluate(fusion, inputs, xp)
    for position, expected in enumerate(whole):
        rows = expected.shape[0] if len(expected.shape) else 1
        start = data.draw(st.integers(0, rows - 1))
        stop = data.draw(st.integers(start + 1, rows))
        found = evaluate_rows(fusion, inputs, xp, output=position, start=start, stop=stop)
        wanted = expected[start:stop] if len(expected.shape) else expected
        assert tuple(expected.shape) == fusion.value(fusion.outputs[position]).shape
        # Vector and scalar paths of a library may differ in the last bit.
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-13, atol=1e-13)


def random_inputs(fusion: Fusion, xp: ModuleType) -> list[Any]:
    """Normal values, truncated for integers, their sizes for unsigned ones, their signs for bools."""
    random = np.random.default_rng(0)
    inputs = []
    for value in map(fusion.value, fusion.inputs):
        x: Any = random.standard_normal(value.shape)
        if value.dtype is DType.BOOL:
            x = x > 0
        elif value.dtype is DType.U8:
            x = abs(x)
        elif value.dtype in FP8:
            x = round_to(np.asarray(x), value.dtype, np)
        inputs.append(xp.asarray(np.asarray(x * 3 if value.dtype.is_float else x, NUMPY[value.dtype])))
    return inputs


NUMPY = {
    DType.F64: np.float64, DType.F32: np.float32, DType.F16: np.float16, DType.BF16: np.float32,
    DType.F8E4M3: np.float32, DType.F8E5M2: np.float32,
    DType.I8: np.int8, DType.U8: np.uint8, DType.I16: np.int16, DType.I32: np.int32, DType.I64: np.int64,
    DType.BOOL: np.bool_,
}  # fmt: skip


def one_op(op: Document, *inputs: tuple[str, list[int]]) -> Fusion:
    """A fusion of one operator on these inputs."""
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": f"x{i}", "shape": shape, "dtype": dtype} for i, (dtype, shape) in enumerate(inputs)],
        "ops": [{"out": "y", **op}],
        "outputs": [{"name": "y"}],
    }
    return bind(parse_fusion(document), parse_binding({}))


INTEGERS = [DType.I8, DType.U8, DType.I16, DType.I32, DType.I64]


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", ["neg", "abs", "square", "relu", "add", "sub", "mul", "maximum", "minimum"])
def test_integers_wrap_as_in_torch(kind: str, dtype: DType, xp: ModuleType) -> None:
    values: Any = np.array([*dtype.integer_range, 0, 1, -1, 77, -100, 13]).astype(NUMPY[dtype])
    left, right = (np.array(x).ravel() for x in np.meshgrid(values, values))
    args = [left] if kind in ("neg", "abs", "square", "relu") else [left, right]
    op = {"op": kind, "in": [f"x{i}" for i in range(len(args))]}
    fusion = one_op(op, *((dtype.value, [left.size]) for _ in args))
    (found,) = evaluate(fusion, [xp.asarray(x) for x in args], xp)
    np.testing.assert_array_equal(np.asarray(found), torch_call(OpKind(kind))(*map(torch.from_numpy, args)).numpy())


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan_are_false_but_for_ne(kind: str, xp: ModuleType) -> None:
    left, right = (np.array(x).ravel() for x in np.meshgrid(VALUES, VALUES))
    fusion = one_op({"op": kind, "in": ["x0", "x1"]}, ("f64", [left.size]), ("f64", [left.size]))
    (found,) = evaluate(fusion, [in_module(left, xp), in_module(right, xp)], xp)
    expected = getattr(torch, kind)(torch.from_numpy(left), torch.from_numpy(right)).numpy()
    assert np.asarray(found).dtype == np.bool_
    np.testing.assert_array_equal(np.asarray(found), expected)


CASTS = [
    ("f64", "i32", [1.9, -1.9, 0.5, -0.0, 2e9], [1, -1, 0, 0, 2_000_000_000]),
    ("f32", "i8", [127.9, -128.9, 3.0], [127, -128, 3]),
    ("f32", "u8", [255.9, -1.5, 300.0, 2.0**33 + 2048], [255, 255, 44, 0]),
    ("f32", "i16", [32767.9, -32768.9, 3.0], [32767, -32768, 3]),
    ("i64", "u8", [256, -1, 2**40 + 5], [0, 255, 5]),
    ("i32", "i16", [2**15, -(2**15) - 1], [-(2**15), 2**15 - 1]),
    ("u8", "i8", [255, 127], [-1, 127]),
    ("f32", "bool", [0.0, -0.0, 1e-30, math.nan], [False, False, True, True]),
    ("i64", "i8", [255, 128, -129, 2**40 + 5], [-1, -128, 127, 5]),
    ("i64", "i32", [2**31, -(2**31) - 1], [-(2**31), 2**31 - 1]),
    ("i32", "bool", [0, -4], [False, True]),
    ("bool", "i64", [False, True], [0, 1]),
    ("bool", "f16", [False, True], [0.0, 1.0]),
    ("i64", "f64", [2**53 + 1], [2.0**53]),
]


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize(("source", "target", "values", "expected"), CASTS)
def test_casts(source: str, target: str, values: list[Any], expected: list[Any], xp: ModuleType) -> None:
    fusion = one_op({"op": "cast", "in": ["x0"], "dtype": target}, (source, [len(values)]))
    (found,) = evaluate(fusion, [xp.asarray(np.array(values, NUMPY[DType(source)]))], xp)
    np.testing.assert_array_equal(np.asarray(found), expected)


VIEWS_OF_TORCH: list[tuple[Document, list[list[int]], Callable[..., torch.Tensor]]] = [
    ({"op": "reshape", "in": ["x0"], "shape": [6, -1]}, [[4, 3, 5]], lambda x: x.reshape(6, 10)),
    ({"op": "slice", "in": ["x0"], "dim": 1, "start": 1, "stop": 3}, [[4, 3]], lambda x: x[:, 1:3]),
    ({"op": "cat", "in": ["x0", "x1", "x0"], "dim": 0}, [[4, 3], [2, 3]], lambda x, y: torch.cat([x, y, x])),
    ({"op": "sum", "in": ["x0"], "dims": [0, 2]}, [[4, 3, 5]], lambda x: x.sum((0, 2))),
    ({"op": "mean", "in": ["x0"], "dims": [1], "keepdim": True}, [[4, 3, 5]], lambda x: x.mean(1, keepdim=True)),
    ({"op": "amax", "in": ["x0"], "dims": [-1]}, [[4, 3]], lambda x: x.amax(-1)),
    ({"op": "amin", "in": ["x0"], "dims": [0, 1]}, [[4, 3]], lambda x: x.amin((0, 1))),
    ({"op": "iota", "in": [], "shape": [2, 5], "dim": 1, "dtype": "f64"}, [], lambda: torch.arange(5.0).expand(2, 5)),
]


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("limit", [1, 4, 1 << 24])
@pytest.mark.parametrize(("op", "shapes", "by_torch"), VIEWS_OF_TORCH, ids=[c[0]["op"] for c in VIEWS_OF_TORCH])
def test_views_and_reductions_are_those_of_torch(
    op: Document,
    shapes: list[list[int]],
    by_torch: Callable[..., torch.Tensor],
    limit: int,
    xp: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "FOLD_ELEMS", limit)  # folded in parts, and at once
    fusion = one_op(op, *(("f64", shape) for shape in shapes))
    inputs = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes)]
    (found,) = evaluate(fusion, [xp.asarray(x) for x in inputs], xp)
    np.testing.assert_allclose(np.asarray(found), by_torch(*map(torch.from_numpy, inputs)).numpy(), rtol=1e-14)


@pytest.mark.parametrize("limit", [3, 1 << 24])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_sum_of_integers_wraps_in_its_dtype(dtype: DType, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "FOLD_ELEMS", limit)
    x: Any = np.array([[end] * 7 for end in reversed(dtype.integer_range)], NUMPY[dtype])
    (found,) = evaluate(one_op({"op": "sum", "in": ["x0"], "dims": [1]}, (dtype.value, [2, 7])), [x], np)
    np.testing.assert_array_equal(found, torch.from_numpy(x).sum(1).to(torch.from_numpy(x).dtype).numpy())


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", ["amax", "amin"])
def test_nan_wins_amax_and_amin_over_parts(kind: str, xp: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "FOLD_ELEMS", 2)
    x = np.array([[1.0, math.nan, 2.0, math.inf], [1.0, -math.inf, 2.0, math.inf]])
    (found,) = evaluate(one_op({"op": kind, "in": ["x0"], "dims": [1]}, ("f64", [2, 4])), [xp.asarray(x)], xp)
    np.testing.assert_array_equal(np.asarray(found), getattr(torch.from_numpy(x), kind)(1).numpy())


@pytest.mark.parametrize("xp", MODULES)
def test_where_takes_from_either_and_keeps_nan_out(xp: ModuleType) -> None:
    fusion = one_op({"op": "where", "in": ["x0", "x1", "-inf"]}, ("bool", [3]), ("f32", [3]))
    inputs = [xp.asarray(np.array([True, False, True])), in_module([1.0, math.nan, math.nan], xp)]
    np.testing.assert_array_equal(np.asarray(evaluate(fusion, inputs, xp)[0]), [1.0, -math.inf, math.nan])


def test_a_literal_of_an_integer_is_exact() -> None:
    fusion = one_op({"op": "sub", "in": ["x0", 2**62 + 1]}, ("i64", [1]))
    assert int(evaluate(fusion, [np.array([2**62 + 3])], np)[0][0]) == 2


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
    beyond = form.largest if form.saturates else math.inf
    return math.copysign(beyond if abs(rounded) > form.largest else float(abs(rounded)), x)


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
        pytest.param(DType.F8E4M3, 464.1, 448.0, id="f8e4m3-saturates"),
        pytest.param(DType.F8E4M3, -math.inf, -448.0, id="f8e4m3-has-no-infinity"),
        pytest.param(DType.F8E4M3, math.nan, math.nan, id="f8e4m3-nan"),
        pytest.param(DType.F8E5M2, 61439.0, 57344.0, id="f8e5m2-largest"),
        pytest.param(DType.F8E5M2, 61440.0, math.inf, id="f8e5m2-tie-above-the-largest"),
        pytest.param(DType.F8E4M3, 1 + 2.0**-4 + 2.0**-40, 1.0, id="f8e4m3-by-way-of-f32"),
    ],
)
def test_rounding_at_the_edges(dtype: DType, x: float, expected: float) -> None:
    np.testing.assert_array_equal(round_to(np.array([x]), dtype, np), [expected])


@pytest.mark.parametrize(("dtype", "of_torch"), [
    (DType.F64, torch.float64), (DType.F32, torch.float32), (DType.F16, torch.float16), (DType.BF16, torch.bfloat16),
    (DType.F8E4M3, torch.float8_e4m3fn), (DType.F8E5M2, torch.float8_e5m2),
])  # fmt: skip
def test_float_formats_are_those_of_torch(dtype: DType, of_torch: torch.dtype) -> None:
    info, form = torch.finfo(of_torch), FLOAT_FORMATS[dtype]
    assert (form.largest, form.unit_roundoff, form.smallest) == (
        info.max,
        info.eps / 2,
        info.smallest_normal * info.eps,
    )
