"""Passes over folds of rows: one question for a vector, and rows that stay packed from one pass to the next."""

from __future__ import annotations

from compiler.dtypes import DType
from compiler.ir.expr import Var, const, var
from compiler.ir.ops import MathGrade, OpKind
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Accumulate, Compute, Declare, GlobalLoad, GlobalStore, If, Loop, Opaque, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.fold_guards import hoist_fold_guards
from compiler.lower.passes.packed_rows import keep_rows_packed
from compiler.lower.sync_ir import Sync

LANE, STEP = Var("k1", 8), Var("k0", 4)
INSIDE = (Less(var(Var("tx", 32)) + var(STEP) * 32, const(100)),)
SUM, X, Y = (Reg(name, DType.F32, const(0)) for name in ("s", "x", "y"))


def fold_of(guards: tuple[Less, ...], target: str = "y") -> Loop:
    """for lane: y = x^2; s = sum with y if guards."""
    made = Reg(target, DType.F32, const(0))
    square = Compute(OpKind.SQUARE, made, (X,), MathGrade.EXACT)
    return Loop(LANE, const(8), True, (Declare("y", DType.F32, 1), square, Accumulate(OpKind.SUM, SUM, made, guards)))


def test_guards_that_no_lane_changes_are_asked_once() -> None:
    (found,) = hoist_fold_guards((fold_of(INSIDE),))
    assert found == If(INSIDE, (fold_of(()),))


def test_guards_of_lanes_and_values_that_live_on_stay_where_they_are() -> None:
    by_lane = (Less(var(LANE), const(5)),)
    for kept in (fold_of(by_lane), fold_of(()), fold_of(INSIDE, target="z")):
        assert hoist_fold_guards((kept,)) == (kept,)


def row(*between: Stmt, elems: int = 8) -> tuple[Stmt, ...]:
    load = GlobalLoad(X, "i0", const(0), 1, CachePolicy.DEFAULT)
    return (Declare("x", DType.F32, elems), load, fold_of(()), *between, fold_of(()))


def test_a_row_is_forgotten_before_the_pass_after_a_barrier() -> None:
    forget = Opaque("x", DType.F32, 8)
    assert keep_rows_packed(row(Sync())) == (*row(Sync())[:4], forget, fold_of(()))


def test_what_one_pass_reads_and_what_is_no_row_is_left_alone() -> None:
    store = GlobalStore(SUM, "v0", const(0), 1, CachePolicy.DEFAULT)
    for body in (row(), row(store), row(Sync(), elems=1), row(Sync())[:4]):
        assert keep_rows_packed(body) == body
