"""What the operators of an explicit schedule mean, worked out by numpy: floats in f64, integers exactly.

The fusion alone decides it, and no step of the schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.explicit.elements import Array, decoded, encoded
from compiler.ir.fusion import Fusion, Literal, Number, Op, Value
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.reference import FLOAT_FORMATS, operators
from compiler.reference.boxes import through, whole

_ROUNDINGS = 16
"""Roundings that a float result may be off by: a few operators of some ulp each, approximate functions among them."""


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """An output's elements, and by how much each may be off."""

    values: Array
    allowed: Array


def expected(fusion: Fusion, inputs: Mapping[str, Array]) -> dict[str, ExpectedOutput]:
    """The outputs of the fusion by name. Raises Unsupported for an operator without a meaning here."""
    known = dict(inputs)
    scale: dict[str, Any] = {name: np.abs(x) for name, x in known.items()}
    length = dict.fromkeys(known, 1)
    for op in fusion.ops:
        operands = [known[x] if isinstance(x, str) else _literal(x) for x in op.inputs]
        sizes: list[Any] = [scale[x] if isinstance(x, str) else abs(_literal(x).value) for x in op.inputs]
        shape = fusion.value(op.output).shape
        if op.kind is OpKind.CAST:
            known[op.output] = _stored(known[op.tensor_inputs[0]], fusion.value(op.output))
        else:
            known[op.output] = _apply(op, operands, shape, fusion.value(op.tensor_inputs[0]).dtype)
        if op.kind in (OpKind.ADD, OpKind.SUB):
            scale[op.output] = np.broadcast_to(sizes[0] + sizes[1], shape)
        elif op.kind is OpKind.SUM:
            scale[op.output] = _apply(op, [sizes[0]], shape, DType.F64)
        elif op.kind in CONTRACTIONS:
            scale[op.output] = _contracted(*sizes)
        else:
            moves = op.kind in (OpKind.COPY, OpKind.PERMUTE, OpKind.BROADCAST_TO)
            scale[op.output] = _apply(op, [sizes[0]], shape, DType.F64) if moves else np.abs(known[op.output])
        folded = known[op.tensor_inputs[0]].size // max(1, known[op.output].size) if op.kind is OpKind.SUM else 1
        folded = known[op.tensor_inputs[0]].shape[-1] if op.kind in CONTRACTIONS else folded
        length[op.output] = max(folded, *(length[name] for name in op.tensor_inputs))
    found = {}
    for name in fusion.outputs:
        form = FLOAT_FORMATS.get(fusion.value(name).dtype)
        unit = 0.0 if form is None or not fusion.ops else form.unit_roundoff * _ROUNDINGS * np.sqrt(length[name])
        moves = all(op.kind in (OpKind.COPY, OpKind.PERMUTE, OpKind.BROADCAST_TO) for op in fusion.ops)
        found[name] = ExpectedOutput(known[name], np.zeros_like(scale[name]) if moves else scale[name] * unit)
    return found


def _stored(x: Array, value: Value) -> Array:
    """Numbers as the value's type has them."""
    return decoded(encoded(x, value.dtype), value.dtype).reshape(value.shape)


def _contracted(x: Any, y: Any) -> Array:
    """The sum of products along the last axis of both."""
    return np.asarray(np.einsum("...k,...k->...", x, y))


def _literal(x: Number) -> Literal:
    assert isinstance(x, Literal), f"{x}: scalars of an explicit schedule are numbers"
    return x


def _apply(op: Op, operands: list[Array | Literal], shape: tuple[int, ...], dtype: DType) -> Array:
    x = next(o for o in operands if not isinstance(o, Literal))
    match op.kind:
        case OpKind.COPY:
            return x
        case OpKind.PERMUTE | OpKind.BROADCAST_TO:
            return np.asarray(through(op, x.shape, shape, whole(shape), np.broadcast_to).view(x))
        case _ if op.kind in CONTRACTIONS:
            return _contracted(*operands)
        case OpKind.SUM | OpKind.AMAX | OpKind.AMIN:
            axes = tuple(d % x.ndim for d in op.dims)
            return np.asarray(operators.exact(op.kind, [x, axes], np)).reshape(shape)
        case (
            OpKind.CAT
            | OpKind.IOTA
            | OpKind.SLICE
            | OpKind.RESHAPE
            | OpKind.VIEW
            | OpKind.MEAN
            | OpKind.FLIP
            | OpKind.PAD
            | OpKind.FULL
        ):
            raise Unsupported(f"{op.output}: {op.kind} in an explicit schedule", "Use the operators of the format.")
        case _:
            args = [np.full((), o.value, x.dtype) if isinstance(o, Literal) else o for o in operands]
            return np.broadcast_to(np.asarray(operators.pointwise(op.kind, args, dtype, np)), shape)
