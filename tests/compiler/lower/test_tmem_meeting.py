"""Tensor memory is freed without a barrier where all warps have met since its last use, and only there."""

from __future__ import annotations

import pytest

from compiler.analysis.tmem.patterns import Pattern
from compiler.dtypes import DType
from compiler.ir.expr import Var, const
from compiler.lower.kernel_ir import Elected, If, Loop, Opaque, Stmt
from compiler.lower.operands import Less, Reg, Tmem
from compiler.lower.sync_ir import Sync
from compiler.lower.tmem_ir import TmemLoad, WaitTmemLoads
from compiler.lower.tmem_meeting import meets_after_last_use

USE = TmemLoad(Reg("r", DType.I32, const(0)), Tmem("t", const(0), const(0)), Pattern.P32X32B, 1, 1)
OTHER = Opaque("r", DType.I32, 1)
SOMETIMES = (Less(const(1), const(2)),)


def loop(*body: Stmt, times: int = 4) -> Loop:
    return Loop(Var("k", 4), const(times), False, body)


@pytest.mark.parametrize(
    ("body", "meets"),
    [
        pytest.param((USE, WaitTmemLoads(), Sync(), OTHER), True, id="a barrier after the wait"),
        pytest.param((USE, Sync(), WaitTmemLoads()), False, id="a barrier before the wait"),
        pytest.param((Sync(), OTHER), True, id="no use at all"),
        pytest.param((OTHER,), False, id="no barrier either"),
        pytest.param((loop(USE, WaitTmemLoads(), Sync()),), True, id="at the end of every turn"),
        pytest.param((loop(Sync(), USE, WaitTmemLoads()),), False, id="at the begin of every turn"),
        pytest.param((Sync(), loop(OTHER)), True, id="before a loop without a use"),
        pytest.param((USE, WaitTmemLoads(), loop(Sync(), times=0)), False, id="in a loop that may not run"),
        pytest.param((If(SOMETIMES, (USE, Sync()), (Sync(),)),), True, id="on both ways"),
        pytest.param((If(SOMETIMES, (USE, Sync()), (USE,)),), False, id="on one way"),
        pytest.param((Sync(), If(SOMETIMES, (Sync(),), ())), True, id="on one way, and before"),
        pytest.param((USE, If(SOMETIMES, (Sync(),), ())), False, id="on one way alone"),
        pytest.param((USE, Elected((Sync(),))), False, id="of one thread"),
        pytest.param((Sync(), Elected((USE,))), False, id="used by one thread"),
    ],
)
def test_whether_all_have_met(body: tuple[Stmt, ...], meets: bool) -> None:
    assert meets_after_last_use(body) is meets
