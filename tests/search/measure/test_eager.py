"""The eager form of a fusion against the f64 reference, within the tolerance that its time depends on."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from torch.overrides import TorchFunctionMode

from benchmarks.suite.export import SUITE
from compiler.dtypes import DType
from compiler.errors import CompilerError, Unsupported
from compiler.ir.fusion import Fusion, Literal, Op, Value
from compiler.ir.ops import BINARY, BITS, COMPARE, FLOATS, MOVES, REDUCTIONS, SCANS, UNARY, OpKind
from compiler.wire.fusions import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from fusetune.wire.suite import strip_case
from search.measure.cuda_check import CheckBench
from search.measure.eager import allowances, eager_form
from search.proof.verify.arrays import TorchArrays
from tests.compiler.products import TF32, product
from tests.sdk.fusion_strategies import BINDABLE, Document, documents, sizes_for
from tests.search.measure.kernels import fusion_of, value

HOST = TorchArrays("cpu")
TORCH = {DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16}
DTYPES = pytest.mark.parametrize("dtype", list(TORCH))
OF_BITS = {
    DType.I8: torch.int8, DType.U8: torch.uint8, DType.I16: torch.int16, DType.I32: torch.int32,
    DType.I64: torch.int64, DType.BOOL: torch.bool,
}  # fmt: skip
STORED = {**TORCH, **OF_BITS}
HALVES = (DType.F16, DType.BF16)
SHAPE = (5, 7)


def chain(dtype: DType, *ops: Op, shape: tuple[int, ...] = SHAPE, outputs: tuple[str, ...] = ()) -> Fusion:
    """Elementwise operators over `i0` and `i1`, the last result the output if no other is named."""
    inputs = (value("i0", shape, dtype), value("i1", shape, dtype))
    results = tuple(value(op.output, shape, dtype) for op in ops)
    return fusion_of(inputs, results, ops, *(outputs or (ops[-1].output,)))


def moved(kind: OpKind, shape: tuple[int, ...], result: tuple[int, ...], dims: tuple[int, ...]) -> Fusion:
    op = Op(kind, ("i0",), "v0", dims=dims)
    return fusion_of((value("i0", shape),), (value("v0", result),), (op,), "v0")


def run(fusion: Fusion) -> tuple[tuple[torch.Tensor, ...], list[torch.Tensor], str]:
    """(outputs, inputs, fault) of the eager form on the random set, of which it must leave no trace."""
    bench = CheckBench(fusion, HOST)
    inputs = [
        HOST.strided(storage, v.shape, v.strides)
        for storage, v in zip(bench.random_storages, map(fusion.value, fusion.inputs), strict=True)
    ]
    before = [x.clone() for x in inputs]
    outputs = eager_form(fusion)(inputs)
    for x, was in zip(inputs, before, strict=True):
        assert torch.equal(x.nan_to_num(7.0), was.nan_to_num(7.0))
    return outputs, inputs, bench.fault_of(outputs, allowances(fusion))


def assert_right(fusion: Fusion) -> None:
    outputs, inputs, fault = run(fusion)
    assert fault == ""
    assert len(outputs) == len(fusion.outputs)
    memory = [x.untyped_storage().data_ptr() for x in (*inputs, *outputs)]
    assert len(set(memory)) == len(memory), "outputs have memory of their own"
    for out, want in zip(outputs, map(fusion.value, fusion.outputs), strict=True):
        assert (tuple(out.shape), out.dtype, out.is_contiguous()) == (want.shape, STORED[want.dtype], True)


@DTYPES
@pytest.mark.parametrize("kind", sorted(kind for kind in UNARY | {OpKind.COPY} if kind.row.takes >= FLOATS))
def test_operators_of_one_operand(kind: OpKind, dtype: DType) -> None:
    assert_right(chain(dtype, Op(kind, ("i0",), "v0")))


@DTYPES
@pytest.mark.parametrize("kind", sorted(kind for kind in BINARY if kind.row.takes >= FLOATS))
@pytest.mark.parametrize(
    "operands",
    # On the host, unlike on a GPU, torch rounds some literals to bf16: these need no rounding.
    [("i0", "i1"), ("i1", "i0"), ("i0", Literal(1.75)), (Literal(-0.375), "i0")],
    ids=["ab", "ba", "al", "la"],
)
def test_operators_of_two_operands(kind: OpKind, operands: tuple[str | Literal, ...], dtype: DType) -> None:
    assert_right(chain(dtype, Op(kind, operands, "v0")))


@pytest.mark.parametrize("kind", sorted(kind for kind in UNARY | BINARY if kind.row.takes <= BITS))
@pytest.mark.parametrize("dtype", list(OF_BITS))
def test_operators_on_integers(kind: OpKind, dtype: DType) -> None:
    if dtype in kind.row.takes:
        assert_right(chain(dtype, Op(kind, ("i0", Literal(1))[: kind.row.arity], "v0")))


@DTYPES
@pytest.mark.parametrize("shape", [(1,), ()], ids=["one-element", "no-dimensions"])
def test_a_literal_does_not_change_the_dtype(shape: tuple[int, ...], dtype: DType) -> None:
    assert_right(chain(dtype, Op(OpKind.MUL, ("i0", Literal(1.5)), "v0"), shape=shape))


def test_a_literal_is_not_rounded_to_half_precision() -> None:
    """100001 is infinite in f16, its product with a small number is not."""
    ops = (Op(OpKind.MUL, ("i0", Literal(2.0**-10)), "v0"), Op(OpKind.MUL, ("v0", Literal(100001.0)), "v1"))
    outputs, _, fault = run(chain(DType.F16, *ops))
    assert fault == ""
    assert bool(outputs[0].isfinite().all())


@pytest.mark.parametrize("source", list(TORCH))
@pytest.mark.parametrize("to", list(TORCH))
def test_casts(source: DType, to: DType) -> None:
    op = Op(OpKind.CAST, ("i0",), "v0")
    assert_right(fusion_of((value("i0", SHAPE, source),), (value("v0", SHAPE, to),), (op,), "v0"))


@pytest.mark.parametrize(
    "fusion",
    [
        pytest.param(moved(OpKind.PERMUTE, (3, 4, 5), (5, 3, 4), (2, 0, 1)), id="rotation"),
        pytest.param(moved(OpKind.PERMUTE, (1, 6), (6, 1), (1, 0)), id="already-dense-and-still-copied"),
        pytest.param(moved(OpKind.PERMUTE, (6,), (6,), (0,)), id="identity"),
        pytest.param(moved(OpKind.BROADCAST_TO, (4,), (3, 4), (1,)), id="rows"),
        pytest.param(moved(OpKind.BROADCAST_TO, (3,), (3, 4), (0,)), id="columns"),
        pytest.param(moved(OpKind.BROADCAST_TO, (3, 1), (2, 3, 4), (1, 2)), id="size-one-expands"),
        pytest.param(moved(OpKind.BROADCAST_TO, (3, 4), (3, 4), (0, 1)), id="nothing-to-expand"),
    ],
)
def test_views_are_written_densely(fusion: Fusion) -> None:
    assert_right(fusion)


def chosen(kind: OpKind, table: tuple[int, ...], index: tuple[int, ...], dim: int, dtype: DType, by: DType) -> Fusion:
    shape = index if kind is OpKind.GATHER else (*table[:dim], *index, *table[dim + 1 :])
    inputs = (value("i0", table, dtype), value("i1", index, by))
    return fusion_of(inputs, (value("v0", shape, dtype),), (Op(kind, ("i0", "i1"), "v0", (dim,)),), "v0")


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8])
@pytest.mark.parametrize("by", [DType.I32, DType.I64])
@pytest.mark.parametrize(
    ("kind", "table", "index", "dim"),
    [
        pytest.param(OpKind.TAKE, (9, 4), (3, 5), 0, id="embedding"),
        pytest.param(OpKind.TAKE, (9, 4), (), 0, id="one-row"),
        pytest.param(OpKind.TAKE, (3, 9, 4), (5,), 1, id="index-select"),
        pytest.param(OpKind.GATHER, (3, 9), (2, 12), 1, id="gather"),
    ],
)
def test_what_indices_choose(
    kind: OpKind, table: tuple[int, ...], index: tuple[int, ...], dim: int, dtype: DType, by: DType
) -> None:
    assert_right(chosen(kind, table, index, dim, dtype, by))


def test_outputs_that_are_views_of_each_other_are_separate() -> None:
    ops = (Op(OpKind.NEG, ("i0",), "v0"), Op(OpKind.PERMUTE, ("v0",), "v1", dims=(1, 0)))
    results = (value("v0", (1, 6)), value("v1", (6, 1)))
    assert_right(fusion_of((value("i0", (1, 6)),), results, ops, "v0", "v1"))


def test_an_output_that_others_read_is_kept() -> None:
    ops = (
        Op(OpKind.ADD, ("i0", "i1"), "v0"),
        Op(OpKind.MUL, ("v0", "v0"), "v1"),
        Op(OpKind.SUB, ("v1", "v0"), "v2"),
    )
    assert_right(chain(DType.F32, *ops, outputs=("v2", "v0")))


def test_strided_inputs() -> None:
    inputs = (value("i0", SHAPE, strides=(1, 8)), value("i1", SHAPE, strides=(10, 1)))
    assert_right(fusion_of(inputs, (value("v0", SHAPE),), (Op(OpKind.DIV, ("i0", "i1"), "v0"),), "v0"))


def suite_fusions() -> dict[str, Fusion]:
    """The small form of every case that this version compiles."""
    found = {}
    for case in json.loads(SUITE.read_text())["cases"]:
        fusion, binding = strip_case({**case, **case["tiny"]})
        try:
            found[case["id"]] = bind(parse_fusion(fusion), parse_binding(binding))
        except CompilerError:
            continue
    return found


SUITE_FUSIONS = suite_fusions()


def test_the_suite_has_what_this_version_compiles() -> None:
    assert {"bias_gelu_bf16_8192x12288", "transpose_f32_4099x8191", "bcast_add4d_f32_discontig"} <= SUITE_FUSIONS.keys()


@pytest.mark.parametrize("fusion", SUITE_FUSIONS.values(), ids=SUITE_FUSIONS.keys())
def test_the_suite(fusion: Fusion) -> None:
    assert_right(fusion)
    rounded = sum(op.kind not in MOVES and fusion.value(op.output).dtype in HALVES for op in fusion.ops)
    assert set(allowances(fusion)) == {max(1.0, float(rounded))}, "one rounding is what a kernel is held to"


def half_chain(count: int, dtype: DType, to: DType | None = None) -> Fusion:
    """`count` additions in `dtype`, then a cast if `to` is given."""
    ops = [Op(OpKind.ADD, (f"v{i - 1}" if i else "i0", "i1"), f"v{i}") for i in range(count)]
    results: list[Value] = [value(op.output, SHAPE, dtype) for op in ops]
    if to is not None:
        ops.append(Op(OpKind.CAST, (f"v{count - 1}",), "last"))
        results.append(value("last", SHAPE, to))
    inputs = (value("i0", SHAPE, dtype), value("i1", SHAPE, dtype))
    return fusion_of(inputs, tuple(results), tuple(ops), ops[-1].output)


@pytest.mark.parametrize(
    ("fusion", "times"),
    [
        pytest.param(half_chain(6, DType.F32), 1, id="f32-is-as-exact-as-a-kernel"),
        pytest.param(half_chain(6, DType.F32, DType.BF16), 1, id="one-rounding-at-the-end"),
        pytest.param(half_chain(1, DType.BF16), 1, id="one-bf16-operator"),
        pytest.param(half_chain(6, DType.BF16), 6, id="six"),
        pytest.param(half_chain(6, DType.F16), 6, id="six-in-f16"),
        pytest.param(half_chain(2, DType.BF16, DType.F32), 128, id="stored-wider-than-computed"),
        pytest.param(half_chain(4, DType.F16, DType.BF16), 2, id="stored-coarser"),
    ],
)
def test_the_allowance_grows_with_what_eager_rounds(fusion: Fusion, times: float) -> None:
    assert allowances(fusion) == (times,)
    assert_right(fusion)


@pytest.mark.parametrize(
    ("error", "times", "is_right"), [(0.9, 1, True), (1.1, 1, False), (2.9, 3, True), (3.1, 3, False)]
)
def test_an_error_is_held_against_the_widened_tolerance(error: float, times: float, is_right: bool) -> None:
    fusion = chain(DType.F32, Op(OpKind.NEG, ("i0",), "v0"))
    bench = CheckBench(fusion, HOST)
    x = bench.random_storages[0].reshape(SHAPE).double()
    allowed = x.abs() * 2.0**-13 + x.abs().max() * 2.0**-20
    out = (-x + error * allowed).float()
    assert (bench.fault_of([out], (times,)) == "") is is_right


@pytest.mark.parametrize("bad", [math.nan, math.inf, 3.0])
def test_no_allowance_covers_another_value(bad: float) -> None:
    fusion = chain(DType.BF16, Op(OpKind.ADD, ("i0", "i1"), "v0"))
    outputs: Sequence[torch.Tensor] = run(fusion)[0]
    outputs[0][3, 2] += bad
    fault = CheckBench(fusion, HOST).fault_of(outputs, (6.0,))
    assert fault.startswith("random inputs: output 0: element [3, 2] is ")


@pytest.mark.parametrize(
    ("op", "dtype", "what"),
    [
        (Op(OpKind.FMA, ("i0", "i0", "i0"), "v0"), DType.F32, "operator fma"),
        (Op(OpKind.CAST, ("i0",), "v0"), DType.C64, "dtype c64"),
    ],
)
def test_what_has_no_torch_call_is_refused_before_it_runs(op: Op, dtype: DType, what: str) -> None:
    fusion = fusion_of((value("i0", SHAPE),), (value("v0", SHAPE, dtype),), (op,), "v0")
    with pytest.raises(Unsupported, match=what):
        eager_form(fusion)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(documents(BINDABLE))
def test_the_eager_form_of_any_fusion_is_right(document: Document) -> None:
    fusion = bind(parse_fusion(document), parse_binding({"sizes": sizes_for(document)}))
    assume(all(not fusion.value(op.output).dtype.is_float or op.kind in TAME for op in fusion.ops))
    assert fault_of(fusion) == ""


@pytest.mark.parametrize("dtype", [DType.F8E4M3, DType.F8E5M2, DType.I8])
def test_flips_of_bytes(dtype: DType) -> None:
    """Torch has none of 8-bit floats."""
    flipped = Op(OpKind.FLIP, ("i0",), "v0", dims=(0, 1))
    assert fault_of(fusion_of((value("i0", SHAPE, dtype),), (value("v0", SHAPE, dtype),), (flipped,), "v0")) == ""


def fault_of(fusion: Fusion) -> str:
    bench = CheckBench(fusion, HOST)
    inputs = [
        HOST.strided(storage, value.shape, value.strides)
        for storage, value in zip(bench.random_storages, map(fusion.value, fusion.inputs), strict=True)
    ]
    return bench.fault_of(eager_form(fusion)(inputs), allowances(fusion))


TAME = MOVES | COMPARE | REDUCTIONS | SCANS | {
    OpKind.CAT, OpKind.WHERE, OpKind.IOTA, OpKind.NEG, OpKind.ABS, OpKind.RELU, OpKind.MAXIMUM, OpKind.MINIMUM,
}  # fmt: skip
"""Operators that torch computes in half precision as a kernel does, but for one rounding of the result."""


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8, DType.I64])
def test_one_of_two_numbers_has_the_dtype_that_is_asked_for(dtype: DType) -> None:
    mask, result = value("i0", SHAPE, DType.BOOL), value("v0", SHAPE, dtype)
    numbers = (Literal(3.140625), Literal(-0.0)) if dtype.is_float else (Literal(3), Literal(-1))
    assert_right(fusion_of((mask,), (result,), (Op(OpKind.WHERE, ("i0", *numbers), "v0"),), "v0"))


def test_tf32_is_allowed_for_the_products_that_ask_for_it_alone() -> None:
    said: list[str] = []

    class Told(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.Tensor.__matmul__, torch.Tensor.matmul):
                said.append(torch.get_float32_matmul_precision())
            return func(*args, **(kwargs or {}))

    for dtype in ("f32", TF32):
        call = eager_form(product(4, 6, 8, dtype, "bf16"))
        with Told():
            (y,) = call([torch.ones(4, 8), torch.ones(6, 8)])
        assert (y.dtype, float(y.float().sum())) == (torch.bfloat16, 4 * 6 * 8)
    assert said == ["highest", "high"]
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("set_before", ["none", "ieee", "tf32"])
def test_switches_of_torch_are_left_as_they_were(set_before: str) -> None:
    """The newest of them too, beside which torch refuses to say what the older ones are."""
    switch = torch.backends.cuda.matmul
    switch.fp32_precision = set_before
    try:
        eager_form(product(4, 6, 8, TF32))([torch.ones(4, 8), torch.ones(6, 8)])
        assert switch.fp32_precision == set_before
    finally:
        switch.fp32_precision = "none"
    assert torch.get_float32_matmul_precision() == "highest"
