"""A fusion as eager torch runs it: one torch operator after another, each with memory of its own.

The graph is taken at its word: nothing is fused by hand, values have the dtypes that it names and every cast is a pass
over memory. A graph that spells out casts to f32 is therefore slower here than the bf16 calls which somebody might have
written instead. Beyond that nothing is slower than it need be: views stay views, a result is freed after its last use,
and a cast or copy that makes an output writes it dense at once. torch is imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from compiler.dtypes import FP8, DType
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion, Literal, Number, Op
from compiler.ir.ops import FOLDS, MOVES, POINTWISE, OpKind
from search.measure.torch_calls import TorchCall, torch_calls
from search.proof.verify.arrays import Array, torch_dtypes
from search.proof.verify.tolerance import tolerance

EagerForm = Callable[[Sequence[Array]], tuple[Array, ...]]
"""Tensors of the inputs' shapes to the outputs: dense, in memory of their own."""

_Step = Callable[..., Array]


def eager_form(fusion: Fusion) -> EagerForm:
    """The fusion as torch calls; one with scalars is settled before.

    Raises Unsupported for an operator or dtype that has no torch call here.
    """
    steps = _needed(fusion)
    last_use = {name: i for i, step in enumerate(steps) for name in step.reads}
    dying = [
        [name for name in set(step.reads) if last_use[name] == i and name not in fusion.outputs]
        for i, step in enumerate(steps)
    ]

    def run(inputs: Sequence[Array]) -> tuple[Array, ...]:
        known = dict(zip(fusion.inputs, inputs, strict=True))
        device = inputs[0].device if inputs else None
        for step, dead in zip(steps, dying, strict=True):
            known[step.output] = step.run(known, device)
            for name in dead:
                del known[name]
        return _dense_and_apart([known[name] for name in fusion.outputs], inputs)

    return run


@dataclass(frozen=True, slots=True)
class _Made:
    """One value: `run` makes it of those that it reads, given all that are known and the device."""

    output: str
    reads: tuple[str, ...]
    run: Callable[[dict[str, Array], Any], Array]


def _needed(fusion: Fusion) -> list[_Made]:
    """What the outputs take, in order. Operators of torch that the fusion spells out are one call each."""
    calls = torch_calls(fusion)
    needed, found = set(fusion.outputs), []
    for op in reversed(fusion.ops):
        if op.output not in needed:
            continue
        call = calls.get(op.output)
        one = _called(op.output, call) if call is not None else _computed(op, fusion)
        needed.update(one.reads)
        found.append(one)
    return found[::-1]


def _called(output: str, call: TorchCall) -> _Made:
    return _Made(output, call.inputs, lambda known, device: call.step(*(known[x] for x in call.inputs)))


def _computed(op: Op, fusion: Fusion) -> _Made:
    step = _step(op, fusion)
    if not op.tensor_inputs:
        return _Made(op.output, (), lambda known, device: step(device))
    return _Made(op.output, op.tensor_inputs, lambda known, device: step(*_operands(op, known, fusion)))


def allowances(fusion: Fusion) -> tuple[float, ...]:
    """How many times the tolerance of each output the eager form may be off, 1 or more.

    Where a graph computes in half precision or casts to 8 bits, eager rounds every result, a kernel only what it
    stores; the reference rounds nothing. Each such result may cost what the tolerance of its own dtype allows for.
    Integers and bools may not be off.
    """
    rounded = [fusion.value(op.output).dtype for op in fusion.ops if op.kind not in MOVES]
    lost = sum(_rtol(dtype) for dtype in rounded if dtype in FP8 | {DType.F16, DType.BF16})
    outputs = [fusion.value(name).dtype for name in fusion.outputs]
    return tuple(max(lost / _rtol(dtype), 1.0) if dtype.is_float else 1.0 for dtype in outputs)


def _rtol(dtype: DType) -> float:
    return tolerance(dtype, scale=0.0).rtol


