"""Every elementwise operator in every type that it takes, held against torch's own on the same card: ordinary operands,
ties, zeros of both signs, the ends of each type's range, subnormal numbers, infinities, NaN, and shifts out of range.

Left out is what torch leaves to the machine: quotients of integers by zero and the least integer by -1.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from compiler.dtypes import DType
from compiler.emit.functions import has_meaning
from compiler.ir.ops import BINARY, COMPARE, UNARY, MathGrade, OpKind, Zero
from compiler.lower.kernel_ir import Compute
from compiler.nvrtc import CompilePool
from compiler.reference import FLOAT_FORMATS
from search.proof.verify.functions import error_of
from tests.compiler.emit.machines import Machine, machine_of
from tests.compiler.emit.test_values import loaded, pairs, register, run, stored

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch")

TYPES = {
    DType.F64: torch.float64, DType.F32: torch.float32, DType.F16: torch.float16, DType.BF16: torch.bfloat16,
    DType.I64: torch.int64, DType.I32: torch.int32, DType.I16: torch.int16, DType.I8: torch.int8,
    DType.U8: torch.uint8, DType.BOOL: torch.bool,
}  # fmt: skip
MORE = 600
"""Random operands beside the pairs: a block has at most 1024 threads."""

QUOTIENTS = (OpKind.FLOOR_DIVIDE, OpKind.REMAINDER)
CANCELS = (OpKind.GELU, OpKind.GELU_ERF)
"""torch's lose all bits of 1 + tanh, or 1 + erf, far below zero."""


def operands_of(dtype: DType) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    found = []
    for side in pairs(dtype):
        if dtype.is_float:
            more = stored(list(rng.normal(size=MORE) * 2.0 ** rng.integers(-8, 6, MORE)), dtype)
        else:
            low, high = (0, 1) if dtype is DType.BOOL else dtype.integer_range
            more = rng.integers(max(low, -70), min(high, 70), MORE, endpoint=True).astype(side.dtype)
        found.append(np.concatenate([side, more]))
    return found


def on_card(storage: np.ndarray, dtype: DType, device: str) -> Any:
    """The elements as torch has them, bit by bit."""
    return torch.from_numpy(storage.view(np.uint8)).to(device).view(TYPES[dtype])


def check(kind: OpKind, dtype: DType, found: np.ndarray, operands: list[np.ndarray], device: str) -> None:
    call = partial(attrgetter(kind.row.torch or kind.value)(torch), **dict(kind.row.torch_options))
    given = [on_card(x, dtype, device) for x in operands[: kind.row.arity]]
    is_rounded_between = kind is OpKind.FLOOR_DIVIDE and dtype.is_float  # by torch, after each of its steps
    want = call(*(x.double() for x in given)).to(TYPES[dtype]) if is_rounded_between else call(*given)
    assert want.dtype == TYPES[DType.BOOL if kind in COMPARE else dtype]
    if kind in COMPARE or not dtype.is_float:
        expected = want.cpu().numpy().astype(np.int64)
        keep = np.full(expected.shape, True)
        if kind in QUOTIENTS:
            x, y = operands
            keep = (y != 0) & ((x != dtype.integer_range[0]) | (y.astype(np.int64) != -1))
        np.testing.assert_array_equal(found.astype(np.int64)[keep], expected[keep], err_msg=f"{kind} {dtype}")
        return
    have, expected = np.asarray(loaded(found, dtype), np.float64), want.double().cpu().numpy()
    error, form = error_of(kind, dtype, MathGrade.EXACT), FLOAT_FORMATS[dtype]
    rtol, atol = (0.0, 0.0) if error is None else (2 * error.relative + 4 * form.unit_roundoff, 2 * error.absolute)
    size = np.abs(loaded(operands[0], dtype))
    with np.errstate(all="ignore"):
        allowed = rtol * np.abs(expected) + atol + (2 * form.smallest if error is not None else 0.0)
        if kind in CANCELS:
            allowed = allowed + 2.0 ** (-50 if dtype is DType.F64 else -21) * size
        right = (have == expected) | (np.isnan(have) & np.isnan(expected)) | (np.abs(have - expected) <= allowed)
    wrong = np.flatnonzero(~right)
    shown = [(*(float(loaded(x, dtype)[i]) for x in operands), have[i], expected[i]) for i in wrong[:4]]
    assert not wrong.size, f"{kind} {dtype}: {shown}"
    zeros = (have == 0) & (expected == 0) & (kind.row.zero is not Zero.OPEN)
    np.testing.assert_array_equal(np.signbit(have[zeros]), np.signbit(expected[zeros]), err_msg=f"{kind} {dtype}")


def check_all(machine: Machine, dtype: DType, device: str) -> None:
    operands = operands_of(dtype)
    a, b = register("r0", dtype), register("r1", dtype)
    kinds = sorted(k for k in UNARY | BINARY | COMPARE if has_meaning(k, dtype) or k in COMPARE)
    steps = [
        Compute(
            kind,
            register("t", DType.BOOL if kind in COMPARE else dtype),
            (a,) if kind in UNARY else (a, b),
            MathGrade.EXACT,
        )
        for kind in kinds
    ]
    for kind, found in zip(kinds, run(machine, dtype, steps, operands), strict=True):
        check(kind, dtype, found, operands, device)


@pytest.mark.parametrize("dtype", list(TYPES))
def test_operators_are_those_of_torch_on_the_card(pool: CompilePool, dtype: DType) -> None:
    check_all(machine_of(pool, "card"), dtype, "cuda")
