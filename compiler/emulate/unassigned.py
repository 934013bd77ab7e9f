"""Values made of registers that hold none: followed through computations to where one is used.

A compiler moves variables without a value round loops and computes with them early, where nothing uses the result. So
such a register is no fault in an instruction that only computes (`ptx.assignment.computes`): its result has no value
either. It is one in a store, an address, a condition; the report names where the value was first computed with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.ptx.assignment import computes, copies, destinations, sources
from compiler.emulate.ptx.module import Instruction, Operand, Register
from compiler.emulate.registry import Run

Flags = npt.NDArray[np.bool_]


def followed(insn: Instruction, step: Run, checked: frozenset[int]) -> Run:
    """`step`, which executes `insn`, and then notes which lanes' results have values. `checked`: registers in doubt."""
    read = [r for r in sources(insn) if r.index in checked and r is not insn.guard]
    written = [r for r in destinations(insn) if r.index in checked]
    if not computes(insn) or not read or not written:
        return step
    is_origin = not copies(insn)

    def run(active: Active) -> None:
        machine = active.machine
        known = _known(insn, active, checked)
        source = next((r for r in read if not machine.assigned(r.index)[active.lanes].all()), None)
        step(active)
        for register in written:
            machine.assigned(register.index)[active.lanes] = known
            if source is not None and not known.all():
                origin = machine.origins.get(source.index) or (insn if is_origin else None)
                if origin is not None:
                    machine.origins[register.index] = origin

    return run


def _known(insn: Instruction, active: Active, checked: frozenset[int]) -> Flags:
    """Which lanes' results have values."""

    def has_value(operand: Operand) -> Flags:
        if isinstance(operand, Register) and operand.index in checked:
            return active.machine.assigned(operand.index)[active.lanes]
        return np.ones(len(active), np.bool_)

    if insn.opcode == "selp":
        _, first, second, which = insn.operands
        assert isinstance(which, Register)
        taken = active.machine.registers[which.index][active.lanes]
        return has_value(which) & np.where(taken, has_value(first), has_value(second))
    if insn.opcode in ("and", "or") and insn.name[-1] == "pred":
        _, first, second = insn.operands
        decides = insn.opcode == "or"
        known = has_value(first) & has_value(second)
        for operand in (first, second):
            if isinstance(operand, Register):
                values = active.machine.registers[operand.index][active.lanes]
                known = known | (has_value(operand) & (values == decides))
        return known
    known = np.ones(len(active), np.bool_)
    for register in sources(insn):
        if register is not insn.guard:
            known = known & has_value(register)
    return known
