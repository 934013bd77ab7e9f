"""cp.async and its groups (PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group")."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.copy_forms import constant_operand, shared_or_generic
from compiler.emulate.features.cp_async.engine import CpAsync
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.memory.places import MemoryPlace
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, Register, StateSpace
from compiler.emulate.registry import Collective, Run, instruction
from compiler.emulate.report import FaultKind

_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


@instruction("cp.async.ca", "cp.async.cg")
def copy(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.ca.shared.global [dst], [src], size{, srcSize}{, policy}`, or with a predicate that ignores the source.

    What is not read of `size` bytes is zeros.
    """
    target, source, size, *rest = insn.operands
    if insn.has("L2::cache_hint"):
        rest = rest[:-1]
    nbytes = constant_operand(size)
    if nbytes not in _SIZES[insn.name[2]]:
        raise UnknownForm(f"a copy of {nbytes} bytes by cp.async.{insn.name[2]}")
    write_to, read_from = binder.address(target, insn), binder.address(source, insn)
    reads = _source_bytes(rest[0] if rest else None, nbytes, binder, insn)

    def run(active: Active) -> None:
        machine = active.machine
        sizes = np.broadcast_to(reads(active), len(active))
        if (sizes > nbytes).any():
            active.fault(
                FaultKind.INVALID_OPERAND,
                insn,
                f"{int(sizes.max())} source bytes for a copy of {nbytes}. Read at most as many as are copied.",
                sizes > nbytes,
            )
            sizes = np.minimum(sizes, nbytes)
        to, start = _each(write_to(active), active), _each(read_from(active), active)
        targets = machine.memory.locate(active, insn, StateSpace.SHARED, to, nbytes, nbytes)
        sources = [
            part for n in np.unique(sizes).tolist() if n for part in _sources(active, insn, start, sizes, n, nbytes)
        ]
        for place, count in sources:
            machine.counters.global_access(_part(active, place).lanes, place.region, place.offsets, count, False)
        for place in targets:
            part = _part(active, place)
            machine.counters.shared_access(part.lanes, place.offsets, nbytes, True, insn)
        machine.engine(CpAsync).copy(active, insn, sources, targets, nbytes)

    return run


def _source_bytes(operand: Operand | None, nbytes: int, binder: Binder, insn: PtxInstruction) -> Reader:
    """How many bytes each lane reads."""
    whole = np.uint32(nbytes)
    if operand is None:
        return lambda a: np.asarray(whole)
    is_predicate = isinstance(operand, Register) and operand.type == "pred"
    if not is_predicate and isinstance(operand, (Register, Immediate)):
        return binder.reader(operand, np.uint32, insn)
    ignores = binder.reader(operand, np.bool_, insn)
    return lambda a: np.where(ignores(a), np.uint32(0), whole)


def _sources(
    active: Active,
    insn: PtxInstruction,
    addresses: npt.NDArray[np.uint64],
    sizes: npt.NDArray[Any],
    size: int,
    align: int,
) -> list[tuple[MemoryPlace, int]]:
    """Where the lanes that read `size` bytes read them."""
    which = np.flatnonzero(sizes == size)
    part = active.at(which)
    places = active.machine.memory.locate(part, insn, StateSpace.GLOBAL, addresses[which], size, align)
    return [(MemoryPlace(p.region, p.offsets, which if p.pick is None else which[p.pick]), size) for p in places]


def _part(active: Active, place: MemoryPlace) -> Active:
    return active if place.pick is None else active.at(place.pick)


def _each(values: npt.NDArray[Any], active: Active) -> npt.NDArray[np.uint64]:
    return np.broadcast_to(values, len(active))


@instruction("cp.async.commit_group")
def commit(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.commit_group`."""
    return lambda active: active.machine.engine(CpAsync).commit(active.lanes)


class _Wait(Collective):
    """`cp.async.wait_group N`, `cp.async.wait_all` (None)."""

    def __init__(self, pending: int | None) -> None:
        self._pending = pending

    def ready(self, active: Active) -> npt.NDArray[np.bool_]:
        return active.machine.engine(CpAsync).are_done(active.lanes, self._pending)

    def finish(self, active: Active) -> None:
        active.machine.engine(CpAsync).waited(active.lanes, self._pending)

    def waiting_for(self, active: Active) -> str:
        return "their cp.async copies"


@instruction("cp.async.wait_group")
def wait_group(insn: PtxInstruction, binder: Binder) -> Collective:
    """`cp.async.wait_group N`."""
    return _Wait(constant_operand(insn.operands[0]))


@instruction("cp.async.wait_all")
def wait_all(insn: PtxInstruction, binder: Binder) -> Collective:
    """`cp.async.wait_all`."""
    return _Wait(None)


@instruction("cp.async.mbarrier.arrive")
def arrive(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.mbarrier.arrive{.noinc} [bar]`: an arrival when the thread's copies so far are complete."""
    space, address = shared_or_generic(insn), binder.address(insn.operands[0], insn)
    counts = insn.has("noinc")

    def run(active: Active) -> None:
        machine = active.machine
        for barrier, which in machine.engine(MBarriers).table.found(active, insn, space, address(active)):
            machine.engine(CpAsync).arrive_on(active, insn, barrier, active.lanes[which], counts)

    return run
