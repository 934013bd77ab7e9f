"""Filling shared memory with zeros (PTX ISA, "st.bulk")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.order.order import Access
from compiler.emulate.ptx.module import Immediate, PtxInstruction, StateSpace
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind

_WORD = 8
"""st.bulk fills whole words of 8 bytes (PTX ISA, "st.bulk")."""

_MOST_BYTES = 16_777_216


@instruction("st.bulk")
def fill(insn: PtxInstruction, binder: Binder) -> Step:
    """`st.bulk{.weak}{.shared::cta} [a], size, 0`: fills shared memory with zeros."""
    initial = insn.operands[2]
    if not isinstance(initial, Immediate) or initial.value:
        raise UnknownForm(f"another value than 0 in {insn.text}")
    address = binder.address(insn.operands[0], insn)
    size = binder.reader(insn.operands[1], np.uint64, insn)
    space = StateSpace.SHARED if insn.has("shared", "shared::cta") else StateSpace.GENERIC

    def run(active: Active) -> None:
        places, sizes = spread(address(active), active), spread(size(active), active).astype(np.int64)
        bad = (sizes % _WORD != 0) | (sizes < 0) | (sizes > _MOST_BYTES)
        active.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"The size must be a multiple of {_WORD} bytes, {_MOST_BYTES} at most.",
            bad,
            places,
        )
        for nbytes in np.unique(sizes[~bad & (sizes > 0)]).tolist():
            mine = np.flatnonzero(~bad & (sizes == nbytes))
            _fill(active.at(mine), insn, space, places[mine], nbytes)

    return run


def _fill(active: Active, insn: PtxInstruction, space: StateSpace, places: npt.NDArray[np.uint64], nbytes: int) -> None:
    machine = active.machine
    for place in machine.memory.locate(active, insn, space, places, nbytes, _WORD):
        part = active if place.pick is None else Active(machine, active.lanes[place.pick])
        if place.region.space is not StateSpace.SHARED:
            part.fault(FaultKind.INVALID_OPERAND, insn, "st.bulk fills shared memory only.", None, places[:1][0])
            continue
        machine.touch_shared(part, insn, place.offsets, nbytes, True)
        values = np.zeros((len(part), nbytes), np.uint8)
        if machine.options.races:
            machine.order.access(place.region, Access.WRITE, insn, part.lanes, place.offsets, nbytes, values=values)
        machine.memory.write_bytes(None, part, insn, place.region, place.offsets, values)
