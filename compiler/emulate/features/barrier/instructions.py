"""Barriers of a block: `bar`, `barrier`, `barrier.cta` (PTX ISA, "bar", "barrier")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.barrier.engine import Arrival, Barriers
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.warp.member_mask import report_divergence
from compiler.emulate.ptx.module import Operand, PtxInstruction
from compiler.emulate.registry import Collective, Step, instruction


@instruction("bar.sync", "bar.arrive", "bar.red", "bar.cta")
@instruction("barrier.sync", "barrier.arrive", "barrier.red", "barrier.cta")
def build_barrier(insn: PtxInstruction, binder: Binder) -> Step:
    """`.sync`, `.arrive` and `.red` with barrier number and thread count; `bar` is `barrier` with `.aligned`."""
    is_aligned = insn.opcode == "bar" or insn.has("aligned")
    if insn.has("arrive"):
        return _arrive(insn, binder, is_aligned)
    if insn.has("sync"):
        return BlockBarrier(insn, binder, insn.operands, is_aligned)
    if insn.has("red") and insn.has("popc", "and", "or"):
        return ReducingBarrier(insn, binder, is_aligned)
    raise UnknownForm(f"the form {'.'.join(insn.name)}")


def _arrive(insn: PtxInstruction, binder: Binder, is_aligned: bool) -> Step:
    number, count = (binder.reader(o, np.uint32, insn) for o in insn.operands)
    arrival = Arrival(insn, waits=False, is_aligned=is_aligned)

    def run(active: Active) -> None:
        active.machine.engine(Barriers).arrive(active, arrival, number(active), count(active))

    return run


class BlockBarrier(Collective):
    """Threads of the block wait for one another."""

    def __init__(
        self,
        insn: PtxInstruction,
        binder: Binder,
        operands: tuple[Operand, ...],
        is_aligned: bool,
        is_reduction: bool = False,
    ) -> None:
        self.insn = insn
        self._arrival = Arrival(insn, waits=True, is_aligned=is_aligned, is_reduction=is_reduction)
        self._number = binder.reader(operands[0], np.uint32, insn)
        self._count = binder.reader(operands[1], np.uint32, insn) if len(operands) > 1 else None

    def arrive(self, active: Active) -> None:
        """Counts the lanes."""
        self._arrive(active, None)

    def _arrive(self, active: Active, votes: npt.NDArray[np.bool_] | None) -> None:
        count = None if self._count is None else self._count(active)
        active.machine.engine(Barriers).arrive(active, self._arrival, self._number(active), count, votes)

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        """Those whose phase is complete."""
        return active.machine.engine(Barriers).released(active.lanes)

    def finish(self, active: Active) -> None:
        """They go on."""
        active.machine.engine(Barriers).leave(active.lanes)

    def waiting_for(self, active: Active) -> str:
        """How many have arrived, of how many."""
        return active.machine.engine(Barriers).status(int(active.lanes[0]))

    def stuck(self, active: Active) -> bool:
        """Divergence, if the other threads of a warp wait elsewhere for those that stand here."""
        if not self._arrival.is_aligned:
            return False
        return report_divergence(self.insn, active, active.machine.engine(Barriers).absent(active))


class ReducingBarrier(BlockBarrier):
    """`.red`: besides, they learn how many of them hold a predicate, or whether all or any do."""

    def __init__(self, insn: PtxInstruction, binder: Binder, is_aligned: bool) -> None:
        destination, *operands, predicate = insn.operands
        super().__init__(insn, binder, tuple(operands), is_aligned, is_reduction=True)
        self._predicate = binder.reader(predicate, np.bool_, insn)
        self._operation = next(word for word in ("popc", "and", "or") if insn.has(word))
        dtype = np.uint32 if self._operation == "popc" else np.bool_
        self._write = binder.writer(destination, dtype, insn)

    def arrive(self, active: Active) -> None:
        """Counts the lanes and their votes."""
        self._arrive(active, spread(self._predicate(active), active))

    def finish(self, active: Active) -> None:
        """Writes the result."""
        held, voters = active.machine.engine(Barriers).leave(active.lanes)
        match self._operation:
            case "popc":
                self._write(active, held.astype(np.uint32))
            case "and":
                self._write(active, held == voters)
            case _:
                self._write(active, held > 0)
