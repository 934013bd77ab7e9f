"""tensormap.replace and tensormap.cp_fenceproxy (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy")."""

from __future__ import annotations

import struct
from dataclasses import replace as changed
from typing import Any

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.copy_forms import by_lane
from compiler.emulate.features.tma.maps_in_memory import TensorMaps
from compiler.emulate.features.tma.tensor_map import MAP_ALIGN, MAP_BYTES, DecodedMap, decode, pack
from compiler.emulate.order.order import Access
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Run, instruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP

_SINGLE = {
    "global_address": "address",
    "rank": "rank",
    "elemtype": "element",
    "interleave_layout": "interleave",
    "swizzle_mode": "span",
    "swizzle_atomicity": "atom",
    "fill_mode": "fill",
}
_LISTS = {"box_dim": "box", "global_dim": "dims", "global_stride": "strides", "element_stride": "element_strides"}


@instruction("tensormap.replace")
def replace(insn: PtxInstruction, binder: Binder) -> Run:
    """`tensormap.replace.tile.FIELD{.space}.b1024.TYPE [map], {ord,} value`; the rank is given less one."""
    field = insn.name[3]
    if insn.name[2] != "tile" or field not in {**_SINGLE, **_LISTS}:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    space = (
        StateSpace.SHARED
        if insn.has("shared::cta")
        else StateSpace.GLOBAL
        if insn.has("global")
        else StateSpace.GENERIC
    )
    where = binder.address(insn.operands[0], insn)
    wide = np.uint64 if insn.name[-1] == "b64" else np.uint32
    value = binder.reader(insn.operands[-1], wide, insn)
    order = [binder.reader(insn.operands[1], np.uint32, insn)] if field in _LISTS else []

    def run(active: Active) -> None:
        for lane, (address, number, *places) in by_lane(active, where, value, *order):
            _replace(active, insn, space, lane, address, field, number, places[0] if places else 0)

    return run


def _replace(
    active: Active,
    insn: PtxInstruction,
    space: StateSpace,
    lane: int,
    address: int,
    field: str,
    number: int,
    index: int,
) -> None:
    machine = active.machine
    one = Active(machine, np.array([lane]))
    for place in machine.memory.locate(one, insn, space, np.array([address], np.uint64), MAP_BYTES, MAP_ALIGN):
        data = machine.memory.read_bytes(None, one, insn, place.region, place.offsets, MAP_BYTES)[0].tobytes()
        found = decode(data)
        if found is None:
            one.fault(
                FaultKind.INVALID_OPERAND,
                insn,
                "The 128 bytes are no tensor map. Copy one there first.",
                None,
                np.array(address),
                place.region.name,
            )
            raise Halt
        try:
            new = np.frombuffer(pack(_with(found, field, number, index)), np.uint8)[None]
        except (struct.error, IndexError):
            one.fault(
                FaultKind.INVALID_OPERAND,
                insn,
                f"{number} for {field}{f'[{index}]' if field in _LISTS else ''}, which a tensor map cannot hold.",
            )
            return
        if machine.options.races:
            machine.order.access(place.region, Access.WRITE, insn, one.lanes, place.offsets, MAP_BYTES)
        machine.memory.write_bytes(None, one, insn, place.region, place.offsets, new)
        machine.engine(TensorMaps).changed(np.array([address], np.uint64), one.lanes)


def _with(m: DecodedMap, field: str, number: int, index: int) -> DecodedMap:
    """The map with a field replaced. Raises IndexError for an entry that it does not have."""
    if field == "rank":
        number += 1
    new: Any = number
    if field in _LISTS:
        new = list(getattr(m, _LISTS[field]))
        new[index] = number
        new = tuple(new)
    return changed(m, **{(_SINGLE | _LISTS)[field]: new})


@instruction("tensormap.cp_fenceproxy")
def copy_and_fence(insn: PtxInstruction, binder: Binder) -> Run:
    """`tensormap.cp_fenceproxy.global.shared::cta.… [dst], [src], 128`: a warp copies once, and releases the copy."""
    if insn.name[2:4] != ("global", "shared::cta"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    to, source = binder.address(insn.operands[0], insn), binder.address(insn.operands[1], insn)

    def run(active: Active) -> None:
        machine = active.machine
        _, first = np.unique(active.lanes // WARP, return_index=True)
        leaders = Active(machine, active.lanes[first])
        where = np.broadcast_to(to(active), len(active))[first]
        found = machine.memory.load(
            leaders, insn, StateSpace.SHARED, np.broadcast_to(source(active), len(active))[first], 8, MAP_BYTES // 8
        )
        machine.memory.store(leaders, insn, StateSpace.GLOBAL, where, found)
        machine.engine(TensorMaps).changed(where, leaders.lanes)

    return run
