"""tcgen05: allocation of tensor memory and the fences of its operations (PTX ISA, "tcgen05.alloc", "tcgen05.fence")."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.tmem.layout import TENSOR_COLUMNS, TENSOR_LANES
from compiler.emulate.features.tmem.memory import GRANULE, NAME, Cells, TensorMemory, TensorMemoryColumns, address_of
from compiler.emulate.features.tmem.operations import Waiting
from compiler.emulate.features.warp.whole_warp import WholeWarp, report_divergence, standing, warps
from compiler.emulate.order.order import Access
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.registry import Collective, Step, instruction
from compiler.emulate.report import FaultKind

Flags = npt.NDArray[np.bool_]


@instruction("tcgen05.alloc")
def alloc(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], nCols`."""
    return _Alloc(insn, binder)


@instruction("tcgen05.dealloc")
def dealloc(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, nCols`."""
    return _Dealloc(insn, binder)


@instruction("tcgen05.relinquish_alloc_permit")
def relinquish(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.relinquish_alloc_permit.cta_group.sync.aligned`: this block allocates no more."""

    def run(active: Active) -> None:
        for slot in np.unique(active.slots).tolist():
            active.machine.engine(TensorMemory).relinquish(slot)

    return WholeWarp(insn, run)


@instruction("tcgen05.fence::before_thread_sync")
def fence_before(insn: PtxInstruction, binder: Binder) -> Step:
    """Orders the operations before it before the synchronisation that follows."""
    return lambda active: active.machine.engine(Waiting).fence_before(active.lanes)


@instruction("tcgen05.fence::after_thread_sync")
def fence_after(insn: PtxInstruction, binder: Binder) -> Step:
    """Orders the operations after it after the synchronisation that precedes it."""
    return lambda active: active.machine.engine(TensorMemory).fence_after(active.lanes)


class _Paired(Collective):
    """A whole warp executes it; with .cta_group::2 one of each of two blocks whose ranks differ in the last bit."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        self.insn = insn
        groups = {_cta_group(i) for i in binder.function.instructions if i.opcode == "tcgen05"} - {None}
        if _cta_group(insn) is None:
            raise UnknownForm(f"{insn.text} without .cta_group")
        self._is_mixed = len(groups) > 1

    def ready(self, active: Active) -> Flags:
        """One warp of a block at a time, so that they take turns; of a pair's blocks, one each."""
        free = np.zeros(len(active), np.bool_)
        whole = standing(active, self.insn)
        first: dict[int, tuple[Active, slice]] = {}
        for _, mine, lanes in warps(active):
            if whole[mine].all():
                one = Active(active.machine, lanes)
                first.setdefault(int(one.slots[0]), (one, mine))
        for one, mine in first.values():
            slots = group_slots(one, self.insn)
            free[mine] = all(slot in first for slot in slots) and self.may_go(one, slots)
        return free

    def may_go(self, warp: Active, slots: tuple[int, ...]) -> bool:
        """Whether the warp, whose like in the other blocks of `slots` has come, may go on."""
        return True

    def finish(self, active: Active) -> None:
        if self._is_mixed:
            active.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                "The kernel's tcgen05 instructions have .cta_group::1 and .cta_group::2; all must have the same.",
            )
        if self._is_pair and len(group_slots(active, self.insn)) < 2:
            active.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                "There is no other block to pair with for .cta_group::2. Launch clusters of an even number of blocks.",
            )
        for _, mine, lanes in warps(active):
            self.execute(Active(active.machine, lanes), mine, active)

    @abstractmethod
    def execute(self, warp: Active, mine: slice, active: Active) -> None:
        """Executes for one warp, whose lanes are `mine` among the active ones."""

    def waiting_for(self, active: Active) -> str:
        return "the other block of its pair to do the same" if self._is_pair else "the other threads of their warp"

    def stuck(self, active: Active) -> bool:
        return report_divergence(active, self.insn)

    @property
    def _is_pair(self) -> bool:
        return self.insn.has("cta_group::2")

    def _uniform(self, warp: Active, values: npt.NDArray[np.int64], what: str) -> int:
        """The value that all threads of the warp give; reports others."""
        if (values != values[0]).any():
            warp.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                f"The threads of the warp give different {what}; all must give the same.",
                values != values[0],
            )
        return int(values[0])


class _Alloc(_Paired):
    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        super().__init__(insn, binder)
        self._address = binder.address(insn.operands[0], insn)
        self._count = binder.reader(insn.operands[1], np.uint32, insn)
        self._space = StateSpace.SHARED if insn.has("shared::cta") else StateSpace.GENERIC

    def may_go(self, warp: Active, slots: tuple[int, ...]) -> bool:
        count = _legal(int(spread(self._count(warp), warp)[0]))
        return warp.machine.engine(TensorMemory).free_columns(slots, count) is not None

    def finish(self, active: Active) -> None:
        self._places = spread(self._address(active), active)
        self._counts = spread(self._count(active), active).astype(np.int64)
        self._given: dict[tuple[int, ...], int | None] = {}
        super().finish(active)

    def execute(self, warp: Active, mine: slice, active: Active) -> None:
        machine, insn, lane = warp.machine, self.insn, int(warp.lanes[0])
        memory = machine.engine(TensorMemory)
        count = self._uniform(warp, self._counts[mine], "numbers of columns")
        self._uniform(warp, self._places[mine].astype(np.int64), "addresses")
        slots, slot = group_slots(warp, insn), int(warp.slots[0])
        problem = _refusal(memory, slot, count)
        if problem:
            warp.fault(FaultKind.INVALID_OPERAND, insn, problem)
        first = self._given.get(slots)
        if first is None:
            first = self._given[slots] = memory.free_columns(slots, _legal(count))
        assert first is not None, "may_go"
        tokens = memory.allocate(TensorMemoryColumns(slot, first, _legal(count), count, insn, lane))
        one = Active(machine, warp.lanes[:1])
        machine.memory.store(one, insn, self._space, self._places[mine][:1], np.array([[first]], np.uint32))
        if machine.options.races:
            for token in tokens:
                machine.order.acquire(warp.lanes, token)
            machine.order.acquire(warp.lanes, machine.order.release(one.lanes))

    def waiting_for(self, active: Active) -> str:
        memory = active.machine.engine(TensorMemory)
        slot = int(active.slots[0])
        count = _legal(int(spread(self._count(active), active)[0]))
        if memory.free_columns((slot,), count) is None:
            return f"{count} free columns of tensor memory; the block holds {memory.live(slot)}"
        return super().waiting_for(active)


