"""Operators, comparisons and casts of every element type, compiled and run, against the reference: in the emulator, and
on a GPU where there is one (`make test-gpu`)."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.dtypes import FP8, DType
from compiler.emit.functions import COMPUTED_IN, has_meaning, pieces_for
from compiler.emit.literals import literal, rounded_to_short
from compiler.emit.pieces import pieces
from compiler.emit.values import ELEMENT, compute, zero
from compiler.ir.expr import const
from compiler.ir.fusion import Fusion, Literal, Op, Value
from compiler.ir.ops import BINARY, COMPARE, UNARY, MathGrade, OpKind, Zero
from compiler.lower.kernel_ir import Compute
from compiler.lower.operands import Reg
from compiler.nvrtc import CompilePool
from compiler.reference import evaluate, round_to
from search.proof.verify.arrays import NumpyArrays
from tests.compiler.emit.machines import Machine, machine_of

Array = npt.NDArray[Any]
DTYPES = tuple(COMPUTED_IN)
STORED = {
    DType.F64: np.float64, DType.F32: np.float32, DType.F16: np.float16, DType.BF16: np.uint16,
    DType.F8E4M3: np.uint8, DType.F8E5M2: np.uint8, DType.I8: np.int8, DType.U8: np.uint8, DType.I16: np.int16,
    DType.I32: np.int32, DType.I64: np.int64, DType.BOOL: np.uint8,
}  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 20.0, 2.0**-20, 300.0, 65504.0, 106001.0, -1e30, 3e38, 2.0**-140,
    -(2.0**-1070), math.inf, -math.inf, math.nan,
]  # fmt: skip
"""Beside ordinary ones: ties of roundings, angles of many turns, the ends of each type's range, subnormal numbers."""

WIDTHS = (6, 7, 8, 14, 15, 16, 30, 31, 32, 62, 63, 64)
"""Amounts of shifts, beside the width of every type."""

ARITHMETIC = sorted((kind, dtype) for dtype in DTYPES for kind in UNARY | BINARY if has_meaning(kind, dtype))


@pytest.fixture(scope="module", params=["sm_90a", pytest.param("card", marks=pytest.mark.gpu)])
def machine(request: pytest.FixtureRequest, pool: CompilePool) -> Machine:
    return machine_of(pool, request.param)


def values_of(dtype: DType) -> list[Any]:
    if dtype.is_float:
        return FLOATS
    if dtype is DType.BOOL:
        return [0, 1]
    low, high = dtype.integer_range
    return [low, high, 0, 1, 77, *WIDTHS, *((-1, -100) if low else (100, 200))]


def stored(values: list[Any], dtype: DType) -> Array:
    if dtype.is_float:
        return np.asarray(NumpyArrays().store(np.array(values, np.float64), dtype))
    return np.array(values, STORED[dtype])


def loaded(storage: Array, dtype: DType) -> Array:
    return np.asarray(NumpyArrays().load(storage, dtype)) if dtype.is_float else storage.astype(np.int64)


def run(machine: Machine, dtype: DType, steps: list[Compute], operands: list[Array]) -> list[Array]:
    """The results of `steps`, each on registers `r0`, `r1`, … that hold the operands, of one thread an element."""
    count = len(operands[0])
    out = [f"{ELEMENT[s.target.dtype]}* y{i}" for i, s in enumerate(steps)]
    parameters = ", ".join([*(f"const {ELEMENT[dtype]}* x{i}" for i in range(len(operands))), *out])
    lines = [f"{ELEMENT[dtype]} r{i}[1] = {{x{i}[threadIdx.x]}};" for i in range(len(operands))]
    lines += [f"y{i}[threadIdx.x] = {compute(s)};" for i, s in enumerate(steps)]
    text = pieces(sorted(pieces_for({dtype, *(s.target.dtype for s in steps)}, {s.kind for s in steps})))
    source = f'{text}\nextern "C" __global__ void k({parameters}) {{\n' + "\n".join(lines) + "\n}\n"
    arrays = {f"x{i}": x.copy() for i, x in enumerate(operands)}
    arrays |= {f"y{i}": np.zeros(count, STORED[s.target.dtype]) for i, s in enumerate(steps)}
    machine(source, arrays, count, 1)
    return [arrays[f"y{i}"] for i in range(len(steps))]


def register(name: str, dtype: DType) -> Reg:
    return Reg(name, dtype, const(0))


