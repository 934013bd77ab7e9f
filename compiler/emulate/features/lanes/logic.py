"""Logic, shifts, bit fields and byte permutation (PTX ISA, "Logic and Shift Instructions", "bfe", "prmt"…)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Array, Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import Function, elementwise, integer_type
from compiler.emulate.numeric import bits
from compiler.emulate.ptx.module import Immediate, Pair, PtxInstruction, Sink
from compiler.emulate.registry import Run, instruction

_LOGIC: dict[str, Function] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
}


@instruction("and", "or", "xor", "not")
def build_logic(insn: PtxInstruction, binder: Binder) -> Run:
    """`and`, `or`, `xor`, `not` of words and predicates."""
    dtype = np.dtype(np.bool_) if insn.name[-1] == "pred" else integer_type(insn.name[-1])
    operands = [dtype] * (1 if insn.opcode == "not" else 2)
    return elementwise(insn, binder, _LOGIC[insn.opcode], dtype, *operands)


@instruction("cnot")
def build_cnot(insn: PtxInstruction, binder: Binder) -> Run:
    """`cnot`: 1 for zero, else 0."""
    dtype = integer_type(insn.name[-1])
    return elementwise(insn, binder, lambda a: (a == 0).astype(dtype), dtype, dtype)


@cache
def two_inputs(table: int) -> Function:
    """The function of (b, c) whose value for bits b and c is bit 2b + c of `table`."""
    zero, ones = np.uint32(0), np.uint32(0xFFFFFFFF)
    functions: tuple[Callable[[Array, Array], Array | np.uint32], ...] = (
        lambda b, c: zero,
        lambda b, c: ~(b | c),
        lambda b, c: ~b & c,
        lambda b, c: ~b,
        lambda b, c: b & ~c,
        lambda b, c: ~c,
        lambda b, c: b ^ c,
        lambda b, c: ~(b & c),
        lambda b, c: b & c,
        lambda b, c: ~(b ^ c),
        lambda b, c: c,
        lambda b, c: ~b | c,
        lambda b, c: b,
        lambda b, c: b | ~c,
        lambda b, c: b | c,
        lambda b, c: ones,
    )
    return functions[table]


@cache
def three_inputs(table: int) -> Function:
    """The function of (a, b, c) whose value for bits a, b, c is bit 4a + 2b + c of `table` (PTX ISA, "lop3").

    It is split at a; what the two halves of the table have in common is computed once.
    """
    low, high = table & 15, table >> 4
    if low == high:
        common = two_inputs(low)
        return lambda a, b, c: common(b, c)
    if low == high ^ 15:
        common = two_inputs(low)
        return lambda a, b, c: a ^ common(b, c)
    if_set, if_clear, change = two_inputs(high), two_inputs(low), two_inputs(low ^ high)
    if low == 0:
        return lambda a, b, c: a & if_set(b, c)
    if low == 15:
        return lambda a, b, c: ~a | if_set(b, c)
    if high == 0:
        return lambda a, b, c: ~a & if_clear(b, c)
    if high == 15:
        return lambda a, b, c: a | if_clear(b, c)
    return lambda a, b, c: if_clear(b, c) ^ (a & change(b, c))


@instruction("lop3")
def build_lop3(insn: PtxInstruction, binder: Binder) -> Run:
    """`lop3`: any function of three bits, by its truth table; with `.or` or `.and` also whether any bit is set."""
    destination, a, b, c, table = insn.operands[:5]
    if insn.name[-1] != "b32" or not isinstance(table, Immediate):
        raise UnknownForm(f"the form {insn.text}")
    function = three_inputs(table.value & 0xFF)
    first, second, third = (binder.reader(o, np.uint32, insn) for o in (a, b, c))
    if not insn.has("or", "and"):
        write = binder.writer(destination, np.uint32, insn)
        return lambda active: write(active, function(first(active), second(active), third(active)))
    if not isinstance(destination, Pair):
        raise UnknownForm(f"the form {insn.text}")
    combine: Function = np.logical_or if insn.has("or") else np.logical_and
    word = binder.writer(destination.first, np.uint32, insn)
    flag = binder.writer(destination.second, np.bool_, insn)
    other = binder.reader(insn.operands[5], np.bool_, insn)
    wants_word = not isinstance(destination.first, Sink)

    def run(active: Active) -> None:
        result = function(first(active), second(active), third(active))
        predicate = combine(result != 0, other(active))
        if wants_word:
            word(active, result)
        flag(active, predicate)

    return run


@instruction("shl", "shr")
def build_shift(insn: PtxInstruction, binder: Binder) -> Run:
    """`shl` and `shr`: counts past the width shift everything out."""
    dtype = integer_type(insn.name[-1])
    function = bits.shift_left if insn.opcode == "shl" else bits.shift_right
    return elementwise(insn, binder, function, dtype, dtype, np.uint32)


@instruction("shf")
def build_funnel(insn: PtxInstruction, binder: Binder) -> Run:
    """`shf.l` and `shf.r`, with `.wrap` or `.clamp`."""
    if not insn.has("l", "r") or not insn.has("wrap", "clamp"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    left, clamp = insn.has("l"), insn.has("clamp")
    word = np.uint32
    return elementwise(insn, binder, lambda a, b, c: bits.funnel_shift(a, b, c, left, clamp), word, word, word, word)


@instruction("bfe")
def build_bfe(insn: PtxInstruction, binder: Binder) -> Run:
    """`bfe`: a bit field."""
    dtype = integer_type(insn.name[-1])
    return elementwise(insn, binder, bits.extract_field, dtype, dtype, np.uint32, np.uint32)


@instruction("bfi")
def build_bfi(insn: PtxInstruction, binder: Binder) -> Run:
    """`bfi`: a bit field replaced."""
    dtype = integer_type(insn.name[-1])
    return elementwise(insn, binder, bits.insert_field, dtype, dtype, dtype, np.uint32, np.uint32)


@instruction("bfind", "clz", "popc", "brev")
def build_scan(insn: PtxInstruction, binder: Binder) -> Run:
    """`bfind`, `clz` and `popc`, whose result is u32, and `brev`."""
    dtype = integer_type(insn.name[-1])
    if insn.opcode == "brev":
        return elementwise(insn, binder, bits.reverse_bits, dtype, dtype)
    if insn.opcode == "bfind":
        as_shift = insn.has("shiftamt")
        return elementwise(insn, binder, lambda a: bits.highest_bit(a, as_shift), np.uint32, dtype)
    function: Function = bits.leading_zeros if insn.opcode == "clz" else np.bitwise_count
    return elementwise(insn, binder, lambda a: function(a).astype(np.uint32), np.uint32, dtype)


@instruction("prmt")
def build_prmt(insn: PtxInstruction, binder: Binder) -> Run:
    """`prmt`: bytes picked from two words."""
    mode = insn.name[2] if len(insn.name) > 2 else ""
    if insn.name[1] != "b32" or mode not in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    word = np.uint32
    control = insn.operands[3]
    if isinstance(control, Immediate):
        known = bits.moves(control.value & 0xFFFFFFFF, mode)
        first, second = (binder.reader(o, word, insn) for o in insn.operands[1:3])
        write = binder.writer(insn.operands[0], word, insn)
        return lambda active: write(active, bits.moved_bytes(first(active), second(active), known))
    return elementwise(insn, binder, lambda a, b, c: bits.permute_bytes(a, b, c, mode), word, word, word, word)


@instruction("bmsk", "szext")
def build_mask(insn: PtxInstruction, binder: Binder) -> Run:
    """`bmsk` and `szext`, with `.clamp` or `.wrap`."""
    if not insn.has("clamp", "wrap"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    clamp = insn.has("clamp")
    dtype = integer_type(insn.name[-1])
    function = bits.bit_mask if insn.opcode == "bmsk" else bits.extend
    return elementwise(insn, binder, lambda a, b: function(a, b, clamp), dtype, dtype, np.uint32)
