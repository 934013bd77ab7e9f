"""Folds as CUDA C++: their text, and that every kind of every type folds as NumPy does, in registers and over lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.dtypes import DType
from compiler.emit.cuda import emit_launches, entries
from compiler.emit.folds import accumulate, accumulate_run, conditions, fill, shuffle
from compiler.emulate.launch import EmulatedTensor, Launch, TensorArgument
from compiler.emulate.ptx.module import Module
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower import kernel_ir as k
from compiler.lower.operands import Less, Pointer, Reg
from compiler.nvrtc import CompilePool
from search.proof.verify.arrays import NumpyArrays
from tests.shares import inside

Array = npt.NDArray[Any]
TX, STEP = Var("tx", 32), Var("k0", 4)
LANES, EACH = 32, 4
INTEGERS = {
    DType.I8: np.int8, DType.U8: np.uint8, DType.I16: np.int16, DType.I32: np.int32, DType.I64: np.int64,
}  # fmt: skip
DTYPES = (DType.F64, DType.F32, DType.F16, DType.BF16, *INTEGERS, DType.BOOL)
HALVES = (DType.F16, DType.BF16)
FOLDS = [
    *((OpKind.SUM, d) for d in (DType.F64, DType.F32, *INTEGERS)),
    *((OpKind.PROD, d) for d in (DType.F64, DType.F32, DType.I64)),
    *((kind, d) for kind in (OpKind.AMAX, OpKind.AMIN) for d in DTYPES),
]
"""Sums and products of halves are in f32, sums of bools and products of integers in i64."""


def reg(name: str, dtype: DType = DType.F32, at: Expr | int = 0) -> Reg:
    return Reg(name, dtype, const(at) if isinstance(at, int) else at)


# Text ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (fill(k.Fill("s", DType.F32, 1, OpKind.SUM)), ["s[0u] = 0.0f;"]),
        (
            fill(k.Fill("s", DType.F16, 4, OpKind.AMAX)),
            ["#pragma unroll", "for (Index element = 0u; element < 4u; ++element) {", "  s[element] = 0xfc00u;", "}"],
        ),
        (accumulate(k.Accumulate(OpKind.SUM, reg("s"), reg("x"))), ["s[0u] = ft_fold_sum_f32(s[0u], x[0u]);"]),
        (
            accumulate(k.Accumulate(OpKind.AMIN, reg("s"), reg("x"), (Less(var(TX), const(5)),))),
            ["s[0u] = (tx < 5u) ? ft_fold_amin_f32(s[0u], x[0u]) : s[0u];"],
        ),
        (
            accumulate(k.Accumulate(OpKind.SUM, reg("s", DType.I64), reg("x", DType.I8))),
            ["s[0u] = ft_fold_sum_i64(s[0u], ::i64(x[0u]));"],
        ),
        (
            accumulate_run(k.AccumulateRun(OpKind.AMAX, reg("s", DType.BF16), reg("x", DType.BF16, 8), 4)),
            ["s[0u] = ft_fold_amax_run_bf16<4>(s[0u], &x[8u]);"],
        ),
        (
            shuffle(k.Shuffle(OpKind.SUM, "s", DType.F32, 1, (1, 2, 4), 0xFF)),
            [
                "#pragma unroll",
                "for (u32 distance = 1u; distance <= 4u; distance *= 2u) {",
                "  s[0u] = ft_fold_sum_f32(s[0u], ft_shuffle_xor(s[0u], distance, 0xffu));",
                "}",
            ],
        ),
        (
            shuffle(k.Shuffle(OpKind.SUM, "s", DType.F32, 1, (16,), 0xFFFFFFFF)),
            ["s[0u] = ft_fold_sum_f32(s[0u], ft_shuffle_xor(s[0u], 16u, 0xffffffffu));"],
        ),
    ],
)
def test_a_fold_has_this_form(lines: list[str], text: Sequence[str]) -> None:
    assert lines == list(text)


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Less(var(TX) % 8, const(1)), "(tx % 8u) == 0u"),
        (Less(var(TX), const(2)), "tx < 2u"),
        (Less(const(-1), var(TX) - 4), "4u < (tx + 1u)"),
    ],
)
def test_a_condition_counts_unsigned_and_compares_with_zero_by_equality(condition: Less, text: str) -> None:
    assert conditions((condition,)) == text


# Values --------------------------------------------------------------------------------------------------------------


def kernel(kind: OpKind, dtype: DType) -> k.Kernel:
    """out[lane] = the fold of all of x [lanes, each]: by threads from registers, then over lanes."""
    pointers = (Pointer("i0", dtype, 0, False), Pointer("v0", dtype, 1, True))
    x, result = reg("x", dtype, var(STEP)), reg("s", dtype)
    load = k.GlobalLoad(x, "i0", var(TX) * EACH + var(STEP), 1, CachePolicy.DEFAULT)
    step: k.Stmt = k.Loop(STEP, const(EACH), True, (k.Accumulate(kind, result, x),))
    if dtype in HALVES:
        step = k.AccumulateRun(kind, result, reg("x", dtype), EACH)
    body = (
        k.Declare("x", dtype, EACH),
        k.Loop(STEP, const(EACH), True, (load,)),
        k.Declare("s", dtype, 1),
        k.Fill("s", dtype, 1, kind),
        step,
        k.Shuffle(kind, "s", dtype, 1, (1, 2, 4, 8, 16), 0xFFFFFFFF),
        k.GlobalStore(result, "v0", var(TX), 1, CachePolicy.DEFAULT),
    )
    return k.Kernel(pointers, (), (1, 1, 1), (LANES, 1, 1), 0, 16, None, 32, body)


@pytest.fixture(scope="module")
def module(pool: CompilePool) -> Module:
    """All folds in one module, an entry each."""
    source = emit_launches([kernel(*fold) for fold in FOLDS])
    return parse(pool.submit(source, "sm_90a").result().ptx)


def factors(dtype: DType, which: str) -> Array:
    """Numbers whose product is exact in any order: powers of two, and odd integers, of which none is lost."""
    rng, count = np.random.default_rng(4), LANES * EACH
    if not dtype.is_float:
        return np.asarray(values(dtype, which) | 1)
    x: Array = 2.0 ** rng.integers(-1, 2, count) * rng.choice((-1.0, 1.0), count)
    special = {"plain": [], "first": [0.0], "last": [-0.0], "both": [np.inf, 0.0], "nan": [np.nan]}
    for at, value in zip((77, 5), special[which], strict=False):
        x[at] = value
    return x


def values(dtype: DType, which: str) -> Array:
    """Numbers whose sums are exact in any order, in the arithmetic of their type."""
    rng, count = np.random.default_rng(3), LANES * EACH
    if dtype is DType.BOOL:
        return (rng.random(count) < {"plain": 0.5, "first": 0.0, "last": 1.0}.get(which, 0.1)).astype(np.uint8)
    if not dtype.is_float:
        low, high = dtype.integer_range
        if which == "plain":  # the others wrap
            low, high = max(low, -9), 9
        made: Array = rng.integers(low, high, count, dtype=INTEGERS[dtype], endpoint=True)
        return made
    x = rng.integers(-9, 10, count).astype(np.float64)
    special = {"plain": [], "first": [-np.inf], "last": [np.inf], "both": [np.inf, -np.inf], "nan": [np.nan, np.inf]}
    for at, value in zip((77, 5), special[which], strict=False):
        x[at] = value
    return x


def expected(kind: OpKind, dtype: DType, x: Array) -> Any:
    """In the type's own arithmetic: integers wrap, a NaN is the greatest and the least."""
    with np.errstate(all="ignore"):
        match kind:
            case OpKind.SUM:
                return np.add.reduce(x, dtype=x.dtype)
            case OpKind.PROD:
                return np.multiply.reduce(x, dtype=x.dtype)
            case OpKind.AMAX:
                return np.maximum.reduce(x)
            case _:
                return np.minimum.reduce(x)


