"""tcgen05.cp, tcgen05.shift and tcgen05.commit: issued by one thread, completed by an mbarrier (PTX ISA, "tcgen05.cp").

The decompressing forms of tcgen05.cp are refused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.mbarrier.state import LiveBarrier
from compiler.emulate.features.tmem.allocation import expect_after_reads, expect_fenced, group_slots
from compiler.emulate.features.tmem.layout import (
    TENSOR_COLUMNS,
    TENSOR_LANES,
    TILES,
    CopyShape,
    Descriptor,
    descriptor,
)
from compiler.emulate.features.tmem.memory import NAME, NOBODY, Cells, TensorMemory
from compiler.emulate.features.tmem.operations import Commit, Transfer, Waiting, Words
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP

_CHUNK = 16
"""Bytes of a row that lie together in shared memory: 128 bits."""

_SHIFTED_ROWS, _SHIFTED_COLUMNS = 32, 8
"""tcgen05.shift moves 31 of 32 rows of 256 bits (PTX ISA, "Data Movement Shape", `.31x256b`)."""


@instruction("tcgen05.cp")
def copy(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.cp.cta_group.shape{.multicast} [taddr], s-desc`."""
    if insn.has("b8x16", "b6x16_p32", "b4x16_p64"):
        raise UnknownForm("the decompressing forms of tcgen05.cp")
    tile = next((t for (shape, multicast), t in TILES.items() if _is_form(insn, shape, multicast)), None)
    if tile is None:
        raise UnknownForm(f"the shape of {'.'.join(insn.name)}")
    address = binder.address(insn.operands[0], insn)
    matrix = binder.reader(insn.operands[1], np.uint64, insn)

    def run(active: Active) -> None:
        addresses = spread(address(active), active).tolist()
        matrices = spread(matrix(active), active).tolist()
        for lane, place, bits in zip(active.lanes.tolist(), addresses, matrices, strict=True):
            _copy_one(Active(active.machine, np.array([lane])), insn, tile, place, bits)

    return run


