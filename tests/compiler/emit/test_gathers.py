"""Byte moves that become permutations of words, and those that stay as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.dtypes import DType
from compiler.emit.gathers import gather, gathers_bytes
from compiler.ir.expr import Expr, Var, const
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Loop
from compiler.lower.operands import Reg

K = Var("k", 4)
STEP, ROW, HALF = (Expr(((v, 1),)) for v in (K, Var("j", 4), Var("h", 2)))


def move(target: Expr, source: Expr, *, kind: OpKind = OpKind.PERMUTE, dtype: DType = DType.I8) -> Loop:
    made = Compute(kind, Reg("w0", dtype, target), (Reg("i0_r", dtype, source),), MathGrade.EXACT)
    return Loop(K, const(4), True, (made,))


BYTES = move(STEP, STEP * 8 + ROW)


@pytest.mark.parametrize(
    ("loop", "call"),
    [
        pytest.param(BYTES, "ft_gather_bytes<4, 8>(&w0[0u], &i0_r[0u], j);", id="a column of words"),
        pytest.param(
            move(STEP + ROW * 4, STEP * 4 + ROW + 16),
            "ft_gather_bytes<4, 4>(&w0[j * 4u], &i0_r[0u], j + 16u);",
            id="into a later word",
        ),
        pytest.param(
            move(STEP, STEP * 2 + HALF + 8), "ft_gather_bytes<4, 2>(&w0[0u], &i0_r[0u], h + 8u);", id="every other one"
        ),
    ],
)
def test_columns_of_bytes_are_gathered(loop: Loop, call: str) -> None:
    assert gathers_bytes(loop)
    assert gather(loop) == [call]


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(move(STEP, STEP + ROW), id="bytes side by side are a copy"),
        pytest.param(move(STEP, STEP * 6 + ROW), id="not whole words apart"),
        pytest.param(move(STEP, STEP * 2 + ROW), id="every other one, over three words"),
        pytest.param(move(STEP + 2, STEP * 8 + ROW), id="not from the start of a word"),
        pytest.param(move(STEP * 2, STEP * 8 + ROW), id="not side by side"),
        pytest.param(move(STEP, STEP * 8 + ROW, dtype=DType.BF16), id="halves"),
        pytest.param(move(STEP, STEP * 8 + ROW, kind=OpKind.NEG), id="arithmetic"),
        pytest.param(replace(BYTES, trip=const(6)), id="not whole words of them"),
        pytest.param(replace(BYTES, unroll=False), id="registers have no addresses"),
        pytest.param(replace(BYTES, body=BYTES.body * 2), id="two statements"),
    ],
)
def test_other_loops_are_not(loop: Loop) -> None:
    assert not gathers_bytes(loop)