def reference(
    kind: OpKind, source: DType, target: DType, operands: list[Array], literals: tuple[Literal, ...]
) -> Array:
    """One operator by the reference; floats rounded as they are stored."""
    names = tuple(f"i{i}" for i in range(len(operands)))
    values = tuple(Value(name, (len(x),), source, (1,)) for name, x in zip(names, operands, strict=True))
    result = Value("v0", (len(operands[0]),), target, (1,))
    fusion = Fusion((*values, result), names, (Op(kind, (*names, *literals), "v0"),), ("v0",), "", "")
    (found,) = evaluate(fusion, [loaded(x, source) for x in operands], np)
    return np.asarray(round_to(found, target, np) if target.is_float else found)


def pairs(dtype: DType) -> list[Array]:
    left, right = zip(*product(values_of(dtype), repeat=2), strict=True)
    return [stored(list(left), dtype), stored(list(right), dtype)]


def agree(found: Array, expected: Array, dtype: DType, what: str, ulps: float = 0.0) -> None:
    have = loaded(found, dtype)
    rtol = ulps * {DType.F64: 2.0**-52, DType.F32: 2.0**-23}.get(dtype, 2.0**-8)
    np.testing.assert_allclose(have, expected, rtol=rtol, atol=0.0, err_msg=what)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in FP8])
