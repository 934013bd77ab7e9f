"""tcgen05.mma: one thread issues a product whose accumulator is in tensor memory (PTX ISA, "tcgen05.mma").

It reads its operands in shared memory through the async proxy, at any time until a `tcgen05.commit` of its thread has
arrived. What it follows without a wait is in `pipelines`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import Binder, Reader, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.mma.matrices import (
    DEPTH,
    Integers,
    chunks_along_k,
    chunks_along_rows,
    tensor_matrix,
)
from compiler.emulate.features.tmem.allocation import expect_after_reads, expect_fenced, group_slots
from compiler.emulate.features.tmem.layout import TENSOR_COLUMNS, TENSOR_LANES
from compiler.emulate.features.tmem.memory import NAME, NOBODY, Cells, TensorMemory, address_of
from compiler.emulate.features.tmem.operations import Waiting
from compiler.emulate.features.tmem.pipelines import Pipelines
from compiler.emulate.features.tmem.product_form import KINDS, TensorForm, tensor_form
from compiler.emulate.features.tmem.product_layout import product_place, strips_from
from compiler.emulate.features.tmem.product_operation import Read, TensorProduct, bytes_of, shared_operand
from compiler.emulate.features.tmem.single_thread import are_allocated, block_lanes, report_descriptor
from compiler.emulate.numeric.products import ELEMENT_BITS
from compiler.emulate.order.order import Access
from compiler.emulate.ptx.module import Address, Immediate, PtxInstruction, Vector
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP

Flags = npt.NDArray[np.bool_]

_COLLECTORS = {f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard")}
"""Hints: memory must hold the operand all the same."""

_CELLS_OF_A = DEPTH // 4
"""Columns of A in tensor memory, whatever the type."""


@instruction("tcgen05.mma")
def multiply(insn: PtxInstruction, binder: Binder) -> Step:
    """`tcgen05.mma.cta_group.kind{.collector} [d], a, b, idesc{, disable-output-lane}, enable-input-d{, scale}`."""
    issue = _Issue(insn, binder)

    def run(active: Active) -> None:
        issue.read(active)
        slots, first, counts = np.unique(active.slots, return_index=True, return_counts=True)
        for slot, place, count in zip(slots.tolist(), first.tolist(), counts.tolist(), strict=True):
            if count > 1:
                active.where(active.slots == slot).fault(
                    FaultKind.RACE,
                    insn,
                    f"{count} threads of the block issue this product, each one of its own, all on one accumulator. "
                    "Let one thread issue it: elect.sync, or one lane of one warp.",
                    tensor=NAME,
                )
            issue.one(Active(active.machine, active.lanes[place : place + 1]), place)

    return run


@dataclass(frozen=True, slots=True)
class _Given:
    """What one thread gives: D's address, A's address or descriptor, B's descriptor, the form, the rest."""

    d: int
    a: int
    b: int
    form: TensorForm
    adds: bool
    disabled: tuple[int, ...]


