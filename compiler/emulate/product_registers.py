"""Registers of warpgroup products: which of them an operation under way reads or writes, and who touched them last.

`wgmma.mma_async` is asynchronous: from its issue until a `wgmma.wait_group` that covers it, its accumulator has no
value, and neither that nor registers of A may be accessed otherwise (PTX ISA, "wgmma.wait_group"). A product that goes
on with the accumulator of another of its shape needs no wait. Between an access of a register by other instructions and
a product that takes it there must be a `wgmma.fence` (PTX ISA, "wgmma.fence").

Results stay with their operation until somebody reads the register, so that a chain of products moves no registers.
Copies by `mov` are no accesses: compilers place them, and constants, freely, and the assembler knows how to. What they
copy stays in flight, and counts as touched when its source was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.ptx.assignment import registers_in
from compiler.emulate.ptx.module import Function, PtxInstruction, Register, Vector
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

WARPS_OF_GROUP = 4
"""Warps of a warpgroup: the first one's rank in its block is a multiple of that (PTX ISA, "Warpgroup")."""

GROUP = WARPS_OF_GROUP * WARP
"""Threads of a warpgroup."""

_MANY = 256
"""Operations that are known before those that no register holds any more are forgotten."""


def product_registers(function: Function) -> dict[int, int]:
    """The registers that products of this function read or write, and those that `mov` links to them, numbered."""
    products = [i for i in function.instructions if i.name[:2] == ("wgmma", "mma_async")]
    if not products:
        return {}
    results = {r.index for i in products for r in registers_in(i.operands[:1])}
    factors = {r.index for i in products for r in registers_in(i.operands[1:2]) if isinstance(i.operands[1], Vector)}
    moves = [
        (tuple(r.index for r in registers_in(i.operands[:1])), tuple(r.index for r in registers_in(i.operands[1:])))
        for i in function.instructions
        if i.opcode == "mov"
    ]
    after = _closed(results, moves)
    before = _closed(results | factors, [(sources, targets) for targets, sources in moves])
    return {index: row for row, index in enumerate(sorted(after | before))}


