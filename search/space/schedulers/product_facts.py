"""What the scheduler of products sees of a fusion: a contraction, which dimensions are its rows and columns, operands.

    result[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n]

The dimensions along which the left operand alone varies are `m`, those of the right one alone `n`, those of both, but
for the one that is summed along, the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import BULK_BYTES, MMA_K_BYTES
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, POINTWISE, REDUCTIONS, VIEWS, OpKind
from compiler.ir.tensor import TensorOp
from search.space.schedulers.product_folds import ProductFolds, product_folds
from search.space.schedulers.product_operands import K, ProductOperand, merged_stride, operand_of


@dataclass(frozen=True, slots=True)
class ProductOutput:
    """An output: whether a tensor map can take boxes of its rows and columns as they are, or of these exchanged."""

    name: str
    dtype: DType
    is_mapped: bool
    is_mapped_turned: bool


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Contractions over one space: the tensors that they make, the dtype of what they multiply, the operands that rows
    of the result vary along and those that columns do, the dimensions of the space by their role and how long they are
    together, and the outputs that have an element for each of the result's. `beside`: inputs that are read for each
    element of the result. `folds`: what is folded of the result's elements. `in_tf32`: of f32, whether it may be
    multiplied so."""

    tensors: tuple[str, ...]
    dtype: DType
    rows: tuple[ProductOperand, ...]
    columns: tuple[ProductOperand, ...]
    m_dims: tuple[int, ...]
    n_dims: tuple[int, ...]
    batch: int
    m: int
    n: int
    k: int
    outputs: tuple[ProductOutput, ...]
    beside: tuple[str, ...]
    folds: ProductFolds | None = None
    in_tf32: bool = False

    @property
    def tensor(self) -> str:
        """The first product, which the loops of the others follow."""
        return self.tensors[0]

    @property
    def sides(self) -> tuple[ProductOperand, ...]:
        """All operands."""
        return (*self.rows, *self.columns)

    def instruction(self, unit: MmaUnit, rows: int, columns: int) -> Instruction:
        """Of so many rows and columns."""
        summed = DType.I32 if self.dtype is DType.I8 else DType.F32
        depth = MMA_K_BYTES // self.dtype.nbytes
        return Instruction(unit, rows, columns, depth, self.dtype, summed, in_tf32=self.in_tf32)

    @property
    def multiplied(self) -> str:
        """The type of what is multiplied, in words."""
        return "tf32" if self.in_tf32 else str(self.dtype)

    @property
    def is_plain(self) -> bool:
        """Whether inputs are multiplied as they are."""
        return not any(side.chain for side in self.sides)


