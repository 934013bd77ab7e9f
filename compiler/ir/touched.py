"""How much of its tensors a fusion touches: what a slice leaves out is not read."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from compiler.ir.fusion import Fusion, Op, Value
from compiler.ir.ops import CONTRACTIONS, FOLDS


def distinct_bytes(value: Value) -> int:
    """Bytes of distinct elements: a stride of 0 repeats one."""
    return prod(n for n, stride in zip(value.shape, value.strides, strict=True) if stride) * value.dtype.nbytes


def read_bytes(fusion: Fusion) -> dict[str, int]:
    """Bytes that a kernel has to read of each input where it reads no element twice.

    From elements counted, not looked at: slices that overlap are taken for slices side by side, up to the whole tensor.
    """
    found = {}
    for name, elems in read_elements(fusion).items():
        value = fusion.value(name)
        found[name] = -(-distinct_bytes(value) * elems // max(1, value.elems))
    return found


def written_bytes(fusion: Fusion) -> dict[str, int]:
    """Bytes that a kernel has to write of each output."""
    return {name: distinct_bytes(fusion.value(name)) for name in fusion.outputs}


def moved_bytes(fusion: Fusion) -> int:
    """Bytes that a kernel reads and writes where it touches each element once."""
    return sum((written_bytes(fusion) | read_bytes(fusion)).values())


def stored_bytes(values: Iterable[Value]) -> int:
    """Bytes of the distinct elements of these values."""
    return sum(map(distinct_bytes, values))


def read_elements(fusion: Fusion) -> dict[str, int]:
    """Elements of each input that are taken of it, by what is taken of the results of its consumers."""
    size = {value.name: value.elems for value in fusion.values}
    needed = dict.fromkeys(size, 0) | {name: size[name] for name in fusion.outputs}
    for op in reversed(fusion.ops):
        for name in op.tensor_inputs:
            needed[name] = min(size[name], needed[name] + taken(op, needed[op.output], size[op.output], size[name]))
    return {name: needed[name] for name in fusion.inputs}


def taken(op: Op, of_result: int, result: int, operand: int) -> int:
    """Elements of an operand of `operand` elements that `of_result` of the `result` elements take."""
    if op.kind in CONTRACTIONS:
        return operand  # of a row of the result, a row of the first operand and all of the second
    if op.kind in FOLDS:
        return -(-of_result * operand // max(1, result))
    return min(of_result, operand)  # one each, of pointwise operators and index maps; a part of a cat is no larger
