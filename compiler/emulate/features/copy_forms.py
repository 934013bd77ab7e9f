"""What the forms of asynchronous copies and mbarriers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Reader, UnknownForm
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, StateSpace


def shared_or_generic(insn: PtxInstruction) -> StateSpace:
    """The space of an mbarrier's address: generic unless the name says shared."""
    return StateSpace.SHARED if any(w.startswith("shared") for w in insn.name) else StateSpace.GENERIC


def constant_operand(operand: Operand) -> int:
    """The value of an operand that must be a constant. Raises UnknownForm for another."""
    if not isinstance(operand, Immediate) or operand.kind != "int":
        raise UnknownForm(f"{operand} where a constant is due")
    return operand.value


def by_lane(active: Active, *readers: Reader) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each lane with its values as Python numbers, for instructions that few lanes execute."""
    columns: list[list[Any]] = [np.broadcast_to(read(active), len(active)).tolist() for read in readers]
    for index, lane in enumerate(active.lanes.tolist()):
        yield lane, tuple(column[index] for column in columns)
