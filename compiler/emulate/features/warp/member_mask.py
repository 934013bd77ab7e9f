"""What the instructions with a member mask have in common: whom they wait for, and what they say if nobody comes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder
from compiler.emulate.features.barrier.engine import Barriers
from compiler.emulate.features.warp.engine import Gathering, WarpEngine, are_whole_warps, lane_names, warp_words
from compiler.emulate.ptx.module import Operand, PtxInstruction
from compiler.emulate.registry import Collective
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP


class MaskedCollective(Collective):
    """Lanes wait here until all live lanes that their masks name stand here too; then `execute` runs for them.

    Padding lanes of a block's last warp count as exited; a mask may name them, as 0xffffffff does.
    """

    def __init__(self, insn: PtxInstruction, binder: Binder, mask: Operand) -> None:
        self.insn = insn
        self.mask = binder.reader(mask, np.uint32, insn)

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        """Lanes none of whose partners are missing."""
        warps = active.machine.engine(WarpEngine)
        if active.full or are_whole_warps(active.lanes):
            free = np.ones(len(active), np.bool_)
        else:
            free = self.absent(active) == 0
        warps.note(self.insn, active.lanes, free)
        return free

    def absent(self, active: Active) -> npt.NDArray[Any]:
        """For each lane that stands here, those for which it waits: bits of its warp."""
        missing: npt.NDArray[Any] = active.machine.engine(WarpEngine).missing(active.lanes) & self.mask(active)
        return missing

    def finish(self, active: Active) -> None:
        """Checks who came, then executes."""
        gathering = Gathering(active, self.mask(active))
        gathering.check(self.insn)
        self.execute(active, gathering)

    @abstractmethod
    def execute(self, active: Active, gathering: Gathering) -> None:
        """Computes the results of the lanes that go on."""

    def waiting_for(self, active: Active) -> str:
        """The missing lanes of the first warp concerned."""
        return f"{lane_names(int(self.absent(active)[0]))} of their warp"

    def stuck(self, active: Active) -> bool:
        """Divergence, if those who are missing wait at another such place, further down in the kernel."""
        return report_divergence(self.insn, active, self.absent(active))


def report_divergence(insn: PtxInstruction, active: Active, absent: npt.NDArray[Any]) -> bool:
    """Reports lanes whose partners `absent` (bits, one word a lane) wait for others of the warp or block elsewhere.

    Of two places that wait for each other only the first in the kernel is reported: the branch, not where it joins.
    Lanes that are absent because a copy never ends, say, are no divergence: that is for the report of a deadlock.
    """
    machine = active.machine
    elsewhere = [*machine.engine(WarpEngine).waiting_elsewhere(insn), *machine.engine(Barriers).waiting_elsewhere(insn)]
    flags = np.zeros(machine.threads.lanes, np.bool_)
    for other, lanes in elsewhere:
        flags[lanes] = True
        if other.ptx_line < insn.ptx_line and (np.isin(lanes // WARP, active.lanes // WARP)).any():
            return False
    blocked = absent & warp_words(flags)[active.lanes // WARP]
    if not blocked.any():
        return False
    first = int(np.flatnonzero(blocked)[0])
    lane = int(active.lanes[first] - active.lanes[first] % WARP + int(blocked[first]).bit_length() - 1)
    place = next(other for other, lanes in elsewhere if lane in lanes)
    line = f", line {place.source.line}" if place.source else ""
    active.fault(
        FaultKind.DIVERGENT_COLLECTIVE,
        insn,
        f"{lane_names(int(absent[first])).capitalize()} of the warp are waited for here, but wait themselves at "
        f"`{place.text}`{line}: neither can go on. All threads that an instruction waits for must reach the same one: "
        "take it out of the branch, or name only the lanes that come.",
        blocked != 0,
    )
    return True
