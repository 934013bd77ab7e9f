"""wgmma.fence, wgmma.mma_async, wgmma.commit_group, wgmma.wait_group."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.active import Active
from compiler.emulate.binder import WHOLE, Binder, Reader, UnknownForm
from compiler.emulate.features.lanes.elementwise import spread
from compiler.emulate.features.mma.fragments import rows_of_a, rows_of_d
from compiler.emulate.features.mma.matrices import DEPTH, chunks_along_k, chunks_along_rows, warpgroup_matrix
from compiler.emulate.features.warp.whole_warp import WholeWarp
from compiler.emulate.features.wgmma.form import ROWS, WarpgroupForm, form_of
from compiler.emulate.features.wgmma.groups import ProductGroups
from compiler.emulate.features.wgmma.operation import SharedOperand, WarpgroupProduct
from compiler.emulate.features.wgmma.warpgroup import WholeWarpgroup
from compiler.emulate.numeric.products import ACCUMULATORS, ELEMENT_BITS
from compiler.emulate.product_registers import ProductRegisters
from compiler.emulate.ptx.module import Immediate, Operand, PtxInstruction, Register
from compiler.emulate.ptx.operands import elements
from compiler.emulate.registry import Step, instruction
from compiler.emulate.report import FaultKind, Halt
from compiler.emulate.threads import WARP

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint32]


@instruction("wgmma.fence")
def fence(insn: PtxInstruction, binder: Binder) -> Step:
    """`wgmma.fence.sync.aligned`: orders accesses of registers before products that take them."""

    def run(active: Active) -> None:
        registers = active.machine.engine(ProductRegisters)
        registers.watch(binder.products)
        registers.fence(active.lanes)

    return WholeWarp(insn, run)


@instruction("wgmma.commit_group")
def commit(insn: PtxInstruction, binder: Binder) -> Step:
    """`wgmma.commit_group.sync.aligned`."""
    return WholeWarp(insn, lambda active: active.machine.engine(ProductGroups).commit(active.lanes))


@instruction("wgmma.wait_group")
def wait(insn: PtxInstruction, binder: Binder) -> Step:
    """`wgmma.wait_group.sync.aligned N`: at most the N newest groups of the warp are under way afterwards."""
    (pending,) = insn.operands
    if not isinstance(pending, Immediate) or pending.value < 0:
        raise UnknownForm(f"the form {insn.text}")
    return _Wait(insn, pending.value)


class _Wait(WholeWarp):
    def __init__(self, insn: PtxInstruction, pending: int) -> None:
        super().__init__(insn, lambda active: active.machine.engine(ProductGroups).waited(active.lanes, pending))
        self._pending = pending

    def ready(self, active: Active) -> Flags:
        return super().ready(active) & active.machine.engine(ProductGroups).are_done(active.lanes, self._pending)


@instruction("wgmma.mma_async")
def multiply(insn: PtxInstruction, binder: Binder) -> Step:
    """`wgmma.mma_async.sync.aligned.m64n….d.a.b d, a, b-desc, scale-d, …`: d = a*b, or a*b + d if scale-d is set."""
    form = form_of(insn, binder.target)
    return WholeWarpgroup(insn, _Issue(insn, binder, form))


class _Issue:
    """Issues the product of a warpgroup."""

    def __init__(self, insn: PtxInstruction, binder: Binder, form: WarpgroupForm) -> None:
        self.insn, self.form = insn, form
        self._products = binder.products
        d, a = (elements(o) for o in insn.operands[:2])
        self._d = _Registers(d, insn, binder)
        self._a = _Registers(a if form.registers else (), insn, binder)
        if len(d) != form.registers_of_d or (form.registers and len(a) != 4):
            raise UnknownForm(f"{insn.text} with these numbers of registers")
        self._descriptors = [
            (name, binder.reader(operand, np.uint64, insn))
            for name, operand in zip("AB", insn.operands[1:3], strict=True)
            if name == "B" or not form.registers
        ]
        self._adds = binder.reader(insn.operands[3], np.bool_, insn)
        self._checked = [r.index for r in self._d.registers if r.index in binder.checked]

    def __call__(self, active: Active, group: int, mine: slice) -> None:
        """Issues it for a warpgroup, whose lanes are `mine` of the active ones."""
        machine = active.machine
        one = Active(machine, active.lanes[mine])
        registers = machine.engine(ProductRegisters)
        registers.watch(self._products)
        matrices = [self._uniform(one, name, spread(read(one), one)) for name, read in self._descriptors]
        adds = bool(self._uniform(one, "scale-d", spread(self._adds(one), one)))
        previous = self._check_registers(one, registers, group)
        addend = None
        if adds and previous is None:
            addend = rows_of_d(self._d.read(one), ACCUMULATORS[self.form.d])
        operands = [self._operand(one, name, bits) for (name, _), bits in zip(self._descriptors, matrices, strict=True)]
        actor = machine.order.start_together(one.lanes) if machine.options.races else None
        operation = WarpgroupProduct(
            self.insn,
            one.lanes,
            self.form,
            rows_of_a(self._a.read(one)) if self.form.registers else operands[0],
            operands[-1],
            actor,
            registers.time,
            previous=previous if adds else None,
            addend=addend,
            machine=machine,
        )
        registers.issue(operation, self._d.rows, self._a.rows, group)
        if previous is None:
            for index in self._checked:
                machine.known_bytes(index)[one.lanes] = WHOLE
        machine.engine(ProductGroups).issue(operation)
        operations = 2 * ROWS * self.form.columns * self.form.depth
        rows = self.form.columns + (0 if self.form.registers else ROWS)
        machine.counters.product("wgmma", self.form.name, 1, operations, DEPTH * rows)

    def _uniform(self, one: Active, name: str, values: npt.NDArray[Any]) -> int:
        if (values != values[0]).any():
            what = f"the descriptor of {name}" if len(name) == 1 else name
            one.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                f"The threads of the warpgroup give different values for {what}; all 128 must give the same. Compute "
                "it from what they share, not from the thread or the warp.",
                values != values[0],
            )
        return int(values[0])

    def _check_registers(self, one: Active, registers: ProductRegisters, group: int) -> WarpgroupProduct | None:
        """Reports registers that are not fenced, or that other products under way hold; the product whose accumulator
        this one goes on with, if there is one."""
        for part in (self._d, self._a):
            found = registers.unfenced(part.rows, group) if len(part.rows) else None
            if found is not None:
                self._fault(
                    one,
                    found[1],
                    f"No wgmma.fence of warp {found[1]} of the warpgroup lies between its last access of register "
                    f"{part.registers[found[0]].name} by other instructions and this product, or none before the first "
                    "product at all. Execute wgmma.fence.sync.aligned after the registers of D and A are made.",
                )
                break
        chained = registers.chained(self._d.rows, group)
        if isinstance(chained, WarpgroupProduct) and chained.form.chain == self.form.chain:
            previous = chained
        else:
            previous = None
            self._take_over(one, registers, group)
        for reader in registers.readers(self._d.rows, group):
            assert isinstance(reader, WarpgroupProduct)
            self._in_flight(one, reader, "D is in registers from which a product under way takes A")
        if len(self._a.rows):
            for holder in registers.holders(self._a.rows, group):
                if not holder.waited.all():
                    self._in_flight(one, holder, "A is in registers of the accumulator of a product under way")
            for register in self._a.registers:
                registers.settle(register.index, group)
        return previous

    def _take_over(self, one: Active, registers: ProductRegisters, group: int) -> None:
        """Registers of D that hold results of other products, of another shape or in another order, get them."""
        first = int(registers.first_warp[group])
        for holder in registers.holders(self._d.rows, group):
            assert isinstance(holder, WarpgroupProduct)
            if holder.form.chain != self.form.chain and (holder.time >= registers.fenced[first : first + 4]).any():
                self._fault(
                    one,
                    0,
                    f"D was the accumulator of a product of another shape ({holder.form.name}), with no wgmma.fence "
                    "in between. Execute wgmma.fence.sync.aligned between products of different shapes.",
                )
        for register in self._d.registers:
            registers.settle(register.index, group)

    def _in_flight(self, one: Active, operation: Any, problem: str) -> None:
        one.fault(
            FaultKind.RACE,
            self.insn,
            f"{problem}. Execute wgmma.commit_group after that one, and wgmma.wait_group before this one.",
            tensor="registers",
        )
        operation.complete()
        operation.observe(one.lanes)
        operation.waited[:] = True

    def _fault(self, one: Active, warp: int, message: str) -> None:
        lanes = one.lanes[warp * WARP : (warp + 1) * WARP]
        Active(one.machine, lanes).fault(FaultKind.RACE, self.insn, message, tensor="registers")

    def _operand(self, one: Active, name: str, bits: int) -> SharedOperand | Words:
        form = self.form
        kind, rows = (form.a, ROWS) if name == "A" else (form.b, form.columns)
        is_transposed = form.transposes_a if name == "A" else form.transposes_b
        try:
            matrix = warpgroup_matrix(bits)
            chunks = (
                chunks_along_rows(matrix, rows, form.depth, ELEMENT_BITS[kind] // 8)
                if is_transposed
                else chunks_along_k(matrix, rows)
            )
        except ValueError as problem:
            one.fault(
                FaultKind.INVALID_OPERAND,
                self.insn,
                f'The descriptor of {name}, {bits:#018x}, is none: {problem} (PTX ISA, "Matrix Descriptor Format").',
            )
            return np.zeros((rows, DEPTH // 4), np.uint32)
        except UnknownForm as problem:
            one.fault(FaultKind.UNSUPPORTED_INSTRUCTION, self.insn, f"The emulator does not know {problem}.")
            raise Halt from None
        return SharedOperand(one, self.insn, chunks, is_transposed)


class _Registers:
    """Registers of D or A, and their rows in `ProductRegisters`."""

    def __init__(self, operands: tuple[Operand, ...], insn: PtxInstruction, binder: Binder) -> None:
        if not all(isinstance(o, Register) for o in operands):
            raise UnknownForm(f"{insn.text} with something else than registers")
        self.registers = [o for o in operands if isinstance(o, Register)]
        self.rows = np.array([binder.products[r.index] for r in self.registers], np.int32)
        self._readers: list[Reader] = [binder.reader(r, np.uint32, insn) for r in self.registers]

    def read(self, one: Active) -> Words:
        """(threads, registers)."""
        words = np.empty((len(one), len(self._readers)), np.uint32)
        for column, read in enumerate(self._readers):
            words[:, column] = read(one)
        return words
