"""Conditions that neighbours share, or that no turn of a loop changes, are asked once."""

from __future__ import annotations

import pytest

from compiler.dtypes import DType
from compiler.ir.expr import Var, const, var
from compiler.ir.tensor import CachePolicy
from compiler.lower.kernel_ir import Elected, GlobalStore, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.passes.joined_guards import join_guards
from compiler.lower.sync_ir import CommitStores, Sync, WaitStores

TX, STEP = Var("tx", 32), Var("k0", 4)
FIRST, SOME = (Less(var(TX), const(1)),), (Less(var(TX), const(9)),)
STORE = GlobalStore(Reg("r", DType.F32, const(0)), "v0", var(TX), 1, CachePolicy.DEFAULT)
OTHER = GlobalStore(Reg("r", DType.F32, const(0)), "v1", var(TX), 1, CachePolicy.DEFAULT)


def steps(*body: Stmt, unroll: bool = True) -> Loop:
    return Loop(STEP, const(4), unroll, body)


JOINED: dict[str, tuple[tuple[Stmt, ...], tuple[Stmt, ...]]] = {
    "neighbours": ((If(FIRST, (STORE,)), If(FIRST, (OTHER,))), (If(FIRST, (STORE, OTHER)),)),
    "three of them": ((If(FIRST, (STORE,)),) * 3, (If(FIRST, (STORE,) * 3),)),
    "in every turn": ((steps(If(FIRST, (STORE,))),), (If(FIRST, (steps(STORE),)),)),
    "a turn's, then a neighbour's": (
        (If(FIRST, (OTHER,)), steps(If(FIRST, (STORE,)))),
        (If(FIRST, (OTHER, steps(STORE))),),
    ),
    "inside another": (
        (If(FIRST, (If(SOME, (STORE,)),)), If(FIRST, (If(SOME, (OTHER,)),))),
        (If(FIRST, (If(SOME, (STORE, OTHER)),)),),
    ),
    "what one thread does": (
        (Elected((CommitStores(),)), Elected((WaitStores(),))),
        (Elected((CommitStores(), WaitStores())),),
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_they_are_asked_once(name: str) -> None:
    before, after = JOINED[name]
    assert join_guards(before) == after


APART: dict[str, tuple[Stmt, ...]] = {
    "another condition": (If(FIRST, (STORE,)), If(SOME, (OTHER,))),
    "a barrier between": (If(FIRST, (STORE,)), Sync(), If(FIRST, (OTHER,))),
    "what happens otherwise": (If(FIRST, (STORE,), (OTHER,)), If(FIRST, (OTHER,))),
    "a condition on the turn": (steps(If((Less(var(STEP), const(3)),), (STORE,))),),
    "a loop that stays a loop": (steps(If(FIRST, (STORE,)), unroll=False),),
    "something else in the turn": (steps(OTHER, If(FIRST, (STORE,))),),
}


@pytest.mark.parametrize("name", APART)
def test_others_stay_where_they_are(name: str) -> None:
    assert join_guards(APART[name]) == APART[name]
