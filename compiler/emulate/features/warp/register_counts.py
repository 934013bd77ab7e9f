"""Register counts of warpgroups: four warps in a row that must change theirs together (PTX ISA, "setmaxnreg").

A warp begins with what the kernel is compiled for: `.maxnreg`, or what `.maxntid` and `.minnctapersm` leave each thread
of the registers of a multiprocessor, but no more than the largest count that the kernel raises to (ptxas 13.0, by its
reports of registers). Without these the instruction may have no effect, and counts are not followed.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.warp.whole_warp import WholeWarp
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.order.order import Token
from compiler.emulate.ptx.module import Function, Immediate, PtxInstruction
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

_WARPS_OF_GROUP = 4
"""Warps of a warpgroup (PTX ISA, "Warpgroup")."""


_FEWEST, _MOST, _STEP = 24, 256, 8
"""Registers that setmaxnreg may ask for (PTX ISA, "setmaxnreg")."""

_OF_ALL = 65536
"""32-bit registers of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications")."""


def entry_registers(function: Function) -> int | None:
    """Registers a thread that a warp begins with; None where nothing says."""
    given = function.directives
    raised = [i.operands[0] for i in function.instructions if i.opcode == "setmaxnreg" and i.has("inc")]
    most = max((o.value for o in raised if isinstance(o, Immediate)), default=_MOST)
    if "maxnreg" in given:
        return min(most, -(-given["maxnreg"][0] // _STEP) * _STEP)
    if "maxntid" not in given or "minnctapersm" not in given:
        return None
    group = _WARPS_OF_GROUP * WARP
    threads = -(-prod(given["maxntid"]) // group) * group * given["minnctapersm"][0]
    return min(most, _MOST, _OF_ALL // threads // _STEP * _STEP)


class RegisterCounts(Engine):
    """Which setmaxnreg each warp executed, in order, the registers that its threads have, and those that are free."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._executed: dict[int, list[tuple[PtxInstruction, Token | None]]] = {}
        self._current = np.zeros(machine.threads.lanes // WARP, np.int64)
        self._free = np.zeros(len(machine.threads.blocks), np.int64)

    def begin(self, entry: int) -> None:
        """Every warp has `entry` registers a thread; once."""
        if not self._current.any():
            self._current[:] = entry

    def current(self, warp: int) -> int:
        """Registers a thread of a warp."""
        return int(self._current[warp])

    def may_raise(self, warps: list[int], count: int) -> bool:
        """Whether the block of these warps has given up so many that they can have `count` each."""
        needed = sum(count - int(self._current[warp]) for warp in warps if self._current[warp] < count)
        return needed <= int(self._free[self._slot(warps[0])])

    def change(self, warp: int, count: int) -> None:
        """A warp has `count` from now on; the difference goes to its block, or comes from there."""
        self._free[self._slot(warp)] += self._current[warp] - count
        self._current[warp] = count
        self.machine.progress += 1

    def free(self, warp: int) -> int:
        """Registers a thread of one warp that a warp's block has given up."""
        return int(self._free[self._slot(warp)])

    def note(self, insn: PtxInstruction, lanes: Lanes) -> bool:
        """A warp executes one. False if it has not seen the others of its warpgroup execute their last."""
        warp = int(lanes[0]) // WARP
        order = self.machine.order if self.machine.options.races else None
        mine = self._executed.setdefault(warp, [])
        before = len(mine) - 1
        has_seen = True
        if order is not None and before >= 0:
            for other in self._group(warp):
                theirs = self._executed.get(other, [])
                token = theirs[before][1] if len(theirs) > before else None
                has_seen &= other == warp or (token is not None and order.has_seen(lanes, token))
        mine.append((insn, order.release(lanes) if order is not None else None))
        return has_seen

    def _slot(self, warp: int) -> int:
        return warp * WARP // self.machine.threads.pitch

    def _group(self, warp: int) -> range:
        """The warps of a warp's warpgroup."""
        warps = self.machine.threads.pitch // WARP
        first = warp // warps * warps
        start = first + (warp - first) // _WARPS_OF_GROUP * _WARPS_OF_GROUP
        return range(start, min(start + _WARPS_OF_GROUP, first + warps))

    def block_ended(self, slot: int) -> None:
        """Reports warpgroups whose warps executed different ones."""
        threads = self.machine.threads
        first = slot * threads.pitch // WARP
        for start in range(first, first + threads.pitch // WARP, _WARPS_OF_GROUP):
            group = self._group(start)
            lists = [[insn for insn, _ in self._executed.get(warp, [])] for warp in group]
            for place in range(max(map(len, lists))):
                found = [some[place] if place < len(some) else None for some in lists]
                if any(insn is not found[0] for insn in found):
                    index, insn = next((i, insn) for i, insn in enumerate(found) if insn is not None)
                    self._report(insn, (start + index) * WARP)
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
    return _SetRegisters(insn, count.value, entry_registers(binder.function))


class _SetRegisters(WholeWarp):
    """`.inc` waits until the block has given up enough registers."""

    def __init__(self, insn: PtxInstruction, count: int, entry: int | None) -> None:
        super().__init__(insn, self._change)
        self._count, self._entry = count, entry
        self._is_bad = bool(count % _STEP) or not _FEWEST <= count <= _MOST
        self._raises = insn.has("inc")

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        whole = super().ready(active)
        if self._entry is None or not self._raises or self._is_bad:
            return whole
        counts = active.machine.engine(RegisterCounts)
        counts.begin(self._entry)
        granted: dict[int, list[int]] = {}
        for warp in np.unique(active.lanes[whole] // WARP).tolist():
            slot = warp * WARP // active.machine.threads.pitch
            if counts.may_raise([*granted.get(slot, []), warp], self._count):
                granted.setdefault(slot, []).append(warp)
            else:
                whole = whole & (active.lanes // WARP != warp)
        return whole

    def _change(self, active: Active) -> None:
        counts = active.machine.engine(RegisterCounts)
        if self._is_bad:
            active.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                f"{self._count} registers: the count must be a multiple of {_STEP} from {_FEWEST} to {_MOST}.",
            )
        for warp in np.unique(active.lanes // WARP).tolist():
            one = Active(active.machine, active.lanes[active.lanes // WARP == warp])
            if not counts.note(self.insn, one.lanes):
                one.fault(
                    FaultKind.RACE,
                    self.insn,
                    "The warps of the warpgroup are not known to have executed their last setmaxnreg. Synchronise them "
                    "(bar.sync of the warpgroup) between one and the next.",
                    tensor="registers",
                )
            if self._entry is not None and not self._is_bad:
                counts.begin(self._entry)
                self._set(one, counts, warp)

    def _set(self, one: Active, counts: RegisterCounts, warp: int) -> None:
        current = counts.current(warp)
        if (current > self._count) if self._raises else (current < self._count):
            other, word = ("dec", "more") if self._raises else ("inc", "fewer")
            one.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                f"The warp has {current} registers a thread, {word} than {self._count}: this is undefined. The kernel "
                f"begins with {self._entry}; use setmaxnreg.{other}, or another count.",
            )
        counts.change(warp, self._count)

    def waiting_for(self, active: Active) -> str:
        counts = active.machine.engine(RegisterCounts)
        warp = int(active.lanes[0]) // WARP
        if self._raises and self._entry is not None and not counts.may_raise([warp], self._count):
            wanted = self._count - counts.current(warp)
            return (
                f"{wanted} registers a thread more; the other warps of the block have given up {counts.free(warp)} in "
                "all (setmaxnreg.dec)"
            )
        return super().waiting_for(active)
