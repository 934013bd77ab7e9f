"""Instructions that a whole warp executes together: `.sync.aligned` (PTX ISA, "tcgen05", "ldmatrix", "setmaxnreg"…)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.warp.engine import WarpEngine, are_whole_warps
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Collective
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

Flags = npt.NDArray[np.bool_]


class WholeWarp(Collective):
    """Waits until all live lanes of a warp stand here, then `execute`s for them.

    `allows_exited`: threads that have exited count as having executed it, as at barriers.
    """

    def __init__(self, insn: PtxInstruction, execute: Callable[[Active], None], *, allows_exited: bool = False) -> None:
        self.insn = insn
        self._execute = execute
        self._allows_exited = allows_exited

    def ready(self, active: Active) -> Flags:
        return standing(active, self.insn)

    def finish(self, active: Active) -> None:
        if not self._allows_exited and not are_whole_warps(active.lanes):
            _expect_none_exited(active, self.insn)
        self._execute(active)

    def waiting_for(self, active: Active) -> str:
        return "the other threads of their warp"

    def stuck(self, active: Active) -> bool:
        return report_divergence(active, self.insn)


def report_divergence(active: Active, insn: PtxInstruction) -> bool:
    """Reports the lanes that stand here while others of their warp stand elsewhere; False if there are none.

    Where parts of a warp stand at several such instructions, the first of these is reported.
    """
    alone = ~standing(active, insn)
    is_divergent = bool(alone.any())
    for other, lanes in active.machine.engine(WarpEngine).waiting_elsewhere(insn):
        if other.ptx_line < insn.ptx_line:
            alone &= ~np.isin(active.lanes // WARP, lanes // WARP)
    active.fault(
        FaultKind.DIVERGENT_COLLECTIVE,
        insn,
        f"`{'.'.join(insn.name)}` is reached by part of a warp only; its other threads stand elsewhere and never come. "
        "All threads of a warp must execute it together: make the condition around it the same for the whole warp.",
        alone,
    )
    return is_divergent


def standing(active: Active, insn: PtxInstruction) -> Flags:
    """Which of the lanes that stand at `insn` belong to warps all of whose live lanes do."""
    waiting = active.machine.engine(WarpEngine)
    if are_whole_warps(active.lanes):
        whole = np.ones(len(active), np.bool_)
        waiting.note(insn, active.lanes, whole)
        return whole
    live = active.machine.live.reshape(-1, WARP).sum(axis=1)
    warp = active.lanes // WARP
    here = np.bincount(warp, minlength=len(live))
    complete: Flags = (here == live)[warp]
    waiting.note(insn, active.lanes, complete)
    return complete


def warps(active: Active) -> Iterator[tuple[int, slice, Lanes]]:
    """Warp by warp: its number in the batch, where its lanes are in `active`, and the lanes."""
    numbers = active.lanes // WARP
    if not len(numbers):
        return
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    starts = [0, *cuts.tolist()]
    stops = [*cuts.tolist(), len(numbers)]
    for start, stop in zip(starts, stops, strict=True):
        yield int(numbers[start]), slice(start, stop), active.lanes[start:stop]


def first_of_warp(active: Active, values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """For each lane, the value of the first lane of its warp."""
    numbers = active.lanes // WARP
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    return np.repeat(values[starts], np.diff(np.r_[starts, len(numbers)]))


def _expect_none_exited(active: Active, insn: PtxInstruction) -> None:
    threads = active.machine.threads
    size = np.bincount(threads.real // WARP, minlength=threads.lanes // WARP)
    warp = active.lanes // WARP
    here = np.bincount(warp, minlength=len(size))
    active.fault(
        FaultKind.DIVERGENT_COLLECTIVE,
        insn,
        f"`{'.'.join(insn.name)}` is executed by part of a warp only: its other threads have exited. All threads of a "
        "warp must execute it together: let threads without work skip that work, not return.",
        (here != size)[warp],
    )
