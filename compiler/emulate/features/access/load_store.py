"""ld, ldu, st: vectors, cache operators and eviction hints, which change no value (PTX ISA, "ld", "st")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm, wide_reader, wide_writer
from compiler.emulate.features.access.forms import AccessForm, access_form, element_dtype
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Run, instruction


@instruction("ld", "ldu")
def load(insn: PtxInstruction, binder: Binder) -> Run:
    """`ld d, [a]`: each lane loads `count` elements; registers wider than the type are extended."""
    target, place = insn.operands[:2]
    form = access_form(insn, binder, place)
    address = binder.address(place, insn)
    results = elements(target)
    _expect_count(form, len(results))
    if form.nbytes == 16:
        return _load_128(insn, binder, form)
    dtype = element_dtype(form.type)
    writers = [binder.writer(r, dtype, insn) for r in results]
    space, unit, count, strong, semantics = form.space, form.nbytes, form.count, form.is_strong, form.semantics

    def run(active: Active) -> None:
        found = active.machine.memory.load(
            active, insn, space, address(active), unit, count, strong=strong, semantics=semantics
        )
        found = found.view(dtype)
        for column, write in enumerate(writers):
            write(active, np.ascontiguousarray(found[:, column]))

    return run


@instruction("st")
def store(insn: PtxInstruction, binder: Binder) -> Run:
    """`st [a], b`: each lane stores `count` elements, the low bits of wider registers."""
    place, source = insn.operands[:2]
    form = access_form(insn, binder, place)
    address = binder.address(place, insn)
    sources = elements(source)
    _expect_count(form, len(sources))
    if form.nbytes == 16:
        return _store_128(insn, binder, form)
    dtype = np.dtype(f"u{form.nbytes}")
    readers = [binder.reader(s, dtype, insn) for s in sources]
    space, strong, semantics = form.space, form.is_strong, form.semantics

    def run(active: Active) -> None:
        values = np.empty((len(active), len(readers)), dtype)
        for column, read in enumerate(readers):
            values[:, column] = read(active)
        active.machine.memory.store(active, insn, space, address(active), values, strong=strong, semantics=semantics)

    return run


def _load_128(insn: PtxInstruction, binder: Binder, form: AccessForm) -> Run:
    write = wide_writer(insn.operands[0])
    address = binder.address(insn.operands[1], insn)

    def run(active: Active) -> None:
        found = active.machine.memory.load(
            active, insn, form.space, address(active), 8, 2, strong=form.is_strong, semantics=form.semantics
        )
        write(active, found)

    return run


def _store_128(insn: PtxInstruction, binder: Binder, form: AccessForm) -> Run:
    read = wide_reader(insn.operands[1])
    address = binder.address(insn.operands[0], insn)

    def run(active: Active) -> None:
        active.machine.memory.store(
            active, insn, form.space, address(active), read(active), strong=form.is_strong, semantics=form.semantics
        )

    return run


def _expect_count(form: AccessForm, found: int) -> None:
    if form.count != found or (form.nbytes == 16 and form.count > 1):
        raise UnknownForm(f"a vector of {form.count} elements of .{form.type} with {found} registers")