def _operands(op: Op, known: dict[str, Array], fusion: Fusion) -> list[Array]:
    import torch

    if op.kind is OpKind.PAD:
        return [known[name] for name in op.tensor_inputs]
    like = known[op.tensor_inputs[-1]]
    if op.kind is OpKind.WHERE:  # beside a mask alone, numbers have the result's own type
        like = torch.empty((), dtype=torch_dtypes()[fusion.operand_dtype(op)]) if len(op.tensor_inputs) == 1 else like
    return [_scalar(x, like) if isinstance(x, Number) else known[x] for x in op.inputs]


def _scalar(literal: Number, like: Array) -> Array:
    """A tensor without dimensions on the host: an argument of the kernel, not memory on the GPU.

    In f64 a float is not rounded first, and the result still has the other's dtype: among floats, torch promotes to
    that of the operand that has dimensions.
    """
    import torch

    assert isinstance(literal, Literal), f"{literal}: a scalar has its number before"
    is_wider = like.dim() > 0 and like.is_floating_point()
    return torch.tensor(literal.value, dtype=torch.float64 if is_wider else like.dtype)


def _step(op: Op, fusion: Fusion) -> _Step:
    """The torch call of one operator."""
    import torch

    result = fusion.value(op.output)
    shape, dims = result.shape, op.dims
    match op.kind:
        case OpKind.RESHAPE:
            return lambda x: x.reshape(shape)
        case OpKind.SLICE:
            stop = op.start + (shape[dims[0]] - 1) * op.step + 1
            taken = (*(slice(None),) * dims[0], slice(op.start, stop, op.step))
            return lambda x: x[taken]
        case OpKind.FLIP:
            if result.dtype.nbytes == 1:  # of 8-bit floats torch flips only the bytes
                return lambda x: x.view(torch.uint8).flip(dims).view(x.dtype)
            return lambda x: x.flip(dims)
        case OpKind.PAD:
            return _pad(op, fusion)
        case OpKind.FULL:
            dtype = torch_dtypes()[result.dtype]
            return lambda device: torch.full(shape, op.fills_with, dtype=dtype, device=device)
        case OpKind.CAT:
            return lambda *parts: torch.cat(parts, dims[0])
        case OpKind.RAND:
            raise Unsupported("operator rand in eager torch", "Torch draws other numbers: time it beside by hand.")
        case OpKind.IOTA:
            return _iota(shape, dims[0], result.dtype)
        case OpKind.MATMUL:
            return _matmul(result.dtype)
        case OpKind.MATMUL_TF32:
            return _in_tf32(result.dtype)
        case OpKind.CUMSUM:
            return _before(dims[0]) if op.start else lambda x: x.cumsum(dims[0])
        case kind if kind in FOLDS:
            return _reduction(op, keepdim=len(shape) == len(fusion.value(op.tensor_inputs[0]).shape))
        case OpKind.CAST:
            return _cast(result.dtype, dense=op.output in fusion.outputs)
        case OpKind.BROADCAST_TO:
            places = tuple(slice(None) if dim in op.dims else None for dim in range(len(result.shape)))
            return lambda x: x[places].expand(result.shape)
        case OpKind.PERMUTE:
            return lambda x: x.permute(op.dims)
        case OpKind.TAKE:
            return lambda x, index: _taken(x, dims[0], index)
        case OpKind.GATHER:
            return lambda x, index: torch.gather(x, dims[0], index.to(torch.int64))
        case OpKind.COPY:
            return lambda x: x.clone(memory_format=torch.contiguous_format)
    return _elementwise(op.kind)


def _matmul(dtype: DType) -> _Step:
    """In the operands' type, and in the result's where that is another: torch has no product of one into another."""

    def step(x: Array, y: Array) -> Array:
        wanted = torch_dtypes()[dtype]
        return x.to(wanted) @ y.to(wanted)

    return step


