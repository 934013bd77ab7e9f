"""A product of tcgen05.mma under way, and its operands in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.mma.matrices import CHUNK, Integers
from compiler.emulate.features.tmem.memory import Cells, TensorMemory
from compiler.emulate.features.tmem.operations import Operation, Words
from compiler.emulate.features.tmem.product_form import TensorForm
from compiler.emulate.features.tmem.single_thread import shared_chunks
from compiler.emulate.numeric.products import ACCUMULATORS, accumulated, factors, multiplied
from compiler.emulate.order.order import Actor
from compiler.emulate.ptx.module import PtxInstruction

Flags = npt.NDArray[np.bool_]

Read = Callable[[], Words]
"""Gives the rows of an operand as they are now, (rows, words along k)."""


def shared_operand(
    blocks: Sequence[Active], insn: PtxInstruction, chunks: Integers, transposed: int, actor: Actor | None
) -> Read:
    """An operand in shared memory, the same part of each of the blocks, whose rows follow one another.

    `chunks` are addresses of 16 bytes, (rows, 2); or (k, chunks) of elements of `transposed` bytes.
    """
    flat = chunks.ravel().astype(np.uint64)

    def read() -> Words:
        parts = []
        for block in blocks:
            data = shared_chunks(block, insn, flat, actor).reshape(len(chunks), -1)
            if transposed:
                data = np.ascontiguousarray(data.view(f"u{transposed}").T).view(np.uint8)
            parts.append(data)
        return np.ascontiguousarray(np.concatenate(parts)).view(np.uint32)

    return read


def bytes_of(chunks: Integers, blocks: int) -> int:
    """Bytes of an operand in shared memory."""
    return CHUNK * chunks.size * blocks


@dataclass(eq=False)
class TensorProduct(Operation):
    """D = A*B, or A*B + D / 2^`scale` if it `adds`, in `cells`, but for rows whose lane is not to be written.

    `after` are the operations that it follows: they are complete before it looks at tensor memory.
    """

    form: TensorForm = field(kw_only=True)
    cells: Cells = field(kw_only=True)
    a: Read = field(kw_only=True)
    b: Read = field(kw_only=True)
    adds: bool = field(kw_only=True)
    scale: int = field(kw_only=True)
    kept: Flags | None = field(kw_only=True)
    after: tuple[Operation, ...] = field(kw_only=True)
    _left: Words | None = None

    def step(self) -> bool:
        if self._left is None:
            for operation in self.after:
                operation.complete()
            self._left = self.a()
            return False
        form, memory = self.form, self.machine.engine(TensorMemory)
        sums = multiplied(factors(form.a, self._left), factors(form.b, self.b()))
        if form.negates:
            sums = -sums
        addend = None
        if self.adds:
            held = memory.words[self.cells]
            dtype = ACCUMULATORS[form.d]
            addend = (held.astype(np.uint16) if dtype.itemsize == 2 else held).view(dtype)
            if self.scale:
                addend = addend.astype(np.float64) * 2.0**-self.scale
        values = accumulated(form.d, sums, addend, form.saturates)
        words = values.view(f"u{values.itemsize}").astype(np.uint32)
        if self.kept is None:
            memory.words[self.cells] = words
        else:
            memory.words[self.cells[self.kept]] = words[self.kept]
        self.after = ()
        self._left = None
        return True
