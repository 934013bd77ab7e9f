"""What each operator means, on whole arrays: floats in f64, integers in int64 that wrap at their own width, bools."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from compiler.dtypes import DType
from compiler.ir.ops import OpKind
from compiler.reference.floats import Array, scalar

_NARROW = {DType.I8: "int8", DType.I32: "int32"}


def held(x: Array, dtype: DType, xp: Any) -> Array:
    """Elements of a tensor of `dtype`, of whatever type the array has, in the type that they are worked on."""
    if dtype.is_float:
        return xp.asarray(x, dtype=xp.float64)
    return xp.asarray(x, dtype=xp.bool if dtype is DType.BOOL else xp.int64)


def wrapped(x: Array, dtype: DType, xp: Any) -> Array:
    """Integers (int64) reduced to the width of `dtype`, two's complement."""
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


def pointwise(kind: OpKind, args: list[Array], dtype: DType, xp: Any) -> Array:
    """An elementwise operator but for casts; `dtype` is that of its operands (of `where`, of those chosen from)."""
    if kind is OpKind.WHERE:
        return xp.where(args[0], args[1], args[2])
    if kind is OpKind.FMA:
        return args[0] * args[1] + args[2]
    if kind in _COMPARE:
        return _COMPARE[kind](args[0], args[1])
    if dtype is DType.BOOL:
        return _BOOLS[kind](args[0], args[1])
    found = _BINARY[kind](args[0], args[1], xp) if kind in _BINARY else _UNARY[kind](args[0], xp)
    return found if dtype.is_float else wrapped(found, dtype, xp)


def fold(kind: OpKind, x: Array, axes: tuple[int, ...], xp: Any) -> Array:
    """A sum (of a mean too), largest or least along `axes`, which stay with size 1; NaN wins. Integers in int64."""
    if kind in (OpKind.SUM, OpKind.MEAN):
        return xp.sum(x, axis=axes, keepdims=True)
    return (xp.amax if kind is OpKind.AMAX else xp.amin)(x, axis=axes, keepdims=True)


def merge(kind: OpKind, x: Array, y: Array, xp: Any) -> Array:
    """The fold of two parts of an operand from the folds of each."""
    if kind in (OpKind.SUM, OpKind.MEAN):
        return x + y
    step = OpKind.MAXIMUM if kind is OpKind.AMAX else OpKind.MINIMUM
    return pointwise(step, [x, y], DType.BOOL if x.dtype == xp.bool else DType.F64, xp)


def finish(kind: OpKind, x: Array, count: int, dtype: DType, xp: Any) -> Array:
    """A reduction of `count` elements each, from their fold."""
    if kind is OpKind.MEAN:
        return x / count
    return wrapped(x, dtype, xp) if kind is OpKind.SUM else x


def _relu(x: Array, xp: Any) -> Array:
    return xp.maximum(x, scalar(0, x, xp))


def _gelu_tanh(x: Array, xp: Any) -> Array:
    """x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3) (Hendrycks and Gimpel, "Gaussian Error Linear Units",
    2016), as x / (1 + exp(-2u)), which does not cancel where x is negative."""
    return x / (1.0 + xp.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


# numpy and torch agree on these: maximum hands NaN on, exp of a large number is infinite.
_UNARY: dict[OpKind, Callable[[Array, Any], Array]] = {
    OpKind.NEG: lambda x, xp: -x,
    OpKind.ABS: lambda x, xp: xp.abs(x),
    OpKind.EXP: lambda x, xp: xp.exp(x),
    OpKind.LOG: lambda x, xp: xp.log(x),
    OpKind.TANH: lambda x, xp: xp.tanh(x),
    OpKind.SIGMOID: lambda x, xp: 1.0 / (1.0 + xp.exp(-x)),
    OpKind.RELU: _relu,
    OpKind.GELU: _gelu_tanh,
    OpKind.SILU: lambda x, xp: x / (1.0 + xp.exp(-x)),
    OpKind.SQRT: lambda x, xp: xp.sqrt(x),
    OpKind.RSQRT: lambda x, xp: 1.0 / xp.sqrt(x),
    OpKind.RECIPROCAL: lambda x, xp: 1.0 / x,
    OpKind.SQUARE: lambda x, xp: x * x,
}
_BINARY: dict[OpKind, Callable[[Array, Array, Any], Array]] = {
    OpKind.ADD: lambda x, y, xp: x + y,
    OpKind.SUB: lambda x, y, xp: x - y,
    OpKind.MUL: lambda x, y, xp: x * y,
    OpKind.DIV: lambda x, y, xp: x / y,
    OpKind.MAXIMUM: lambda x, y, xp: xp.maximum(x, y),
    OpKind.MINIMUM: lambda x, y, xp: xp.minimum(x, y),
}
_BOOLS: dict[OpKind, Callable[[Array, Array], Array]] = {
    OpKind.MAXIMUM: lambda x, y: x | y,
    OpKind.MINIMUM: lambda x, y: x & y,
}
_COMPARE: dict[OpKind, Callable[[Array, Array], Array]] = {
    OpKind.EQ: lambda x, y: x == y,
    OpKind.NE: lambda x, y: x != y,
    OpKind.LT: lambda x, y: x < y,
    OpKind.LE: lambda x, y: x <= y,
    OpKind.GT: lambda x, y: x > y,
    OpKind.GE: lambda x, y: x >= y,
}