class _Dealloc(_Paired):
    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        super().__init__(insn, binder)
        self._address = binder.reader(insn.operands[0], np.uint32, insn)
        self._count = binder.reader(insn.operands[1], np.uint32, insn)

    def finish(self, active: Active) -> None:
        self._places = spread(self._address(active), active).astype(np.int64)
        self._counts = spread(self._count(active), active).astype(np.int64)
        super().finish(active)

    def execute(self, warp: Active, mine: slice, active: Active) -> None:
        machine, insn = warp.machine, self.insn
        memory = machine.engine(TensorMemory)
        address = self._uniform(warp, self._places[mine], "addresses")
        count = self._uniform(warp, self._counts[mine], "numbers of columns")
        slot = int(warp.slots[0])
        is_whole = address < TENSOR_COLUMNS and 0 < count <= TENSOR_COLUMNS - address
        if machine.options.races and is_whole:
            cells = memory.cells(slot, 0, address, TENSOR_LANES, count)
            machine.order.acquire(warp.lanes, memory.log(int(warp.lanes[0]), Access.WRITE, insn, cells))
        token = machine.order.release(warp.lanes[:1])
        if not memory.deallocate(slot, address, count, token):
            warp.fault(
                FaultKind.TMEM_OUT_OF_ALLOCATION,
                insn,
                f"There is no allocation of {count} columns at address {address:#x} to free; the block has "
                f"{memory.live(slot)}. Give the address that tcgen05.alloc wrote, its count, and free it once.",
                None,
                np.array(address),
                NAME,
            )


def group_slots(active: Active, insn: PtxInstruction) -> tuple[int, ...]:
    """The blocks that the instruction of a lane acts on: its own, or with .cta_group::2 the pair, even rank first."""
    threads = active.machine.threads
    slot = int(active.slots[0])
    if not insn.has("cta_group::2"):
        return (slot,)
    first = slot - slot % threads.cluster_blocks
    even = (slot - first) & ~1
    return tuple(first + rank for rank in (even, even + 1) if rank < threads.cluster_blocks)


def expect_fenced(
    active: Active, insn: PtxInstruction, warp: int, cells: Cells, followed: Collection[int] = ()
) -> None:
    """Reports the first cell that another thread's operation wrote and no fence orders before lanes of a warp.

    `followed`: writes that this access follows without one.
    """
    memory = active.machine.engine(TensorMemory)
    for write in memory.writes(cells):
        fence = memory.missing_fence(write, warp, active.lanes)
        if fence is None or write in followed:
            continue
        where = (
            "after the write was waited for and before the barrier"
            if fence == "before_thread_sync"
            else "after the barrier and before this access"
        )
        address = address_of(memory.written_by(cells, write))
        active.fault(
            FaultKind.RACE,
            insn,
            f"Lane {address >> 16}, column {address & 0xFFFF} of tensor memory was written by another thread's "
            f"operation, which is not ordered before this one. Execute tcgen05.fence::{fence} {where}.",
            None,
            np.array(address),
            NAME,
        )
        return


def expect_after_reads(active: Active, insn: PtxInstruction, warp: int, cells: Cells) -> None:
    """Reports the first cell that a warp is about to write to with no fence since another warp has read it."""
    cell = active.machine.engine(TensorMemory).read_unfenced(cells, warp, active.lanes)
    if cell is None:
        return
    address = address_of(cell)
    active.fault(
        FaultKind.RACE,
        insn,
        f"Lane {address >> 16}, column {address & 0xFFFF} of tensor memory was read by another warp, and this write "
        "may begin before the barrier that came after. Execute tcgen05.fence::after_thread_sync after the barrier and "
        "before this access.",
        None,
        np.array(address),
        NAME,
    )


def _cta_group(insn: PtxInstruction) -> str | None:
    return next((w for w in insn.name if w.startswith("cta_group::")), None)


def _is_count(count: int) -> bool:
    return GRANULE <= count <= TENSOR_COLUMNS and count & (count - 1) == 0


def _legal(count: int) -> int:
    """The columns given for a count: itself, or after a report the next legal one, so that the run can go on."""
    return min(TENSOR_COLUMNS, 1 << max(GRANULE - 1, count - 1).bit_length())


def _refusal(memory: TensorMemory, slot: int, count: int) -> str | None:
    """Why a block may not allocate so many columns (PTX ISA, "tcgen05.alloc")."""
    if not _is_count(count):
        return f"{count} columns: the count must be a power of two from {GRANULE} to {TENSOR_COLUMNS}."
    if memory.has_relinquished(slot):
        return "The block has executed tcgen05.relinquish_alloc_permit: it may allocate no more. Allocate before that."
    last = memory.last_count(slot)
    if count > last:
        return f"{count} columns after an allocation of {last}: counts may not grow. Allocate the largest first."
    return None
