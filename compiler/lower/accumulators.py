"""Products in tensor memory as statements: the instruction, and the columns of the place that is in turn."""

from __future__ import annotations

from compiler.analysis.facts import Facts
from compiler.analysis.mma.shared_operand import OperandTile
from compiler.analysis.mma.tensor_coordinates import accumulator_place
from compiler.arch import TMEM_COLUMN_BITS
from compiler.ir.expr import Expr
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import TensorOp
from compiler.lower.kernel_ir import Stmt
from compiler.lower.mma import Placed, matrix_place, turns_summed
from compiler.lower.mma_ir import TensorMma
from compiler.lower.operands import Tmem
from compiler.lower.turns import Loops, turns_of


def lower_tensor_product(facts: Facts, op: TensorOp, placed: Placed, loops: Loops) -> Stmt:
    """The instruction of a product, all its loops open."""
    t, product = facts.sf.tensor(op.output), facts.products[op.output]
    assert product.instruction is not None, "legality refuses what no instruction makes"
    assert product.coordinates is not None, "an instruction has coordinates"
    assert isinstance(product.rows, OperandTile), "legality refuses operands that no descriptor has"
    assert isinstance(product.columns, OperandTile), "legality refuses operands that no descriptor has"
    left, right = (facts.sf.tensor(name) for name in product.operands)
    sides = (
        matrix_place(product.rows, placed(left, product.rows.start)),
        matrix_place(product.columns, placed(right, product.columns.start)),
    )
    lane, column = (product.coordinates.first(e) for e in accumulator_place(facts.indexing, t))
    first = facts.tmem_placement.first[t.name]
    target = Tmem(t.name, lane, column + columns_of_turn(facts, t.name, loops) + first)
    return TensorMma(product.instruction, target, *sides, turns_summed(facts, op, tuple(v for v, _ in loops)))


def columns_of_turn(facts: Facts, name: str, loops: Loops) -> Expr:
    """Columns from the first place of a tensor in tensor memory to the one of this turn."""
    t = facts.sf.tensor(name)
    if not t.in_flight or t.memory is not MemoryType.TENSOR:
        return Expr()
    layout = next(p.layout for p in facts.tensor_memory.tensors if p.tensor == name)
    columns = layout.columns.span.value * t.dtype.nbits // TMEM_COLUMN_BITS
    return turns_of(facts, t, loops) % (1 + t.in_flight) * columns
