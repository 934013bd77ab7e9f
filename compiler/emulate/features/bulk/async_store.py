"""Stores and reductions to the cluster's shared memory that signal an mbarrier (PTX ISA, "st.async", "red.async").

They are weak operations of the generic proxy that run beside the thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.access.forms import type_bytes
from compiler.emulate.features.bulk.engine import BulkCopies, Bytes, Read
from compiler.emulate.features.bulk.pieces import Pieces, pieces
from compiler.emulate.features.bulk.reduction import Reduction, reduction
from compiler.emulate.features.copy_forms import by_lane
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.launch import Completion
from compiler.emulate.machine import Machine
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT, IN_BLOCK, LOW_32_BITS
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.ptx.operands import elements
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
        if found is None and _store_together(active, insn, places, rows):
            return
        for row, (lane, (to, bar)) in zip(rows, by_lane(active, *places), strict=True):
            if _ranks(machine, lane, to) != _ranks(machine, lane, bar):
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
                lane, insn, _constant(row[None]), end.into(found), bar, nbytes, uses_async_proxy=False
            )

    return run


def _store_together(active: Active, insn: PtxInstruction, places: Sequence[Reader], rows: Bytes) -> bool:
    """What comes to one barrier as one operation, where nobody could tell it from an operation of each lane: in the
    fixed orders, with no search for races, right addresses, and no two at one place. False where this is not so, and
    nothing was done."""
    machine, nbytes = active.machine, rows.shape[1]
    if machine.options.races or machine.asynchrony.completion is Completion.RANDOM:
        return False
    to, bar = (np.broadcast_to(place(active), len(active)).astype(np.uint64) for place in places)
    ranks = _ranks(machine, active.lanes, to)
    size = machine.threads.cluster_blocks
    blocks = machine.threads.slot[active.lanes] // size * size + ranks
    there = (blocks.astype(np.uint64) << CLUSTER_RANK_SHIFT) | (to & IN_BLOCK)
    is_right = (ranks == _ranks(machine, active.lanes, bar)) & (to % np.uint64(nbytes) == 0)
    if not is_right.all() or len(np.unique(there)) < len(there):
        return False
    copies, left = machine.engine(BulkCopies), np.ones(len(active), np.bool_)
    for barrier, coming, which in machine.engine(MBarriers).bind_each(active, insn, bar, nbytes):
        left[which] = False
        part = active.at(which)
        found = machine.memory.locate(part, insn, StateSpace.SHARED, to[which], nbytes)
        end = Pieces(machine, part, insn, found, len(which), nbytes)
        copies.load_bound(coming.lane, insn, _constant(rows[which]), end.write, (barrier, coming))
    for index in np.flatnonzero(left).tolist():  # reported; what they store arrives all the same
        lane = int(active.lanes[index])
        end = pieces(machine, lane, insn, StateSpace.SHARED, to[index : index + 1], nbytes)
        copies.load_bound(lane, insn, _constant(rows[index : index + 1]), end.write, None)
    return True


def _ranks(machine: Machine, lanes: Any, addresses: Any) -> Any:
    """The rank in the cluster of the blocks that shared or generic addresses lie in, of one lane or an array of them
    (PTX ISA, "st.async": operands a and mbar are of one block)."""
    threads = machine.threads
    mapped = (np.asarray(addresses, np.uint64) & LOW_32_BITS) >> CLUSTER_RANK_SHIFT
    return np.where(mapped > 0, mapped.astype(np.int64) - 1, threads.slot[lanes] % threads.cluster_blocks)


def _constant(rows: Bytes) -> Read:
    return lambda actor: rows
