"""cp.async.bulk without a tensor map, its reductions and groups (PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.bulk.engine import BulkCopies
from compiler.emulate.features.bulk.multicast import addresses_of
from compiler.emulate.features.bulk.pieces import Pieces, pieces
from compiler.emulate.features.bulk.reduction import Reduction, reduction
from compiler.emulate.features.copy_forms import by_lane, constant_operand
from compiler.emulate.machine import Machine
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Collective, Run, instruction
from compiler.emulate.report import FaultKind

UNIT = 16
"""Sizes and addresses are multiples of it (PTX ISA, "cp.async.bulk": size, dstMem, srcMem)."""

_MBARRIER = "mbarrier::complete_tx::bytes"
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@instruction("cp.async.bulk")
def copy(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.bulk.DST.SRC.…  [dst], [src], size, …` in its three directions."""
    target, source = insn.name[3:5]
    if insn.has("ignore_oob"):
        raise UnknownForm("cp.async.bulk with .ignore_oob")
    if target == "global":
        return _store(insn, binder, None)
    if not insn.has(_MBARRIER):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return _load(insn, binder, StateSpace.SHARED if source == "shared::cta" else StateSpace.GLOBAL, None)


@instruction("cp.reduce.async.bulk")
def reduce(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.reduce.async.bulk.DST.shared::cta.….OP.TYPE [dst], [src], size{, [mbar]}`."""
    operation = next((w for w in insn.name if w in _OPERATIONS), "")
    found = reduction(operation, insn.name[-1])
    if found is None:
        raise UnknownForm(f"the reduction {operation}.{insn.name[-1]}")
    if insn.name[4] == "global":
        return _store(insn, binder, found)
    return _load(insn, binder, StateSpace.SHARED, found)


def _load(insn: PtxInstruction, binder: Binder, source_space: StateSpace, found: Reduction | None) -> Run:
    """To shared memory, of this block or another of the cluster, signalling an mbarrier there."""
    target, source, size, barrier, *rest = insn.operands
    readers = [
        binder.address(target, insn),
        binder.address(source, insn),
        binder.reader(size, np.uint32, insn),
        binder.address(barrier, insn),
    ]
    is_multicast = insn.has("multicast::cluster")
    if is_multicast:
        readers.append(binder.reader(rest[0], np.uint16, insn))
    kind = "bulk_load" if source_space is StateSpace.GLOBAL else "bulk_exchange"

    def run(active: Active) -> None:
        machine = active.machine
        for lane, (to, start, nbytes, bar, *masks) in by_lane(active, *readers):
            _check_size(machine, insn, lane, nbytes)
            origin = _run_of(machine, lane, insn, source_space, start, nbytes)
            places = addresses_of(machine, lane, insn, to, masks[0] if is_multicast else None)
            bars = addresses_of(machine, lane, insn, bar, masks[0] if is_multicast else None)
            ends = [_run_of(machine, lane, insn, StateSpace.SHARED, each, nbytes) for each in places]
            machine.counters.bulk(kind, origin.name, 1, nbytes)
            is_exchange = source_space is StateSpace.SHARED
            for end, each in zip(ends, bars, strict=True):
                machine.engine(BulkCopies).load(
                    lane, insn, origin.read, end.into(found), each, nbytes, from_shared=is_exchange
                )

    return run


def _store(insn: PtxInstruction, binder: Binder, found: Reduction | None) -> Run:
    """From shared to global memory, in the bulk group of the thread."""
    target, source, size, *rest = insn.operands
    readers = [binder.address(target, insn), binder.address(source, insn), binder.reader(size, np.uint32, insn)]
    is_masked = insn.has("cp_mask")
    if is_masked:
        readers.append(binder.reader(rest[-1], np.uint16, insn))
    kind = "bulk_store" if found is None else "bulk_reduce"

    def run(active: Active) -> None:
        machine = active.machine
        for lane, (to, start, nbytes, *masks) in by_lane(active, *readers):
            _check_size(machine, insn, lane, nbytes)
            if is_masked:
                origin, end = (_masked(machine, lane, insn, s, at, nbytes, masks[0]) for s, at in _both(start, to))
            else:
                origin, end = (_run_of(machine, lane, insn, s, at, nbytes) for s, at in _both(start, to))
            machine.counters.bulk(kind, end.name, 1, nbytes)
            machine.engine(BulkCopies).store(lane, insn, origin.read, end.into(found))

    return run


def _both(start: int, to: int) -> tuple[tuple[StateSpace, int], tuple[StateSpace, int]]:
    return (StateSpace.SHARED, start), (StateSpace.GLOBAL, to)


def _check_size(machine: Machine, insn: PtxInstruction, lane: int, nbytes: int) -> None:
    if nbytes % UNIT:
        machine.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"A bulk copy of {nbytes} bytes. The size must be a multiple of {UNIT}.",
            lane=lane,
        )


def _run_of(machine: Machine, lane: int, insn: PtxInstruction, space: StateSpace, address: int, nbytes: int) -> Pieces:
    return pieces(machine, lane, insn, space, np.array([address], np.uint64), nbytes, UNIT)


def _masked(
    machine: Machine, lane: int, insn: PtxInstruction, space: StateSpace, address: int, nbytes: int, mask: int
) -> Pieces:
    """The bytes of each 16 whose bit is set (PTX ISA, "cp.async.bulk": .cp_mask)."""
    bits = np.flatnonzero([mask >> bit & 1 for bit in range(UNIT)])
    at: npt.NDArray[np.int64] = (np.arange(0, nbytes, UNIT)[:, None] + bits).ravel() + address
    return pieces(machine, lane, insn, space, at.astype(np.uint64), 1)


@instruction("cp.async.bulk.prefetch")
def prefetch(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.bulk.prefetch.L2.global [src], size`: moves nothing that a program can see; operands are checked."""
    source, size = binder.address(insn.operands[0], insn), binder.reader(insn.operands[1], np.uint32, insn)

    def run(active: Active) -> None:
        machine = active.machine
        for lane, (start, nbytes) in by_lane(active, source, size):
            _check_size(machine, insn, lane, nbytes)
            place = _run_of(machine, lane, insn, StateSpace.GLOBAL, start, nbytes)
            machine.counters.bulk("bulk_prefetch", place.name, 1, nbytes)

    return run


@instruction("cp.async.bulk.commit_group")
def commit(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.bulk.commit_group`."""
    return lambda active: active.machine.engine(BulkCopies).commit(active.lanes)


class _Wait(Collective):
    def __init__(self, pending: int, reads_only: bool) -> None:
        self._pending, self._reads_only = pending, reads_only

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        return active.machine.engine(BulkCopies).are_done(active.lanes, self._pending, reads_only=self._reads_only)

    def finish(self, active: Active) -> None:
        active.machine.engine(BulkCopies).waited(active.lanes, self._pending, reads_only=self._reads_only)

    def waiting_for(self, active: Active) -> str:
        return "the sources of their bulk copies" if self._reads_only else "their bulk copies"


@instruction("cp.async.bulk.wait_group")
def wait_group(insn: PtxInstruction, binder: Binder) -> Collective:
    """`cp.async.bulk.wait_group{.read} N`."""
    return _Wait(constant_operand(insn.operands[0]), insn.has("read"))
