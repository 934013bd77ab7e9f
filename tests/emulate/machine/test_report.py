"""What a report has, and in which order: causes before what follows from them."""

from __future__ import annotations

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.emulate.report import FaultKind, Report

INSN = parse(".version 8.6\n.target sm_90a\n.address_size 64\n.entry k() { ret; }").functions["k"].instructions[0]

UNWRITTEN, RACE, MISUSE = FaultKind.UNINITIALIZED_READ, FaultKind.RACE, FaultKind.MBARRIER_MISUSE
IN_FLIGHT, BOUNDS, DEADLOCK = FaultKind.IN_FLIGHT_AT_EXIT, FaultKind.OUT_OF_BOUNDS, FaultKind.DEADLOCK


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        pytest.param([(UNWRITTEN, "s"), (RACE, "s")], [RACE, UNWRITTEN], id="read too early"),
        pytest.param([(UNWRITTEN, "x"), (RACE, "s")], [UNWRITTEN, RACE], id="other memory"),
        pytest.param([(UNWRITTEN, "s"), (BOUNDS, "s")], [UNWRITTEN, BOUNDS], id="no cause"),
        pytest.param([(IN_FLIGHT, "s"), (MISUSE, "s"), (RACE, "s")], [MISUSE, RACE, IN_FLIGHT], id="wrong phase"),
        pytest.param([(DEADLOCK, None), (MISUSE, "s")], [MISUSE, DEADLOCK], id="deadlock"),
    ],
)
def test_causes_come_first(seen: list[tuple[FaultKind, str | None]], told: list[FaultKind]) -> None:
    report = Report()
    for kind, tensor in seen:
        report.add(kind, INSN, "", tensor=tensor)
    assert [fault.kind for fault in report.faults] == told


def test_a_fault_is_counted_once_an_instruction_and_tensor() -> None:
    report = Report()
    for tensor in ("x", "x", "y"):
        report.add(BOUNDS, INSN, "", tensor=tensor, count=2)
    assert [(fault.tensor, fault.count) for fault in report.faults] == [("x", 4), ("y", 2)]
