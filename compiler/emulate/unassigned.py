"""Values made of registers that hold none: followed through computations, byte by byte, to where one is used.

A compiler moves variables without a value round loops and computes with them early, where nothing uses the result. So
such a register is no fault in an instruction that only computes (`ptx.assignment.computes`): its result has no value
either. It is one in a store, an address, a condition; the report names where the value was first computed with.

A register that neighbours share gets one value after the other: whatever moves, shifts or masks bytes without a value
away leaves one of those that have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import WHOLE
from compiler.emulate.known_bytes import (
    Bytes,
    above,
    all_or_none,
    carried,
    converted,
    permuted,
    shifted_left,
    shifted_right,
)
from compiler.emulate.ptx.assignment import computes, copies, destinations, sources
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, Register, Vector
from compiler.emulate.registry import Run

_CARRYING = frozenset({"add", "sub", "mul", "mad", "neg"})
"""Of integers, and of products the lower half: what is above a byte does not count in it."""


def followed(insn: PtxInstruction, step: Run, checked: frozenset[int]) -> Run:
    """`step`, which executes `insn`, and then notes which bytes of lanes' results have values. `checked`: registers in
    doubt."""
    read = [r for r in sources(insn) if r.index in checked and r is not insn.guard]
    written = [r for r in destinations(insn) if r.index in checked]
    if not computes(insn) or not read or not written:
        return step
    is_origin = not copies(insn)

    def run(active: Active) -> None:
        machine = active.machine
        known = _known(insn, active, checked)
        source = next((r for r in read if (machine.known_bytes(r.index)[active.lanes] != WHOLE).any()), None)
        step(active)
        for register in written:
            mask = known[register.index]
            machine.known_bytes(register.index)[active.lanes] = mask
            if source is not None and (mask != WHOLE).any():
                origin = machine.origins.get(source.index) or (insn if is_origin else None)
                if origin is not None:
                    machine.origins[register.index] = origin

    return run


def _known(insn: PtxInstruction, active: Active, checked: frozenset[int]) -> dict[int, Bytes]:
    """By destination: which bytes of lanes' results have values."""

    def known(operand: Operand) -> Bytes:
        if isinstance(operand, Register) and operand.index in checked:
            return active.machine.known_bytes(operand.index)[active.lanes]
        return np.full(len(active), WHOLE)

    results = destinations(insn)
    first = insn.operands[0]
    if insn.opcode == "mov" and isinstance(first, Vector):
        part = _nbytes(insn) // len(first.items)
        word = known(insn.operands[1])
        items = [(k, item) for k, item in enumerate(first.items) if isinstance(item, Register)]
        return {item.index: (word >> np.uint16(k * part)) | above(part) for k, item in items}
    moved = _moved(insn, active, [known(operand) for operand in insn.operands[1:]])
    if moved is None:
        has = np.ones(len(active), np.bool_)
        for register in sources(insn):
            if register is not insn.guard:
                has = has & (known(register) == WHOLE)
        moved = all_or_none(has)
    if insn.opcode == "mov" and isinstance(insn.operands[1], Vector):
        parts = insn.operands[1].items
        part = _nbytes(insn) // len(parts)
        moved = np.full(len(active), above(part * len(parts)))
        for k, item in enumerate(parts):
            moved = moved | ((known(item) & ~above(part)) << np.uint16(k * part))
    return dict.fromkeys((r.index for r in results), moved)


def _moved(insn: PtxInstruction, active: Active, known: list[Bytes]) -> Bytes | None:
    """The bytes of the result of an instruction that may do without some of its operands'; None for any other."""
    operands = insn.operands[1:]
    match insn.opcode, operands:
        case "selp", (_, _, Register() as which):
            taken = active.machine.registers[which.index][active.lanes]
            chosen: Bytes = np.where(taken, known[0], known[1])
            return np.where(known[2] == WHOLE, chosen, np.uint16(0))
        case (("and" | "or"), _) if insn.name[-1] == "pred":
            has = (known[0] == WHOLE) & (known[1] == WHOLE)
            for operand, own in zip(operands, known, strict=True):
                if isinstance(operand, Register):
                    values = active.machine.registers[operand.index][active.lanes]
                    has = has | ((own == WHOLE) & (values == (insn.opcode == "or")))
            return all_or_none(has)
        case "and", (Register(), Immediate(value=value)):
            cleared = sum(1 << k for k in range(_nbytes(insn)) if not value >> 8 * k & 0xFF)
            return known[0] | np.uint16(cleared)
        case (("and" | "or" | "xor" | "not" | "lop3"), _):
            return reduce(np.bitwise_and, known)
        case "shl", (_, Immediate(value=bits)):
            return shifted_left(known[0], bits, _nbytes(insn))
        case "shr", (_, Immediate(value=bits)):
            return shifted_right(known[0], bits, _nbytes(insn), insn.name[-1][0] == "s")
        case "cvt", (_,) if _is_of_integers(insn.name):
            to, source = (int(part[1:]) // 8 for part in insn.name[-2:])
            return converted(known[0], to, source, insn.name[-1][0] == "s")
        case "prmt", (_, _, Immediate(value=selector)) if len(insn.name) == 2:
            return permuted(known[0], known[1], selector)
        case "dp2a", _:
            part = np.uint16(0b0011 if insn.has("lo") else 0b1100)
            return all_or_none((known[0] == WHOLE) & (known[1] & part == part) & (known[2] == WHOLE))
        case (name, _) if name in _CARRYING and _keeps_low_bytes(insn.name):
            return carried(known) | above(_nbytes(insn))
        case _:
            return None


def _nbytes(insn: PtxInstruction) -> int:
    """The size of the type that ends the instruction's name."""
    return int(insn.name[-1].lstrip("bsuf")) // 8


def _is_of_integers(name: Sequence[str]) -> bool:
    """Whether a conversion takes an integer to another and saturates none."""
    return all(part[0] in "us" and part[1:].isdigit() for part in name[1:])


def _keeps_low_bytes(name: Sequence[str]) -> bool:
    """Whether the lower bytes of a sum or product are those of its operands': no float, no carry beyond, no limits."""
    return name[-1][0] in "us" and not {"cc", "sat", "hi", "wide"} & set(name)