def _in_tf32(dtype: DType) -> _Step:
    """As torch's library multiplies f32 where it may take tf32 for it, for the while."""
    import torch

    def step(x: Array, y: Array) -> Array:
        newest = torch.backends.cuda.matmul.fp32_precision
        try:
            before = torch.get_float32_matmul_precision()
        except RuntimeError:  # it refuses to say where the newest switch alone was set
            before = "highest"
        torch.set_float32_matmul_precision("high")
        try:
            return (x @ y).to(torch_dtypes()[dtype])
        finally:
            torch.set_float32_matmul_precision(before)
            torch.backends.cuda.matmul.fp32_precision = newest

    return step


def _before(dim: int) -> _Step:
    """Sums of the elements before each."""
    import torch

    def step(x: Array) -> Array:
        found = torch.zeros_like(x)
        found.narrow(dim, 1, x.shape[dim] - 1).copy_(x.narrow(dim, 0, x.shape[dim] - 1).cumsum(dim))
        return found

    return step


def _taken(x: Array, dim: int, index: Array) -> Array:
    """What torch has for it: embedding for rows of a matrix, index_select for the rest."""
    import torch

    if dim == 0 and x.dim() == 2 and x.is_floating_point():
        return torch.nn.functional.embedding(index, x)
    chosen = torch.index_select(x, dim, index.reshape(-1))
    return chosen.reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])


def _cast(dtype: DType, dense: bool) -> _Step:
    import torch

    to = torch_dtypes().get(dtype)
    if to is None:
        raise Unsupported(f"dtype {dtype} in eager torch", "Add it to search/measure/eager.py.")
    layout = torch.contiguous_format if dense else torch.preserve_format
    return lambda x: x.to(to, memory_format=layout)


def _iota(shape: tuple[int, ...], dim: int, dtype: DType) -> _Step:
    """Positions along one dimension, expanded along the others: a view until something computes with it."""
    import torch

    to = torch_dtypes()[dtype]
    line = [n if d == dim else 1 for d, n in enumerate(shape)]
    return lambda device: torch.arange(shape[dim], device=device).to(to).reshape(line).expand(shape)


def _pad(op: Op, fusion: Fusion) -> _Step:
    """torch names the last dimension first, each with what stands before and behind it."""
    import torch

    source, result = fusion.value(op.tensor_inputs[0]).shape, fusion.value(op.output).shape
    before = dict(zip(op.dims, op.low, strict=True))
    sizes: list[int] = []
    for d in reversed(range(len(source))):
        low = before.get(d, 0)
        sizes += [low, result[d] - source[d] - low]
    return lambda x: torch.nn.functional.pad(x, sizes, value=op.fills_with)


def _reduction(op: Op, keepdim: bool) -> _Step:
    import torch

    if op.kind is OpKind.SUM:  # torch would widen integers
        return lambda x: torch.sum(x, op.dims, keepdim=keepdim, dtype=x.dtype)
    if op.kind is OpKind.PROD:  # of one dimension at a time
        return lambda x: _product(x, op.dims, keepdim)
    return partial(getattr(torch, op.kind), dim=op.dims, keepdim=keepdim)


def _product(x: Array, dims: tuple[int, ...], keepdim: bool) -> Array:
    for dim in sorted(dims, reverse=True):
        x = x.prod(dim, keepdim=keepdim, dtype=x.dtype)
    return x


def _dense_and_apart(outputs: list[Array], inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Copies what is strided, and what shares memory with an input or another output as views do."""
    import torch

    taken = {x.untyped_storage().data_ptr() for x in inputs}
    own = []
    for x in outputs:
        if not x.is_contiguous() or x.untyped_storage().data_ptr() in taken:
            x = x.clone(memory_format=torch.contiguous_format)
        taken.add(x.untyped_storage().data_ptr())
        own.append(x)
    return tuple(own)


def _elementwise(kind: OpKind) -> _Step:
    """torch's call of the same meaning, which the operator's row names. Raises Unsupported where there is none."""
    import torch

    row = kind.row
    if kind not in POINTWISE or row.torch == "":
        raise Unsupported(f"operator {kind} in eager torch", "Name torch's call in compiler/ir/ops/kinds.py.")
    call: _Step = attrgetter(row.torch or kind.value)(torch)
    return partial(call, **dict(row.torch_options)) if row.torch_options else call
