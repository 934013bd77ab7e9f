"""Operands of a product: the input that each is of, how that lies in memory, and what is done to its elements before.

All of it stands in the full space of the product: an input is spread over the dimensions that it does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from compiler.arch import BULK_BYTES
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Var, var
from compiler.ir.ops import POINTWISE, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import depends_on

K, MN = "k", "mn"
"""Which dimension of an operand lies side by side in memory: the one that is summed along, or its own."""


def lines_are(nbytes: int) -> str:
    """Why tiles are as they are of operands whose rows lie side by side (`product_tiles_are_whole_lines`)."""
    return f"Where rows of an operand lie side by side, a tile has whole lines of {nbytes} bytes of them."


_KEEPS_ZERO = frozenset({OpKind.CAST})
"""Operators of which 0 makes 0, whatever else they read."""


@dataclass(frozen=True, slots=True)
class ProductOperand:
    """An operand: the tensor of the unscheduled fusion that spreads an input over the space, and what is made of that.

    `major`: which of its dimensions lies side by side. `word_bytes`: of a word, up to 16, at whose multiples rows and
    the tensor begin. `is_mapped`: a tensor map can bring boxes of it: its other strides, and its address, are multiples
    of 16 bytes (cuTensorMapEncodeTiled). `chain`: what is computed, the product's own operand last; none where that is
    the input as it is. `beside`: what is read for it besides. `keeps_zero`: what is computed of zeros is zero.
    """

    name: str
    dtype: DType
    major: str
    word_bytes: int
    chain: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    keeps_zero: bool = True

    @property
    def is_mapped(self) -> bool:
        return self.word_bytes == BULK_BYTES

    @property
    def names(self) -> tuple[str, ...]:
        """All of its tensors."""
        return (self.name, *self.chain, *self.beside)


def operand_of(sf: ScheduledFusion, name: str, groups: tuple[tuple[int, ...], ...]) -> ProductOperand | str:
    """The operand `name`, whose own dimensions, and those of k, are one in memory; or a reason. `groups`: dimensions of
    the batch, its own, and k."""
    chain, loads = [], []
    waiting = [name]
    while waiting:
        op = sf.producer(waiting.pop())
        if op is None:
            return f"operand {name} of a product, an input in full"
        if op.tensor_inputs and op.tensor_inputs[0] in sf.inputs and _strides(sf, op) is not None:
            loads += [op] if op not in loads else []
        elif op.kind in POINTWISE and not set(op.tensor_inputs) & set(sf.inputs):
            chain += [op] if op not in chain else []
            waiting += op.tensor_inputs
        else:
            return f"operand {name} of a product, made by {op.kind}"
    _, own, k = groups
    full = [op for op in loads if _varies(sf.tensor(op.output), own) and _varies(sf.tensor(op.output), k)]
    if len(full) != 1:
        return f"operand {name} of a product, of {len(full)} inputs that have all of its dimensions"
    found = _in_memory(sf, full[0], groups)
    if isinstance(found, str):
        return found
    ordered = tuple(op.output for op in sf.ops if op in chain)
    beside = tuple(op.output for op in loads if op is not full[0])
    major, word = found
    keeps = all(op.kind in _KEEPS_ZERO for op in chain)
    return ProductOperand(full[0].output, sf.tensor(full[0].output).dtype, major, word, ordered, beside, keeps)


def _varies(t: TensorView, dims: tuple[int, ...]) -> bool:
    return any(not t.logical[d].is_broadcast for d in dims)


def _in_memory(sf: ScheduledFusion, op: TensorOp, groups: tuple[tuple[int, ...], ...]) -> tuple[str, int] | str:
    """Which dimension lies side by side, and the bytes of a word."""
    source, strides = sf.tensor(op.tensor_inputs[0]), _strides(sf, op)
    assert strides is not None, "asked of what reads an input as it is"
    batch, *inside = groups
    found = [merged_stride(sf.tensor(op.output), dims, strides) for dims in inside]
    if None in found:
        return f"operand {op.output} of a product, whose dimensions lie apart"
    own, k = (stride or 0 for stride in found)
    nbytes = source.dtype.nbytes
    if 1 not in (own, k):
        return f"operand {op.output} of a product, none of whose dimensions lies side by side"
    major = K if k == 1 else MN
    far = (own if major == K else k, *(strides.get(d, 0) for d in batch))
    return major, gcd(BULK_BYTES, source.align, *(stride * nbytes for stride in far))


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


def merged_stride(t: TensorView, dims: tuple[int, ...], strides: dict[int, int]) -> int | None:
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
