"""What the scheduler of products sees of a fusion: a contraction, which dimensions are its rows and columns, operands.

    result[batch, m, n] = sum over k of left[batch, m, k] * right[batch, k, n]

The dimensions along which the left operand alone varies are `m`, those of the right one alone `n`, those of both, but
for the one that is summed along, the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from compiler.arch import BULK_BYTES
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var, var
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import CONTRACTIONS, POINTWISE, REDUCTIONS, VIEWS, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import depends_on

K, MN = "k", "mn"
"""Which dimension of an operand lies side by side in memory: the one that is summed along, or its own."""


@dataclass(frozen=True, slots=True)
class ProductOperand:
    """An operand that is an input as it is: the tensor of the unscheduled fusion that spreads it over the space.

    `major`: which of its dimensions lies side by side. `word_bytes`: of a word, up to 16, at whose multiples rows and
    the tensor begin. `is_mapped`: a tensor map can bring boxes of it: its other strides, and its address, are multiples
    of 16 bytes (cuTensorMapEncodeTiled).
    """

    name: str
    source: str
    dtype: DType
    major: str
    word_bytes: int

    @property
    def is_mapped(self) -> bool:
        return self.word_bytes == BULK_BYTES


@dataclass(frozen=True, slots=True)
class ProductOutput:
    """An output: whether a tensor map can take boxes of its rows and columns as they are, or of these exchanged."""

    name: str
    dtype: DType
    is_mapped: bool
    is_mapped_turned: bool


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A contraction: the tensor that it makes, its operands, the dimensions of the space by their role and how long
    they are together, and the outputs. `beside`: inputs that are read for each element of the result."""

    tensor: str
    left: ProductOperand
    right: ProductOperand
    batch_dims: tuple[int, ...]
    m_dims: tuple[int, ...]
    n_dims: tuple[int, ...]
    batch: int
    m: int
    n: int
    k: int
    outputs: tuple[ProductOutput, ...]
    beside: tuple[str, ...]


def product_shape(sf: ScheduledFusion) -> ProductShape | str:
    """What there is of an unscheduled fusion; a reason, in a sentence, for one that the scheduler does not take."""
    made = [op for op in sf.ops if op.kind in CONTRACTIONS]
    if len(made) != 1:
        return "no product of matrices" if not made else f"{len(made)} products of matrices in one kernel"
    (op,) = made
    if any(other.kind in REDUCTIONS and other is not op for other in sf.ops):
        return "a reduction beside a product of matrices"
    t, names = sf.tensor(op.output), op.tensor_inputs
    varies = [{d for d, a in enumerate(sf.tensor(x).logical) if not a.is_broadcast} for x in names]
    last = len(t.logical) - 1
    extents = tuple(a.extent for a in t.logical)
    long = [d for d in range(last) if extents[d] > 1]
    batch = tuple(d for d in long if all(d in of for of in varies))
    m_dims, n_dims = (tuple(d for d in long if d in of and d not in batch) for of in varies)
    if set(long) - {*batch, *m_dims, *n_dims}:
        return "a dimension of the product that no operand has"
    left, right = (_operand(sf, x, (batch, own, (last,))) for x, own in zip(names, (m_dims, n_dims), strict=True))
    if isinstance(left, str) or isinstance(right, str):
        return left if isinstance(left, str) else str(right)
    beside = _beside(sf, op)
    if isinstance(beside, str):
        return beside
    outputs = tuple(_output(sf, name, batch, m_dims, n_dims) for name in sf.outputs)
    return ProductShape(
        tensor=t.name,
        left=left,
        right=right,
        batch_dims=batch,
        m_dims=m_dims,
        n_dims=n_dims,
        batch=prod(extents[d] for d in batch),
        m=prod(extents[d] for d in m_dims),
        n=prod(extents[d] for d in n_dims),
        k=extents[last],
        outputs=outputs,
        beside=beside,
    )


def _operand(sf: ScheduledFusion, name: str, groups: tuple[tuple[int, ...], ...]) -> ProductOperand | str:
    """An operand, whose dimensions in each of the groups are one in memory."""
    op = sf.producer(name)
    if op is None or op.tensor_inputs[0] not in sf.inputs or (strides := _strides(sf, op)) is None:
        made = "an input in full" if op is None else f"made by {op.kind}"
        return f"operand {name} of a product, {made}"
    source = sf.tensor(op.tensor_inputs[0])
    found = [_merged(sf.tensor(name), dims, strides) for dims in groups]
    if None in found:
        return f"operand {name} of a product, whose dimensions lie apart"
    batch, own, k = (stride or 0 for stride in found)
    nbytes = source.dtype.nbytes
    if 1 not in (own, k):
        return f"operand {name} of a product, none of whose dimensions lies side by side"
    major = K if k == 1 else MN
    other = own if major == K else k
    word = gcd(BULK_BYTES, source.align, other * nbytes, batch * nbytes)
    return ProductOperand(name, source.name, source.dtype, major, word)


def _strides(sf: ScheduledFusion, op: TensorOp) -> dict[int, int] | None:
    """How far apart in memory an operator's elements lie along its dimensions, of an input that it reads as it is, or
    through a view; None for any other operator, and where that is no number."""
    allocation = sf.tensor(op.tensor_inputs[0]).allocation
    if allocation is None or op.within:
        return None
    found: dict[int, int] = {}
    for place, stride in enumerate(allocation.strides):
        match op.kind:
            case OpKind.BROADCAST_TO:
                along = {op.dims[place]: 1}
            case OpKind.PERMUTE:
                along = {op.dims.index(place): 1}
            case OpKind.VIEW if all(isinstance(atom, Var) for atom, _ in op.view[place].terms):
                along = {next(iter(depends_on((var(v),)))): n for v, n in op.view[place].terms if isinstance(v, Var)}
            case _:
                return None
        for d, n in along.items():
            found[d] = found.get(d, 0) + n * (stride or 0)
    return found


def _merged(t: TensorView, dims: tuple[int, ...], strides: dict[int, int]) -> int | None:
    """The stride of dimensions taken as one, 0 of none; None where their elements are no equal distances apart."""
    step, length = 0, 1
    for d in reversed(dims):
        stride = strides.get(d, 0)
        if step == 0:
            step = stride
        elif stride != step * length:
            return None
        length *= t.logical[d].extent
    return step


def _output(
    sf: ScheduledFusion, name: str, batch: tuple[int, ...], m_dims: tuple[int, ...], n_dims: tuple[int, ...]
) -> ProductOutput:
    t = sf.tensor(name)
    assert t.allocation is not None, "a global tensor always has an allocation"
    strides = {d: stride or 0 for d, stride in enumerate(t.allocation.strides)}
    of_batch, m, n = (_merged(t, dims, strides) for dims in (batch, m_dims, n_dims))

    def mapped(rows: int | None, columns: int | None) -> bool:
        far = [x for x in (rows, of_batch) if x is not None]
        nbytes = t.dtype.nbytes
        aligned = t.align % BULK_BYTES == 0 and all(x * nbytes % BULK_BYTES == 0 for x in far)
        return columns == 1 and len(far) == 2 and aligned

    return ProductOutput(name, t.dtype, mapped(m, n), mapped(n, m))


def _beside(sf: ScheduledFusion, product: TensorOp) -> tuple[str, ...] | str:
    """The inputs that are read beside the product's operands; a reason where what is done with its result is more than
    elementwise."""
    operands = set(product.tensor_inputs)
    found: dict[str, None] = {}
    for op in sf.ops:
        if op is product or op.output in operands:
            continue
        if op.kind not in POINTWISE | VIEWS and op.kind is not OpKind.COPY:
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