class _Issue:
    """Issues the products of an instruction, one by one."""

    def __init__(self, insn: PtxInstruction, binder: Binder) -> None:
        self.insn = insn
        words = set(insn.name[2:])
        groups, kinds = words & {"cta_group::1", "cta_group::2"}, words & {f"kind::{k}" for k in KINDS}
        if len(groups) != 1 or len(kinds) != 1 or words - groups - kinds - _COLLECTORS:
            raise UnknownForm(f"the form {'.'.join(insn.name)}")
        self._kind = kinds.pop().removeprefix("kind::")
        self._blocks = 2 if groups == {"cta_group::2"} else 1
        d, a, b, form, *rest = insn.operands
        self._in_tensor_memory = isinstance(a, Address)
        masks = elements(rest.pop(0)) if rest and isinstance(rest[0], Vector) else ()
        if len(masks) not in (0, 4 * self._blocks) or len(rest) not in (1, 2):
            raise UnknownForm(f"the operands of {insn.text}")
        self._scale = 0
        if len(rest) == 2:
            scale = rest[1]
            if not isinstance(scale, Immediate) or not 0 <= scale.value < 16 or self._kind not in ("f16", "tf32"):
                raise UnknownForm(f"the operands of {insn.text}")
            self._scale = scale.value
        self._readers: list[Reader] = [
            binder.address(d, insn),
            binder.address(a, insn) if self._in_tensor_memory else binder.reader(a, np.uint64, insn),
            binder.reader(b, np.uint64, insn),
            binder.reader(form, np.uint32, insn),
            binder.reader(rest[0], np.bool_, insn),
            *(binder.reader(mask, np.uint32, insn) for mask in masks),
        ]

    def read(self, active: Active) -> None:
        """Reads the operands of all threads that execute it."""
        self._values = [spread(read(active), active) for read in self._readers]

    def one(self, active: Active, place: int) -> None:
        """Issues the product of one thread, the one at `place` of those that were read."""
        d, a, b, bits, adds, *masks = (int(values[place]) for values in self._values)
        slots = group_slots(active, self.insn)
        if len(slots) < self._blocks:
            self._fault(
                active, "There is no other block to pair with for .cta_group::2. Launch clusters of two blocks."
            )
            return
        try:
            form = tensor_form(bits, self._kind, self._blocks == 2)
            given = _Given(d, a, b, form, bool(adds), tuple(masks))
            place_a = self._operand(active, given, "A", slots)
            place_b = self._operand(active, given, "B", slots)
        except UnknownForm as problem:
            active.fault(FaultKind.UNSUPPORTED_INSTRUCTION, self.insn, f"The emulator does not know {problem}.")
            raise Halt from None
        except ValueError as problem:
            self._fault(active, f"The instruction descriptor {bits:#010x} is none: {problem}.")
            return
        if place_a is not None and place_b is not None:
            self._issue(active, given, slots, place_a, place_b)

    def _issue(
        self, active: Active, given: _Given, slots: tuple[int, ...], place_a: Integers, place_b: Integers
    ) -> None:
        machine, insn, lane, form = active.machine, self.insn, int(active.lanes[0]), given.form
        memory, pipelines = machine.engine(TensorMemory), machine.engine(Pipelines)
        cells = self._accumulator(active, given, slots)
        if cells is None:
            return
        accumulator = (slots, given.d, form.shape)
        after = pipelines.before(lane, accumulator)
        known = pipelines.writes(lane, accumulator).union(*(o.writes.values() for o in after))
        kept = self._kept(given, form, cells)
        written = cells if kept is None else cells[kept]
        if given.adds and not memory.written[written].all():
            self._unwritten(active, written, "the accumulator")
        if self._in_tensor_memory and not memory.written[place_a].all():
            self._unwritten(active, place_a, "A")
        actor = None
        if machine.options.races:
            expect_fenced(active, insn, NOBODY, cells, known)
            expect_after_reads(active, insn, lane // WARP, cells)
            actor = machine.order.start(lane, after=[o.actors[lane] for o in after if lane in o.actors])
            place = product_place(form.rows, form.columns, len(slots))
            strips = strips_from(place, slots[0], given.d >> 16, given.d & 0xFFFF)
            memory.access_strips(actor, Access.WRITE, insn, strips)
            if self._in_tensor_memory:
                expect_fenced(active, insn, NOBODY, place_a, known)
                memory.access(actor, Access.READ, insn, place_a)
        blocks = block_lanes(active, slots)
        element = ELEMENT_BITS[form.a] // 8
        read_a: Read = (
            (lambda: memory.words[place_a])
            if self._in_tensor_memory
            else shared_operand(blocks, insn, place_a, form.transposes_a * element, actor)
        )
        memory.written[written] = True
        product = TensorProduct(
            machine,
            insn,
            lane,
            {} if actor is None else {lane: actor},
            {lane: memory.note_write(NOBODY, written)},
            form=form,
            cells=cells,
            a=read_a,
            b=shared_operand(blocks, insn, place_b, form.transposes_b * element, actor),
            adds=given.adds,
            scale=self._scale,
            kept=kept,
            after=after,
        )
        pipelines.issue(lane, accumulator, product)
        machine.engine(Waiting).transfers[lane].append(product)
        machine.asynchrony.submit(product)
        depth = DEPTH // element
        nbytes = bytes_of(place_b, len(slots)) + (0 if self._in_tensor_memory else bytes_of(place_a, len(slots)))
        name = f"m{form.rows}n{form.columns}k{depth}.{form.d}.{form.a}.{form.b}"
        machine.counters.product("tcgen05.mma", name, 1, 2 * form.rows * form.columns * depth, nbytes)

    def _operand(self, active: Active, given: _Given, name: str, slots: tuple[int, ...]) -> Integers | None:
        """Chunks of shared memory of an operand, or cells of A in tensor memory; None, reported, if it is nowhere."""
        form = given.form
        kind, rows, bits = (form.a, form.rows, given.a) if name == "A" else (form.b, form.columns, given.b)
        is_transposed = form.transposes_a if name == "A" else form.transposes_b
        if name == "A" and self._in_tensor_memory:
            if is_transposed:
                raise ValueError("bit 15 transposes A, which in tensor memory is K-major")
            return self._rows_of_a(active, given, slots)
        try:
            matrix = tensor_matrix(bits)
            is_apart = matrix.swizzle.name == "128B_ATOM_32B"
            if is_apart != (is_transposed and kind == "tf32"):
                raise ValueError(
                    "the 128-byte swizzle with atoms of 32 bytes is for MN-major operands of 32 bits, and they take no "
                    "other"
                )
            if is_apart:
                raise UnknownForm("MN-major operands of 32 bits: the manual does not say what their steps mean")
            if is_transposed:
                return chunks_along_rows(
                    matrix, rows // len(slots), 8 * DEPTH // ELEMENT_BITS[kind], ELEMENT_BITS[kind] // 8
                )
            return chunks_along_k(matrix, rows // len(slots))
        except ValueError as problem:
            report_descriptor(active, self.insn, bits, problem)
            return None

    def _accumulator(self, active: Active, given: _Given, slots: tuple[int, ...]) -> Cells | None:
        """The cells of D, (rows, columns); None, reported, where they may not be."""
        form = given.form
        place = product_place(form.rows, form.columns, len(slots))
        lane, column = given.d >> 16, given.d & 0xFFFF
        if not self._is_lane(active, given, given.d, "D") or not are_allocated(
            active, self.insn, slots, column, TENSOR_LANES, place.columns
        ):
            return None
        first: Cells = (slots[0] * TENSOR_LANES + lane) * TENSOR_COLUMNS + column + place.cells
        return first

    def _rows_of_a(self, active: Active, given: _Given, slots: tuple[int, ...]) -> Cells | None:
        """The cells of A in tensor memory, (rows, 8)."""
        form, address = given.form, given.a
        lanes = product_place(form.rows, form.columns, len(slots)).lanes
        lane, column = address >> 16, address & 0xFFFF
        if lanes is None:
            raise UnknownForm("A in tensor memory with M 128 of two blocks")
        if not self._is_lane(active, given, address, "A") or not are_allocated(
            active, self.insn, slots, column, TENSOR_LANES, _CELLS_OF_A
        ):
            return None
        rows = (slots[0] * TENSOR_LANES + lane + lanes) * TENSOR_COLUMNS + column
        cells: Cells = rows[:, None] + np.arange(_CELLS_OF_A)
        return cells

    def _is_lane(self, active: Active, given: _Given, address: int, what: str) -> bool:
        """Whether D or A may begin at a lane. With M 64 they begin at 0 or 16, both at the same."""
        form, lane = given.form, address >> 16
        allowed = (0, 16) if form.rows == 64 else (0,)
        if what == "A" and lane in allowed:
            allowed = (given.d >> 16,)
        if lane in allowed:
            return True
        active.fault(
            FaultKind.TMEM_WRONG_LANES,
            self.insn,
            f"{what} begins at lane {lane} (bits 31:16 of its address); with M {form.rows} it must begin at "
            f"{' or '.join(map(str, allowed))}{', where D does' if what == 'A' else ''}.",
            None,
            np.array(address),
            NAME,
        )
        return False

    def _kept(self, given: _Given, form: TensorForm, cells: Cells) -> Flags | None:
        """The cells of D that are written, by the masks of lanes that are not; None for all."""
        if not any(given.disabled):
            return None
        bits = np.array(given.disabled, np.uint32).view(np.uint8)
        disabled = np.unpackbits(bits, bitorder="little").astype(np.bool_)
        first = int(cells.min()) // TENSOR_COLUMNS // TENSOR_LANES * TENSOR_LANES
        kept: Flags = ~disabled[cells // TENSOR_COLUMNS - first]
        return kept

    def _unwritten(self, active: Active, cells: Cells, what: str) -> None:
        memory = active.machine.engine(TensorMemory)
        address = address_of(int(cells.ravel()[np.flatnonzero(~memory.written[cells].ravel())[0]]))
        active.fault(
            FaultKind.UNINITIALIZED_READ,
            self.insn,
            f"Lane {address >> 16}, column {address & 0xFFFF} of tensor memory is read as part of {what}, but nothing "
            "was written there since it was allocated. Write it first, or clear enable-input-d for the first product.",
            None,
            np.array(address),
            NAME,
        )

    def _fault(self, active: Active, message: str) -> None:
        active.fault(FaultKind.INVALID_OPERAND, self.insn, message)