def product_shape(sf: ScheduledFusion, *, folds_too: bool = False) -> ProductShape | str:
    """What there is of an unscheduled fusion; a reason, in a sentence, for one that no scheduler of products takes.
    `folds_too`: the one that asks folds elements of the result."""
    made = [op for op in sf.ops if op.kind in CONTRACTIONS]
    if not made:
        return "no product of matrices"
    folds = product_folds(sf, [op.output for op in made])
    if isinstance(folds, str):
        return folds
    if folds is not None and not folds_too:
        return "a reduction of a product's elements, which product has in the kernel of warp groups"
    if any(other.output in _before(sf, op) for op in made for other in made):
        return "a product of matrices of which one is a product"
    if not _meet_along_k(sf, made):
        return "products of matrices of which two share no operand, so that each sums along a dimension of its own"
    if len({op.kind for op in made}) > 1:
        return "products of matrices of which one is in tf32 and another is exact"
    tensors = tuple(op.output for op in made)
    if apart := [name for name in sf.outputs if not _is_made_of(sf, name, tensors)]:
        return f"output {apart[0]} beside a product of matrices, which is made of something else"
    logical = sf.tensor(made[0].output).logical
    last = len(logical) - 1
    extents = tuple(a.extent for a in logical)
    long = [d for d in range(last) if extents[d] > 1]
    roles = {_roles(sf, op, long) for op in made}
    if len(roles) != 1:
        return "products of matrices of different dimensions"
    (found,) = roles
    sides: _Sides | str = ""
    for batch, m_dims, n_dims in _ways(*found):
        sides = _sides(sf, made, batch, (m_dims, n_dims))
        if not isinstance(sides, str):
            break
    if isinstance(sides, str):
        return sides
    if folds is not None and folds.pieces not in (m_dims[-3:], n_dims[-3:]):
        return "a fold of a product's elements along a dimension of neither operand alone"
    beside = _beside(sf, {name for of in sides for side in of for name in side.names})
    if isinstance(beside, str):
        return beside
    return ProductShape(
        tensors=tensors,
        dtype=sf.tensor(made[0].tensor_inputs[0]).dtype,
        rows=tuple(sides[0]),
        columns=tuple(sides[1]),
        m_dims=m_dims,
        n_dims=n_dims,
        batch=prod(extents[d] for d in batch),
        m=prod(extents[d] for d in m_dims),
        n=prod(extents[d] for d in n_dims),
        k=extents[last],
        outputs=tuple(
            _output(sf, name, batch, m_dims, n_dims) for name in sf.outputs if folds is None or name not in folds.across
        ),
        beside=beside,
        folds=folds,
        in_tf32=made[0].kind is OpKind.MATMUL_TF32,
    )


def operand_refusal(shape: ProductShape, *, transposes: bool) -> str | None:
    """Why no instruction takes the operands from shared memory, as tensor maps bring them. `transposes`: it takes them
    in any order."""
    if not shape.is_plain:
        return "what is done to an operand before it is multiplied, which warp_product does in registers"
    if not all(side.is_mapped for side in shape.sides):
        return "an operand that no tensor map can bring: its strides and address are to be multiples of 16 bytes"
    if not transposes and any(side.major != K for side in shape.sides):
        found = shape.multiplied
        return f"an operand of {found} whose rows lie apart along what is summed, which no instruction transposes"
    return None


_Dims = tuple[int, ...]
_Sides = tuple[list[ProductOperand], list[ProductOperand]]


def _ways(batch: _Dims, m: _Dims, n: _Dims) -> Iterator[tuple[_Dims, _Dims, _Dims]]:
    """Which dimensions are the batch, rows and columns: all that an operand has for itself, or the innermost of them
    alone, where the others are far apart in memory. Along those the other operand is the same."""
    for rows in dict.fromkeys((m, m[-1:])):
        for columns in dict.fromkeys((n, n[-1:])):
            yield tuple(sorted({*batch, *m, *n} - {*rows, *columns})), rows, columns


def _sides(sf: ScheduledFusion, made: list[TensorOp], batch: _Dims, own: tuple[_Dims, _Dims]) -> _Sides | str:
    """The operands that rows vary along, and those that columns do, each once; a reason where one cannot be taken."""
    sides: _Sides = ([], [])
    last = len(sf.tensor(made[0].output).logical) - 1
    for op in made:
        for name, dims, found in zip(op.tensor_inputs, own, sides, strict=True):
            side = operand_of(sf, name, (batch, dims, (last,)))
            if isinstance(side, str):
                return side
            found += [side] if side not in found else []
    return sides


def _roles(sf: ScheduledFusion, op: TensorOp, long: list[int]) -> tuple[_Dims, _Dims, _Dims]:
    """Of the dimensions of several places, those of both operands or of none, of the left one alone, and of the right
    one."""
    left, right = ({d for d, a in enumerate(sf.tensor(x).logical) if not a.is_broadcast} for x in op.tensor_inputs)
    batch = tuple(d for d in long if (d in left) == (d in right))
    m, n = (tuple(d for d in long if d in of and d not in batch) for of in (left, right))
    return batch, m, n


