"""Neighbours that a thread draws share a call where they begin a group of four, or half of one."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Declare, Fill, If, Loop, SharedCall, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.shared_draws import share_draws

X, K = Var("tx", 64), Var("k", 8)


def draw(element: Expr, seed: Expr | None = None) -> Compute:
    state = (Reg("seed", DType.I64, seed or const(0)), Reg("offset", DType.I64, const(0)))
    return Compute(OpKind.RAND, Reg("v", DType.F32, var(K)), state, MathGrade.EXACT, element)


def loop(element: Expr, trip: int = 8, *, unroll: bool = True) -> Loop:
    return Loop(K, const(trip), unroll, (draw(element),))


@pytest.mark.parametrize(
    ("given", "group"),
    [
        pytest.param(loop(var(X) * 8 + var(K)), 4, id="eight"),
        pytest.param(loop(var(X) * 4 + var(K), 4), 4, id="four"),
        pytest.param(loop(var(X) * 4 + 8 + var(K), 4), 4, id="beyond-a-constant"),
        pytest.param(loop(var(X) * 6 + var(K), 6), 2, id="half-a-group"),
        pytest.param(loop(var(X) * 2 + var(K), 2), 2, id="two"),
        pytest.param(loop(var(X) * 4 + 1 + var(K), 4), 1, id="begins-at-an-odd-place"),
        pytest.param(loop(var(X) * 3 + var(K), 3), 1, id="three"),
        pytest.param(loop(var(X) + var(K) * 64), 1, id="no-neighbours"),
        pytest.param(loop(var(X) * 8 + var(K), unroll=False), 1, id="not-unrolled"),
        pytest.param(loop(var(X), 1), 1, id="one"),
    ],
)
def test_so_many_turns_share_a_call(given: Loop, group: int) -> None:
    made = share_draws((given,))
    if group == 1:
        assert made == (given,)
        return
    declared, shared = made
    assert declared == Declare("v_words", DType.I32, 4)
    assert isinstance(shared, Loop)
    (computed,) = shared.body
    assert isinstance(computed, Compute)
    assert computed.call == SharedCall("v_words", group, K)
    (drawn,) = given.body
    assert isinstance(drawn, Compute)
    assert computed.element == drawn.element


def test_a_draw_that_not_every_turn_makes_is_alone() -> None:
    """The first of a group may be left out, and with it the words of the others."""
    guarded: tuple[Stmt, ...] = (If((Less(var(K), var(X)),), (draw(var(X) * 8 + var(K)),)),)
    given = (Loop(K, const(8), True, guarded),)
    assert share_draws(given) == given


def test_a_draw_of_another_seed_is_alone() -> None:
    """Where each turn loads its own, one whose bounds do not hold has none."""
    given = (Loop(K, const(8), True, (draw(var(X) * 8 + var(K), seed=var(K)),)),)
    assert share_draws(given) == given
    made = (Loop(K, const(8), True, (Fill("seed", DType.I64, 1, OpKind.SUM), draw(var(X) * 8 + var(K)))),)
    assert share_draws(made) == made


def test_loops_inside_others_are_found() -> None:
    outer = Loop(Var("j", 4), const(4), False, (If((Less(var(X), const(9)),), (loop(var(X) * 8 + var(K)),)),))
    (made,) = share_draws((outer,))
    assert isinstance(made, Loop)
    (guarded,) = made.body
    assert isinstance(guarded, If)
    assert [type(s) for s in guarded.then] == [Declare, Loop]
