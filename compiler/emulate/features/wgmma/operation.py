"""A product of a warpgroup under way: when its operands are read, what it computes, and who has waited for it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.asynchrony import Pending
from compiler.emulate.features.mma.fragments import Words, registers_of_d
from compiler.emulate.features.mma.matrices import CHUNK
from compiler.emulate.features.wgmma.form import WarpgroupForm
from compiler.emulate.memory.places import MemoryPlace
from compiler.emulate.numeric.products import accumulated, factors, multiplied
from compiler.emulate.order.order import Actor, Token
from compiler.emulate.product_registers import WARPS_OF_GROUP
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.threads import Lanes

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]


class SharedOperand:
    """A or B in shared memory: `chunks` are addresses of 16 bytes, (rows, 2), or if `is_transposed` (k, chunks)."""

    def __init__(self, active: Active, insn: PtxInstruction, chunks: Integers, is_transposed: bool) -> None:
        """`active` is one lane of the warpgroup, for its block. Addresses out of bounds are reported and read zeros."""
        self._shape, self._is_transposed = chunks.shape, is_transposed
        self._insn = insn
        self._lanes = Active(active.machine, np.full(chunks.size, active.lanes[0]))
        self._places: list[MemoryPlace] = active.machine.memory.locate(
            self._lanes, insn, StateSpace.SHARED, chunks.ravel().astype(np.uint64), CHUNK
        )

    def read(self, actor: Actor | None) -> Words:
        """The rows of it as they are now, (rows, words along k)."""
        memory = self._lanes.machine.memory
        data = np.zeros((self._shape[0] * self._shape[1], CHUNK), np.uint8)
        for place in self._places:
            part = self._lanes if place.pick is None else self._lanes.at(place.pick)
            found = memory.read_bytes(actor, part, self._insn, place.region, place.offsets, CHUNK)
            data[slice(None) if place.pick is None else place.pick] = found
        if not self._is_transposed:
            return data.view(np.uint32).reshape(self._shape[0], -1)
        halves = data.view(np.uint16).reshape(self._shape[0], -1)
        return np.ascontiguousarray(halves.T).view(np.uint32)


class WarpgroupProduct(Pending):
    """One wgmma.mma_async of one warpgroup. `previous` is the product whose result it adds to; without it, `addend`,
    or nothing.

    `time` and `waited` as `product_registers.HeldResult` has them.
    """

    def __init__(
        self,
        insn: PtxInstruction,
        lanes: Lanes,
        form: WarpgroupForm,
        a: SharedOperand | Words,
        b: SharedOperand | Words,
        actor: Actor | None,
        time: int,
        *,
        previous: WarpgroupProduct | None,
        addend: Array | None,
        machine: Any,
    ) -> None:
        self.insn, self.lane, self.lanes, self.form = insn, int(lanes[0]), lanes, form
        self.time = time
        self.waited = np.zeros(WARPS_OF_GROUP, np.bool_)
        self.is_done = False
        self.values: Array | None = None
        self.token: Token | None = None
        self._a, self._b, self._actor, self._machine = a, b, actor, machine
        self._previous, self._addend = previous, addend
        self._left: Array | None = None

    def advance(self) -> bool:
        """Reads A, then B, and computes. A further call does nothing: who waits may have completed it already."""
        if self.is_done:
            return True
        if self._left is None:
            self._left = factors(self.form.a, self._words(self._a))
            return False
        right = factors(self.form.b, self._words(self._b))
        addend = self._addend
        if self._previous is not None:
            self._previous.complete()
            addend = self._previous.values
        sums = multiplied(self._left, right)
        if self.form.negates:
            sums = -sums
        self.values = accumulated(self.form.d, sums, addend, self.form.saturates)
        if self._actor is not None:
            self.token = self._machine.order.finish(self._actor)
        self.is_done = True
        self._previous = self._addend = self._left = self._actor = None
        self._machine.progress += 1
        return True

    def _words(self, operand: SharedOperand | Words) -> Words:
        return operand.read(self._actor) if isinstance(operand, SharedOperand) else operand

    def complete(self) -> None:
        """Does all that is left."""
        while not self.advance():
            pass

    def observe(self, lanes: Lanes) -> None:
        """What these lanes do from now on comes after it, which is complete."""
        if self.token is not None:
            self._machine.order.acquire(lanes, self.token)

    @cached_property
    def words(self) -> Words:
        """The result, (threads, registers), once it is complete."""
        assert self.values is not None
        return registers_of_d(self.values)
