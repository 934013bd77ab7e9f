"""Instructions that a warpgroup executes together: all four warps of it, every thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.product_registers import GROUP, WARPS_OF_GROUP, ProductRegisters
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Collective
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

Flags = npt.NDArray[np.bool_]


class WholeWarpgroup(Collective):
    """Waits until all threads of a warpgroup stand here, then `execute`s for it: its number and its lanes.

    That the warps meet orders nothing between them.
    """

    def __init__(self, insn: PtxInstruction, execute: Callable[[Active, int, slice], None]) -> None:
        self.insn = insn
        self._execute = execute

    def ready(self, active: Active) -> Flags:
        groups = active.machine.engine(ProductRegisters).group_of_warp[active.lanes // WARP]
        here = np.bincount(groups)
        return np.asarray(here[groups] == GROUP)

    def finish(self, active: Active) -> None:
        groups = active.machine.engine(ProductRegisters).group_of_warp[active.lanes[::GROUP] // WARP]
        for place, group in enumerate(groups.tolist()):
            self._execute(active, group, slice(place * GROUP, (place + 1) * GROUP))

    def waiting_for(self, active: Active) -> str:
        return "the other threads of their warpgroup"

    def stuck(self, active: Active) -> bool:
        registers = active.machine.engine(ProductRegisters)
        groups = registers.group_of_warp[active.lanes // WARP]
        for group in np.unique(groups).tolist():
            self._report(active.where(groups == group), registers, group)
        return True

    def _report(self, active: Active, registers: ProductRegisters, group: int) -> None:
        machine = active.machine
        here = set((active.lanes // WARP - registers.first_warp[group]).tolist())
        slot = int(active.slots[0])
        size = min(WARPS_OF_GROUP, (slot + 1) * machine.threads.pitch // WARP - int(registers.first_warp[group]))
        mine = self._lanes(registers, group, size)
        gone = int(np.count_nonzero(~machine.live[mine]))
        if size < WARPS_OF_GROUP:
            problem = f"by a warpgroup of {size} warps only. Launch blocks whose threads are a multiple of {GROUP}"
        elif gone:
            problem = (
                f"by a warpgroup of which {gone} threads have exited. Let threads without work skip that work, not "
                "return"
            )
        elif len(here) < WARPS_OF_GROUP:
            problem = (
                f"by {len(here)} of the four warps of a warpgroup; the others stand elsewhere and never come. All four "
                "must execute it together: branch on the warpgroup, not on the warp"
            )
        else:
            problem = (
                "by some threads of a warp only; the others stand elsewhere and never come. Make the condition around "
                "it the same for the whole warpgroup"
            )
        active.fault(FaultKind.DIVERGENT_COLLECTIVE, self.insn, f"`{'.'.join(self.insn.name)}` is executed {problem}.")

    @staticmethod
    def _lanes(registers: ProductRegisters, group: int, warps: int) -> Lanes:
        first = int(registers.first_warp[group]) * WARP
        return np.arange(first, first + warps * WARP)
