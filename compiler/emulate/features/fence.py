"""fence and membar (PTX ISA, "membar/fence")."""

from __future__ import annotations

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.tma.maps_in_memory import TensorMaps
from compiler.emulate.ptx.module import PtxInstruction
from compiler.emulate.registry import Run, instruction

_SCOPES = ("cta", "cluster", "gpu", "sys")
_MEMBAR_SCOPES = {"cta": "cta", "gl": "gpu", "sys": "sys"}
_TENSOR_MAP = "tensormap::generic"


@instruction("fence")
def fence(insn: PtxInstruction, binder: Binder) -> Run:
    """`fence{.sc,.acq_rel,.acquire,.release}.scope`: orders accesses to memory through which threads synchronise."""
    scope = next((w for w in insn.name if w in _SCOPES), None)
    if scope is None:
        raise UnknownForm(f"the fence {'.'.join(insn.name)}")
    return _ordering(scope)


@instruction("membar")
def membar(insn: PtxInstruction, binder: Binder) -> Run:
    """`membar.{cta,gl,sys}`."""
    scope = _MEMBAR_SCOPES.get(insn.name[1])
    if scope is None:
        raise UnknownForm(f"the fence {'.'.join(insn.name)}")
    return _ordering(scope)


def _ordering(scope: str) -> Run:
    def run(active: Active) -> None:
        if active.machine.options.races:
            active.machine.order.fence(active.lanes, scope)

    return run


@instruction("fence.mbarrier_init")
def mbarrier_init(insn: PtxInstruction, binder: Binder) -> Run:
    """`fence.mbarrier_init.release.cluster`: the mbarriers that these threads initialised are visible to copies, and to
    those who see what these threads do next."""

    def run(active: Active) -> None:
        mbarriers = active.machine.engine(MBarriers)
        mbarriers.fenced(active.lanes)
        mbarriers.released(active.lanes)

    return run


@instruction("fence.proxy", "membar.proxy")
def proxy(insn: PtxInstruction, binder: Binder) -> Run:
    """`fence.proxy.async{.global,.shared::cta…}`, `.async::generic`, `.alias`, `.tensormap::generic`.

    A fence of the async proxy that names one space counts for all; one of aliased addresses has nothing to do here,
    where every byte has one address in each space. A tensor map is held to its acquire (`maps_in_memory`), which
    implies that someone released it.
    """
    kind = insn.name[2]
    if kind in ("async", "async::generic"):
        return _async_proxy
    if kind == "alias":
        return lambda active: None
    if kind == _TENSOR_MAP and insn.has("release"):
        return lambda active: None
    if kind == _TENSOR_MAP and insn.has("acquire"):
        return _acquire_map(insn, binder)
    raise UnknownForm(f"the fence {'.'.join(insn.name)}")


def _async_proxy(active: Active) -> None:
    machine = active.machine
    if machine.options.races:
        machine.order.proxy_fence(active.lanes)
    machine.engine(MBarriers).fenced(active.lanes)


def _acquire_map(insn: PtxInstruction, binder: Binder) -> Run:
    address = binder.address(insn.operands[0], insn)
    return lambda active: active.machine.engine(TensorMaps).acquired(active, np.asarray(address(active), np.uint64))
