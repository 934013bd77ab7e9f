"""The block barrier after the set-up of mbarriers goes where another one comes before any wait, and only there."""

from __future__ import annotations

import pytest

from compiler.ir.expr import Var, const
from compiler.lower.kernel_ir import Elected, If, Loop, Stmt
from compiler.lower.operands import Barrier, Less
from compiler.lower.passes.setup_sync import drop_redundant_setup_sync
from compiler.lower.sync_ir import ExpectBytes, InitBarriers, Sync, WaitBarrier

INIT = InitBarriers(0, 1, ())
WAIT = WaitBarrier(Barrier(const(0)), const(0))
ISSUE = Elected((ExpectBytes(Barrier(const(0)), 16),))
K = Var("k", 4)
SOMETIMES = (Less(const(1), const(2)),)


def loop(*body: Stmt, times: int = 4) -> Loop:
    return Loop(K, const(times), False, body)


CASES = [
    pytest.param((ISSUE, WAIT), False, id="a wait follows"),
    pytest.param((ISSUE, Sync(), WAIT), True, id="another barrier comes first"),
    pytest.param((ISSUE, WAIT, Sync()), False, id="the other barrier comes later"),
    pytest.param((ISSUE,), True, id="nobody waits"),
    pytest.param((loop(Sync(), ISSUE, WAIT),), True, id="in a loop, the barrier first"),
    pytest.param((loop(ISSUE, WAIT, Sync()),), False, id="in a loop, the wait first"),
    pytest.param((loop(Sync()), WAIT), True, id="a loop that always syncs"),
    pytest.param((loop(Sync(), times=0), WAIT), False, id="a loop that may not run"),
    pytest.param((If(SOMETIMES, (Sync(), WAIT), (Sync(), WAIT)),), True, id="both branches sync"),
    pytest.param((If(SOMETIMES, (Sync(), WAIT), (WAIT,)),), False, id="one branch waits first"),
    pytest.param((If(SOMETIMES, (Sync(),), ()), WAIT), False, id="one branch syncs, then a wait"),
    pytest.param((If(SOMETIMES, (Sync(),), (Sync(),)), WAIT), True, id="both branches sync, then a wait"),
]


@pytest.mark.parametrize(("rest", "is_dropped"), CASES)
def test_the_barrier_is_dropped_where_it_is_redundant(rest: tuple[Stmt, ...], is_dropped: bool) -> None:
    body = (INIT, Sync(), *rest)
    assert drop_redundant_setup_sync(body) == ((INIT, *rest) if is_dropped else body)


def test_a_body_without_mbarriers_stays() -> None:
    assert drop_redundant_setup_sync((Sync(), ISSUE)) == (Sync(), ISSUE)
