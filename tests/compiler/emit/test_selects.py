"""Conditions that are emitted as selections, and those that stay branches."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.emit.selects import folded_under
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Accumulate, Compute, Declare, GlobalLoad, If, Loop, Stmt
from compiler.lower.operands import Less, Reg

LANE = Var("k0", 8)
SUM = Reg("s", DType.F32, const(0))
VALUE = Reg("v", DType.F32, const(0))
X = Reg("x", DType.F32, var(LANE))
INSIDE = (Less(var(Var("tx", 64)), const(40)),)

SQUARE = Compute(OpKind.SQUARE, VALUE, (X,), MathGrade.EXACT)
FOLD = Accumulate(OpKind.SUM, SUM, VALUE)
LOAD = GlobalLoad(X, "i0", Expr(), 1, CachePolicy.DEFAULT)


def lanes(*body: Stmt, unroll: bool = True) -> Loop:
    return Loop(LANE, const(8), unroll, body)


@pytest.mark.parametrize(
    ("body", "folds"),
    [
        pytest.param((lanes(Declare("v", DType.F32, 1), SQUARE, FOLD),), (SUM,), id="fold"),
        pytest.param((lanes(SQUARE, FOLD),), (), id="a-value-that-outlives-it"),
        pytest.param((lanes(Declare("v", DType.F32, 1), LOAD, FOLD),), (), id="a-load"),
        pytest.param(
            (lanes(Declare("v", DType.F32, 1), SQUARE, FOLD, unroll=False),), (), id="a-loop-that-is-not-unrolled"
        ),
        pytest.param((lanes(Declare("v", DType.F32, 1), SQUARE),), (), id="no-fold"),
    ],
)
def test_folds_alone_are_selected(body: tuple[Stmt, ...], folds: tuple[Reg, ...]) -> None:
    assert folded_under(If(INSIDE, body)) == folds


def test_an_alternative_stays_a_branch() -> None:
    body = (lanes(Declare("v", DType.F32, 1), SQUARE, FOLD),)
    assert folded_under(If(INSIDE, body, (FOLD,))) == ()