@instruction("tcgen05.shift")
def shift(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.shift.cta_group.down [taddr]`: each row of 32 bytes but the last moves to the next lane."""
    address = binder.address(insn.operands[0], insn)

    def run(active: Active) -> None:
        for lane, place in zip(active.lanes.tolist(), spread(address(active), active).tolist(), strict=True):
            _shift_one(Active(active.machine, np.array([lane])), insn, place)

    return run


@instruction("tcgen05.commit")
def commit(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbar]{, ctaMask}`."""
    address = binder.address(insn.operands[0], insn)
    is_multicast = insn.has("multicast::cluster")
    if len(insn.operands) != 1 + is_multicast or not insn.has("mbarrier::arrive::one"):
        raise UnknownForm(f"the form {insn.text}")
    mask = binder.reader(insn.operands[1], np.uint16, insn) if is_multicast else None
    space = StateSpace.SHARED if insn.has("shared::cluster") else StateSpace.GENERIC

    def run(active: Active) -> None:
        places = spread(address(active), active)
        masks = [0] * len(active) if mask is None else spread(mask(active), active).tolist()
        for lane, place, ranks in zip(active.lanes.tolist(), places, masks, strict=True):
            addresses = np.array([place], np.uint64) if mask is None else _multicast(place, ranks)
            one = Active(active.machine, np.full(len(addresses), lane))
            barriers = [b for b, _ in active.machine.engine(MBarriers).table.found(one, insn, space, addresses)]
            _commit_one(one, insn, lane, barriers)

    return run


def _is_form(insn: PtxInstruction, shape: str, multicast: str) -> bool:
    words = set(insn.name)
    others = {m for _, m in TILES if m}
    return shape in words and (multicast in words if multicast else words.isdisjoint(others))


def _copy_one(active: Active, insn: PtxInstruction, tile: CopyShape, address: int, bits: int) -> None:
    machine, lane = active.machine, int(active.lanes[0])
    source = _descriptor(active, insn, bits)
    slots = group_slots(active, insn)
    columns = 4 * tile.chunks
    if source is None or not _allocated(active, insn, slots, address, int(tile.lanes.max()) + 1, columns):
        return
    memory = machine.engine(TensorMemory)
    rows = (address >> 16) + tile.lanes
    within = (rows * TENSOR_COLUMNS)[..., None] + (address & 0xFFFF) + np.arange(columns)
    cells = np.stack([slot * TENSOR_LANES * TENSOR_COLUMNS + within for slot in slots])
    actor = _actor(active, insn, cells, Access.WRITE)
    chunks = source.addresses(tile.rows, tile.chunks).ravel().astype(np.uint64)

    def read() -> Words:
        parts = [_shared(machine_lane, insn, chunks, actor) for machine_lane in _lanes_in(active, slots)]
        words = np.stack(parts).view(np.uint32).reshape(len(slots), tile.rows, 1, columns)
        return np.broadcast_to(words, cells.shape)

    memory.written[cells] = True
    _submit(active, insn, cells, read, actor, memory.note_write(NOBODY, cells), lane)


def _shift_one(active: Active, insn: PtxInstruction, address: int) -> None:
    machine, lane = active.machine, int(active.lanes[0])
    slots = group_slots(active, insn)
    if (address >> 16) % _SHIFTED_ROWS:
        active.fault(
            FaultKind.TMEM_WRONG_LANES,
            insn,
            f"The lane {address >> 16} in bits 31:16 of the address is no multiple of 32, as tcgen05.shift wants it.",
            None,
            np.array(address),
            NAME,
        )
        return
    if not _allocated(active, insn, slots, address, _SHIFTED_ROWS, _SHIFTED_COLUMNS):
        return
    memory = machine.engine(TensorMemory)
    blocks = [memory.cells(slot, address >> 16, address & 0xFFFF, _SHIFTED_ROWS, _SHIFTED_COLUMNS) for slot in slots]
    all_cells = np.stack(blocks)
    source, cells = all_cells[:, :-1], all_cells[:, 1:]
    actor = _actor(active, insn, source, Access.READ)
    if actor is not None:
        machine.order.actor_access(actor, memory.region, Access.WRITE, insn, cells.ravel(), 1)
    written = memory.written[source]
    memory.written[cells] = written
    write = memory.note_write(NOBODY, cells)
    _submit(active, insn, cells, lambda: memory.words[source], actor, write, lane)


def _submit(
    active: Active,
    insn: PtxInstruction,
    cells: Cells,
    read: Callable[[], Words],
    actor: Actor | None,
    write: int,
    lane: int,
) -> None:
    machine = active.machine
    actors = {} if actor is None else {lane: actor}
    operation = Transfer(machine, insn, lane, actors, {lane: write}, cells=cells, read=read)
    machine.engine(Waiting).transfers[lane].append(operation)
    machine.asynchrony.submit(operation)


def _commit_one(active: Active, insn: PtxInstruction, lane: int, barriers: list[LiveBarrier]) -> None:
    machine = active.machine
    awaited = machine.engine(Waiting).commit(lane)

    def arrive() -> None:
        token = machine.engine(Waiting).committed(lane, awaited)
        actors = tuple(o.actors[lane] for o in awaited if lane in o.actors)
        for barrier in barriers:
            machine.engine(MBarriers).arrive_later(barrier, insn, lane, token, actors)

    machine.asynchrony.submit(Commit(insn, lane, awaited, arrive))


def _actor(active: Active, insn: PtxInstruction, cells: Cells, access: Access) -> Actor | None:
    """Starts and logs the operation of a lane, and expects that what it overwrites is fenced."""
    machine, lane = active.machine, int(active.lanes[0])
    if not machine.options.races:
        return None
    memory = machine.engine(TensorMemory)
    expect_fenced(active, insn, NOBODY, cells)
    if access is Access.WRITE:
        expect_after_reads(active, insn, lane // WARP, cells)
    actor = machine.order.start(lane)
    machine.order.actor_access(actor, memory.region, access, insn, cells.ravel(), 1)
    return actor


def _descriptor(active: Active, insn: PtxInstruction, bits: int) -> Descriptor | None:
    try:
        return descriptor(bits)
    except ValueError as problem:
        active.fault(
            FaultKind.INVALID_OPERAND,
            insn,
            f'The matrix descriptor {bits:#018x} is none: {problem}. Build it as the PTX ISA has it in "Shared memory '
            'descriptor".',
        )
        return None
    except UnknownForm as problem:
        active.fault(FaultKind.UNSUPPORTED_INSTRUCTION, insn, f"The emulator does not know {problem}.")
        raise Halt from None


def _allocated(
    active: Active, insn: PtxInstruction, slots: tuple[int, ...], address: int, lanes: int, columns: int
) -> bool:
    memory = active.machine.engine(TensorMemory)
    lane, column = address >> 16, address & 0xFFFF
    last = np.full(len(slots), column + columns - 1)
    allocated = memory.within(np.array(slots), np.full(len(slots), column), last)
    if lane + lanes > TENSOR_LANES or not allocated.all():
        active.fault(
            FaultKind.TMEM_OUT_OF_ALLOCATION,
            insn,
            f"Lanes {lane} to {lane + lanes - 1}, columns {column} to {column + columns - 1} are not all in an "
            f"allocation of the block, which has {memory.live(slots[0])}. Allocate more columns, or stay inside.",
            None,
            np.array(address),
            NAME,
        )
        return False
    return True


def _lanes_in(active: Active, slots: tuple[int, ...]) -> list[Active]:
    """The issuing lane, or for the other block of its pair the lane at the same place: they name shared memory."""
    threads = active.machine.threads
    lane = int(active.lanes[0])
    place = int(threads.thread[lane])
    return [Active(active.machine, np.array([slot * threads.pitch + place])) for slot in slots]


def _shared(
    active: Active, insn: PtxInstruction, chunks: npt.NDArray[np.uint64], actor: Actor | None
) -> npt.NDArray[np.uint8]:
    """Reads 16-byte chunks of a block's shared memory through the asynchronous proxy."""
    machine = active.machine
    many = Active(machine, np.full(len(chunks), active.lanes[0]))
    found = np.zeros((len(chunks), _CHUNK), np.uint8)
    for place in machine.memory.locate(many, insn, StateSpace.SHARED, chunks, _CHUNK, _CHUNK):
        pick = slice(None) if place.pick is None else place.pick
        found[pick] = machine.memory.read_bytes(actor, active, insn, place.region, place.offsets, _CHUNK)
    return found


def _multicast(address: np.uint64, ranks: int) -> npt.NDArray[np.uint64]:
    """The address in each block of the cluster whose bit is set."""
    chosen = np.flatnonzero([(ranks >> rank) & 1 for rank in range(16)]).astype(np.uint64)
    inside = (np.uint64(1) << CLUSTER_RANK_SHIFT) - np.uint64(1)
    return (address & inside) | ((chosen + np.uint64(1)) << CLUSTER_RANK_SHIFT)
