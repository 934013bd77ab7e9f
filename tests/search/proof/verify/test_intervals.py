"""Bounds behind reductions, comparisons and integers: what a right kernel may compute passes, the wrong fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind
from compiler.ir.pinned import pinned
from compiler.reference import Values, Walk
from compiler.wire import bind
from fusetune.wire import parse_binding, parse_fusion
from search.proof.verify import expected as expected_module
from search.proof.verify.arrays import Array, Arrays, NumpyArrays, TorchArrays
from search.proof.verify.compare import compare, first_fault
from search.proof.verify.expected import Expected, expect
from search.proof.verify.inputs import ALL_SETS, PEAKS, input_sets, make_inputs
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for

HOST = NumpyArrays()
BOTH = pytest.mark.parametrize("arrays", [HOST, TorchArrays("cpu")], ids=["numpy", "torch"])


class Kernel(Values):
    """A kernel on the host: the bits that the fusion gives every elementwise value, and sums of its own.

    Sums go one element after the other, as no kernel does: more rounding errors than any other order.
    """

    def __init__(self) -> None:
        super().__init__(np)

    def fold(self, kind: OpKind, x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
        if kind not in (OpKind.SUM, OpKind.MEAN) or not dtype.is_float or dtype is DType.F64:
            return super().fold(kind, x, axes, dtype)
        kept = tuple(n for d, n in enumerate(x.shape) if d not in axes)
        rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*kept, -1).astype(np.float32)
        total = np.add.accumulate(rows, axis=-1, dtype=np.float32)[..., -1]
        return total.reshape([1 if d in axes else n for d, n in enumerate(x.shape)]).astype(np.float64)


def outputs_of(fusion: Fusion, storages: list[Array], kernel: Kernel) -> list[Array]:
    """Storages of what the kernel computes."""
    fusion = pinned(fusion)
    inputs = [
        HOST.strided(HOST.load(s, v.dtype), v.shape, v.strides)
        for s, v in zip(storages, map(fusion.value, fusion.inputs), strict=True)
    ]
    walk = Walk(fusion, inputs, np, kernel)
    found = []
    for name in fusion.outputs:
        value = fusion.value(name)
        x = np.asarray(walk.box(name, tuple((0, n) for n in value.shape)))
        found.append(HOST.store(np.ascontiguousarray(x).reshape(-1), value.dtype))
    return found


@settings(derandomize=True, max_examples=150, deadline=None)
@given(documents(BINDABLE), st.sampled_from([*ALL_SETS, PEAKS]))
def test_what_a_right_kernel_computes_passes(document: Document, set_name: str) -> None:
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    if set_name not in input_sets(fusion):
        return
    storages = make_inputs(fusion, set_name, HOST)
    with np.errstate(all="ignore"):
        found = outputs_of(fusion, storages, Kernel())
    for want, have in zip(expect(fusion, storages, HOST), found, strict=True):
        assert int(compare(want, have, HOST).wrong) == 0, first_fault(want, have, HOST)


def fusion_of(inputs: dict[str, tuple[str, list[int]]], ops: list[Document], *outputs: str) -> Fusion:
    document = {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": name, "shape": shape, "dtype": dtype} for name, (dtype, shape) in inputs.items()],
        "ops": ops,
        "outputs": [{"name": name} for name in outputs],
    }
    return bind(parse_fusion(document), parse_binding({}))


def op(kind: str, ins: list[Any], out: str, **attributes: Any) -> Document:
    return {"op": kind, "in": ins, "out": out, **attributes}


def softmax(rows: int, columns: int, dtype: str) -> Fusion:
    shape = [rows, columns]
    return fusion_of(
        {"x": (dtype, shape)},
        [
            op("cast", ["x"], "f", dtype="f32"),
            op("amax", ["f"], "m", dims=[1]),
            op("broadcast_to", ["m"], "mb", shape=shape, dims=[0]),
            op("sub", ["f", "mb"], "d"),
            op("exp", ["d"], "e"),
            op("sum", ["e"], "s", dims=[1]),
            op("broadcast_to", ["s"], "sb", shape=shape, dims=[0]),
            op("div", ["e", "sb"], "q"),
            op("cast", ["q"], "y", dtype=dtype),
        ],
        "y",
    )


def layernorm(rows: int, columns: int, dtype: str) -> Fusion:
    shape = [rows, columns]
    return fusion_of(
        {"x": (dtype, shape)},
        [
            op("cast", ["x"], "f", dtype="f32"),
            op("mean", ["f"], "m", dims=[1]),
            op("broadcast_to", ["m"], "mb", shape=shape, dims=[0]),
            op("sub", ["f", "mb"], "d"),
            op("square", ["d"], "d2"),
            op("mean", ["d2"], "v", dims=[1]),
            op("add", ["v", 1e-5], "ve"),
            op("rsqrt", ["ve"], "r"),
            op("broadcast_to", ["r"], "rb", shape=shape, dims=[0]),
            op("mul", ["d", "rb"], "n"),
            op("cast", ["n"], "y", dtype=dtype),
        ],
        "y",
    )


def total(rows: int, columns: int, dtype: str, dims: list[int], kind: str = "sum") -> Fusion:
    return fusion_of({"x": (dtype, [rows, columns])}, [op(kind, ["x"], "y", dims=dims)], "y")


def causal(size: int, compares: str) -> Fusion:
    """Elements up to the diagonal, the others -1: a mask made of positions."""
    shape = [size, size]
    return fusion_of(
        {"x": ("f32", shape)},
        [
            op("iota", [], "i", shape=shape, dim=0, dtype="i32"),
            op("iota", [], "j", shape=shape, dim=1, dtype="i32"),
            op(compares, ["j", "i"], "c"),
            op("where", ["c", "x", -1.0], "y"),
        ],
        "y",
    )


def one_hot(rows: int, classes: int, dtype: str) -> Fusion:
    shape = [rows, classes]
    return fusion_of(
        {"k": (dtype, [rows])},
        [
            op("iota", [], "j", shape=shape, dim=1, dtype=dtype),
            op("broadcast_to", ["k"], "kb", shape=shape, dims=[0]),
            op("eq", ["kb", "j"], "y"),
        ],
        "y",
    )


LONG = [
    ("softmax f32", softmax(3, 5000, "f32")),
    ("softmax bf16", softmax(3, 5000, "bf16")),
    ("softmax f16", softmax(3, 5000, "f16")),
    ("layernorm f32", layernorm(3, 5000, "f32")),
    ("layernorm bf16", layernorm(3, 5000, "bf16")),
    ("sum f32", total(4, 20000, "f32", [1])),
    ("sum of columns f16", total(5000, 3, "f16", [0])),
    ("mean of all bf16", total(50, 60, "bf16", [0, 1], "mean")),
    ("sum f64", total(4, 5000, "f64", [1])),
]


@pytest.mark.parametrize("fusion", [case[1] for case in LONG], ids=[case[0] for case in LONG])
def test_long_reductions_pass_in_the_worst_order(fusion: Fusion) -> None:
    for name in input_sets(fusion):
        storages = make_inputs(fusion, name, HOST)
        with np.errstate(all="ignore"):
            found = outputs_of(fusion, storages, Kernel())
        for want, have in zip(expect(fusion, storages, HOST), found, strict=True):
            assert int(compare(want, have, HOST).wrong) == 0, f"{name}: {first_fault(want, have, HOST)}"


def wrong_sets(fusion: Fusion, wrong: Fusion) -> set[str]:
    """The input sets on which the outputs of a kernel for `wrong` fail those of `fusion`."""
    found = set()
    for name in input_sets(fusion):
        storages = make_inputs(fusion, name, HOST)
        with np.errstate(all="ignore"):
            outputs = outputs_of(wrong, storages, Kernel())
        if any(
            int(compare(want, have, HOST).wrong)
            for want, have in zip(expect(fusion, storages, HOST), outputs, strict=True)
        ):
            found.add(name)
    return found


def changed(fusion: Fusion, old: OpKind, **fields: Any) -> Fusion:
    """The fusion with the fields of its first operator of a kind replaced."""
    at = next(i for i, o in enumerate(fusion.ops) if o.kind is old)
    kept = {name: getattr(fusion.ops[at], name) for name in ("kind", "inputs", "output", "dims", "start")}
    ops = (*fusion.ops[:at], Op(**{**kept, **fields}), *fusion.ops[at + 1 :])
    return Fusion(fusion.values, fusion.inputs, ops, fusion.outputs, "", "")


MUTANTS: list[tuple[str, Fusion, Fusion]] = [
    ("a strict mask", causal(33, "le"), causal(33, "lt")),
    ("the other side", causal(33, "le"), causal(33, "ge")),
    ("least for largest", total(5, 40, "f16", [1], "amax"), total(5, 40, "f16", [1], "amin")),
    ("a mean without quotient", total(5, 40, "f32", [1], "mean"), total(5, 40, "f32", [1], "sum")),
    ("ne for eq", one_hot(20, 33, "i32"), changed(one_hot(20, 33, "i32"), OpKind.EQ, kind=OpKind.NE)),
    ("le for eq", one_hot(20, 33, "i64"), changed(one_hot(20, 33, "i64"), OpKind.EQ, kind=OpKind.LE)),
    ("no maximum", softmax(9, 40, "f32"), changed(softmax(9, 40, "f32"), OpKind.AMAX, kind=OpKind.AMIN)),
]


@pytest.mark.parametrize(("right", "wrong"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_wrong_kernel_fails(right: Fusion, wrong: Fusion) -> None:
    assert wrong_sets(right, right) == set()
    assert wrong_sets(right, wrong)


class Forgets(Kernel):
    """Leaves the last element out of every fold."""

    def fold(self, kind: OpKind, x: Array, axes: tuple[int, ...], dtype: DType) -> Array:
        return super().fold(kind, np.delete(x, -1, axis=axes[-1]), axes, dtype)


class Narrow(Kernel):
    """Computes f64 in f32."""

    def pointwise(self, op: Op, operands: Sequence[Array | Literal], dtype: DType) -> Array:
        return super().pointwise(op, operands, DType.F32)


class Saturates(Kernel):
    """Stops at the ends of i32 instead of wrapping."""

    def pointwise(self, op: Op, operands: Sequence[Array | Literal], dtype: DType) -> Array:
        return np.clip(super().pointwise(op, operands, DType.I64), -(2**31), 2**31 - 1)


SQUARE = fusion_of({"x": ("i32", [64])}, [op("square", ["x"], "y")], "y")
PRODUCT = fusion_of({"x": ("f64", [64])}, [op("mul", ["x", "x"], "y")], "y")
PLANTED: list[tuple[str, Fusion, Callable[[], Kernel]]] = [
    ("one of 4096 f32 left out", total(3, 4096, "f32", [1]), Forgets),
    ("one of 4096 bf16 left out", total(3, 4096, "bf16", [1]), Forgets),
    ("one of 131072 in a softmax left out", softmax(2, 131072, "bf16"), Forgets),
    ("one of 4096 in a layernorm left out", layernorm(3, 4096, "bf16"), Forgets),
    ("one i8 left out", total(3, 999, "i8", [1]), Forgets),
    ("one bool of any left out", total(1, 9, "bool", [1], "amax"), Forgets),
    ("one bool of all left out", total(1, 9, "bool", [1], "amin"), Forgets),
    ("one of a maximum left out", total(1, 999, "f32", [1], "amax"), Forgets),
    ("f64 in f32", PRODUCT, Narrow),
    ("an integer that does not wrap", SQUARE, Saturates),
]


@pytest.mark.parametrize(("fusion", "kernel"), [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_planted_fault_is_found(fusion: Fusion, kernel: Callable[[], Kernel]) -> None:
    failed = set()
    for name in input_sets(fusion):
        storages = make_inputs(fusion, name, HOST)
        with np.errstate(all="ignore"):
            (have,) = outputs_of(fusion, storages, kernel())
        (want,) = expect(fusion, storages, HOST)
        if int(compare(want, have, HOST).wrong):
            failed.add(name)
    assert failed


def expected_for(fusion: Fusion, arrays: Arrays, *inputs: list[Any]) -> Expected:
    storages = [
        arrays.store(arrays.xp.asarray(np.array(x)), fusion.value(n).dtype)
        for x, n in zip(inputs, fusion.inputs, strict=True)
    ]
    (want,) = expect(fusion, storages, arrays)
    return want


def limits(want: Expected) -> list[tuple[float, float]]:
    return list(
        zip(np.asarray(want.lower, np.float64).tolist(), np.asarray(want.upper, np.float64).tolist(), strict=True)
    )


ANY = (-math.inf, math.inf)


@BOTH
def test_a_comparison_is_free_only_where_rounding_decides_it(arrays: Arrays) -> None:
    """exp(x) > exp(1) (f32): of x = 1 no answer is wrong."""
    ops = [op("exp", ["x"], "t"), op("gt", ["t", math.e], "y")]
    want = expected_for(fusion_of({"x": ("f32", [4])}, ops, "y"), arrays, [0.5, 1.0, 1.001, math.nan])
    assert limits(want) == [(0, 0), (0, 1), (1, 1), (0, 0)]


@BOTH
def test_a_quotient_that_decides_is_known(arrays: Arrays) -> None:
    """x / 3 > 1/3 (f32): what is compared is rounded as IEEE 754 has it."""
    ops = [op("div", ["x", 3.0], "t"), op("gt", ["t", 1 / 3], "y")]
    want = expected_for(fusion_of({"x": ("f32", [4])}, ops, "y"), arrays, [0.5, 1.0, 1.001, math.nan])
    assert want.tolerance is None
    assert np.asarray(want.lower).tolist() == [False, False, True, False]


@BOTH
def test_a_comparison_of_inputs_is_exact(arrays: Arrays) -> None:
    fusion = fusion_of({"x": ("bf16", [3]), "y": ("bf16", [3])}, [op("ge", ["x", "y"], "z")], "z")
    want = expected_for(fusion, arrays, [1.0, 2.0, 3.0], [1.0, 2.5, math.nan])
    assert want.tolerance is None
    assert np.asarray(want.lower).tolist() == [True, False, False]


@BOTH
@pytest.mark.parametrize("found", [2, 255])
def test_a_bool_is_a_byte_of_0_or_1(found: int, arrays: Arrays) -> None:
    fusion = fusion_of({"x": ("f32", [1])}, [op("gt", ["x", 0.0], "y")], "y")
    want = expected_for(fusion, arrays, [1.0])
    raw = arrays.xp.asarray(np.array([found], np.uint8))
    assert int(compare(want, arrays.reinterpret(raw, DType.BOOL), arrays).wrong) == 1


@BOTH
def test_a_cast_out_of_range_may_give_anything(arrays: Arrays) -> None:
    fusion = fusion_of({"x": ("f32", [5])}, [op("cast", ["x"], "y", dtype="i8")], "y")
    want = expected_for(fusion, arrays, [127.9, 128.0, -128.9, -129.0, math.nan])
    assert limits(want) == [(127, 127), ANY, (-128, -128), ANY, ANY]


@BOTH
def test_a_cast_to_u8_keeps_the_low_bits_of_what_is_known(arrays: Arrays) -> None:
    fusion = fusion_of({"x": ("f32", [6])}, [op("cast", ["x"], "y", dtype="u8")], "y")
    want = expected_for(fusion, arrays, [255.9, 256.0, -1.5, 2.0**33 + 2048, 2.0**63, math.nan])
    assert limits(want) == [(255, 255), (0, 0), (255, 255), (0, 0), ANY, ANY]
    unknown = [op("exp", ["x"], "t"), op("cast", ["t"], "y", dtype="u8")]
    want = expected_for(fusion_of({"x": ("f32", [2])}, unknown, "y"), arrays, [1.0, 16.0])
    assert limits(want) == [(2, 2), ANY]


@BOTH
def test_a_cast_to_8_bit_floats_ends_at_its_own_numbers(arrays: Arrays) -> None:
    for dtype, beyond, above in (("f8e4m3", 448.0, 1.125), ("f8e5m2", math.inf, 1.0)):
        ops = [op("exp", ["x"], "t"), op("cast", ["t"], "y", dtype=dtype)]
        want = expected_for(fusion_of({"x": ("f32", [3])}, ops, "y"), arrays, [0.0, 11.1, math.log(1.0625)])
        known, large, halfway = limits(want)
        assert known == (1.0, 1.0)
        assert large == (beyond, beyond)
        assert halfway == (1.0, above)


@BOTH
def test_a_choice_that_rounding_decides_may_be_either(arrays: Arrays) -> None:
    ops = [op("exp", ["x"], "t"), op("gt", ["t", math.e], "c"), op("where", ["c", "x", -5.0], "y")]
    want = expected_for(fusion_of({"x": ("f32", [2])}, ops, "y"), arrays, [1.0, 2.0])
    (low, high), sure = limits(want)
    assert low <= -5.0
    assert high >= 1.0
    assert sure == (2.0, 2.0)


@BOTH
def test_sums_of_small_integers_are_exact(arrays: Arrays) -> None:
    want = expected_for(total(1, 4, "f32", [1]), arrays, [1.0, -3.0, 0.5, 2.0])
    assert limits(want) == [(0.5, 0.5)]


@BOTH
def test_cancelling_sums_are_off_by_a_share_of_their_terms(arrays: Arrays) -> None:
    """1e6 + 0.1 - 1e6: the error is one of 1e6, not of 0.1."""
    want = expected_for(total(1, 3, "f32", [1]), arrays, [1e6, 0.1, -1e6])
    ((low, high),) = limits(want)
    in_f32 = float(np.float32(1e6) + np.float32(0.1) - np.float32(1e6))
    assert abs(in_f32 - 0.1) > 2.0**-13
    assert low <= in_f32 <= high
    assert high - low < 2e6 * 2.0**-20


@BOTH
def test_integers_of_64_bits_are_exact(arrays: Arrays) -> None:
    fusion = fusion_of({"x": ("i64", [2])}, [op("add", ["x", 1], "y")], "y")
    want = expected_for(fusion, arrays, [2**62 + 2, 2**63 - 1])
    assert np.asarray(want.lower).tolist() == [2**62 + 3, -(2**63)]


@BOTH
def test_infinities_and_nan_go_through_reductions(arrays: Arrays) -> None:
    fusion = total(4, 2, "f32", [1])
    want = expected_for(fusion, arrays, [math.inf, 1.0, -math.inf, math.inf, math.nan, 1.0, 3.0e38, 3.0e38])
    found = limits(want)
    assert found[0] == (math.inf, math.inf)
    assert np.isnan(found[1:3]).all()
    assert found[3] == (math.inf, math.inf) or found[3] == ANY


@BOTH
def test_row_blocks_give_the_same_bounds(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    for fusion in (softmax(17, 8, "bf16"), total(17, 8, "f32", [0]), one_hot(17, 8, "i32")):
        storages = make_inputs(fusion, "random", arrays)
        (whole,) = expect(fusion, storages, arrays)
        with monkeypatch.context() as patch:
            patch.setattr(expected_module, "BLOCK_ELEMS", 24)
            (blocks,) = expect(fusion, storages, arrays)
        for a, b in ((whole.lower, blocks.lower), (whole.upper, blocks.upper)):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
