"""The symbols of a fusion, and putting sizes or other symbols in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fusetune.wire.extent import Size
from fusetune.wire.fusion import BroadcastTo, Filled, Fusion, Input, Iota, Op, Output, Pad, Rand, Reshape, Slice


def symbols_of(fusion: Fusion) -> tuple[str, ...]:
    """Symbols of the inputs' shapes and strides, in order of first appearance. A valid fusion has no others."""
    found: dict[str, None] = {}
    for tensor in fusion.inputs:
        for size in (*tensor.shape, *(tensor.strides or ())):
            if isinstance(size, str):
                found.setdefault(size)
    return tuple(found)


def substitute(fusion: Fusion, sizes: Mapping[str, Size]) -> Fusion:
    """The same fusion with each symbol of `sizes` replaced; others stay. The very same where there is none."""
    if not sizes:
        return fusion

    def put(size: Size) -> Size:
        return sizes.get(size, size) if isinstance(size, str) else size

    return fusion.model_copy(
        update={
            "inputs": tuple(_in_tensor(tensor, put) for tensor in fusion.inputs),
            "ops": tuple(_in_op(op, put) for op in fusion.ops),
            "outputs": tuple(_in_tensor(output, put) for output in fusion.outputs),
        }
    )


def _in_tensor(tensor: Input | Output, put: Callable[[Size], Size]) -> Input | Output:
    facts = {"shape": tensor.shape, "strides": tensor.strides}
    return tensor.model_copy(update={name: tuple(map(put, fact)) for name, fact in facts.items() if fact is not None})


def _in_op(op: Op, put: Callable[[Size], Size]) -> Op:
    match op:
        case BroadcastTo() | Reshape() | Iota() | Rand() | Filled():
            return op.model_copy(update={"shape": tuple(map(put, op.shape))})
        case Slice():
            return op.model_copy(update={"start": put(op.start), "stop": put(op.stop)})
        case Pad():
            return op.model_copy(update={"low": tuple(map(put, op.low)), "high": tuple(map(put, op.high))})
        case _:
            return op
