"""Hardware that instructions share: barriers, copy engines, tensor memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.emulate.active import Active
from compiler.emulate.memory.region import Offsets
from compiler.emulate.ptx.module import PtxInstruction

if TYPE_CHECKING:
    from compiler.emulate.machine import Machine


class Engine:
    """One of each class a batch, made when first asked for: `machine.engine(MBarriers)`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def block_ended(self, slot: int) -> None:
        """All threads of the block in `slot` have exited: report what must not be left (copies in flight, say)."""

    def shared_access(
        self, active: Active, insn: PtxInstruction, offsets: Offsets, nbytes: int, is_store: bool
    ) -> None:
        """Threads access shared memory as ordinary data. Called only for engines that override it."""

    def explain_stuck(self) -> None:
        """Nothing can go on: report a fault that explains it, if this engine knows one."""
