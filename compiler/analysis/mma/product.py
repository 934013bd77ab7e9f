"""The products that instructions of the tensor cores make: which instruction, and where it finds its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compiler.analysis.id.indexing import Indexing
from compiler.analysis.mma.coordinates import Coordinates, instruction_coordinates
from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.analysis.mma.register_operand import OperandFragment, register_operand
from compiler.analysis.mma.shared_operand import OperandTile, shared_operand
from compiler.analysis.mma.tensor_coordinates import tensor_coordinates
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.tensor import TensorOp, TensorView


@dataclass(frozen=True, slots=True)
class MmaProduct:
    """A tensor whose Mma axes an instruction makes. What of it is None the schedule says otherwise than any has it.

    `operands`: the tensor that its rows vary along, and the one that its columns do: those of the contraction, or these
    exchanged, where the result lies transposed in the instruction. `rows`, `columns`: how they lie in shared memory, or
    in registers.
    """

    tensor: str
    unit: MmaUnit
    operands: tuple[str, str]
    coordinates: Coordinates | None = None
    instruction: Instruction | None = None
    rows: OperandTile | OperandFragment | None = None
    columns: OperandTile | OperandFragment | None = None

    @property
    def holds_rows(self) -> bool:
        """Whether a warp group's threads hold the rows' operand."""
        return self.instruction is not None and self.instruction.holds_rows


def is_by_mma(t: TensorView) -> bool:
    """Whether an instruction of the tensor cores makes elements of the tensor."""
    return ParallelType.MMA in t.types


def made_in_tensor_memory(sf: ScheduledFusion) -> frozenset[str]:
    """The tensors that tensor cores make in tensor memory, asked by one thread."""
    made = (sf.tensor(op.output) for op in sf.ops if op.kind in CONTRACTIONS)
    return frozenset(t.name for t in made if t.memory is MemoryType.TENSOR and is_by_mma(t))


def is_held_by_warps(products: Mapping[str, MmaProduct], op: TensorOp, name: str) -> bool:
    """Whether an instruction takes the operand `name` from the registers of all lanes of a warp, or warp group."""
    product = products.get(op.output)
    if product is None or name not in product.operands:
        return False
    return product.unit is MmaUnit.MMA_SYNC or (name == product.operands[0] and product.holds_rows)


def infer_products(
    sf: ScheduledFusion, indexing: Indexing, swizzle_span: Callable[[str], int]
) -> Mapping[str, MmaProduct]:
    """By name, every tensor that tensor cores make."""
    made = ((op, sf.tensor(op.output)) for op in sf.ops if op.kind in CONTRACTIONS)
    return {t.name: _product(sf, indexing, op, t, swizzle_span) for op, t in made if is_by_mma(t)}


def _product(
    sf: ScheduledFusion, indexing: Indexing, op: TensorOp, t: TensorView, swizzle_span: Callable[[str], int]
) -> MmaProduct:
    left, right = op.tensor_inputs
    unit = _unit(sf, t, (left, right))
    is_by_one = unit is MmaUnit.TCGEN05
    found = tensor_coordinates(indexing, t) if is_by_one else instruction_coordinates(indexing, t, unit)
    if found is None or not _is_fragment(indexing, t, found):
        return MmaProduct(t.name, unit, (left, right))
    if found.at(indexing.read_offset(op, left)).variables & found.of_column.keys():
        left, right = right, left
    holds_rows = unit is MmaUnit.WGMMA and sf.tensor(left).memory is MemoryType.LOCAL
    in_tf32 = op.kind is OpKind.MATMUL_TF32
    made = Instruction(unit, found.m, found.n, found.k, sf.tensor(left).dtype, t.dtype, holds_rows, in_tf32)
    rows, columns = (
        _shared(sf, indexing, op, name, found, of, swizzle_span)
        if unit.reads_shared and not (holds_rows and name == left)
        else _held(sf, indexing, op, name, found, of)
        for name, of in ((left, found.of_row), (right, found.of_column))
    )
    return MmaProduct(t.name, unit, (left, right), found, made, rows, columns)


def _unit(sf: ScheduledFusion, t: TensorView, operands: tuple[str, str]) -> MmaUnit:
    """The unit of a product, by where its result and its operands lie."""
    if t.memory is MemoryType.TENSOR:
        return MmaUnit.TCGEN05
    is_shared = MemoryType.SHARED in (sf.tensor(name).memory for name in operands)
    return MmaUnit.WGMMA if is_shared else MmaUnit.MMA_SYNC


def _is_fragment(indexing: Indexing, t: TensorView, found: Coordinates) -> bool:
    """Whether no index of an element follows from both its row and its column in the instruction."""
    rows, columns = found.of_row.keys(), found.of_column.keys()
    indices = (found.at(e) for e, a in zip(indexing.logical(t), t.logical, strict=True) if not a.is_reduction)
    return all(not (e.variables & rows and e.variables & columns) for e in indices)


def _shared(
    sf: ScheduledFusion,
    indexing: Indexing,
    op: TensorOp,
    name: str,
    found: Coordinates,
    of: Mapping[Var, Expr],
    swizzle_span: Callable[[str], int],
) -> OperandTile | None:
    t = sf.tensor(name)
    if t.memory is not MemoryType.SHARED:
        return None
    offset = found.at(indexing.read_offset(op, name))
    return shared_operand(offset, of, found.of_inner, t.dtype.nbytes, swizzle_span(name))


def _held(
    sf: ScheduledFusion, indexing: Indexing, op: TensorOp, name: str, found: Coordinates, of: Mapping[Var, Expr]
) -> OperandFragment | None:
    t = sf.tensor(name)
    threads = t.axes_of(ParallelType.TIDX)
    if t.memory is not MemoryType.LOCAL or len(threads) != 1:
        return None
    offset, thread = indexing.read_offset(op, name), indexing.read(op, name)[threads[0]]
    return register_operand(found.at(offset), found.at(thread), of, found.of_inner, t.dtype.nbytes)
