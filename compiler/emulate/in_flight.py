"""Registers that asynchronous loads fill: which of them nobody has waited for yet.

`tcgen05.ld` is asynchronous: its registers hold the values once `tcgen05.wait::ld` has returned (PTX ISA, "tcgen05.ld",
"tcgen05.wait"). A use before that gets the values all the same, for a true register dependency is honoured, but it
orders nothing (PTX ISA, "Register dependencies, same thread"): the read of tensor memory may still be going on when a
later instruction lets another warp overwrite it. So an early use completes the load, and is reported. Copies by `mov`
are not uses: compilers place them freely; what they copy stays in flight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.ptx.assignment import registers_in
from compiler.emulate.ptx.module import Function, PtxInstruction, Register
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

Flags = npt.NDArray[np.bool_]


def landing_registers(function: Function) -> frozenset[int]:
    """Registers that a `tcgen05.ld` of this function may fill, directly or through `mov`."""
    found = {r.index for i in function.instructions if i.name[:2] == ("tcgen05", "ld") for r in _results(i)}
    moves = [i for i in function.instructions if i.opcode == "mov"] if found else []
    while True:
        more = {r.index for i in moves if any(s.index in found for s in _sources(i)) for r in _results(i)}
        if more <= found:
            return frozenset(found)
        found |= more


class RegisterLoad(Protocol):
    """A load that fills registers."""

    def complete(self) -> None:
        """Ends it at once."""

    def observe(self, lanes: Lanes) -> None:
        """What these lanes do from now on comes after it."""


class InFlight(Engine):
    """For each landing register and lane: the number of the load that fills it, 0 for none."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._loads: dict[int, npt.NDArray[np.int64]] = {}
        self._waited = np.zeros(machine.threads.lanes, np.int64)
        self._under_way: dict[int, tuple[Lanes, RegisterLoad]] = {}
        self._last = 0

    def start(self, registers: tuple[int, ...], lanes: Lanes, load: RegisterLoad) -> int:
        """A load into these registers of these lanes was issued. Its number."""
        self._last += 1
        self._under_way[self._last] = lanes, load
        for register in registers:
            self.mark(register, lanes, self._last)
        return self._last

    def mark(self, register: int, lanes: Lanes, load: int) -> None:
        """Load number `load` fills this register of these lanes."""
        self._of(register)[lanes] = load

    def holds(self, register: int, lanes: Lanes, load: int) -> Flags:
        """In which lanes the register still belongs to a load: nothing else was written to it since."""
        held: Flags = self._of(register)[lanes] == load
        return held

    def wait(self, lanes: Lanes) -> None:
        """These lanes have waited for all loads that they issued."""
        self._waited[lanes] = self._last
        for number, (issuers, _) in tuple(self._under_way.items()):
            if (self._waited[issuers] >= number).all():
                del self._under_way[number]

    def read(self, active: Active, register: Register, insn: PtxInstruction) -> None:
        """Lanes read a register: completes what is on its way there, and reports a use that did not wait."""
        loads = self._loads.get(register.index)
        if loads is None:
            return
        mine = loads[active.lanes]
        early = mine > self._waited[active.lanes]
        if not early.any():
            return
        numbers = np.unique(mine[early]).tolist()
        for number in numbers:
            self._under_way[number][1].complete()
        if insn.opcode != "mov":
            active.fault(
                FaultKind.RACE,
                insn,
                f"Register {register.name} is used before the tcgen05.ld that fills it was waited for: the load may "
                "still be reading tensor memory. Execute tcgen05.wait::ld between the load and the first use.",
                early,
                tensor="registers",
            )
            for number in numbers:  # one report is enough: from here on as if they had been waited for
                self._under_way[number][1].observe(active.lanes[early])
            self.wait(active.lanes[early])

    def written(self, active: Active, register: Register, insn: PtxInstruction) -> None:
        """Lanes have written a register; by `mov` it takes over what its sources wait for."""
        lanes = active.lanes
        taken = np.zeros(len(lanes), np.int64)
        if insn.opcode == "mov":
            for source in _sources(insn):
                loads = self._loads.get(source.index)
                if loads is not None:
                    taken = np.maximum(taken, loads[lanes])
        if register.index in self._loads or taken.any():
            self._of(register.index)[lanes] = taken

    def _of(self, register: int) -> npt.NDArray[np.int64]:
        found = self._loads.get(register)
        if found is None:
            found = self._loads[register] = np.zeros(self.machine.threads.lanes, np.int64)
        return found


def _results(insn: PtxInstruction) -> Iterator[Register]:
    return registers_in(insn.operands[:1])


def _sources(insn: PtxInstruction) -> Iterator[Register]:
    return registers_in(insn.operands[1:])
