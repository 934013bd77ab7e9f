"""Stores and reductions to the cluster's shared memory that signal an mbarrier (PTX ISA, "st.async", "red.async").

They are weak operations of the generic proxy that run beside the thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.access.forms import elements, type_bytes
from compiler.emulate.features.bulk.engine import BulkCopies, Read
from compiler.emulate.features.bulk.pieces import pieces
from compiler.emulate.features.bulk.reduction import Reduction, reduction
from compiler.emulate.features.copy_forms import by_lane
from compiler.emulate.machine import Machine
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT, LOW_32_BITS
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Run, instruction
from compiler.emulate.report import FaultKind

_MBARRIER = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("inc", "dec", "min", "max", "add", "and", "or", "xor")


@instruction("st.async")
def store(insn: PtxInstruction, binder: Binder) -> Run:
    """`st.async.shared::cluster.mbarrier::complete_tx::bytes{.v2,.v4}.type [a], b, [mbar]`."""
    return _store(insn, binder, None)


@instruction("red.async")
def reduce(insn: PtxInstruction, binder: Binder) -> Run:
    """`red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.op.type [a], b, [mbar]`."""
    operation = next((w for w in insn.name if w in _OPERATIONS), "")
    kind = insn.name[-1]
    if operation in ("and", "or", "xor"):
        kind = f"b{kind[1:]}"
    found = reduction(operation, kind)
    if found is None:
        raise UnknownForm(f"the reduction {operation}.{insn.name[-1]}")
    return _store(insn, binder, found)


def _store(insn: PtxInstruction, binder: Binder, found: Reduction | None) -> Run:
    if not insn.has(_MBARRIER):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    unit = type_bytes(insn.name[-1])
    places = [binder.address(insn.operands[0], insn), binder.address(insn.operands[2], insn)]
    sources = elements(insn.operands[1])
    readers = [binder.reader(s, f"u{unit}", insn) for s in sources]
    nbytes = unit * len(sources)

    def run(active: Active) -> None:
        machine = active.machine
        values = np.empty((len(active), len(readers)), f"u{unit}")
        for column, read in enumerate(readers):
            values[:, column] = read(active)
        rows = values.view(np.uint8)
        for row, (lane, (to, bar)) in zip(rows, by_lane(active, *places), strict=True):
            if _rank(machine, lane, to) != _rank(machine, lane, bar):
                Active(machine, np.array([lane])).fault(
                    FaultKind.INVALID_OPERAND,
                    insn,
                    "The destination and the mbarrier lie in the shared memory of different blocks. Map both to the "
                    "same block of the cluster (mapa).",
                    None,
                    np.array(bar),
                    machine.memory.addresses.shared.name,
                )
            end = pieces(machine, lane, insn, StateSpace.SHARED, np.array([to], np.uint64), nbytes, nbytes)
            machine.engine(BulkCopies).load(
                lane, insn, _constant(row), end.into(found), bar, nbytes, uses_async_proxy=False
            )

    return run


def _rank(machine: Machine, lane: int, address: int) -> int:
    """The rank in the cluster of the block that a shared or generic address lies in (PTX ISA, "st.async": operands a
    and mbar are of one block)."""
    threads = machine.threads
    mapped = (int(address) & int(LOW_32_BITS)) >> int(CLUSTER_RANK_SHIFT)
    return mapped - 1 if mapped else int(threads.slot[lane]) % threads.cluster_blocks


def _constant(row: npt.NDArray[np.uint8]) -> Read:
    return lambda actor: row[None]
