"""One wait for loads of several tensors from tensor memory: where nothing needs the earlier one."""

from __future__ import annotations

import pytest

from compiler.analysis.tmem.patterns import Pattern
from compiler.dtypes import DType
from compiler.ir.expr import Var, const
from compiler.ir.ops import MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Declare, Loop, Opaque, Stmt
from compiler.lower.operands import Reg, Tmem
from compiler.lower.passes.joined_load_waits import join_load_waits
from compiler.lower.sync_ir import Sync
from compiler.lower.tmem_ir import TmemLoad, TmemStore, WaitTmemLoads, WaitTmemStores

WAIT = WaitTmemLoads()
COLUMNS = {"a": "a", "b": "b", "in a": "a"}
"""`in a` lies in the columns of `a`."""


def reg(name: str) -> Reg:
    return Reg(name, DType.I32, const(0))


def load(tensor: str) -> TmemLoad:
    return TmemLoad(reg(f"{tensor}_words"), Tmem(tensor, const(0), const(0)), Pattern.P32X32B, 1, 1)


def store(tensor: str) -> TmemStore:
    return TmemStore(reg("x"), Tmem(tensor, const(0), const(0)), Pattern.P32X32B, 1, 1)


def made(kind: OpKind, target: str, source: str) -> Compute:
    return Compute(kind, reg(target), (reg(source),), MathGrade.EXACT)


def moves(tensor: str) -> tuple[Stmt, ...]:
    turns = Loop(Var("k", 2), const(2), True, (made(OpKind.COPY, tensor, f"{tensor}_words"),))
    return Opaque(f"{tensor}_words", DType.I32, 1), turns


SECOND = (Declare("b_words", DType.I32, 1), load("b"))


@pytest.mark.parametrize(
    ("between", "is_joined"),
    [
        pytest.param((), True, id="nothing"),
        pytest.param((store("b"), WaitTmemStores()), True, id="a store to other columns"),
        pytest.param((store("in a"),), False, id="a store to columns that were read"),
        pytest.param((made(OpKind.NEG, "y", "a"),), False, id="a use"),
        pytest.param((made(OpKind.NEG, "y", "x"),), True, id="the use of something else"),
        pytest.param((Sync(),), False, id="a barrier"),
    ],
)
def test_a_wait_that_the_next_one_serves_for(between: tuple[Stmt, ...], is_joined: bool) -> None:
    body = (load("a"), WAIT, *moves("a"), *between, *SECOND, WAIT, *moves("b"))
    joined = (load("a"), *between, *SECOND, WAIT, *moves("a"), *moves("b"))
    assert join_load_waits(body, COLUMNS) == (joined if is_joined else body)


def test_three_waits_become_one() -> None:
    once = (load("a"), WAIT, *moves("a"))
    (loop,) = join_load_waits((Loop(Var("t", 2), const(2), False, (*once, *once, *once)),), COLUMNS)
    assert isinstance(loop, Loop)
    assert [type(s).__name__ for s in loop.body].count("WaitTmemLoads") == 3, "the same registers"
    several = [x for n in ("a", "b") for x in (load(n), WAIT, *moves(n))]
    found = join_load_waits((*several, load("in a"), WAIT), COLUMNS)
    assert [s for s in found if isinstance(s, WaitTmemLoads)] == [WAIT]
    assert isinstance(found[3], WaitTmemLoads)