def _before(sf: ScheduledFusion, op: TensorOp) -> set[str]:
    """What an operator's operands are made of, these among them."""
    found, waiting = set[str](), list(op.tensor_inputs)
    while waiting:
        name = waiting.pop()
        made = sf.producer(name)
        if name not in found and made is not None:
            found.add(name)
            waiting += made.tensor_inputs
    return found


def _meet_along_k(sf: ScheduledFusion, made: list[TensorOp]) -> bool:
    """Whether one loop can sum all of them: each reads something along k, in the end, that one before it reads."""
    joined, waiting = (
        set[str](),
        [{x for x in _before(sf, op) if not sf.tensor(x).logical[-1].is_broadcast} for op in made],
    )
    while waiting:
        found = next((x for x in waiting if not joined or x & joined), None)
        if found is None:
            return False
        waiting.remove(found)
        joined |= found
    return True


def _is_made_of(sf: ScheduledFusion, name: str, tensors: tuple[str, ...]) -> bool:
    """Whether a result is one of the tensors, or made of one."""
    op = sf.producer(name)
    return op is not None and not {name, *_before(sf, op)}.isdisjoint(tensors)


def _output(
    sf: ScheduledFusion, name: str, batch: tuple[int, ...], m_dims: tuple[int, ...], n_dims: tuple[int, ...]
) -> ProductOutput:
    t = sf.tensor(name)
    assert t.allocation is not None, "a global tensor always has an allocation"
    strides = {d: stride or 0 for d, stride in enumerate(t.allocation.strides)}
    m, n = (merged_stride(t, dims, strides) for dims in (m_dims, n_dims))

    def mapped(rows: int | None, columns: int | None) -> bool:
        if rows is None or columns != 1:
            return False
        far = (rows, *(strides[d] for d in batch))
        return t.align % BULK_BYTES == 0 and all(x * t.dtype.nbytes % BULK_BYTES == 0 for x in far)

    return ProductOutput(name, t.dtype, mapped(m, n), mapped(n, m))


def _beside(sf: ScheduledFusion, operands: set[str]) -> tuple[str, ...] | str:
    """The inputs that are read beside the operands; a reason where what is done with results is more than
    elementwise."""
    found: dict[str, None] = {}
    for op in sf.ops:
        if op.kind in CONTRACTIONS or op.output in operands:
            continue
        if op.kind not in POINTWISE | VIEWS | REDUCTIONS and op.kind is not OpKind.COPY:
            return f"operator {op.kind} beside a product of matrices"
        found |= {x: None for x in op.tensor_inputs if sf.tensor(x).memory is MemoryType.GLOBAL}
    return tuple(found)


def lies_in_pairs(sf: ScheduledFusion, name: str, dim: int) -> bool:
    """Whether a tensor that is read from memory, or stored there, has neighbours along a dimension of the result in
    words of two elements: side by side, and from even places on."""
    t, op = sf.tensor(name), sf.producer(name)
    if t.memory is MemoryType.GLOBAL:
        memory, places = t, {d: d for d in range(len(t.logical))}
    elif op is not None and op.kind in (OpKind.COPY, OpKind.BROADCAST_TO, OpKind.PERMUTE):
        memory = sf.tensor(op.tensor_inputs[0])
        dims = op.dims or tuple(range(len(memory.logical)))
        places = dict(enumerate(dims)) if op.kind is not OpKind.PERMUTE else {p: c for c, p in enumerate(dims)}
    else:
        return False
    assert memory.allocation is not None, "a global tensor always has an allocation"
    strides = {places[i]: stride or 0 for i, stride in enumerate(memory.allocation.strides)}
    extents = {places[i]: a.extent for i, a in enumerate(memory.logical)}
    others = all(stride % 2 == 0 for d, stride in strides.items() if d != dim and extents[d] > 1)
    aligned = memory.align % (2 * memory.dtype.nbytes) == 0
    return strides.get(dim) == 1 and extents[dim] % 2 == 0 and others and aligned
