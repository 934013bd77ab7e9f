"""Tensor memory: 128 lanes by 512 columns of 32-bit cells a block, its allocation, and who may reach what.

PTX ISA, "Tensor Memory" and "Tensor Memory Allocation and Management". Happens-before between operations is the log's
(`order`); what it does not know are the fences of tcgen05: a cell that one warp wrote is seen by another only if a
`tcgen05.fence::before_thread_sync` follows the write and a `tcgen05.fence::after_thread_sync` precedes the read (PTX
ISA, "tcgen05 Memory Consistency Model", its canonical patterns for different threads). A store to a cell that another
warp has read is ordered after the barrier between them by the second fence alone: the read is over. That is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.tmem.layout import TENSOR_COLUMNS, TENSOR_LANES
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.memory.region import POISON, MemoryRegion
from compiler.emulate.order.order import Access, Actor, Token
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import Lanes

NAME = "tensor memory"
"""The name that faults give as the tensor."""

CELLS = TENSOR_LANES * TENSOR_COLUMNS
GRANULE = 32
"""Columns are given in powers of two from here to all 512 (PTX ISA, "tcgen05.alloc")."""

Cells = npt.NDArray[np.int64]
"""Cells of the batch: (slot * 128 + lane) * 512 + column."""
Flags = npt.NDArray[np.bool_]

NOBODY = -1
_REGION_NUMBER = 1 << 20
"""Apart from the numbers of tensors, shared and local memory, which count from 0."""


STRIP = 16
"""Lanes that nearly every operation reaches together; they lie side by side in the log."""


@dataclass(eq=False)
class _CellRegion(MemoryRegion):
    """Tensor memory in the log of accesses: a byte a cell, 16 lanes of a column after another, and addresses as the
    instructions have them."""

    def address(self, offset: int) -> int:
        strip, lane = divmod(offset % self.pitch, STRIP)
        return (strip // TENSOR_COLUMNS * STRIP + lane) << 16 | strip % TENSOR_COLUMNS


@dataclass(frozen=True, slots=True)
class TensorMemoryColumns:
    """Columns that belong together, from `alloc` to `dealloc`. `lane`: the first of the warp that allocated.

    `asked`: the count that the instruction gave, which may not be a legal one.
    """

    slot: int
    column: int
    columns: int
    asked: int
    insn: PtxInstruction
    lane: int


@dataclass(slots=True)
class _Block:
    """What a block holds: live allocations by first column; whether it gave up allocating; the last count."""

    allocations: dict[int, TensorMemoryColumns] = field(default_factory=dict)
    relinquished: bool = False
    last_count: int = TENSOR_COLUMNS
    freed: list[tuple[int, int, Token]] = field(default_factory=list)
    """What was freed, (column, columns): who takes it over comes after who freed it."""


class TensorMemory(Engine):
    """The tensor memory of all blocks of a batch. Each block has all of its own: none waits for another's columns."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        slots = len(machine.threads.blocks)
        self.words = np.full(slots * CELLS, POISON * 0x01010101, np.uint32)
        self.written = np.zeros(slots * CELLS, np.bool_)
        self.region = _CellRegion(
            NAME, StateSpace.GENERIC, 0, CELLS, self.written.view(np.uint8), _REGION_NUMBER, pitch=CELLS
        )
        self._taken: Flags = np.zeros((slots, TENSOR_COLUMNS), np.bool_)
        self._gaps = np.zeros((slots, TENSOR_COLUMNS + 1), np.int64)
        """Columns that are not taken before each column, for `within`."""
        self._gaps[:, 1:] = np.cumsum(np.logical_not(self._taken), axis=1)
        self._blocks = [_Block() for _ in range(slots)]
        self._writer = np.zeros(slots * CELLS, np.int32)
        """The last write of each cell, an index into `_warps` and `_published`; 0 for none."""
        self._warps = [NOBODY]
        self._published: list[int | None] = [None]
        self._reader = np.zeros(slots * CELLS, np.int32)
        """The last read of each cell since it was written, an index into `_readers` and `_read_at`; 0 for none."""
        self._readers = [NOBODY]
        self._read_at: list[int | None] = [None]
        self._time = 0
        self._fenced = np.full(machine.threads.lanes, -1, np.int64)

    # Allocation.

    def free_columns(self, slots: tuple[int, ...], count: int) -> int | None:
        """The first column from which `count` are free in all of these blocks; None if there is none yet."""
        taken: Flags = np.logical_or.reduce(self._taken[list(slots)], axis=0)
        starts = range(0, TENSOR_COLUMNS - count + 1, GRANULE)
        return next((c for c in starts if not taken[c : c + count].any()), None)

    def allocate(self, allocation: TensorMemoryColumns) -> list[Token]:
        """Gives columns to a block; their old contents are gone. What its warp has to acquire."""
        slot, first, count = allocation.slot, allocation.column, allocation.columns
        block = self._blocks[slot]
        block.allocations[first] = allocation
        block.last_count = min(count, block.last_count)
        self._take(slot, first, count, True)
        cells = self._columns(slot, first, count)
        self.words[cells] = POISON * 0x01010101
        self.written[cells] = False
        self._writer[cells] = 0
        self._reader[cells] = 0
        self.machine.progress += 1
        return [token for c, n, token in block.freed if c < first + count and first < c + n]

    def deallocate(self, slot: int, column: int, count: int, token: Token) -> bool:
        """Frees an allocation; False if there is none of these columns. `token`: what the freeing warp releases."""
        block = self._blocks[slot]
        found = block.allocations.get(column)
        if found is None or found.asked != count:
            return False
        del block.allocations[column]
        self._take(slot, column, found.columns, False)
        block.freed.append((column, found.columns, token))
        self.machine.progress += 1
        return True

    def live(self, slot: int) -> str:
        """The live allocations of a block, for messages."""
        names = [f"{a.columns} columns from {a.column}" for a in self._blocks[slot].allocations.values()]
        return ", ".join(names) or "none"

    def relinquish(self, slot: int) -> None:
        """The block allocates no more."""
        self._blocks[slot].relinquished = True

    def has_relinquished(self, slot: int) -> bool:
        """Whether the block gave up allocating."""
        return self._blocks[slot].relinquished

    def last_count(self, slot: int) -> int:
        """Columns of the block's last allocation: the next may not be larger. 512 before the first."""
        return self._blocks[slot].last_count

    def within(self, slots: Lanes, first: Cells, last: Cells) -> Flags:
        """Whether all columns `first` to `last` (inclusive) of these blocks are allocated."""
        inside = (first >= 0) & (last < TENSOR_COLUMNS)
        low, high = np.where(inside, first, 0), np.where(inside, last, 0)
        allocated: Flags = inside & (self._gaps[slots, high + 1] == self._gaps[slots, low])
        return allocated

    def column_taken(self, slots: Lanes, columns: Cells) -> Flags:
        """Whether each column is allocated."""
        inside = (columns >= 0) & (columns < TENSOR_COLUMNS)
        taken: Flags = inside & self._taken[slots, np.where(inside, columns, 0)]
        return taken

    def cells(self, slot: int, lane: int, column: int, lanes: int, columns: int) -> Cells:
        """The cells of a rectangle, (lanes, columns)."""
        rows = (slot * TENSOR_LANES + lane + np.arange(lanes)) * TENSOR_COLUMNS
        found: Cells = rows[:, None] + (column + np.arange(columns))
        return found

    def block_ended(self, slot: int) -> None:
        """Reports what the block has not freed (PTX ISA, "tcgen05.alloc"; CUDA_ERROR_TENSOR_MEMORY_LEAK)."""
        for allocation in self._blocks[slot].allocations.values():
            self.machine.fault(
                FaultKind.TMEM_LEAK,
                allocation.insn,
                f"{allocation.columns} columns from column {allocation.column} were allocated here and not freed when "
                "the block ended. Execute tcgen05.dealloc with this address and count on every path.",
                lane=allocation.lane,
                address=allocation.column,
                tensor=NAME,
            )
        self._blocks[slot].allocations.clear()

    # Who wrote what, and the fences of tcgen05.

    def note_write(self, warp: int, cells: Cells) -> int:
        """A warp's operation writes cells: its number. `NOBODY`: an operation of no warp (tcgen05.cp, .shift)."""
        self._warps.append(warp)
        self._published.append(None)
        self._writer[cells] = len(self._warps) - 1
        self._reader[cells] = 0
        return len(self._warps) - 1

    def note_read(self, warp: int, cells: Cells) -> int:
        """A warp's load reads cells: its number."""
        self._readers.append(warp)
        self._read_at.append(None)
        self._reader[cells] = len(self._readers) - 1
        return len(self._readers) - 1

    def finish_read(self, read: int) -> None:
        """The warp has waited for a load."""
        self._time += 1
        self._read_at[read] = self._time

    def read_unfenced(self, cells: Cells, warp: int, lanes: Lanes) -> int | None:
        """The first of the cells that another warp's load has read since these lanes' last fence::after_thread_sync;
        None where there is none. What is still being read is not asked for: that no barrier lies between is told by the
        log."""
        readers = self._reader[cells]
        if not readers.any():
            return None
        fenced = int(self._fenced[lanes].min())
        for read in np.unique(readers).tolist():
            at = self._read_at[read]
            if at is not None and at > fenced and self._readers[read] != warp:
                return int(cells.ravel()[np.flatnonzero(readers.ravel() == read)[0]])
        return None

    def publish(self, write: int) -> None:
        """A fence::before_thread_sync, or what implies one, follows a write that is complete."""
        if self._published[write] is None:
            self._time += 1
            self._published[write] = self._time

    def fence_after(self, lanes: Lanes) -> None:
        """These lanes execute fence::after_thread_sync: what was published before is theirs to see."""
        self._fenced[lanes] = self._time

    def writes(self, cells: Cells) -> list[int]:
        """The numbers of the last writes of cells."""
        writers = self._writer[cells]
        if not writers.size:
            return []
        first, last = int(writers.min()), int(writers.max())
        return [first] if first == last else [int(n) for n in np.unique(writers)]

    def written_by(self, cells: Cells, write: int) -> int:
        """The first of the cells that a write was the last to."""
        return int(cells.ravel()[np.flatnonzero(self._writer[cells].ravel() == write)[0]])

    def missing_fence(self, write: int, warp: int, lanes: Lanes) -> str | None:
        """The fence for want of which lanes of a warp may not see a write; None if they may. Its own it always may."""
        if write == 0 or self._warps[write] == warp != NOBODY:
            return None
        published = self._published[write]
        if published is None:
            return "before_thread_sync"
        return "after_thread_sync" if published > int(self._fenced[lanes].min()) else None

    def log(self, lane: int, access: Access, insn: PtxInstruction, cells: Cells) -> Token:
        """Logs a synchronous access by the warp of `lane`; what its lanes have to acquire."""
        actor = self.machine.order.start(lane)
        self.access(actor, access, insn, cells)
        return self.machine.order.finish(actor)

    def access(self, actor: Actor, access: Access, insn: PtxInstruction, cells: Cells) -> None:
        """Logs that an operation accesses cells, no two alike."""
        strips = strips_of(cells)
        whole = np.unique(strips)
        if len(whole) * STRIP == cells.size:
            self.access_strips(actor, access, insn, whole)
            return
        offsets = strips * STRIP + cells.ravel() // TENSOR_COLUMNS % STRIP
        self.machine.order.actor_access(actor, self.region, access, insn, offsets, 1)

    def access_strips(self, actor: Actor, access: Access, insn: PtxInstruction, strips: Cells) -> None:
        """Logs that an operation accesses whole strips (`strips_of`)."""
        self.machine.order.actor_access(actor, self.region, access, insn, strips * STRIP, STRIP)

    def _take(self, slot: int, first: int, count: int, taken: bool) -> None:
        self._taken[slot, first : first + count] = taken
        self._gaps[slot, 1:] = np.cumsum(np.logical_not(self._taken[slot]))

    def _columns(self, slot: int, first: int, count: int) -> Cells:
        return self.cells(slot, 0, first, TENSOR_LANES, count)


def strips_of(cells: Cells) -> Cells:
    """The strip of each cell, flat: 16 lanes of a column, numbered by lanes, then columns."""
    lanes, columns = np.divmod(cells.ravel(), TENSOR_COLUMNS)
    return lanes // STRIP * TENSOR_COLUMNS + columns


def address_of(cell: int) -> int:
    """The tensor-memory address of a cell of the batch."""
    within = cell % CELLS
    return within // TENSOR_COLUMNS << 16 | within % TENSOR_COLUMNS
