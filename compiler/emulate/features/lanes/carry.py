"""Sums of many words: the carry of one instruction goes into the next.

PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder
from compiler.emulate.features.lanes.arithmetic import product
from compiler.emulate.features.lanes.elementwise import integer_type, spread
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.numeric import integer
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction


class ConditionCode(Engine):
    """The condition code register: a carry a lane.

    A subtraction leaves the carry of a + ~b + 1, that is, whether it did not borrow, and takes it so: an `addc` after a
    `subc.cc` sees 1 where there was no borrow. The PTX ISA speaks of the borrow itself; on an H200 it is the carry, and
    NVRTC's 128-bit division counts on it.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.carry = np.zeros(machine.threads.lanes, np.bool_)


_NO_CARRY = np.zeros((), np.bool_)


@instruction("add.cc", "addc", "sub.cc", "subc")
def build_sum(insn: PtxInstruction, binder: Binder) -> Run:
    """`add.cc` and `sub.cc` leave a carry; `addc` and `subc` take it, and leave the next with `.cc`."""
    dtype = np.dtype(f"u{integer_type(insn.name[-1]).itemsize}")
    destination, first, second = insn.operands
    a, b = binder.reader(first, dtype, insn), binder.reader(second, dtype, insn)
    write = binder.writer(destination, dtype, insn)
    takes, leaves = insn.opcode in ("addc", "subc"), insn.has("cc")
    subtracts = insn.opcode in ("sub", "subc")
    compute = integer.sub_with_borrow if subtracts else integer.add_with_carry

    def run(active: Active) -> None:
        code = active.machine.engine(ConditionCode)
        taken = code.carry[active.lanes] ^ subtracts if takes else _NO_CARRY
        result, carry = compute(a(active), b(active), taken)
        write(active, result)
        if leaves:
            code.carry[active.lanes] = spread(np.asarray(carry) ^ subtracts, active)

    return run


@instruction("mad.lo.cc", "mad.hi.cc", "madc")
def build_mad(insn: PtxInstruction, binder: Binder) -> Run:
    """`mad.cc` and `madc`: the carry is that of the sum, not of the product."""
    function, dtype, _ = product(insn)
    word = np.dtype(f"u{dtype.itemsize}")
    destination, *operands = insn.operands
    a, b = (binder.reader(o, dtype, insn) for o in operands[:2])
    c = binder.reader(operands[2], word, insn)
    write = binder.writer(destination, word, insn)
    takes, leaves = insn.opcode == "madc", insn.has("cc")

    def run(active: Active) -> None:
        code = active.machine.engine(ConditionCode)
        term = np.asarray(function(a(active), b(active))).view(word)
        result, carry = integer.add_with_carry(term, c(active), code.carry[active.lanes] if takes else _NO_CARRY)
        write(active, result)
        if leaves:
            code.carry[active.lanes] = spread(np.asarray(carry), active)

    return run
