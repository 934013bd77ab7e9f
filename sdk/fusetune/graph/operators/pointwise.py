"""Elementwise operators: functions, arithmetic, comparisons, choices, casts."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from fusetune.fusion import Tensor
from fusetune.graph.operators.rows import entered, row
from fusetune.graph.writing import HALVES, Operand, Uniform, Value, Writing, rounded
from fusetune.wire.fusion import DTypeName
from fusetune.wire.op_check import FLOATS

aten, prims = torch.ops.aten, torch.ops.prims

_FUNCTIONS = {
    "neg": "neg", "exp": "exp", "log": "log", "tanh": "tanh", "sigmoid": "sigmoid", "relu": "relu", "silu": "silu",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "square": "square", "sign": "sign", "sgn": "sign",
    "exp2": "exp2", "expm1": "expm1", "log2": "log2", "log1p": "log1p", "sin": "sin", "cos": "cos", "erf": "erf",
    "bitwise_not": "bitwise_not", "abs": "abs", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round",
    "fix": "trunc",
}  # fmt: skip
"""ATen functions of one tensor -> the wire's."""

_SAME_OF_INTEGERS = {"floor", "ceil", "trunc", "round"}

_ARITHMETIC = {
    "aten.mul.Tensor aten.mul.Scalar": "mul", "aten.maximum.default": "maximum", "aten.minimum.default": "minimum",
    "aten.bitwise_and.Tensor aten.bitwise_and.Scalar aten.__and__.Tensor aten.__and__.Scalar": "bitwise_and",
    "prims.bitwise_and.default": "bitwise_and", "prims.bitwise_or.default": "bitwise_or",
    "prims.bitwise_xor.default": "bitwise_xor",
    "aten.bitwise_or.Tensor aten.bitwise_or.Scalar aten.__or__.Tensor aten.__or__.Scalar": "bitwise_or",
    "aten.bitwise_xor.Tensor aten.bitwise_xor.Scalar": "bitwise_xor",
    "aten.bitwise_left_shift.Tensor aten.bitwise_left_shift.Tensor_Scalar": "bitwise_left_shift",
    "aten.__lshift__.Scalar aten.__lshift__.Tensor": "bitwise_left_shift",
    "aten.bitwise_right_shift.Tensor aten.bitwise_right_shift.Tensor_Scalar": "bitwise_right_shift",
    "aten.__rshift__.Scalar aten.__rshift__.Tensor": "bitwise_right_shift",
}  # fmt: skip

