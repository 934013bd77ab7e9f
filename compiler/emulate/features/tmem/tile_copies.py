"""tcgen05.cp, tcgen05.shift and tcgen05.commit: issued by one thread, completed by an mbarrier (PTX ISA, "tcgen05.cp").

The decompressing forms of tcgen05.cp are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.mbarrier.engine import MBarriers
from compiler.emulate.features.mbarrier.state import LiveBarrier
from compiler.emulate.features.mma.matrices import chunks_along_k, tensor_matrix
from compiler.emulate.features.tmem.allocation import expect_after_reads, expect_fenced, group_slots
from compiler.emulate.features.tmem.layout import (
    TENSOR_COLUMNS,
    TENSOR_LANES,
    TILES,
    CopyShape,
)
from compiler.emulate.features.tmem.memory import NAME, NOBODY, Cells, TensorMemory
from compiler.emulate.features.tmem.operations import Commit, Operation, Transfer, Waiting, Words
from compiler.emulate.features.tmem.pipelines import Pipelines
from compiler.emulate.features.tmem.single_thread import are_allocated, block_lanes, report_descriptor, shared_chunks
from compiler.emulate.memory.windows import CLUSTER_RANK_SHIFT
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP

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
    chunks = _chunks(active, insn, bits, tile)
    slots = group_slots(active, insn)
    columns = 4 * tile.chunks
    if chunks is None or not are_allocated(active, insn, slots, address, int(tile.lanes.max()) + 1, columns):
        return
    memory = machine.engine(TensorMemory)
    rows = (address >> 16) + tile.lanes
    within = (rows * TENSOR_COLUMNS)[..., None] + (address & 0xFFFF) + np.arange(columns)
    cells = np.stack([slot * TENSOR_LANES * TENSOR_COLUMNS + within for slot in slots])
    actor = _actor(active, insn, cells, Access.WRITE)

    def read() -> Words:
        parts = [shared_chunks(machine_lane, insn, chunks, actor) for machine_lane in block_lanes(active, slots)]
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
    if not are_allocated(active, insn, slots, address, _SHIFTED_ROWS, _SHIFTED_COLUMNS):
        return
    memory = machine.engine(TensorMemory)
    blocks = [memory.cells(slot, address >> 16, address & 0xFFFF, _SHIFTED_ROWS, _SHIFTED_COLUMNS) for slot in slots]
    all_cells = np.stack(blocks)
    source, cells = all_cells[:, :-1], all_cells[:, 1:]
    actor = _actor(active, insn, source, Access.READ, machine.engine(Pipelines).products(lane))
    if actor is not None:
        memory.access(actor, Access.WRITE, insn, cells)
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


def _actor(
    active: Active, insn: PtxInstruction, cells: Cells, access: Access, after: Sequence[Operation] = ()
) -> Actor | None:
    """Starts and logs the operation of a lane, and expects that what it overwrites is fenced.

    `after`: operations of the lane that it follows without a wait.
    """
    machine, lane = active.machine, int(active.lanes[0])
    if not machine.options.races:
        return None
    memory = machine.engine(TensorMemory)
    expect_fenced(active, insn, NOBODY, cells, {o.writes[lane] for o in after})
    if access is Access.WRITE:
        expect_after_reads(active, insn, lane // WARP, cells)
    actor = machine.order.start(lane, after=[o.actors[lane] for o in after if lane in o.actors])
    memory.access(actor, access, insn, cells)
    return actor


def _chunks(active: Active, insn: PtxInstruction, bits: int, tile: CopyShape) -> npt.NDArray[np.uint64] | None:
    """Addresses of the chunks of 16 bytes that a descriptor names; None, reported, if it is none."""
    try:
        return chunks_along_k(tensor_matrix(bits), tile.rows, tile.chunks).ravel().astype(np.uint64)
    except ValueError as problem:
        report_descriptor(active, insn, bits, problem)
        return None
    except UnknownForm as problem:
        active.fault(FaultKind.UNSUPPORTED_INSTRUCTION, insn, f"The emulator does not know {problem}.")
        raise Halt from None


def _multicast(address: np.uint64, ranks: int) -> npt.NDArray[np.uint64]:
    """The address in each block of the cluster whose bit is set."""
    chosen = np.flatnonzero([(ranks >> rank) & 1 for rank in range(16)]).astype(np.uint64)
    inside = (np.uint64(1) << CLUSTER_RANK_SHIFT) - np.uint64(1)
    return (address & inside) | ((chosen + np.uint64(1)) << CLUSTER_RANK_SHIFT)