def stored(x: Array, dtype: DType) -> Array:
    """As the type stores these numbers, all of which it has."""
    match dtype:
        case DType.F32:
            return x.astype(np.float32)
        case DType.F16:
            return x.astype(np.float16)
        case DType.BF16:
            bits: Array = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            return bits
        case _:
            return x


def numbers(raw: npt.NDArray[np.uint8], dtype: DType) -> Array:
    """The values of stored elements."""
    match dtype:
        case DType.F64:
            return raw.view(np.float64)
        case DType.F32:
            return raw.view(np.float32).astype(np.float64)
        case DType.F16:
            return raw.view(np.float16).astype(np.float64)
        case DType.BF16:
            return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case DType.BOOL:
            return raw
        case _:
            return raw.view(INTEGERS[dtype])


@inside("which", ("plain", "first", "last", "both", "nan"))
@pytest.mark.parametrize("fold", FOLDS, ids=lambda f: f"{f[0].value}-{f[1].value}")
def test_every_lane_has_the_fold_that_numpy_has(module: Module, fold: tuple[OpKind, DType], which: str) -> None:
    kind, dtype = fold
    x = factors(dtype, which) if kind is OpKind.PROD else values(dtype, which)
    inputs = NumpyArrays().bytes_of(stored(x, dtype)).copy()
    outputs = np.zeros(LANES * dtype.nbytes, np.uint8)
    tensors = {
        "i0": EmulatedTensor("i0", dtype.value, (LANES * EACH,), inputs),
        "v0": EmulatedTensor("v0", dtype.value, (LANES,), outputs, np.zeros(outputs.shape, np.bool_)),
    }
    entry = entries(len(FOLDS))[FOLDS.index(fold)]
    launch = Launch(entry, "sm_90a", (1, 1, 1), (LANES, 1, 1), tuple(map(TensorArgument, tensors)), tensors)
    outcome = emulate(module, launch)
    assert [f.message for f in outcome.faults] == []
    want = np.broadcast_to(expected(kind, dtype, x), LANES)
    np.testing.assert_array_equal(numbers(tensors["v0"].data, dtype), want)
