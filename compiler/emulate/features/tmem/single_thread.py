"""What the instructions of tensor memory share that one thread issues: their columns, descriptors, reads of memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.features.mma.matrices import CHUNK
from compiler.emulate.features.tmem.layout import TENSOR_LANES
from compiler.emulate.features.tmem.memory import NAME, TensorMemory
from compiler.emulate.order.order import Actor
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind


def report_descriptor(active: Active, insn: PtxInstruction, bits: int, problem: ValueError) -> None:
    """Reports a matrix descriptor that is none."""
    active.fault(
        FaultKind.INVALID_OPERAND,
        insn,
        f'The matrix descriptor {bits:#018x} is none: {problem}. Build it as the PTX ISA has it in "Shared memory '
        'descriptor".',
    )


def are_allocated(
    active: Active, insn: PtxInstruction, slots: tuple[int, ...], address: int, lanes: int, columns: int
) -> bool:
    """Whether lanes and columns from an address on are allocated in all of these blocks; reports it if not."""
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


def block_lanes(active: Active, slots: tuple[int, ...]) -> list[Active]:
    """The issuing lane, or for the other block of its pair the lane at the same place: they name shared memory."""
    threads = active.machine.threads
    lane = int(active.lanes[0])
    place = int(threads.thread[lane])
    return [Active(active.machine, np.array([slot * threads.pitch + place])) for slot in slots]


def shared_chunks(
    active: Active, insn: PtxInstruction, chunks: npt.NDArray[np.uint64], actor: Actor | None
) -> npt.NDArray[np.uint8]:
    """Reads 16-byte chunks of a block's shared memory through the asynchronous proxy."""
    machine = active.machine
    many = Active(machine, np.full(len(chunks), active.lanes[0]))
    found = np.zeros((len(chunks), CHUNK), np.uint8)
    for place in machine.memory.locate(many, insn, StateSpace.SHARED, chunks, CHUNK, CHUNK):
        pick = slice(None) if place.pick is None else place.pick
        found[pick] = machine.memory.read_bytes(actor, active, insn, place.region, place.offsets, CHUNK)
    return found
