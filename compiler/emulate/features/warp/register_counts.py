"""Register counts of warpgroups: four warps in a row that must change theirs together (PTX ISA, "setmaxnreg")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.warp.whole_warp import WholeWarp
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.ptx.module import Immediate, PtxInstruction
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP

_WARPS_OF_GROUP = 4
"""Warps of a warpgroup (PTX ISA, "Warpgroup")."""


_FEWEST, _MOST, _STEP = 24, 256, 8
"""Registers that setmaxnreg may ask for (PTX ISA, "setmaxnreg")."""


class RegisterCounts(Engine):
    """Which setmaxnreg each warp executed, in order: the warps of a warpgroup must agree."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._executed: dict[int, list[PtxInstruction]] = {}

    def note(self, active: Active, insn: PtxInstruction) -> None:
        """Warps execute one."""
        for warp in np.unique(active.lanes // WARP).tolist():
            self._executed.setdefault(warp, []).append(insn)

    def block_ended(self, slot: int) -> None:
        """Reports warpgroups whose warps executed different ones."""
        threads = self.machine.threads
        first = slot * threads.pitch // WARP
        for group in range(first, first + threads.pitch // WARP, _WARPS_OF_GROUP):
            stop = min(group + _WARPS_OF_GROUP, first + threads.pitch // WARP)
            lists = [self._executed.get(warp, []) for warp in range(group, stop)]
            for place in range(max(map(len, lists))):
                found = [some[place] if place < len(some) else None for some in lists]
                if any(insn is not found[0] for insn in found):
                    index, insn = next((i, insn) for i, insn in enumerate(found) if insn is not None)
                    self._report(insn, (group + index) * WARP)
                    break

    def _report(self, insn: PtxInstruction, lane: int) -> None:
        self.machine.fault(
            FaultKind.DIVERGENT_COLLECTIVE,
            insn,
            "setmaxnreg is executed by some warps of a warpgroup and not by the others. All four must execute the same "
            "one: branch on the warpgroup, not on the warp.",
            lane=lane,
        )


@instruction("setmaxnreg")
def set_registers(insn: PtxInstruction, binder: Binder) -> Step:
    """`setmaxnreg.{inc,dec}.sync.aligned.u32 n`: all warps of a warpgroup execute it."""
    (count,) = insn.operands
    if insn.name[2:] != ("sync", "aligned", "u32") or not isinstance(count, Immediate) or not insn.has("inc", "dec"):
        raise UnknownForm(f"the form {insn.text}")
    is_bad = count.value % _STEP or not _FEWEST <= count.value <= _MOST

    def run(active: Active) -> None:
        if is_bad:
            active.fault(
                FaultKind.INVALID_OPERAND,
                insn,
                f"{count.value} registers: the count must be a multiple of {_STEP} from {_FEWEST} to {_MOST}.",
            )
        active.machine.engine(RegisterCounts).note(active, insn)

    return WholeWarp(insn, run)