def _closed(found: set[int], moves: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> set[int]:
    """What moves (targets, sources) reach from these registers."""
    found = set(found)
    while True:
        more = {t for targets, sources in moves if not found.isdisjoint(sources) for t in targets}
        if more <= found:
            return found
        found |= more


class HeldResult(Protocol):
    """A product of one warpgroup that registers hold the result of, or that reads registers."""

    waited: Flags
    """Which of the four warps have waited for it."""

    time: int
    """When it was issued, in the time of `ProductRegisters`."""

    @property
    def words(self) -> npt.NDArray[np.uint32]:
        """The result, (threads, registers), once it is complete."""

    def complete(self) -> None:
        """Ends it at once."""

    def observe(self, lanes: Lanes) -> None:
        """What these lanes do from now on comes after it."""


class ProductRegisters(Engine):
    """For each watched register, by row: the operation that it holds a result of, or that reads it, by warpgroup; when
    each warp touched it last."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        threads = machine.threads
        warps = threads.pitch // WARP
        groups = -(-warps // WARPS_OF_GROUP)
        warp = np.arange(threads.lanes // WARP)
        self.group_of_warp = warp // warps * groups + warp % warps // WARPS_OF_GROUP
        self.first_warp = (np.arange(len(threads.blocks))[:, None] * warps + WARPS_OF_GROUP * np.arange(groups)).ravel()
        """The first warp of each warpgroup; the last of a block may have fewer than four."""
        self.time = 1
        self.fenced = np.zeros(len(warp), np.int64)
        """When each warp last executed wgmma.fence, 0 for never."""
        self._rows: dict[int, int] = {}
        self._holder = np.zeros((0, 0), np.int32)
        self._element = np.zeros((0, 0), np.int32)
        self._reader = np.zeros((0, 0), np.int32)
        self._touched = np.zeros((0, 0), np.int64)
        self._operations: dict[int, HeldResult] = {}
        self._last = 0

    def watch(self, rows: dict[int, int]) -> None:
        """Takes the numbering of the function's registers (`product_registers`), once."""
        if self._rows is not rows:
            self._rows = rows
            groups, warps = len(self.first_warp), len(self.group_of_warp)
            self._holder, self._element, self._reader = (np.zeros((len(rows), groups), np.int32) for _ in range(3))
            self._touched = np.zeros((len(rows), warps), np.int64)

    # What products do.

    def fence(self, lanes: Lanes) -> None:
        """Whole warps execute wgmma.fence."""
        self.time += 1
        self.fenced[lanes // WARP] = self.time

    def unfenced(self, rows: Ints, group: int) -> tuple[int, int] | None:
        """The place in `rows` of a register that a warp of a group touched since its last fence, and the warp."""
        warps = slice(int(self.first_warp[group]), int(self.first_warp[group]) + WARPS_OF_GROUP)
        bad = self._touched[rows, warps] >= self.fenced[warps]
        if not bad.any():
            return None
        place, warp = np.unravel_index(int(bad.argmax()), bad.shape)
        return int(place), int(warp)

    def holders(self, rows: Ints, group: int) -> list[HeldResult]:
        """The operations whose results these registers of a group hold, each once."""
        return [self._operations[n] for n in np.unique(self._holder[rows, group]).tolist() if n]

    def readers(self, rows: Ints, group: int) -> list[HeldResult]:
        """The operations that read these registers of a group as A, and that some warp has not waited for."""
        readers = self._reader[rows, group]
        if not readers.any():
            return []
        found = [self._operations[n] for n in np.unique(readers).tolist() if n]
        return [o for o in found if not o.waited.all()]

    def chained(self, rows: Ints, group: int) -> HeldResult | None:
        """The operation of which these registers hold the whole result in order; None if there is none."""
        holder = self._holder[rows, group]
        number = int(holder[0])
        if not number or (holder != number).any() or (self._element[rows, group] != np.arange(len(rows))).any():
            return None
        return self._operations[number]

    def issue(self, operation: HeldResult, results: Ints, factors: Ints, group: int) -> None:
        """An operation begins that leaves its result in some registers of a group and reads A from others."""
        self._last += 1
        self._operations[self._last] = operation
        self._holder[results, group] = self._last
        self._element[results, group] = np.arange(len(results))
        self._reader[factors, group] = self._last
        if len(self._operations) > _MANY:
            used = set(np.unique(self._holder).tolist()) | set(np.unique(self._reader).tolist())
            self._operations = {n: o for n, o in self._operations.items() if n in used}

    def settle(self, register: int, group: int) -> None:
        """Puts the result that a register of a group holds into it."""
        row = self._rows[register]
        number = int(self._holder[row, group])
        if not number:
            return
        operation = self._operations[number]
        operation.complete()
        first = int(self.first_warp[group]) * WARP
        registers = self.machine.registers
        whole = registers[register].copy()
        values = operation.words[:, int(self._element[row, group])]
        whole[first : first + GROUP] = np.ascontiguousarray(values).view(whole.dtype)
        registers[register] = whole
        self._holder[row, group] = 0

    # What other instructions do.

    def read(self, active: Active, register: Register, insn: PtxInstruction) -> None:
        """Lanes read a register: puts into it what it holds, and reports a use that did not wait."""
        row = self._rows.get(register.index)
        if row is None:
            return
        moves = insn.opcode == "mov"
        if not moves:
            self._touched[row, active.lanes // WARP] = self.time
        if not self._holder[row].any():
            return
        for group in self._held(row, active):
            operation = self._operations[int(self._holder[row, group])]
            if not self._is_waited(operation, active, group):
                if _is_copy(insn) and self._is_whole(active, group):
                    continue  # `write` makes the target one more holder
                self._early(active, register, insn, operation, group, "used")
            self.settle(register.index, group)

    def write(self, active: Active, register: Register, insn: PtxInstruction) -> None:
        """Lanes are about to write a register: reports one that an operation under way reads or writes."""
        row = self._rows.get(register.index)
        if row is None:
            return
        sources = [self._rows[r.index] for r in registers_in(insn.operands[1:]) if r.index in self._rows]
        warps = active.lanes // WARP
        moves = insn.opcode == "mov"
        if not moves:
            self._touched[row, warps] = self.time
        elif sources:
            self._touched[row, warps] = self._touched[sources][:, warps].max(axis=0)
        else:
            self._touched[row, warps] = 0
        if self._reader[row].any():
            for group in self._groups(active):
                number = int(self._reader[row, group])
                if number and not self._is_waited(self._operations[number], active, group):
                    self._early(active, register, insn, self._operations[number], group, "overwritten")
        copies = _is_copy(insn) and len(sources) == 1
        if not self._holder[row].any() and not (copies and self._holder[sources[0]].any()):
            return
        for group in self._held(row, active):
            operation = self._operations[int(self._holder[row, group])]
            if not self._is_waited(operation, active, group):
                self._early(active, register, insn, operation, group, "written to")
            if not self._is_whole(active, group):
                self.settle(register.index, group)
        groups = self._groups(active)
        self._holder[row, groups] = 0
        if copies:
            for group in groups:
                if self._holder[sources[0], group] and self._is_whole(active, group):
                    self._holder[row, group] = self._holder[sources[0], group]
                    self._element[row, group] = self._element[sources[0], group]

    def _groups(self, active: Active) -> list[int]:
        groups: list[int] = np.unique(self.group_of_warp[active.lanes // WARP]).tolist()
        return groups

    def _held(self, row: int, active: Active) -> list[int]:
        return [group for group in self._groups(active) if self._holder[row, group]]

    def _members(self, active: Active, group: int) -> Flags:
        mine: Flags = self.group_of_warp[active.lanes // WARP] == group
        return mine

    def _is_whole(self, active: Active, group: int) -> bool:
        return int(np.count_nonzero(self._members(active, group))) == GROUP

    def _is_waited(self, operation: HeldResult, active: Active, group: int) -> bool:
        if operation.waited.all():
            return True
        warps = active.lanes[self._members(active, group)] // WARP - self.first_warp[group]
        return bool(operation.waited[warps].all())

    def _early(
        self, active: Active, register: Register, insn: PtxInstruction, operation: HeldResult, group: int, done: str
    ) -> None:
        """Reports an access that did not wait. One report is enough: from here on as if it had waited."""
        mine = self._members(active, group)
        what = "whose factor it holds" if done == "overwritten" else "whose accumulator it is part of"
        active.fault(
            FaultKind.RACE,
            insn,
            f"Register {register.name} is {done} before the wgmma.mma_async {what} was waited for: the operation may "
            "still be under way. Execute wgmma.commit_group after it and wgmma.wait_group before this access.",
            mine,
            tensor="registers",
        )
        operation.complete()
        lanes = active.lanes[mine]
        operation.observe(lanes)
        operation.waited[np.unique(lanes // WARP) - self.first_warp[group]] = True


def _is_copy(insn: PtxInstruction) -> bool:
    """Whether an instruction copies one register to another."""
    return insn.opcode == "mov" and all(isinstance(o, Register) for o in insn.operands)