_OF_BOOLS = {"add": "bitwise_or", "mul": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and"}
"""What arithmetic of bools is, in torch."""


def _function(name: str) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        dtype = w.dtype(node)
        x = w.cast(w.value(a.self), dtype)
        if dtype not in FLOATS and (name in _SAME_OF_INTEGERS or (dtype == "bool" and name == "sign")):
            return x
        return w.made(name, w.expand(w.written(x), w.shape(node)))

    return made


for _aten, _wire in _FUNCTIONS.items():
    entered(f"aten.{_aten}.default", _function(_wire))


@row(aten.round.decimals)
def _round_decimals(w: Writing, node: Node, a: Any) -> Value:
    if w.dtype(node) not in FLOATS:
        w.refuse(node, "integers rounded to decimals", "Cast them to a float first.")
    factor = 10.0 ** abs(a.decimals)
    up, down = (w.f.mul, w.f.div) if a.decimals >= 0 else (w.f.div, w.f.mul)
    return _in_f32(w, node, lambda x: down(w.f.round(up(x, factor)), factor), a.self)


def arithmetic(w: Writing, node: Node, name: str, *operands: Any) -> Value:
    """An operator of the wire on operands in the dtype and shape that torch gives the result."""
    dtype = w.dtype(node)
    if dtype == "bool":
        name = _OF_BOOLS.get(name, name)
    found = w.alike(operands, dtype, w.shape(node))
    return w.made(name, *found)


def _binary(name: str) -> Any:
    return lambda w, node, a: arithmetic(w, node, name, a.self, a.other)


for _names, _wire in _ARITHMETIC.items():
    entered(_names, _binary(_wire))


def _scaled(w: Writing, node: Node, x: Any, alpha: Any) -> Any:
    """`alpha * x` in the dtype of the result, of halves without rounding the product: torch rounds once."""
    if isinstance(alpha, int | float) and alpha == 1:
        return x
    dtype = w.dtype(node)
    value = w.cast(w.operand(x), dtype)
    if isinstance(value, int | float):
        return value * alpha
    if dtype in HALVES:
        value = w.cast(value, "f32")
    return w.f.mul(w.written(value), w.alike([alpha], dtype, (), tensors=0)[0])


def _sum_of(name: str, *, turned: bool = False) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        dtype, alpha = w.dtype(node), getattr(a, "alpha", 1)
        left, right = (a.other, a.self) if turned else (a.self, a.other)
        if alpha is None or (isinstance(alpha, int | float) and alpha == 1):
            return arithmetic(w, node, name, left, right)
        if dtype == "bool":
            return arithmetic(w, node, name, left, right if alpha else False)
        scaled = _scaled(w, node, right, alpha)
        if dtype not in HALVES:
            return arithmetic(w, node, name, left, scaled)
        wide = w.alike([w.cast(w.operand(left), dtype), scaled], "f32", w.shape(node))
        return w.f.cast(getattr(w.f, name)(*wide), dtype)

    return made


entered("aten.add.Tensor aten.add.Scalar", _sum_of("add"))
entered("aten.sub.Tensor aten.sub.Scalar", _sum_of("sub"))
entered("aten.rsub.Tensor aten.rsub.Scalar", _sum_of("sub", turned=True))


@row(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor)
def _div(w: Writing, node: Node, a: Any) -> Value:
    return arithmetic(w, node, "div", a.self, a.other)


@row(aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default, aten.floor_divide.Scalar)
def _div_mode(w: Writing, node: Node, a: Any) -> Value:
    mode = getattr(a, "rounding_mode", "floor")
    if mode is None:
        return arithmetic(w, node, "div", a.self, a.other)
    floats = w.dtype(node) in FLOATS
    if mode == "trunc" and floats:
        return _in_f32(w, node, lambda x, y: w.f.trunc(w.f.div(x, y)), a.self, a.other)
    if mode == "floor":
        return arithmetic(w, node, "floor_divide", a.self, a.other)
    x, y = w.alike([a.self, a.other], w.dtype(node), w.shape(node))
    up = w.f.cast(_turns(w, x, y), w.dtype(node))
    return w.f.add(w.f.floor_divide(x, y), up)


@row(aten.fmod.Tensor, aten.fmod.Scalar)
def _fmod(w: Writing, node: Node, a: Any) -> Value:
    x, y = w.alike([a.self, a.other], w.dtype(node), w.shape(node))
    if w.dtype(node) in FLOATS:
        if any(not isinstance(z, Tensor | int | float) for z in (x, y)):
            w.refuse(node, "fmod with a number that is told at each call", "Write torch.remainder of positive numbers.")
        rest = w.f.remainder(_size(w, x), _size(w, y))
        return w.f.where(_is_negative(w, y, x), w.f.neg(rest), rest)
    rest = w.f.remainder(x, y)
    return w.f.where(_turns(w, x, y), w.f.sub(rest, y), rest)


def _turns(w: Writing, x: Operand, y: Operand) -> Tensor:
    """Where a quotient of integers that is rounded to zero is one more than the one that is rounded down."""
    rest = w.f.remainder(x, y)
    return w.f.bitwise_and(w.f.ne(rest, 0), w.f.ne(w.f.lt(x, 0), _is_negative(w, x, y)))


def _is_negative(w: Writing, x: Operand, y: Operand) -> Tensor:
    if isinstance(y, Tensor):
        return w.f.lt(y, 0)
    assert isinstance(x, Tensor), "one of the two is a tensor"
    assert isinstance(y, int | float), "scalars by value are no divisors of integers"
    return w.f.full(x.shape, int(y < 0), "bool")


def _size(w: Writing, x: Operand) -> Operand:
    """Without its sign."""
    if isinstance(x, Tensor):
        return w.f.abs(x)
    return abs(x) if isinstance(x, int | float) else x


@row(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def _remainder(w: Writing, node: Node, a: Any) -> Value:
    return arithmetic(w, node, "remainder", a.self, a.other)


def _in_f32(w: Writing, node: Node, made: Any, *operands: Any) -> Value:
    """Several operators for one of torch's: of halves in f32, so that they are rounded once."""
    dtype = w.dtype(node)
    values = [w.cast(w.operand(x), dtype) for x in operands]
    wide: DTypeName = "f32" if dtype in HALVES else dtype
    found: Tensor = made(*w.alike(values, wide, w.shape(node)))
    return w.cast(found, dtype)


# Powers


@row(aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
def _pow(w: Writing, node: Node, a: Any) -> Value:
    dtype, exponent = w.dtype(node), w.operand(a.exponent)
    number = exponent.number if isinstance(exponent, Uniform) else exponent
    if not isinstance(number, int | float):
        return arithmetic(w, node, "pow", a.self, a.exponent)
    if dtype not in FLOATS:
        return _whole_power(w, node, a.self, int(number))
    if number == 0:
        return Uniform(1.0, w.shape(node), dtype)
    if number == 1:
        return w.alone(a.self, node)
    if number == 3:
        return _in_f32(w, node, lambda x: w.f.mul(w.f.square(x), x), a.self)
    if number == -2:
        return _in_f32(w, node, lambda x: w.f.reciprocal(w.f.square(x)), a.self)
    return arithmetic(w, node, "pow", a.self, number)


def _whole_power(w: Writing, node: Node, x: Any, exponent: int) -> Value:
    """By squaring: products of integers are exact, whatever their order."""
    if exponent < 0:
        w.refuse(node, "an integer to a negative power", "Cast it to a float first.")
    if exponent == 0:
        return Uniform(1, w.shape(node), w.dtype(node))
    base = w.written(w.alone(x, node))
    result: Tensor | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else w.f.mul(result, base)
        exponent >>= 1
        if exponent:
            base = w.f.square(base)
    assert result is not None
    return result


# Comparisons and choices

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def compared(w: Writing, node: Node, name: str, left: Any, right: Any) -> Value:
    """A comparison, in the dtype to which torch takes both sides; literals are rounded to it."""
    dtype = w.dtype_of(node, torch.result_type(_told(left), _told(right)))
    sides = [rounded(x, dtype) if isinstance(x, int | float) and dtype in FLOATS else x for x in (left, right)]
    found: Value = getattr(w.f, name)(*w.alike(sides, dtype, w.shape(node)))
    return found


def _told(x: Any) -> Any:
    """What torch decides a dtype by."""
    found = x.meta["val"] if isinstance(x, Node) else x
    return 1 if isinstance(found, torch.SymInt) else 1.0 if isinstance(found, torch.SymFloat) else found


def _comparison(name: str) -> Any:
    return lambda w, node, a: compared(w, node, name, a.self, a.other)


for _name in _COMPARISONS:
    entered(f"aten.{_name}.Tensor aten.{_name}.Scalar", _comparison(_name))


@row(aten.isnan.default)
def _isnan(w: Writing, node: Node, a: Any) -> Value:
    x = w.tensor(a.self)
    return w.f.ne(x, x)


@row(aten.isinf.default)
def _isinf(w: Writing, node: Node, a: Any) -> Value:
    x = w.tensor(a.self)
    return w.f.eq(w.f.abs(x), math.inf) if x.dtype in FLOATS else Uniform(0, w.shape(node), "bool")


def truth(w: Writing, x: Node | Tensor) -> Value:
    """Whether elements are other than 0."""
    return w.cast(w.value(x) if isinstance(x, Node) else x, "bool")


def _logical(name: str) -> Any:
    def made(w: Writing, node: Node, a: Any) -> Value:
        operands = [truth(w, x) for x in (a.self, *([a.other] if hasattr(a, "other") else []))]
        return w.made(name, *w.alike(operands, "bool", w.shape(node)))

    return made


entered("aten.logical_not.default", _logical("bitwise_not"))
entered("aten.logical_and.default", _logical("bitwise_and"))
entered("aten.logical_or.default", _logical("bitwise_or"))
entered("aten.logical_xor.default", _logical("bitwise_xor"))


@row(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def _where(w: Writing, node: Node, a: Any) -> Value:
    return chosen(w, node, a.condition, a.self, a.other)


def chosen(w: Writing, node: Node, condition: Any, x: Any, y: Any) -> Value:
    """`x` where the condition holds, else `y`; both may be numbers."""
    dtype, shape = w.dtype(node), w.shape(node)
    first, second = w.alike([x, y], dtype, shape, tensors=0)
    held = w.expand(w.written(truth(w, condition)), shape)
    if isinstance(first, Tensor) or isinstance(second, Tensor):
        return w.f.where(held, first, second)
    one, other = (rounded(v, dtype) if isinstance(v, int | float) else v for v in (first, second))
    return w.f.where(held, one, other, dtype)


@row(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(w: Writing, node: Node, a: Any) -> Value:
    return chosen(w, node, a.mask, a.value, a.self)


@row(aten.clamp.default, aten.clamp.Tensor)
def _clamp(w: Writing, node: Node, a: Any) -> Value:
    return _bounded(w, node, a.self, a.min, a.max)


entered("aten.clamp_min.default aten.clamp_min.Tensor", lambda w, node, a: _bounded(w, node, a.self, a.min, None))
entered("aten.clamp_max.default aten.clamp_max.Tensor", lambda w, node, a: _bounded(w, node, a.self, None, a.max))


def _bounded(w: Writing, node: Node, x: Any, low: Any, high: Any) -> Value:
    found: Value = w.alone(x, node)
    if low is not None:
        found = arithmetic(w, node, "maximum", found, low)
    if high is not None:
        found = arithmetic(w, node, "minimum", found, high)
    return found


# Several in one


@row(aten.gelu.default)
def _gelu(w: Writing, node: Node, a: Any) -> Value:
    return w.f.gelu(w.written(w.cast(w.operand(a.self), w.dtype(node))), a.approximate)


entered("prims.fma.default", lambda w, node, a: _fma(w, node, a))


def _fma(w: Writing, node: Node, a: Any) -> Value:
    return arithmetic(w, node, "fma", *(getattr(a, name) for name in vars(a)))


@row(aten.glu.default)
def _glu(w: Writing, node: Node, a: Any) -> Value:
    """The first half of a dimension times the sigmoid of the second."""
    x = w.tensor(a.self)
    dim = a.dim % len(x.shape)
    size = x.shape[dim]
    if not isinstance(size, int):
        w.refuse(node, f"a half of {size}", "Split by numbers.")
    value, gate = (w.f.slice(x, dim, start, start + size // 2) for start in (0, size // 2))
    wide: DTypeName = "f32" if x.dtype in HALVES else x.dtype
    found = w.f.mul(*(w.written(w.cast(part, wide)) for part in (value, _sigmoid(w, gate, wide))))
    return w.cast(found, x.dtype)


def _sigmoid(w: Writing, x: Tensor, dtype: DTypeName) -> Tensor:
    return w.f.sigmoid(w.written(w.cast(x, dtype)))


@row(aten.addcmul.default)
def _addcmul(w: Writing, node: Node, a: Any) -> Value:
    return _in_f32(w, node, lambda x, y, z: w.f.add(x, w.f.mul(_times(w, a.value, y), z)), a.self, a.tensor1, a.tensor2)


@row(aten.addcdiv.default)
def _addcdiv(w: Writing, node: Node, a: Any) -> Value:
    return _in_f32(w, node, lambda x, y, z: w.f.add(x, _times(w, a.value, w.f.div(y, z))), a.self, a.tensor1, a.tensor2)


def _times(w: Writing, number: Any, x: Any) -> Any:
    if isinstance(number, int | float) and number == 1:
        return x
    (factor,) = w.alike([number], x.dtype, x.shape, tensors=0)
    return w.f.mul(factor, x)


# Casts and copies


@row(prims.convert_element_type.default)
def _convert(w: Writing, node: Node, a: Any) -> Value:
    return w.cast(w.value(a.a), w.dtype(node))


@row(aten._to_copy.default, aten.to.dtype)
def _to(w: Writing, node: Node, a: Any) -> Value:
    if getattr(a, "device", None) is not None and a.device != a.self.meta["val"].device:
        w.refuse(node, f"a copy to {a.device}", "Move tensors before the call.")
    return w.cast(w.value(a.self), w.dtype(node))


@row(aten.copy.default, aten.copy_.default)
def _copy(w: Writing, node: Node, a: Any) -> Value:
    return w.alone(a.src, node)
