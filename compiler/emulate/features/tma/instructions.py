"""Copies through tensor maps (PTX ISA, "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.copy_forms import by_lane
from compiler.emulate.features.tma.tiles import load_tile, prefetch_tile, store_tile
from compiler.emulate.ptx.module import Address, PtxInstruction
from compiler.emulate.registry import Run, instruction

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_MODES = {"tile": False, "tile::gather4": True, "tile::scatter4": True}


@dataclass(frozen=True, slots=True)
class _Form:
    """`rank` coordinates of a tile; `is_gathered`: a column and four rows instead."""

    rank: int
    is_gathered: bool

    @property
    def coordinates(self) -> int:
        """How many numbers say where the tile is."""
        return 5 if self.is_gathered else self.rank


def _form(insn: PtxInstruction) -> _Form:
    """Reads rank and mode off the name. Raises UnknownForm for im2col and copies of two blocks together."""
    ranks = [int(w[0]) for w in insn.name if len(w) == 2 and w[0] in "12345" and w[1] == "d"]
    strange = [w for w in insn.name if w.startswith("im2col") or w == "cta_group::2"]
    if strange or len(ranks) != 1:
        raise UnknownForm(f"a tensor copy with .{strange[0]}" if strange else f"the form {'.'.join(insn.name)}")
    return _Form(ranks[0], any(_MODES.get(w, False) for w in insn.name))


def _map_operand(insn: PtxInstruction, binder: Binder, index: int, form: _Form) -> list[Reader]:
    """Readers of the map's generic address and the coordinates."""
    operand = insn.operands[index]
    if not isinstance(operand, Address) or len(operand.coordinates) != form.coordinates or operand.extra:
        raise UnknownForm(f"the operand {operand} of a {form.rank}-dimensional tensor copy")
    where = binder.address(Address(operand.base, operand.offset), insn)
    return [where, *(binder.reader(c, np.int32, insn) for c in operand.coordinates)]


@instruction("cp.async.bulk.tensor")
def copy(insn: PtxInstruction, binder: Binder) -> Run:
    """`… [dst], [map, {c0, …}], [mbar]{, mask}{, policy}` loads, `… [map, {c0, …}], [src]{, policy}` stores."""
    form = _form(insn)
    if insn.name[5] == "global":
        return _store(insn, binder, form, None)
    if insn.name[6] != "global" or not insn.has("mbarrier::complete_tx::bytes"):
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    is_multicast = insn.has("multicast::cluster")
    readers = [
        binder.address(insn.operands[0], insn),
        binder.address(insn.operands[2], insn),
        *([binder.reader(insn.operands[3], np.uint16, insn)] if is_multicast else []),
        *_map_operand(insn, binder, 1, form),
    ]

    def run(active: Active) -> None:
        for lane, (to, barrier, *rest) in by_lane(active, *readers):
            mask = rest.pop(0) if is_multicast else None
            load_tile(active.machine, lane, insn, to, barrier, mask, rest[0], rest[1:], form.is_gathered)

    return run


@instruction("cp.reduce.async.bulk.tensor")
def reduce(insn: PtxInstruction, binder: Binder) -> Run:
    """`… .OP … [map, {c0, …}], [src]{, policy}`; the type of the elements is the map's."""
    operation = next((w for w in insn.name if w in _OPERATIONS), None)
    if operation is None:
        raise UnknownForm(f"the form {'.'.join(insn.name)}")
    return _store(insn, binder, _form(insn), operation)


def _store(insn: PtxInstruction, binder: Binder, form: _Form, operation: str | None) -> Run:
    readers = [binder.address(insn.operands[1], insn), *_map_operand(insn, binder, 0, form)]

    def run(active: Active) -> None:
        for lane, (source, where, *coordinates) in by_lane(active, *readers):
            store_tile(active.machine, lane, insn, source, where, coordinates, form.is_gathered, operation)

    return run


@instruction("cp.async.bulk.prefetch.tensor")
def prefetch(insn: PtxInstruction, binder: Binder) -> Run:
    """`cp.async.bulk.prefetch.tensor.… [map, {c0, …}]`: moves nothing that a program can see; its map is checked."""
    form = _form(insn)
    readers = _map_operand(insn, binder, 0, form)

    def run(active: Active) -> None:
        for lane, (where, *coordinates) in by_lane(active, *readers):
            prefetch_tile(active.machine, lane, insn, where, coordinates, form.is_gathered)

    return run


@instruction("prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap")
def prefetch_map(insn: PtxInstruction, binder: Binder) -> Run:
    """`prefetch.tensormap [map]`: changes nothing."""
    binder.address(insn.operands[0], insn)
    return lambda active: None
