"""ldmatrix, stmatrix, movmatrix: small matrices of shared memory spread over a warp (PTX ISA, "ldmatrix", "stmatrix").

A matrix has rows of 16 bytes. Lane 8*i + r gives the address of row r of matrix i (16 rows a matrix for m16n16). The
layouts of the 8-bit forms are those of the copy traits of CUTLASS for sm_100. Forms that unpack 4- and 6-bit elements
are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.warp.whole_warp import WholeWarp
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Step, instruction
from compiler.emulate.threads import WARP

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.intp]

_ROW = 16
"""Bytes of a row."""

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


@dataclass(frozen=True, slots=True)
class LaneLayout:
    """Which bytes of the rows a lane's registers hold: `row` and `byte` are arrays (lanes, registers, 4)."""

    rows: int
    row: Indices
    byte: Indices

    @property
    def registers(self) -> int:
        """32-bit registers a lane."""
        return int(self.row.shape[1])


def layout(shape: str, count: int, is_transposed: bool) -> LaneLayout | None:
    """The layout of `count` matrices; None for a form that does not exist, or is not known.

    Forms: m8n8 of 16-bit elements, plain or transposed; m16n16 (loads) and m16n8 (stores) of bytes, transposed only.
    """
    t = np.arange(WARP)[:, None, None]
    b = np.arange(4)[None, None, :]
    if shape == "m8n8":
        matrix = np.arange(count)[None, :, None]
        line, element = t >> 2, 2 * (t & 3) + (b >> 1)
        row, column = (element, line) if is_transposed else (line, element)
        return _layout(8 * count, 8 * matrix + row, 2 * column + (b & 1))
    if not is_transposed:
        return None
    byte = (t >> 2) + 8 * (b >> 1)
    if shape == "m16n8":
        matrix = np.arange(count)[None, :, None]
        return _layout(8 * count, 8 * matrix + 2 * (t & 3) + (b & 1), byte)
    if shape == "m16n16" and count <= 2:
        register = np.arange(2 * count)[None, :, None]
        row = 16 * (register >> 1) + 4 * (t & 3) + 2 * (register & 1) + (b & 1)
        return _layout(16 * count, row, byte)
    return None


def _layout(rows: int, row: Indices, byte: Indices) -> LaneLayout:
    row, byte = np.broadcast_arrays(row, byte)
    return LaneLayout(rows, row, byte)


@instruction("ldmatrix")
def load(insn: PtxInstruction, binder: Binder) -> Step:
    """`ldmatrix.sync.aligned.shape.num{.trans}{.ss}.type r, [p]`."""
    form = _form(insn, ("m8n8", "m16n16"))
    writers = [binder.writer(r, np.uint32, insn) for r in elements(insn.operands[0])]
    _expect_count(insn, len(writers), form)
    address = binder.address(insn.operands[1], insn)
    space = _space(insn)

    def run(active: Active) -> None:
        rows = _rows(active, form)
        found = active.machine.memory.load(rows.active, insn, space, spread(address(rows.active), rows.active), 8, 2)
        data = np.zeros((rows.warps * form.rows, _ROW), np.uint8)
        data[rows.number] = found.view(np.uint8).reshape(-1, _ROW)
        thread = active.lanes % WARP
        row = rows.first[:, None, None] + form.row[thread]
        words = np.ascontiguousarray(data[row, form.byte[thread]]).view(np.uint32)[..., 0]
        for column, write in enumerate(writers):
            write(active, np.ascontiguousarray(words[:, column]))

    return WholeWarp(insn, run)


@instruction("stmatrix")
def store(insn: PtxInstruction, binder: Binder) -> Step:
    """`stmatrix.sync.aligned.shape.num{.trans}{.ss}.type [p], r`."""
    form = _form(insn, ("m8n8", "m16n8"))
    readers = [binder.reader(r, np.uint32, insn) for r in elements(insn.operands[1])]
    _expect_count(insn, len(readers), form)
    address = binder.address(insn.operands[0], insn)
    space = _space(insn)

    def run(active: Active) -> None:
        rows = _rows(active, form)
        words = np.stack([spread(read(active), active) for read in readers], axis=1).astype(np.uint32)
        thread = active.lanes % WARP
        data = np.zeros((rows.warps * form.rows, _ROW), np.uint8)
        row = rows.first[:, None, None] + form.row[thread]
        data[row, form.byte[thread]] = words[..., None].view(np.uint8)
        addresses = spread(address(rows.active), rows.active)
        active.machine.memory.store(rows.active, insn, space, addresses, data[rows.number].view(np.uint64))

    return WholeWarp(insn, run)


@instruction("movmatrix")
def move(insn: PtxInstruction, binder: Binder) -> Step:
    """`movmatrix.sync.aligned.m8n8.trans.b16 d, a`: transposes an 8x8 matrix of 16-bit elements inside a warp."""
    if insn.name[1:] != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    write = binder.writer(insn.operands[0], np.uint32, insn)
    read = binder.reader(insn.operands[1], np.uint32, insn)
    plain, transposed = layout("m8n8", 1, False), layout("m8n8", 1, True)
    assert plain is not None
    assert transposed is not None
    transpose = _through(plain, transposed)

    def run(active: Active) -> None:
        words = np.zeros((active.machine.threads.lanes // WARP, WARP), np.uint32)
        words.ravel()[active.lanes] = read(active)
        moved = transpose(words.view(np.uint8).reshape(-1, WARP, 4))
        write(active, moved.ravel()[active.lanes])

    return WholeWarp(insn, run)


def _through(source: LaneLayout, target: LaneLayout) -> Callable[[Bytes], npt.NDArray[np.uint32]]:
    """Spreads registers over rows by one layout and gathers them by another: (warps, 32, 4) bytes to words."""
    place = source.row[:, 0] * _ROW + source.byte[:, 0]
    wanted = target.row[:, 0] * _ROW + target.byte[:, 0]

    def through(registers: Bytes) -> npt.NDArray[np.uint32]:
        matrix = np.zeros((len(registers), source.rows * _ROW), np.uint8)
        matrix[:, place] = registers
        return np.ascontiguousarray(matrix[:, wanted]).view(np.uint32)[..., 0]

    return through


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lanes that give row addresses, and the row that each gives; `first`: the first row of each lane's warp."""

    active: Active
    number: Indices
    first: Indices
    warps: int


def _rows(active: Active, form: LaneLayout) -> _Rows:
    numbers, index = np.unique(active.lanes // WARP, return_inverse=True)
    thread = active.lanes % WARP
    gives = thread < form.rows
    first = index * form.rows
    return _Rows(active.where(gives), (first + thread)[gives], first, len(numbers))


def _form(insn: PtxInstruction, shapes: tuple[str, ...]) -> LaneLayout:
    """The layout that the name says. Raises UnknownForm."""
    words = insn.name[1:]
    shape = next((w for w in words if w in shapes), "")
    count = next((_COUNTS[w] for w in words if w in _COUNTS), 0)
    element = "b16" if shape == "m8n8" else "b8"
    known = {"sync", "aligned", shape, "trans", "shared", "shared::cta", element, *_COUNTS}
    found = layout(shape, count, insn.has("trans")) if count and known.issuperset(words) else None
    if found is None or words[-1] != element:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return found


def _expect_count(insn: PtxInstruction, found: int, form: LaneLayout) -> None:
    if found != form.registers:
        raise UnknownForm(f"{insn.text}, which should have {form.registers} registers, not {found}")


def _space(insn: PtxInstruction) -> StateSpace:
    return StateSpace.SHARED if insn.has("shared", "shared::cta") else StateSpace.GENERIC
