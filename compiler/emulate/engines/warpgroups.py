"""Warpgroups: four warps in a row that must change their register counts together (PTX ISA, "setmaxnreg")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP

_WARPS_OF_GROUP = 4
"""Warps of a warpgroup (PTX ISA, "Warpgroup")."""


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
