"""Scalars of a fusion: in which type an operator gets one, and which integers one may be."""

from __future__ import annotations

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Op, Scalar
from compiler.ir.ops import OpKind


def beside(scalar: Scalar, dtype: DType) -> Scalar:
    """A scalar of a fusion as an operand beside a tensor of `dtype`."""
    if not dtype.is_float:
        return Scalar(scalar.name, DType.I64)
    return Scalar(scalar.name, DType.F64 if dtype is DType.F64 else DType.F32)


def read_by(op: Op) -> tuple[Scalar, ...]:
    """The scalars among the operands of an operator."""
    return tuple(x for x in op.inputs if isinstance(x, Scalar))


def integer_range(fusion: Fusion, name: str) -> tuple[int, int]:
    """The least and the greatest integer that an i64 scalar may be: what every integer type that it stands beside
    holds."""
    low, high = DType.I64.integer_range
    for op in fusion.ops:
        if any(x.name == name and x.dtype is DType.I64 for x in read_by(op)):
            beside_it = op.output if op.kind is OpKind.WHERE else op.tensor_inputs[-1]
            least, most = fusion.value(beside_it).dtype.integer_range
            low, high = max(low, least), min(high, most)
    return low, high
