"""Loops that take the maximum of 16-bit floats become one fold of pairs, where pairs there are; others stay."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, Compute, Declare, Elected, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.packed_folds import pack_folds
from compiler.lower.sync_ir import Sync

STEP, LANE, TX = Var("k0", 4), Var("k1", 8), Var("tx", 32)


def result(dtype: DType = DType.BF16, at: Expr | None = None) -> Reg:
    return Reg("m", dtype, const(0) if at is None else at)


def value(at: Expr, dtype: DType = DType.BF16) -> Reg:
    return Reg("x", dtype, at)


def lanes(*body: Stmt, count: int = 8, unroll: bool = True) -> Loop:
    return Loop(Var("k1", count), const(count), unroll, body)


def fold(at: Expr, kind: OpKind = OpKind.AMAX, dtype: DType = DType.BF16, guards: tuple[Less, ...] = ()) -> Accumulate:
    return Accumulate(kind, result(dtype), value(at, dtype), guards)


AT = var(STEP) * 8 + var(LANE)
RUN = AccumulateRun(OpKind.AMAX, result(), value(const(0)), 32)


@pytest.mark.parametrize("kind", [OpKind.AMAX, OpKind.AMIN])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_lanes_and_steps_become_one_run(kind: OpKind, dtype: DType) -> None:
    nest = Loop(STEP, const(4), True, (lanes(fold(AT, kind, dtype)),))
    assert pack_folds((nest,)) == (AccumulateRun(kind, result(dtype), value(const(0), dtype), 32),)


def test_a_serial_loop_keeps_the_runs_of_its_turns() -> None:
    (found,) = pack_folds((Loop(STEP, const(4), False, (lanes(fold(AT)),)),))
    assert found == Loop(STEP, const(4), False, (AccumulateRun(OpKind.AMAX, result(), value(var(STEP) * 8), 8),))


def test_runs_are_found_under_conditions() -> None:
    inside = (Less(var(TX), const(5)),)
    nest = Loop(STEP, const(4), True, (lanes(fold(AT)),))
    assert pack_folds((If(inside, (nest,), (nest,)), Elected((nest,)))) == (If(inside, (RUN,), (RUN,)), Elected((RUN,)))


def of_sizes(at: Expr, dtype: DType = DType.BF16, *, wide: DType = DType.F32, kind: OpKind = OpKind.AMAX) -> list[Stmt]:
    """Widened, without its sign, folded."""
    a, b = Reg("a", wide, const(0)), Reg("b", wide, const(0))
    return [
        Declare("a", wide, 1),
        Compute(OpKind.CAST, a, (value(at, dtype),), MathGrade.EXACT),
        Declare("b", wide, 1),
        Compute(OpKind.ABS, b, (a,), MathGrade.EXACT),
        Accumulate(kind, result(wide), b),
    ]


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_the_sizes_of_halves_become_one_run(dtype: DType) -> None:
    nest = Loop(STEP, const(4), True, (lanes(*of_sizes(AT, dtype)),))
    assert pack_folds((nest,)) == (
        AccumulateRun(OpKind.AMAX, result(DType.F32), value(const(0), dtype), 32, of_sizes=True),
    )


KEPT: dict[str, Stmt] = {
    "the sizes of f32": lanes(*of_sizes(var(LANE), DType.F32)),
    "sizes in f64": lanes(*of_sizes(var(LANE), wide=DType.F64)),
    "the least of the sizes": lanes(*of_sizes(var(LANE), kind=OpKind.AMIN)),
    "sizes that something else reads": lanes(*of_sizes(var(LANE)), Sync()),
    "a sum, whose order matters": lanes(fold(var(LANE), OpKind.SUM)),
    "f32, which has no pairs": lanes(fold(var(LANE), dtype=DType.F32)),
    "a guard": lanes(fold(var(LANE), guards=(Less(var(LANE), const(5)),))),
    "an odd number": lanes(Accumulate(OpKind.AMAX, result(), value(var(Var("k1", 7)))), count=7),
    "every other element": lanes(fold(var(LANE) * 2)),
    "one element again and again": lanes(fold(const(0))),
    "a result for each lane": lanes(Accumulate(OpKind.AMAX, result(at=var(LANE)), value(var(LANE)))),
    "a loop that stays a loop": lanes(fold(var(LANE)), unroll=False),
    "something beside the fold": lanes(fold(var(LANE)), Sync()),
    "a wider result": lanes(Accumulate(OpKind.AMAX, result(DType.F32), value(var(LANE)))),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_loops_stay(name: str) -> None:
    assert pack_folds((KEPT[name],)) == (KEPT[name],)


def test_runs_with_gaps_are_not_joined() -> None:
    """Eight of every sixteen: each step is a run of its own."""
    (found,) = pack_folds((Loop(STEP, const(4), True, (lanes(fold(var(STEP) * 16 + var(LANE))),)),))
    assert found == Loop(STEP, const(4), True, (AccumulateRun(OpKind.AMAX, result(), value(var(STEP) * 16), 8),))
