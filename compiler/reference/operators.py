"""What each operator means, on whole arrays: floats in f64, integers in int64 that wrap at their own width, bools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.dtypes import DType
from compiler.ir.ops import COMPARE, OpKind
from compiler.reference.floats import Array

_NARROW = {DType.I8: "int8", DType.U8: "uint8", DType.I16: "int16", DType.I32: "int32"}


def held(x: Array, dtype: DType, xp: Any) -> Array:
    """Elements of a tensor of `dtype`, of whatever type the array has, in the type that they are worked on."""
    if dtype.is_float:
        return xp.asarray(x, dtype=xp.float64)
    return xp.asarray(x, dtype=xp.bool if dtype is DType.BOOL else xp.int64)


def wrapped(x: Array, dtype: DType, xp: Any) -> Array:
    """Integers (int64) reduced to the width of `dtype`: their low bits, two's complement where it is signed."""
    if dtype not in _NARROW:
        return x
    return xp.asarray(xp.asarray(xp.asarray(x), dtype=getattr(xp, _NARROW[dtype])), dtype=xp.int64)


def cast(x: Array, source: DType, target: DType, xp: Any) -> Array:
    """Between types: truncation from float to integer (out of range undefined), integers wrap, bool is `x != 0`."""
    if target is DType.BOOL:
        return x if source is DType.BOOL else x != 0
    if target.is_float:
        return xp.asarray(x, dtype=xp.float64)
    return wrapped(xp.asarray(xp.asarray(x), dtype=xp.int64), target, xp)


def pointwise(kind: OpKind, args: Sequence[Array], dtype: DType, xp: Any) -> Array:
    """An elementwise operator but for casts; `dtype` is that of its operands (of `where`, of those chosen from)."""
    found = exact(kind, args, xp)
    return found if dtype.is_float or kind in COMPARE else wrapped(found, dtype, xp)


def exact(kind: OpKind, args: Sequence[Any], xp: Any) -> Array:
    """The reference of an operator's row on these operands; of a fold, on its operand and the axes."""
    assert kind.row.reference is not None, f"{kind} has no reference"
    return kind.row.reference(xp, *args)
