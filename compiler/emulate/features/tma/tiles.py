"""Copies of tiles through a tensor map: from operands to a copy under way, with what is wrong with the operands."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.bulk.engine import BulkCopies, Write
from compiler.emulate.features.bulk.multicast import addresses_of
from compiler.emulate.features.bulk.pieces import Pieces, is_aligned, pieces
from compiler.emulate.features.bulk.reduction import tensor_reduction
from compiler.emulate.features.tma.maps_in_memory import TensorMaps
from compiler.emulate.features.tma.placement import CopiedTile, filled, gathered_at, places, tile_at
from compiler.emulate.features.tma.tensor_map import FILLS, UNIT, DecodedMap
from compiler.emulate.machine import Machine
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT
from compiler.emulate.numeric.minifloat import to_tf32
from compiler.emulate.order.order import Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind

Bytes = npt.NDArray[np.uint8]

SHARED_ALIGN = 128
"""Of a tile in shared memory (CUDA guide, "Tensor Memory Accelerator": alignment)."""

_RANK_BITS = -1 << int(CLUSTER_RANK_SHIFT)


def load_tile(
    machine: Machine,
    lane: int,
    insn: PtxInstruction,
    to: int,
    barrier: int,
    mask: int | None,
    map_address: int,
    coordinates: list[int],
    is_gathered: bool,
) -> None:
    """A tile from global to shared memory, of the blocks in `mask`; the mbarrier gets the bytes of the whole tile."""
    m, tile = _tile(machine, lane, insn, map_address, coordinates, is_gathered, store=False)
    source = _rows(machine, lane, insn, m, tile)
    targets = [
        _shared(machine, lane, insn, m, np.arange(tile.rows), tile.row_bytes, at)
        for at in addresses_of(machine, lane, insn, to, mask)
    ]
    nan = FILLS[m.fill] == "nan"

    def read(actor: Actor | None) -> Bytes:
        found = source.read(actor)
        return filled(tile, _rounded(found) if m.type.is_rounded else found, m.type, nan)

    machine.counters.bulk("tensor_load", source.name, 1, tile.nbytes)
    bars = addresses_of(machine, lane, insn, barrier, mask)
    for target, bar in zip(targets, bars, strict=True):
        machine.engine(BulkCopies).load(lane, insn, read, _writer(target), bar, tile.nbytes)


def _rounded(found: Bytes) -> Bytes:
    """f32 as maps of tf32 bring it: the nearest, ties to even, subnormal numbers too (measured on an H200)."""
    return np.ascontiguousarray(to_tf32(np.ascontiguousarray(found).view(np.float32), "rn")).view(np.uint8)


def _writer(target: Pieces) -> Write:
    return lambda actor, rows: target.write(actor, rows.reshape(target.count, target.unit))


def store_tile(
    machine: Machine,
    lane: int,
    insn: PtxInstruction,
    source: int,
    map_address: int,
    coordinates: list[int],
    is_gathered: bool,
    operation: str | None,
) -> None:
    """A tile from shared to global memory, or reduced with what is there. What is out of bounds is dropped, and is not
    read either."""
    m, tile = _tile(machine, lane, insn, map_address, coordinates, is_gathered, store=True)
    if min(coordinates) < 0:
        machine.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"A store to the tile at {tuple(coordinates)}. Coordinates of stores must not be negative.",
            lane=lane,
        )
    if m.type.is_rounded:
        told = f"The emulator does not execute a store through a tensor map of {m.type.name}."
        machine.fault(FaultKind.UNSUPPORTED_INSTRUCTION, insn, told, lane=lane)
        return
    reduction = tensor_reduction(operation, m.type.kind) if operation else None
    if operation and reduction is None:
        machine.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"A tensor map of {m.type.name} for the reduction .{operation}, which does not take this type.",
            lane=lane,
        )
        return
    target = _rows(machine, lane, insn, m, tile)
    kept = _shared(machine, lane, insn, m, tile.inside, tile.run, source)

    def read(actor: Actor | None) -> Bytes:
        return kept.read(actor).reshape(len(tile.inside), tile.run)

    def write(actor: Actor | None, rows: Bytes) -> None:
        if reduction is None:
            target.write(actor, rows)
        else:
            target.reduce(actor, rows, reduction)

    machine.counters.bulk("tensor_reduce" if operation else "tensor_store", target.name, 1, tile.nbytes)
    machine.engine(BulkCopies).store(lane, insn, read, write)


def prefetch_tile(
    machine: Machine, lane: int, insn: PtxInstruction, map_address: int, coordinates: list[int], is_gathered: bool
) -> None:
    """A tile into the cache: the map and the coordinates are checked."""
    m, tile = _tile(machine, lane, insn, map_address, coordinates, is_gathered, store=False)
    machine.counters.bulk("tensor_prefetch", _rows(machine, lane, insn, m, tile).name, 1, tile.nbytes)


def _tile(
    machine: Machine,
    lane: int,
    insn: PtxInstruction,
    map_address: int,
    coordinates: list[int],
    is_gathered: bool,
    *,
    store: bool,
) -> tuple[DecodedMap, CopiedTile]:
    m = machine.engine(TensorMaps).at(lane, insn, map_address)
    dims = 2 if is_gathered else len(coordinates)
    if dims != m.rank:
        machine.engine(TensorMaps).refuse(lane, insn, f"it has {m.rank} dims, and the instruction {dims}.")
    start = coordinates[0] * m.type.nbytes
    if start % UNIT:
        machine.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f"The innermost coordinate is {coordinates[0]}, {start} bytes at {m.type.nbytes} an element. It must be a "
            f"multiple of {UNIT} bytes, or the copy is an illegal instruction (measured on an H200).",
            lane=lane,
        )
        coordinates = [start // UNIT * UNIT // m.type.nbytes, *coordinates[1:]]
    return m, (gathered_at if is_gathered else tile_at)(m, coordinates, store=store)


def _rows(machine: Machine, lane: int, insn: PtxInstruction, m: DecodedMap, tile: CopiedTile) -> Pieces:
    """The rows of a tile in the tensor."""
    return pieces(machine, lane, insn, StateSpace.GLOBAL, (tile.starts + m.address).astype(np.uint64), tile.run)


def _shared(
    machine: Machine,
    lane: int,
    insn: PtxInstruction,
    m: DecodedMap,
    rows: npt.NDArray[np.int64],
    nbytes: int,
    address: int,
) -> Pieces:
    """The first `nbytes` bytes of some rows of a tile at a shared address; nothing if that is misaligned."""
    active = Active(machine, np.array([lane]))
    where = np.array([address], np.uint64)
    if not is_aligned(active, insn, StateSpace.SHARED, where, SHARED_ALIGN):
        at, unit = places(m, rows, nbytes, 0)
        return Pieces(machine, Active(machine, np.full(len(at), lane)), insn, [], len(at), unit)
    block = address & _RANK_BITS
    at, unit = places(m, rows, nbytes, address - block)
    return pieces(machine, lane, insn, StateSpace.SHARED, (at + block).astype(np.uint64), unit)
