"""tcgen05.ld, tcgen05.st and their waits: registers of a warp to and from tensor memory (PTX ISA, "tcgen05.ld")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.tmem.allocation import expect_after_reads, expect_fenced
from compiler.emulate.features.tmem.layout import (
    FRAGMENT_SHAPES,
    QUARTER,
    TENSOR_COLUMNS,
    TENSOR_LANES,
    RegisterCells,
    fragment,
)
from compiler.emulate.features.tmem.memory import NAME, Cells, TensorMemory, address_of
from compiler.emulate.features.tmem.operations import TensorLoad, TensorStore, Waiting
from compiler.emulate.features.warp.whole_warp import WholeWarp, first_of_warp, report_divergence, standing, warps
from compiler.emulate.in_flight import InFlight
from compiler.emulate.launch import Completion
from compiler.emulate.order.order import Access, Actor
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, Register
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Collective, Step, instruction
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP

Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

_POISON = np.array(0xA5A5A5A5, np.uint32)
_HALF = np.uint32(0xFFFF)
_HALF_BITS = np.uint32(16)


@instruction("tcgen05.ld")
def load(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 r, [taddr]{, immHalfSplitoff}`."""
    form = _form(insn, "pack::16b", insn.operands[2:3])
    registers = elements(insn.operands[0])
    address = binder.address(insn.operands[1], insn)
    _expect_count(insn, len(registers), form)
    writers = [binder.writer(r, np.uint32, insn) for r in registers]
    filled = [(i, r.index) for i, r in enumerate(registers) if isinstance(r, Register)]

    def run(active: Active) -> None:
        machine = active.machine
        reached = _reached(active, insn, form, _values(active, address))
        if machine.options.races:
            _expect_ordered(reached, insn)
        _expect_written(reached, insn)
        in_flight, waiting = machine.engine(InFlight), machine.engine(Waiting)

        def land(words: Words) -> None:
            values = np.zeros((len(active), len(registers)), np.uint32)
            values[reached.good] = _packed(words)
            for column, register in filled:
                held = in_flight.holds(register, active.lanes, number)
                mine = active.where(held)
                writers[column](mine, values[held, column])
                in_flight.mark(register, mine.lanes, number)

        operation = TensorLoad(
            machine,
            insn,
            int(active.lanes[0]),
            _actors(reached, Access.READ, insn),
            cells=reached.cells,
            land=land,
        )
        if machine.asynchrony.completion is not Completion.EAGER:
            for write in writers:
                write(active, _POISON)
        for warp, mine, _ in warps(reached.active):
            operation.reads[warp] = machine.engine(TensorMemory).note_read(warp, reached.cells[mine])
        number = in_flight.start(tuple(r for _, r in filled), active.lanes, operation)
        for warp, _, _ in warps(active):
            waiting.loads[warp].append(operation)
        machine.asynchrony.submit(operation)

    return WholeWarp(insn, run)


