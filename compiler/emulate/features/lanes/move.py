"""Moves: registers, constants, addresses, and words put together or taken apart (PTX ISA, "mov")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Array, Binder, Reader, UnknownForm, Writer, wide_reader, wide_writer
from compiler.emulate.features.lanes.elementwise import elementwise
from compiler.emulate.ptx.module import Operand, PtxInstruction, Register, Sink, Vector
from compiler.emulate.registry import Run, instruction


@instruction("mov")
def build_mov(insn: PtxInstruction, binder: Binder) -> Run:
    """`mov` of one value, or between a word and a vector of its parts, the lowest bits first."""
    destination, source = insn.operands
    kind = insn.name[-1]
    if kind == "pred":
        return elementwise(insn, binder, np.asarray, np.bool_, np.bool_)
    digits = kind.lstrip("bsuf")
    if digits not in ("8", "16", "32", "64", "128"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    nbytes = int(digits) // 8
    if isinstance(source, Vector):
        return _pack(insn, binder, nbytes, destination, source)
    if isinstance(destination, Vector):
        return _unpack(insn, binder, nbytes, destination, source)
    read, write = _word_reader(source, nbytes, binder, insn), _word_writer(destination, nbytes, binder, insn)
    return lambda active: write(active, read(active))


def _word_reader(operand: Operand, nbytes: int, binder: Binder, insn: PtxInstruction) -> Reader:
    if nbytes == 16:
        return wide_reader(operand)
    if isinstance(operand, Register) and operand.nbits != 8 * nbytes:
        raise UnknownForm(f"{insn.text}: {operand.name} has another size")
    return binder.reader(operand, f"u{nbytes}", insn)


def _word_writer(operand: Operand, nbytes: int, binder: Binder, insn: PtxInstruction) -> Writer:
    if isinstance(operand, Sink):
        return lambda active, values: None
    return wide_writer(operand) if nbytes == 16 else binder.writer(operand, f"u{nbytes}", insn)


def _part_bytes(nbytes: int, vector: Vector) -> int:
    count = len(vector.items)
    if count not in (2, 4) or nbytes // count not in (1, 2, 4, 8):
        raise UnknownForm(f"a word of {nbytes} bytes in {count} parts")
    return nbytes // count


def _pack(insn: PtxInstruction, binder: Binder, nbytes: int, destination: Operand, source: Vector) -> Run:
    part = _part_bytes(nbytes, source)
    readers = [binder.reader(item, f"u{part}", insn) for item in source.items]
    write = _word_writer(destination, nbytes, binder, insn)
    count, is_wide = len(readers), nbytes == 16

    def run(active: Active) -> None:
        parts = np.empty((len(active), count), f"u{part}")
        for column, read in enumerate(readers):
            parts[:, column] = read(active)
        write(active, parts.view(np.uint64) if is_wide else parts.view(f"u{nbytes}")[:, 0])

    return run


def _unpack(insn: PtxInstruction, binder: Binder, nbytes: int, destination: Vector, source: Operand) -> Run:
    part = _part_bytes(nbytes, destination)
    read = _word_reader(source, nbytes, binder, insn)
    writers = [
        (column, _word_writer(item, part, binder, insn))
        for column, item in enumerate(destination.items)
        if not isinstance(item, Sink)
    ]

    def run(active: Active) -> None:
        word: Array = read(active)
        if not word.ndim:
            word = np.full(len(active), word)
        parts = np.ascontiguousarray(word).view(f"u{part}").reshape(len(active), -1)
        for column, write in writers:
            write(active, np.ascontiguousarray(parts[:, column]))

    return run
