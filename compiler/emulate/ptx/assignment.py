"""Which registers an instruction writes and reads, and which may be read before they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from compiler.emulate.ptx.module import Address, Negated, Operand, Pair, PtxInstruction, Register, Vector

# fmt: off
_NO_RESULT = frozenset({
    "bra", "brx", "ret", "exit", "trap", "brkpt", "pmevent", "nanosleep", "setmaxnreg", "membar", "fence",
    "griddepcontrol", "stackrestore", "prefetch", "prefetchu", "discard", "applypriority", "st", "red", "cp",
})
"""Instructions whose first operand, where it is no address, is read (PTX ISA, "Instruction Set")."""
_COMPUTING = frozenset({
    "add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max", "popc", "clz",
    "bfind", "fns", "brev", "bfe", "bfi", "bmsk", "szext", "dp4a", "dp2a", "addc", "subc", "madc", "testp", "copysign",
    "fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "set", "setp", "selp", "slct", "and", "or",
    "xor", "not", "cnot", "lop3", "shf", "shl", "shr", "mov", "prmt", "cvt", "cvta", "mapa", "getctarank", "isspacep",
})
# fmt: on
_COPYING = frozenset({"mov", "selp", "slct", "cvta"})
_BARRIERS = frozenset({"bar", "barrier"})
_TENSOR_RESULT = frozenset({"ld"})


def destinations(insn: PtxInstruction) -> tuple[Register, ...]:
    """The registers that the instruction writes: of its first operand, unless that is an address or is read.

    The elements of a vector and both halves of `d|p` are written.
    """
    if not insn.operands or not _has_result(insn):
        return ()
    return tuple(_registers(insn.operands[0]))


def sources(insn: PtxInstruction) -> tuple[Register, ...]:
    """The registers that the instruction reads: its guard, its operands other than results, the bases of addresses.

    A `wgmma` reads its accumulator too, if its predicate says so.
    """
    guard = () if insn.guard is None else (insn.guard,)
    operands = insn.operands[1:] if _has_result(insn) and insn.opcode != "wgmma" else insn.operands
    return guard + tuple(register for operand in operands for register in _registers(operand))


def computes(insn: PtxInstruction) -> bool:
    """Whether the instruction does nothing but compute a result from its operands, lane by lane.

    A compiler may execute such an instruction on a register that holds no value yet, where nothing uses the result: it
    moves a variable that has no value yet round a loop, or computes early what only one side of a branch needs. So a
    register without a value is no fault here; its result has no value either. `selp` has one if the operand it selects
    has, and `and`, `or` have one where an operand that has decides the result alone.
    """
    return insn.name[0] in _COMPUTING


def copies(insn: PtxInstruction) -> bool:
    """Whether the instruction computes by passing an operand on as it is: it is not where a value is first used."""
    return insn.name[0] in _COPYING


def passes_on(insn: PtxInstruction) -> bool:
    """Whether a register without a value is no fault when `insn` reads it: its result has no value then.

    A shuffle may carry values of lanes that nobody looks at.
    """
    return computes(insn) or insn.name[0] == "shfl"


def _has_result(insn: PtxInstruction) -> bool:
    if not insn.operands or isinstance(insn.operands[0], Address):
        return False
    opcode = insn.name[0]
    if opcode in _NO_RESULT:
        return False
    if opcode in _BARRIERS:
        return "red" in insn.name  # bar.red gives a result; bar.sync and barrier.arrive read the barrier's number
    if opcode == "tcgen05":
        return insn.name[1] in _TENSOR_RESULT
    if opcode == "wgmma":
        return "mma_async" in insn.name
    return True


def registers_in(operands: Iterable[Operand]) -> Iterator[Register]:
    """Registers and those of vectors and pairs; not what addresses are made of."""
    for operand in operands:
        match operand:
            case Register():
                yield operand
            case Vector(items):
                yield from registers_in(items)
            case Pair(first, second):
                yield from registers_in((first, second))
            case _:
                pass


def _registers(operand: Operand) -> Iterator[Register]:
    match operand:
        case Register():
            yield operand
        case Negated(register):
            yield register
        case Vector(items):
            for item in items:
                yield from _registers(item)
        case Pair(first, second):
            yield from _registers(first)
            yield from _registers(second)
        case Address(base, _, coordinates, extra):
            for part in (base, *coordinates, *extra):
                yield from _registers(part)
        case _:
            return


@dataclass(frozen=True, slots=True)
class _Effect:
    """What an instruction does to the set of registers that have values; sets are the bits of an integer."""

    reads: int
    writes: int
    may_not_happen: bool
    computes: bool

    def after(self, known: int) -> int:
        """The registers sure to have values behind it, from those before it."""
        if self.computes and self.reads & ~known:
            return known & ~self.writes
        return known if self.may_not_happen else known | self.writes


def maybe_unassigned(
    instructions: Sequence[PtxInstruction], blocks: Sequence[range], successors: Sequence[tuple[int, ...]]
) -> frozenset[int]:
    """The indices of the registers that may have no value when they are read.

    Some path from block 0 reads them before it writes them, or they then hold what an instruction that `computes` made
    of such. `successors` are those of each block. A guarded write may not happen, so that it assigns nothing. This is
    definite assignment: a forward data flow whose meet is the intersection.
    """
    effects = [[_effect(instructions[k]) for k in block] for block in blocks]
    entering: list[int | None] = [None] * len(blocks)
    if blocks:
        entering[0] = 0
    work = [0] if blocks else []
    while work:
        block = work.pop()
        leaving = entering[block]
        assert leaving is not None
        for effect in effects[block]:
            leaving = effect.after(leaving)
        for successor in successors[block]:
            before = entering[successor]
            after = leaving if before is None else before & leaving
            if after != before:
                entering[successor] = after
                work.append(successor)
    missing = 0
    for known, row in zip(entering, effects, strict=True):
        if known is not None:
            for effect in row:
                missing |= effect.reads & ~known
                known = effect.after(known)
    return frozenset(k for k in range(missing.bit_length()) if missing >> k & 1)


def _effect(insn: PtxInstruction) -> _Effect:
    return _Effect(_bits(sources(insn)), _bits(destinations(insn)), insn.guard is not None, computes(insn))


def _bits(registers: tuple[Register, ...]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register.index
    return bits
