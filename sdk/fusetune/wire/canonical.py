"""Canonical form and fingerprint: fusions that mean the same graph get the same name.

Not part of the meaning: names, the order of independent ops, ops that no output needs, symbol names, and defaults that
are spelled out. Part of it: the order of inputs, scalars and outputs (kernels name arguments by position) and
everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from fusetune.wire.binding import Binding
from fusetune.wire.bound import Bound, apply_binding
from fusetune.wire.extent import Size
from fusetune.wire.fusion import (
    Arg,
    BroadcastTo,
    Cat,
    Filled,
    Flip,
    Fusion,
    Gather,
    Input,
    Iota,
    Matmul,
    Op,
    Operand,
    Output,
    Pad,
    Permute,
    PrefixSum,
    Reduce,
    Reshape,
    Slice,
    Take,
    Truth,
    Where,
    literal_value,
)
from fusetune.wire.infer import checked_types, strides_are_dense
from fusetune.wire.op_check import FLOATS, TensorType
from fusetune.wire.op_types import fold_dtype
from fusetune.wire.recent import recent
from fusetune.wire.symbols import substitute, symbols_of


@recent
def canonicalize(fusion: Fusion) -> Fusion:
    """The representative of all fusions with this meaning; canonicalizing it again changes nothing.

    Inputs are `i0..` in order, scalars `c0..`, op results `v0..` and the ops themselves in depth-first order from the
    outputs, operands left to right; symbols are `s0..` by first appearance in the inputs. Raises InvalidDocument.
    """
    types = checked_types(fusion)
    order = live_ops(fusion)
    names = {tensor.name: f"i{i}" for i, tensor in enumerate(fusion.inputs)}
    names |= {scalar.name: f"c{i}" for i, scalar in enumerate(fusion.numbers)}
    names |= {fusion.ops[index].out: f"v{i}" for i, index in enumerate(order)}
    renamed = Fusion(
        format=fusion.format,
        inputs=tuple(_canonical_input(tensor, names, types) for tensor in fusion.inputs),
        scalars=tuple(x.model_copy(update={"name": names[x.name]}) for x in fusion.numbers) or None,
        ops=tuple(_canonical_op(fusion.ops[index], names, types) for index in order),
        outputs=tuple(_canonical_output(output, names, types) for output in fusion.outputs),
    )
    return substitute(renamed, _symbol_names(renamed))


def live_ops(fusion: Fusion) -> tuple[int, ...]:
    """Positions in `fusion.ops` of what the outputs need, depth first from them, producers before consumers."""
    producer = {op.out: i for i, op in enumerate(fusion.ops)}
    done: dict[int, None] = {}
    stack = [producer[output.name] for output in reversed(fusion.outputs)]
    while stack:
        index = stack[-1]
        waiting = [producer[x] for x in fusion.ops[index].ins if isinstance(x, str) and x in producer]
        waiting = [i for i in waiting if i not in done]
        if index in done or not waiting:
            done.setdefault(index)
            stack.pop()
        else:
            stack.append(waiting[0])
    return tuple(done)


def fingerprint(fusion: Fusion) -> str:
    """SHA-256 of the canonical form, 64 hexadecimal digits. Raises InvalidDocument."""
    return _digest(canonicalize(fusion).model_dump(mode="json", by_alias=True, exclude_none=True))


def binding_hash(fusion: Fusion, binding: Binding) -> str:
    """SHA-256 of sizes by canonical symbol and of each input's strides and alignment. Raises InvalidDocument."""
    bound = apply_binding(fusion, binding)
    names = canonical_symbols(fusion)
    return _digest(
        {
            "format": "fusetune.binding/1",
            "sizes": {names[symbol]: size for symbol, size in binding.sizes.items() if symbol in names},
            "inputs": [{"strides": list(layout.strides), "align": layout.align} for layout in bound.inputs],
            **({"outputs": list(map(list, bound.outputs))} if _has_own_layouts(bound) else {}),
        }
    )


def _has_own_layouts(bound: Bound) -> bool:
    """Whether an output lies otherwise than dense and in no input."""
    pairs = zip(bound.fusion.outputs, bound.outputs, strict=True)
    return any(
        output.alias is None and not strides_are_dense(bound.types[output.name].shape, strides)
        for output, strides in pairs
    )


def canonical_symbols(fusion: Fusion) -> Mapping[str, str]:
    """The canonical name of each symbol. One that stands only in strides that say nothing has none."""
    types = checked_types(fusion)
    names = {tensor.name: tensor.name for tensor in fusion.inputs}
    inputs = tuple(_canonical_input(tensor, names, types) for tensor in fusion.inputs)
    return _symbol_names(fusion.model_copy(update={"inputs": inputs}))