@instruction("tcgen05.ld.red")
def load_reduced(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.ld.red` reduces across columns, on sm_103 and sm_110 only."""
    raise UnknownForm("tcgen05.ld.red")


@instruction("tcgen05.st")
def store(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [taddr]{, immHalfSplitoff}, r`."""
    form = _form(insn, "unpack::16b", insn.operands[1:-1])
    registers = elements(insn.operands[-1])
    address = binder.address(insn.operands[0], insn)
    _expect_count(insn, len(registers), form)
    readers = [binder.reader(r, np.uint32, insn) for r in registers]
    is_packed = form.lanes.shape[2] == 2

    def run(active: Active) -> None:
        machine = active.machine
        reached = _reached(active, insn, form, _values(active, address))
        if machine.options.races:
            _expect_ordered(reached, insn)
            for warp, mine, lanes in warps(reached.active) if len(reached.active) else ():
                expect_after_reads(Active(machine, lanes), insn, warp, reached.cells[mine])
        words = np.empty((len(active), len(readers)), np.uint32)
        for column, read in enumerate(readers):
            words[:, column] = read(active)
        cells, words = reached.cells, words[reached.good][..., None]
        if is_packed:
            words = np.concatenate([words & _HALF, words >> _HALF_BITS], axis=2)
        memory, waiting = machine.engine(TensorMemory), machine.engine(Waiting)
        operation = TensorStore(
            machine, insn, int(active.lanes[0]), _actors(reached, Access.WRITE, insn), cells=cells, words=words
        )
        memory.written[cells] = True
        for warp, mine, _ in warps(reached.active):
            operation.writes[warp] = memory.note_write(warp, cells[mine])
        for warp, _, _ in warps(active):
            waiting.stores[warp].append(operation)
        machine.asynchrony.submit(operation)

    return WholeWarp(insn, run)


@instruction("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.wait::ld` and `::st`: all loads, or stores, of the warp before it are complete."""
    return _Wait(insn)


class _Wait(Collective):
    def __init__(self, insn: PtxInstruction) -> None:
        self.insn = insn
        self._kind = insn.name[1].removeprefix("wait::")

    def ready(self, active: Active) -> Flags:
        whole = standing(active, self.insn)
        pending = active.machine.engine(Waiting).of(self._kind)
        for warp, mine, _ in warps(active):
            if not all(operation.done for operation in pending.get(warp, ())):
                whole[mine] = False
        return whole

    def finish(self, active: Active) -> None:
        waiting = active.machine.engine(Waiting)
        for warp, _, lanes in warps(active):
            waiting.observe(self._kind, warp, lanes)
        if self._kind == "ld":
            active.machine.engine(InFlight).wait(active.lanes)

    def waiting_for(self, active: Active) -> str:
        return "the other threads of their warp"

    def stuck(self, active: Active) -> bool:
        return report_divergence(active, self.insn)


class _Reached:
    """The lanes that may do their part, `good` among the active ones, and their cells, (lanes, registers, halves)."""

    def __init__(self, active: Active, good: Flags, cells: Cells) -> None:
        self.active = active.at(good)
        self.good = good
        self.cells = cells


def _form(insn: PtxInstruction, packing: str, split: tuple[Operand, ...]) -> RegisterCells:
    """The fragment that the name says. Raises UnknownForm for a form that does not exist."""
    shape = next((w for w in insn.name if w in FRAGMENT_SHAPES), "")
    num = next((w for w in insn.name if w[:1] == "x" and w[1:].isdigit()), "x0")
    is_split = shape == "16x32bx2"
    if is_split != bool(split) or not all(isinstance(s, Immediate) for s in split):
        raise UnknownForm(f"the operands of {insn.text}")
    offset = split[0].value if is_split and isinstance(split[0], Immediate) else 0
    try:
        return fragment(shape, int(num[1:]), insn.has(packing), offset)
    except ValueError as problem:
        raise UnknownForm(f"the form {problem} of {'.'.join(insn.name[:2])}") from None


def _expect_count(insn: PtxInstruction, found: int, form: RegisterCells) -> None:
    wanted = form.lanes.shape[1]
    if found != wanted:
        raise UnknownForm(f"{insn.text}, which should have {wanted} registers, not {found}")


def _reached(active: Active, insn: PtxInstruction, form: RegisterCells, addresses: npt.NDArray[np.int64]) -> _Reached:
    """Checks lanes and allocation; whole warps that break a rule are left out, else single lanes."""
    memory = active.machine.engine(TensorMemory)
    good = _in_quarter(active, insn, form, addresses)
    lane, column = addresses >> 16, addresses & 0xFFFF
    thread = active.lanes % WARP
    columns = column[:, None, None] + form.columns[thread]
    first, last = columns.min(axis=(1, 2)), columns.max(axis=(1, 2))
    slots = active.slots
    allocated = memory.within(slots, first, last)
    if not allocated.all():
        allocated |= memory.column_taken(slots[:, None, None], columns).all(axis=(1, 2))
        _report_columns(active, insn, good & ~allocated, columns, addresses)
        good = good & allocated
    rows = lane[:, None, None] + form.lanes[thread]
    cells = (slots[:, None, None] * TENSOR_LANES + rows) * TENSOR_COLUMNS + columns
    return _Reached(active, good, cells if good.all() else cells[good])


def _in_quarter(active: Active, insn: PtxInstruction, form: RegisterCells, addresses: npt.NDArray[np.int64]) -> Flags:
    """Which lanes give the address of their warp, in the quarter that it may reach."""
    lane = addresses >> 16
    quarter = QUARTER * (active.machine.threads.thread[active.lanes] // WARP % 4)
    uniform = addresses == first_of_warp(active, addresses)
    inside = (lane >= quarter) & (lane + form.rows <= quarter + QUARTER)
    aligned = lane % 16 == 0
    for bad, problem in (
        (~uniform, "The threads of a warp give different addresses. Give all of them the same: no thread index in it."),
        (
            ~inside,
            f"The warp may not reach these lanes: {form.rows} from the one in bits 31:16 of the address. Warp w of a "
            "block reaches lanes 32*(w%4) to 32*(w%4)+31 only: add (w%4*32)<<16 to the address of the allocation.",
        ),
        (~aligned, "The lane in bits 31:16 of the address is no multiple of 16. Start at the first or 17th lane."),
    ):
        if bad.any():
            active.fault(FaultKind.TMEM_WRONG_LANES, insn, problem, bad, addresses, NAME)
    good: Flags = uniform & inside & aligned
    return good


def _report_columns(
    active: Active, insn: PtxInstruction, bad: Flags, columns: Cells, addresses: npt.NDArray[np.int64]
) -> None:
    if not bad.any():
        return
    memory = active.machine.engine(TensorMemory)
    which = int(np.flatnonzero(bad)[0])
    mine = np.unique(columns[which])
    slot = int(active.slots[which])
    outside = mine[~memory.column_taken(np.full(len(mine), slot), mine)]
    active.fault(
        FaultKind.TMEM_OUT_OF_ALLOCATION,
        insn,
        f"Column {int(outside[0])} is in no allocation of the block, which has {memory.live(slot)}. Allocate more "
        "columns, or stay inside.",
        bad,
        addresses,
        NAME,
    )


def _expect_written(reached: _Reached, insn: PtxInstruction) -> None:
    active, memory = reached.active, reached.active.machine.engine(TensorMemory)
    written = memory.written[reached.cells]
    if written.all():
        return
    missing: Flags = np.logical_not(written.all(axis=(1, 2)))
    first = address_of(int(reached.cells[~written][0]))
    active.fault(
        FaultKind.UNINITIALIZED_READ,
        insn,
        f"Lane {first >> 16}, column {first & 0xFFFF} of tensor memory is read, but nothing was written there since it "
        "was allocated. Write it first.",
        missing,
        np.array(first),
        NAME,
    )


def _expect_ordered(reached: _Reached, insn: PtxInstruction) -> None:
    """Reports cells whose last write the warp has not waited for, or is not fenced from."""
    active, cells = reached.active, reached.cells
    machine = active.machine
    memory, stores = machine.engine(TensorMemory), machine.engine(Waiting).stores
    for warp, mine, lanes in warps(active) if len(active) else ():
        one = Active(machine, lanes)
        expect_fenced(one, insn, warp, cells[mine])
        late = {o.writes[warp]: o for o in stores.get(warp, ()) if warp in o.writes}
        for write in late.keys() & set(memory.writes(cells[mine])):
            address = address_of(memory.written_by(cells[mine], write))
            one.fault(
                FaultKind.RACE,
                insn,
                f"Lane {address >> 16}, column {address & 0xFFFF} of tensor memory is accessed before the warp's "
                "tcgen05.st to it was waited for, which may still be under way. Execute tcgen05.wait::st in between.",
                None,
                np.array(address),
                NAME,
            )
            late[write].complete()  # one report is enough: from here on as if it had been waited for
            late[write].observe(lanes)


def _actors(reached: _Reached, access: Access, insn: PtxInstruction) -> dict[int, Actor]:
    """Starts and logs the operation of each warp."""
    active = reached.active
    machine = active.machine
    if not machine.options.races or not len(active):
        return {}
    memory, order = machine.engine(TensorMemory), machine.order
    actors = {}
    for warp, mine, lanes in warps(active):
        actors[warp] = order.start(int(lanes[0]))
        memory.access(actors[warp], access, insn, reached.cells[mine])
    return actors


def _values(active: Active, read: Reader) -> npt.NDArray[np.int64]:
    """Addresses of tensor memory, one a lane."""
    return spread(read(active), active).astype(np.int64)


def _packed(words: Words) -> Words:
    if words.shape[2] == 1:
        return words[..., 0]
    packed: Words = (words[..., 0] & _HALF) | (words[..., 1] << _HALF_BITS)
    return packed
