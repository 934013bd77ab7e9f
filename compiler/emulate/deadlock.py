"""The report of a deadlock: which threads stand where, and what they wait for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.machine import Machine
from compiler.emulate.program import BoundProgram, Wait
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes

_LOOKS = frozenset({"mbarrier", "ld", "atom", "nanosleep", "bar", "barrier"})
"""Instructions by which a loop waits."""

_WARPS_NAMED = 8


def report_deadlock(
    machine: Machine, program: BoundProgram, parked: Mapping[int, Lanes], spinning: Mapping[int, Lanes]
) -> None:
    """A fault at each instruction that keeps lanes standing; `parked` wait at collectives, `spinning` turn in loops."""
    where = [
        f"{_named(machine, lanes)} wait at {_quoted(program, pc)} for {_awaited(machine, program, pc, lanes)}"
        for pc, lanes in parked.items()
    ]
    where += [
        f"{_named(machine, lanes)} turn in a loop that waits at {_quoted(program, pc)}"
        for pc, lanes in spinning.items()
    ]
    for pc, lanes in (*parked.items(), *spinning.items()):
        machine.fault(
            FaultKind.DEADLOCK,
            _waiting_at(program, pc),
            "Deadlock: nothing can go on. " + "; ".join(where) + ".",
            lane=int(lanes[0]),
        )


def _awaited(machine: Machine, program: BoundProgram, pc: int, lanes: Lanes) -> str:
    end = program.blocks[pc].end
    assert isinstance(end, Wait)
    return end.step.waiting_for(Active(machine, lanes))


def _waiting_at(program: BoundProgram, pc: int) -> PtxInstruction:
    """What keeps lanes standing at `pc`: the first instruction of its block that looks at memory or a barrier."""
    block = program.blocks.get(pc)
    mine = program.function.instructions[pc : block.stop if block else pc + 1]
    return next((i for i in mine if i.opcode in _LOOKS), mine[0])


def _quoted(program: BoundProgram, pc: int) -> str:
    insn = _waiting_at(program, pc)
    return f"`{insn.text}`" + (f" (line {insn.source.line})" if insn.source else "")


def _named(machine: Machine, lanes: Lanes) -> str:
    """Which threads: warps of the first block concerned, and how many blocks are like it."""
    threads = machine.threads
    slots = np.unique(threads.slot[lanes])
    mine = lanes[threads.slot[lanes] == slots[0]]
    warps = np.unique(threads.thread[mine] // WARP).tolist()
    more = f" (and of {len(slots) - 1} more blocks)" if len(slots) > 1 else ""
    names = ", ".join(map(str, warps[:_WARPS_NAMED])) + (", …" if len(warps) > _WARPS_NAMED else "")
    return f"{len(mine)} threads of warps {names} of block {threads.block_index(int(slots[0]))}{more}"
