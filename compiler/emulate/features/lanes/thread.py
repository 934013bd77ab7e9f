"""What a thread says of itself or its grid (PTX ISA, "nanosleep", "trap", "griddepcontrol")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction
from compiler.emulate.report import FaultKind, Halt


@instruction("nanosleep")
def build_nanosleep(insn: PtxInstruction, binder: Binder) -> Run:
    """`nanosleep`: others take their turn first."""
    duration = binder.reader(insn.operands[0], np.uint32, insn)

    def run(active: Active) -> None:
        duration(active)
        active.machine.stall(active.lanes)

    return run


@instruction("trap")
def build_trap(insn: PtxInstruction, binder: Binder) -> Run:
    """`trap`: the kernel itself says that something is wrong, and the grid ends."""

    def run(active: Active) -> None:
        active.fault(
            FaultKind.TRAP,
            insn,
            "The kernel trapped: it found by itself that it cannot go on (an index that is out of range, an assertion, "
            "an unreachable place, a time-out). See what leads to this line.",
        )
        raise Halt

    return run


@instruction("brkpt", "pmevent")
def build_nothing(insn: PtxInstruction, binder: Binder) -> Run:
    """`brkpt` and `pmevent`: nobody listens."""
    return lambda active: None


@instruction("griddepcontrol")
def build_griddepcontrol(insn: PtxInstruction, binder: Binder) -> Run:
    """`griddepcontrol`: the grid runs alone, so the grids it depends on are done and dependent ones may start."""
    if insn.name[1:] not in (("wait",), ("launch_dependents",)):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return lambda active: None