def test_operators_of_every_type(machine: Machine, dtype: DType) -> None:
    operands = pairs(dtype)
    a, b = register("r0", dtype), register("r1", dtype)
    kinds = [kind for kind, of in ARITHMETIC if of is dtype]
    steps = [Compute(kind, register("t", dtype), (a, b) if kind in BINARY else (a,), MathGrade.EXACT) for kind in kinds]
    for kind, found in zip(kinds, run(machine, dtype, steps, operands), strict=True):
        expected = reference(kind, dtype, dtype, operands if kind in BINARY else operands[:1], ())
        exact = not dtype.is_float
        # In f64 both work out the argument of gelu's exponential, each with roundings of its own.
        few = 16 if kind is OpKind.GELU and dtype is DType.F64 else 4
        agree(found, expected, dtype, f"{kind} {dtype}", ulps=0 if exact else few)
        zeros = (expected == 0) & dtype.is_float & (kind.row.zero is not Zero.OPEN)
        signs = np.signbit(loaded(found, dtype)[zeros]), np.signbit(expected[zeros])
        np.testing.assert_array_equal(*signs, err_msg=f"zeros of {kind} {dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_and_where_of_every_type(machine: Machine, dtype: DType) -> None:
    operands = pairs(dtype)
    a, b, number = register("r0", dtype), register("r1", dtype), Literal(1.0 if dtype.is_float else 1)
    kinds = sorted(kind for kind in COMPARE if dtype in kind.row.takes)
    steps = [Compute(kind, register("t", DType.BOOL), (a, b), MathGrade.EXACT) for kind in kinds]
    steps += [Compute(kind, register("t", DType.BOOL), (a, number), MathGrade.EXACT) for kind in kinds]
    found = run(machine, dtype, steps, operands)
    for kind, with_tensor, with_number in zip(kinds, found[: len(kinds)], found[len(kinds) :], strict=True):
        agree(with_tensor, reference(kind, dtype, DType.BOOL, operands, ()), DType.BOOL, f"{kind} {dtype}")
        agree(with_number, reference(kind, dtype, DType.BOOL, operands[:1], (number,)), DType.BOOL, f"{kind} {dtype} 1")


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_keeps_every_bit(machine: Machine, dtype: DType) -> None:
    condition = Literal(0), Literal(1)
    a, b = register("r0", dtype), register("r1", dtype)
    steps = [Compute(OpKind.WHERE, register("t", dtype), (c, a, b), MathGrade.EXACT) for c in condition]
    operands = pairs(dtype)
    for found, expected in zip(run(machine, dtype, steps, operands), reversed(operands), strict=True):
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


CASTABLE: dict[DType, list[Any]] = {
    **{d: [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 77.9, -100.9] for d in DTYPES if d.is_float},
    **{d: values_of(d) for d in (DType.I8, DType.U8, DType.I16)},
    # Halfway between two bf16, and one more: through f32 both would round to even (2^30 + 2^22 lies between).
    DType.I32: [*values_of(DType.I32), 2**30 + 2**22 + 1, 2**24 + 2**16 + 1, -(2**30) - 2**22 - 1, 65519, 65520],
    DType.I64: [*values_of(DType.I64), 2**50 + 2**42 + 1, 2**40 + 2**32 + 1, 2**53 + 1],
    DType.BOOL: [0, 1],
}
DOUBLES = [1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 1e300, -1e-300, math.inf, math.nan]
"""Just above halfway between two bf16, and two f16; past the range of f32."""


@pytest.mark.parametrize("source", DTYPES)
def test_casts_between_every_pair_round_once(machine: Machine, source: DType) -> None:
    values = CASTABLE[source]
    operands = [stored(values, source)]
    steps = [Compute(OpKind.CAST, register("t", t), (register("r0", source),), MathGrade.EXACT) for t in DTYPES]
    for target, found in zip(DTYPES, run(machine, source, steps, operands), strict=True):
        agree(found, reference(OpKind.CAST, source, target, operands, ()), target, f"{source} to {target}")


def test_casts_of_doubles_round_once(machine: Machine) -> None:
    operands = [stored(DOUBLES, DType.F64)]
    targets = [DType.F32, DType.F16, DType.BF16, DType.BOOL]
    steps = [Compute(OpKind.CAST, register("t", t), (register("r0", DType.F64),), MathGrade.EXACT) for t in targets]
    for target, found in zip(targets, run(machine, DType.F64, steps, operands), strict=True):
        agree(found, reference(OpKind.CAST, DType.F64, target, operands, ()), target, f"f64 to {target}")


LITERALS: list[tuple[int | float, DType]] = [
    (math.nan, DType.F64), (math.inf, DType.F64), (-math.inf, DType.F64), (5e-324, DType.F64), (0.1, DType.F64),
    (-0.0, DType.F64), (math.nan, DType.F32), (-math.inf, DType.F32), (0.1, DType.F32), (1e-45, DType.F32),
    (0.1, DType.F16), (65520.0, DType.F16), (6e-8, DType.F16), (math.nan, DType.F16), (0.1, DType.BF16),
    (3.3961e38, DType.BF16), (-math.inf, DType.BF16), (1 + 2.0**-8, DType.BF16), (1 + 3 * 2.0**-8, DType.BF16),
    (-128, DType.I8), (-(2**31), DType.I32), (2**31 - 1, DType.I32), (-(2**63), DType.I64), (2**63 - 1, DType.I64),
    (1, DType.BOOL), (0, DType.U8), (255, DType.U8), (-(2**15), DType.I16),
    *product((0.1, -0.0, 1e-3, 1.0, 464.1, 61440.0, 1e9, -math.inf, math.nan), (DType.F8E4M3, DType.F8E5M2)),
]  # fmt: skip


def test_literals_are_the_nearest_values(machine: Machine) -> None:
    steps = [
        Compute(OpKind.COPY, register("t", dtype), (Literal(value),), MathGrade.EXACT) for value, dtype in LITERALS
    ]
    found = run(machine, DType.F32, steps, [np.zeros(1, np.float32)])
    for (value, dtype), have in zip(LITERALS, found, strict=True):
        expected = round_to(np.array([float(value)]), dtype, np) if dtype.is_float else np.array([value])
        agree(have, expected, dtype, f"{value} as {dtype}: {literal(value, dtype)}")
        if dtype.is_float:
            assert bool(np.signbit(loaded(have, dtype))[0]) == (math.copysign(1, value) < 0) or math.isnan(value)


def test_a_literal_is_compared_as_the_operand_beside_it_was_rounded(machine: Machine) -> None:
    for dtype in (DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2):
        step = Compute(OpKind.EQ, register("t", DType.BOOL), (register("r0", dtype), Literal(0.1)), MathGrade.EXACT)
        assert rounded_to_short(0.1, dtype) != 0.1
        (found,) = run(machine, dtype, [step], [stored([0.1, 0.125], dtype)])
        assert found.tolist() == [1, 0]


def test_zero_is_the_zero_of_its_type() -> None:
    assert {dtype: zero(dtype) for dtype in (DType.F64, DType.F32, DType.BF16, DType.I64, DType.BOOL)} == {
        DType.F64: "0.0", DType.F32: "0.0f", DType.BF16: "0", DType.I64: "0ll", DType.BOOL: "0",
    }  # fmt: skip
