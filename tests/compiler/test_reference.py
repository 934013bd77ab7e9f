"""The reference against torch's own f64 functions and against exact rounding, in numpy and in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from compiler.ir.fusion import Fusion, Op
from compiler.ir.ops import BINARY, STORED, UNARY, OpKind, Zero
from compiler.reference import FLOAT_FORMATS, Values, Walk, evaluate, round_to, walk
from compiler.reference.boxes import chosen
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for
from tests.shares import inside

MODULES = [pytest.param(np, id="numpy"), pytest.param(torch, id="torch")]

VALUES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, 20.0, -20.0, 1e-30, 5e-324, -1e-310, 700.0, -800.0, 2.0**53 + 2,
    1e300, math.inf, -math.inf, math.nan,
]  # fmt: skip


def torch_call(kind: OpKind) -> Callable[..., torch.Tensor]:
    return partial(attrgetter(kind.row.torch or kind.value)(torch), **dict(kind.row.torch_options))


def fusion_of(ops: list[Document], inputs: list[list[int]], *outputs: str) -> Fusion:
    tensors = [{"name": f"x{i}", "shape": shape, "dtype": "f32"} for i, shape in enumerate(inputs)]
    document = {"format": "fusetune.fusion/1", "inputs": tensors, "ops": ops, "outputs": [{"name": n} for n in outputs]}
    return bind(parse_fusion(document), parse_binding({}))


def rows(fusion: Fusion, inputs: Sequence[Any], xp: ModuleType, output: int, start: int, stop: int) -> Any:
    return Walk(fusion, inputs, xp, Values(xp)).rows(output, start, stop)


def in_module(x: Any, xp: ModuleType) -> Any:
    return xp.asarray(np.asarray(x, dtype=np.float64))


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(kind for kind in UNARY if DType.F64 in kind.row.takes))
def test_unary_operators_mean_what_torch_says(kind: OpKind, xp: ModuleType) -> None:
    fusion = fusion_of([{"op": kind.value, "in": ["x0"], "out": "y"}], [[len(VALUES)]], "y")
    (found,) = evaluate(fusion, [in_module(VALUES, xp)], xp, rounds=False)
    expected = torch_call(kind)(torch.tensor(VALUES, dtype=torch.float64)).numpy()
    # Torch's gelu, by tanh and by erf, cancels far below zero; the reference does not.
    atol = 1e-16 if kind in (OpKind.GELU, OpKind.GELU_ERF) else 1e-300
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=atol)
    assert_signs(kind, np.asarray(found), expected)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(kind for kind in BINARY if DType.F64 in kind.row.takes))
def test_binary_operators_mean_what_torch_says(kind: OpKind, xp: ModuleType) -> None:
    left, right = (np.array(x).ravel() for x in np.meshgrid(VALUES, VALUES))
    fusion = fusion_of([{"op": kind.value, "in": ["x0", "x1"], "out": "y"}], [[left.size], [right.size]], "y")
    (found,) = evaluate(fusion, [in_module(left, xp), in_module(right, xp)], xp, rounds=False)
    operands = [torch.from_numpy(x) for x in (left, right)]
    if kind in (OpKind.FLOOR_DIVIDE, OpKind.REMAINDER):  # torch's loop over vectors has NaN for quotients beyond f64
        operands = [torch.stack([x, x], 1)[:, 0] for x in operands]
    expected = torch_call(kind)(*operands).numpy()
    rtol = 0.0 if kind.row.f64 is None else 4e-16  # the last bit of a function is its library's
    np.testing.assert_allclose(np.asarray(found), expected, rtol=rtol, atol=0.0)
    assert_signs(kind, np.asarray(found), expected)


def assert_signs(kind: OpKind, found: Any, expected: Any) -> None:
    """Zeros have the signs of those that are expected, unless either is right."""
    of_zeros = (expected == 0) & (kind.row.zero is not Zero.OPEN)
    np.testing.assert_array_equal(np.signbit(found[of_zeros]), np.signbit(expected[of_zeros]))


CHOSEN = [
    # table, index of a take, of a gather (None: not of its rank), dimension
    pytest.param((7,), (3, 5), (9,), 0, id="rank-1"),
    pytest.param((7,), (), (4,), -1, id="a-single-index"),
    pytest.param((5, 3), (2,), (8, 3), 0, id="rows"),
    pytest.param((5, 3), (2, 1, 3), (5, 7), 1, id="columns"),
    pytest.param((5, 3), (6,), (2, 1), -1, id="a-part-of-the-rows"),
    pytest.param((2, 9, 3), (4, 3), (2, 5, 3), 1, id="rank-3"),
    pytest.param((3, 2, 7, 5), (3,), (3, 2, 11, 4), 2, id="rank-4"),
    pytest.param((1, 4), (3,), (2, 4), 0, id="of-one"),
]


@inside("xp", (np, torch))
@inside("dtype", sorted(STORED))
@pytest.mark.parametrize("by", ["i32", "i64"])
@pytest.mark.parametrize(("table", "taken", "gathered", "dim"), CHOSEN)
def test_take_and_gather_mean_what_torch_says(
    table: tuple[int, ...],
    taken: tuple[int, ...],
    gathered: tuple[int, ...],
    dim: int,
    by: str,
    dtype: DType,
    xp: ModuleType,
) -> None:
    rng = np.random.default_rng(len(table))
    x: Any = rng.integers(-9, 9, table)
    x = x != 0 if dtype is DType.BOOL else x / 4 if dtype.is_float else abs(x)
    for op, shape in (("take", taken), ("gather", gathered)):
        index = rng.integers(0, table[dim], shape)
        inputs = [{"name": "x", "shape": table, "dtype": dtype.value}, {"name": "i", "shape": shape, "dtype": by}]
        ops = [{"op": op, "in": ["x", "i"], "out": "y", "dim": dim}]
        document = {"format": "fusetune.fusion/1", "inputs": inputs, "ops": ops, "outputs": [{"name": "y"}]}
        fusion = bind(parse_fusion(document), parse_binding({}))
        (found,) = evaluate(fusion, [xp.asarray(x), xp.asarray(index)], xp)
        if op == "take":
            chosen_rows = torch.index_select(torch.from_numpy(x), dim, torch.from_numpy(np.asarray(index).reshape(-1)))
            at = dim % len(table)
            wanted = chosen_rows.reshape((*table[:at], *shape, *table[at + 1 :]))
        else:
            wanted = torch.gather(torch.from_numpy(x), dim, torch.from_numpy(np.asarray(index)))
        np.testing.assert_array_equal(np.asarray(found), wanted.numpy())
        given = [xp.asarray(x), xp.asarray(index)]
        rows_of = [rows(fusion, given, xp, 0, n, n + 1) for n in range(wanted.shape[0] if wanted.ndim else 1)]
        np.testing.assert_array_equal(np.concatenate([np.atleast_1d(part) for part in rows_of]), np.atleast_1d(wanted))


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_has_no_meaning(index: int, xp: ModuleType) -> None:
    taken = Op(OpKind.TAKE, ("x", "i"), "y", (0,))
    with pytest.raises(IndexError, match="outside of the 3"):
        chosen(taken, xp.asarray([1.0, 2.0, 3.0]), xp.asarray([0, index]), xp)


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
        count = expected.shape[0] if len(expected.shape) else 1
        start = data.draw(st.integers(0, count - 1))
        stop = data.draw(st.integers(start + 1, count))
        found = rows(fusion, inputs, xp, position, start, stop)
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


@inside("xp", (np, torch))
@inside("dtype", INTEGERS)
@pytest.mark.parametrize("kind", sorted(kind for kind in UNARY | BINARY if DType.I32 in kind.row.takes))
def test_integers_wrap_as_in_torch(kind: OpKind, dtype: DType, xp: ModuleType) -> None:
    amounts = (2, 3, 6, 7, 8, 15, 16, 31, 32, 63, 64)  # of shifts: beside the width of every type
    values: Any = np.array([*dtype.integer_range, 0, 1, -1, 77, -100, 13, *amounts]).astype(NUMPY[dtype])
    left, right = (np.array(x).ravel() for x in np.meshgrid(values, values))
    if kind in QUOTIENTS:  # what torch refuses on the host, and what a processor does
        is_plain = (right != 0) & ((right != -1) | (left != dtype.integer_range[0]))
        left, right = left[is_plain], right[is_plain]
    args = [left] if kind in UNARY else [left, right]
    op = {"op": kind.value, "in": [f"x{i}" for i in range(len(args))]}
    fusion = one_op(op, *((dtype.value, [left.size]) for _ in args))
    (found,) = evaluate(fusion, [xp.asarray(x) for x in args], xp)
    np.testing.assert_array_equal(np.asarray(found), torch_call(kind)(*map(torch.from_numpy, args)).numpy())


QUOTIENTS = (OpKind.FLOOR_DIVIDE, OpKind.REMAINDER)


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", QUOTIENTS)
def test_a_division_of_integers_by_zero_is_minus_one_and_one_that_overflows_wraps(
    kind: OpKind, dtype: DType, xp: ModuleType
) -> None:
    least, most = dtype.integer_range
    left: Any = np.array([least, -1, 0, most, least]).astype(NUMPY[dtype])
    right: Any = np.array([0, 0, 0, 0, -1]).astype(NUMPY[dtype])
    fusion = one_op({"op": kind.value, "in": ["x0", "x1"]}, (dtype.value, [5]), (dtype.value, [5]))
    (found,) = evaluate(fusion, [xp.asarray(left), xp.asarray(right)], xp)
    all_bits = 255 if dtype is DType.U8 else -1
    assert np.asarray(found).tolist() == [all_bits] * 4 + [least if kind is OpKind.FLOOR_DIVIDE else 0]


@pytest.mark.parametrize("xp", MODULES)
@pytest.mark.parametrize("kind", sorted(kind for kind in UNARY | BINARY if DType.BOOL in kind.row.takes))
def test_operators_on_bools_are_those_of_torch(kind: OpKind, xp: ModuleType) -> None:
    args = [np.array([False, False, True, True]), np.array([False, True, False, True])][: kind.row.arity]
    fusion = one_op({"op": kind.value, "in": ["x0", "x1"][: len(args)]}, *(("bool", [4]) for _ in args))
    (found,) = evaluate(fusion, [xp.asarray(x) for x in args], xp)
    assert np.asarray(found).dtype == np.bool_
    np.testing.assert_array_equal(np.asarray(found), torch_call(kind)(*map(torch.from_numpy, args)).numpy())


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
    ({"op": "slice", "in": ["x0"], "dim": 1, "start": 1, "stop": 11, "step": 3}, [[2, 12]], lambda x: x[:, 1:11:3]),
    ({"op": "slice", "in": ["x0"], "dim": 0, "start": 0, "stop": 5, "step": 9}, [[5, 2]], lambda x: x[:5:9]),
    ({"op": "flip", "in": ["x0"], "dims": [0, -1]}, [[4, 3, 5]], lambda x: x.flip(0, 2)),
    ({"op": "flip", "in": ["x0"], "dims": [1]}, [[4, 3, 5]], lambda x: x.flip(1)),
    (
        {"op": "pad", "in": ["x0"], "low": [2, 0, 1], "high": [0, 0, 3], "value": -1.5},
        [[4, 3, 5]],
        lambda x: torch.nn.functional.pad(x, (1, 3, 0, 0, 2, 0), value=-1.5),
    ),
    ({"op": "pad", "in": ["x0"], "low": [0], "high": [7]}, [[3]], lambda x: torch.nn.functional.pad(x, (0, 7))),
    ({"op": "pad", "in": ["x0"], "low": [0, 0], "high": [0, 0], "value": "inf"}, [[3, 2]], lambda x: x),
    (
        {"op": "full", "in": [], "shape": [2, 5], "value": 2.5, "dtype": "f64"},
        [],
        lambda: torch.full((2, 5), 2.5, dtype=torch.float64),
    ),
    ({"op": "full", "in": [], "shape": [], "value": 3, "dtype": "i32"}, [], lambda: torch.full((), 3)),
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
        rows(fusion, [np.zeros(4)], np, 0, 0, 5)


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