def _symbol_names(fusion: Fusion) -> Mapping[str, str]:
    return {symbol: f"s{i}" for i, symbol in enumerate(symbols_of(fusion))}


def _digest(document: object) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical_input(tensor: Input, names: Mapping[str, str], types: Mapping[str, TensorType]) -> Input:
    strides = _told_strides(tensor, types)
    return Input(name=names[tensor.name], shape=tensor.shape, dtype=tensor.dtype, strides=strides, list=tensor.list)


def _canonical_output(output: Output, names: Mapping[str, str], types: Mapping[str, TensorType]) -> Output:
    """An output that lies in an input has the strides of that, whether it says so or not."""
    if output.alias is not None:
        return Output(name=names[output.name], alias=names[output.alias])
    return Output(name=names[output.name], strides=_told_strides(output, types))


def _told_strides(tensor: Input | Output, types: Mapping[str, TensorType]) -> tuple[Size, ...] | None:
    """The strides that a document states, None if they are dense; that of a size of 1 says nothing."""
    if tensor.strides is None:
        return None
    shape = types[tensor.name].shape
    strides = tuple(1 if n.constant == 1 else stride for n, stride in zip(shape, tensor.strides, strict=True))
    return None if strides_are_dense(shape, strides) else strides


def _canonical_op(op: Op, names: Mapping[str, str], types: Mapping[str, TensorType]) -> Op:
    ins = _canonical_operands(op, names, types)
    return op.model_copy(update={"ins": ins, "out": names[op.out], **_attributes(op, types)})


def _canonical_operands(op: Op, names: Mapping[str, str], types: Mapping[str, TensorType]) -> tuple[Operand, ...]:
    """Names replaced, numbers written in the dtype that they take: 2 is 2.0 on floats, -0.0 is 0 on integers."""
    tensors = [x for x in op.ins if isinstance(x, str) and x in types]
    typed = op.out if isinstance(op, Where) else tensors[-1] if tensors else None  # whose only tensor may be the mask
    is_float = typed is not None and types[typed].dtype in FLOATS
    ins: list[Operand] = []
    for operand in op.ins:
        is_name = isinstance(operand, str) and literal_value(operand) is None
        ins.append(names[str(operand)] if is_name else _in_dtype(operand, is_float=is_float))
    return tuple(ins)


def _in_dtype(number: Operand, *, is_float: bool) -> Operand:
    """A number as its dtype writes it."""
    if isinstance(number, str):
        return number
    return float(number) if is_float else int(number)


def _attributes(op: Op, types: Mapping[str, TensorType]) -> dict[str, object]:
    """Attributes in their one spelling: dimensions from 0, defaults written, -1 worked out where that can be."""
    match op:
        case BroadcastTo() | Permute():
            return {"dims": _from_zero(op.dims, types[op.out].rank)}
        case Reduce() | Truth():
            dims = {"dims": tuple(sorted(_from_zero(op.dims, _operand_type(op, types).rank)))}
            is_default = isinstance(op, Reduce) and op.dtype == fold_dtype(op, _operand_type(op, types).dtype)
            return dims | ({"dtype": None} if is_default else {})
        case PrefixSum():
            is_default = op.dtype == fold_dtype(op, _operand_type(op, types).dtype)
            return {"dim": op.dim % types[op.out].rank} | ({"dtype": None} if is_default else {})
        case Arg():
            # Of one dimension, all elements are those along it.
            source = _operand_type(op, types)
            return {"dim": op.dim % source.rank if op.dim is not None else 0 if source.rank == 1 else None}
        case Slice():
            return {"dim": op.dim % types[op.out].rank, "step": None if op.step == 1 else op.step}
        case Flip():
            return {"dims": tuple(sorted(_from_zero(op.dims, types[op.out].rank)))}
        case Pad() | Filled():
            return {"value": _in_dtype(op.value, is_float=types[op.out].dtype in FLOATS)}
        case Cat() | Iota():
            return {"dim": op.dim % types[op.out].rank}
        case Take() | Gather():
            return {"dim": op.dim % _operand_type(op, types).rank}
        case Reshape():
            sizes = (extent.size for extent in types[op.out].shape)
            return {"shape": tuple(-1 if size is None else size for size in sizes)}
        case Matmul():
            return {"dtype": types[op.out].dtype}
        case _:
            return {}


def _operand_type(op: Op, types: Mapping[str, TensorType]) -> TensorType:
    return types[str(op.ins[0])]


def _from_zero(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return tuple(dim % rank for dim in dims)
