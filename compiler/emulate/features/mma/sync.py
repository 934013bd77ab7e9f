"""mma.sync: a warp multiplies matrices that its registers hold (PTX ISA, "mma")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.mma.fragments import columns_of_b, registers_of_d, rows_of_a, rows_of_d
from compiler.emulate.features.warp.whole_warp import WholeWarp
from compiler.emulate.numeric.products import ACCUMULATORS, ELEMENT_BITS, accumulated, factors
from compiler.emulate.ptx.module import Operand, PtxInstruction
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Step, instruction
from compiler.emulate.threads import WARP

Words = npt.NDArray[np.uint32]

_DEPTHS = {16: (8, 16), 32: (4, 8), 8: (16, 32)}
"""k of m16n8k… by the bits of an element."""

_FIRST_TARGET = {"e4m3": 89, "e5m2": 89}
"""The first target that has a type, where it is not sm_80."""


@instruction("mma.sync")
def multiply(insn: PtxInstruction, binder: Binder) -> Step:
    """`mma.sync.aligned.m16n8k….row.col{.satfinite}.dtype.atype.btype.ctype d, a, b, c`: d = a*b + c."""
    form = _Form(insn, binder)
    a, b, c = (_Registers(operand, binder, insn) for operand in insn.operands[1:])
    writers = [binder.writer(r, np.uint32, insn) for r in elements(insn.operands[0])]
    counts = tuple(len(part.readers) for part in (a, b, c))
    if (*counts, len(writers)) != (form.words_of_a, form.words_of_b, form.words_of_d, form.words_of_d):
        raise UnknownForm(f"{insn.text} with these numbers of registers")
    dtype = ACCUMULATORS[form.d]

    def run(active: Active) -> None:
        lanes = active.lanes % WARP
        warps, warp = np.unique(active.lanes // WARP, return_inverse=True)
        place = warp * WARP + lanes
        count = len(warps) * WARP
        left = factors(form.a, rows_of_a(a.read(active, place, count))).reshape(len(warps), 16, form.depth)
        right = factors(form.b, columns_of_b(b.read(active, place, count)))
        addend = rows_of_d(c.read(active, place, count), dtype)
        sums = np.matmul(left, right.transpose(0, 2, 1)).reshape(-1, 8)
        words = registers_of_d(accumulated(form.d, sums, addend, form.saturates))
        for column, write in enumerate(writers):
            write(active, np.ascontiguousarray(words[place, column]))
        active.machine.counters.product("mma.sync", form.name, len(warps), form.operations, 0)

    return WholeWarp(insn, run)


class _Form:
    """The shape and types that a name says. Raises UnknownForm for what there is not, and for other shapes."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        name = ".".join(insn.name)
        words = insn.name[2:]
        self.saturates = "satfinite" in words
        plain = tuple(w for w in words if w != "satfinite")
        if len(plain) != 8 or plain[0] != "aligned" or plain[2:4] != ("row", "col"):
            raise UnknownForm(f"the form {name}")
        shape, (self.d, self.a, self.b, c) = plain[1], plain[4:]
        bits = ELEMENT_BITS.get(self.a, 0)
        depth = shape.removeprefix("m16n8k")
        if not depth.isdigit() or int(depth) not in _DEPTHS.get(bits, ()) or not _is_pair(self.a, self.b):
            raise UnknownForm(f"the form {name}")
        if self.d != c or self.d not in _results(self.a) or (self.saturates and self.d != "s32"):
            raise UnknownForm(f"the form {name}")
        first = _FIRST_TARGET.get(self.a, 80)
        if int("".join(filter(str.isdigit, binder.target))) < first:
            raise UnknownForm(f"{name} on {binder.target}: it exists from sm_{first} on")
        self.depth = int(depth)
        self.words_of_a = 16 * self.depth * bits // (32 * WARP)
        self.words_of_b = self.words_of_a // 2
        self.words_of_d = 16 * 8 * ACCUMULATORS[self.d].itemsize // (4 * WARP)
        self.name = f"{shape}.{self.d}.{self.a}.{self.b}"
        self.operations = 2 * 16 * 8 * self.depth


def _is_pair(a: str, b: str) -> bool:
    """Whether factors of these types meet: equal ones, two fp8 formats, signed and unsigned bytes."""
    return a == b or {a, b} == {"e4m3", "e5m2"} or {a, b} == {"s8", "u8"}


def _results(a: str) -> tuple[str, ...]:
    """The accumulators that products of a type have."""
    if a in ("s8", "u8"):
        return ("s32",)
    return ("f32", "f16") if a in ("f16", "e4m3", "e5m2") else ("f32",)


class _Registers:
    """A vector of registers that hold a matrix."""

    def __init__(self, operand: Operand, binder: Binder, insn: PtxInstruction) -> None:
        self.readers: list[Reader] = [binder.reader(r, np.uint32, insn) for r in elements(operand)]

    def read(self, active: Active, place: npt.NDArray[np.intp], count: int) -> Words:
        """(count, registers): row `place[i]` has those of active lane i, other rows zeros."""
        words = np.zeros((count, len(self.readers)), np.uint32)
        for column, read in enumerate(self.readers):
            words[place, column] = spread(read(active), active)
        return words
