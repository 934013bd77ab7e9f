"""Numbers of kernel IR on arrays: conversions, operators in each grade, and steps of folds, as device code has them.

Arrays are storages (`verify.arrays`), of any shape: bf16 as bits, bools as bytes. Nothing contracts a product
and a sum. Approximate instructions are those of the emulator, so grades differ in their last bits as on a card.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.dtypes import DType
from compiler.emit.functions import COMPUTED_IN, function
from compiler.emit.literals import rounded_to_short
from compiler.emulate.numeric import approximate, floating
from compiler.ir.fusion import Literal, Number
from compiler.ir.ops import CARRIES, COMPARE, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute
from compiler.lower.operands import Reg
from compiler.reference import round_to
from compiler.reference.operators import exact
from search.proof.verify.arrays import NumpyArrays

Array = NDArray[Any]

NUMPY: dict[DType, np.dtype[Any]] = {
    DType.F64: np.dtype(np.float64),
    DType.F32: np.dtype(np.float32),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(np.uint16),
    DType.I8: np.dtype(np.int8),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.uint8),
}

_ARRAYS = NumpyArrays()
_HALVES = frozenset({DType.F16, DType.BF16})
_WIDER_THAN_F32 = frozenset({DType.F64, DType.I64, DType.I32})
_WIDEST_FIRST = tuple(dict.fromkeys(COMPUTED_IN.values()))
_COPIES = CARRIES | {OpKind.CAST}


def converted(x: Array, source: DType, target: DType) -> Array:
    """Elements in another type: one rounding to nearest even, truncation to integers, which wrap."""
    if source is target:
        return x
    if source in _HALVES:
        return converted(np.asarray(_ARRAYS.load(x, source)), DType.F32, target)
    if target in _HALVES:
        wide = source in _WIDER_THAN_F32
        return np.asarray(_ARRAYS.store(round_to(x.astype(np.float64), target, np) if wide else x, target))
    if target is DType.BOOL:
        return np.asarray(x != 0, np.uint8)
    if source.is_float and not target.is_float:
        return np.asarray(_truncated(x, DType.I32 if target is DType.I8 else target), NUMPY[target])
    return np.asarray(x, NUMPY[target])


def _truncated(x: Array, target: DType) -> Array:
    """Out of range the nearest end, NaN as 0 (PTX ISA, "cvt": .rzi to an integer saturates)."""
    ends = np.iinfo(NUMPY[target])
    wide = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
    inside = (wide > float(ends.min)) & (wide < float(ends.max))
    kept = np.where(inside, wide, 0.0).astype(NUMPY[target])
    return np.where(inside, kept, np.where(wide < 0, ends.min, ends.max).astype(NUMPY[target]))


def computed(s: Compute, operands: Sequence[Array | Number]) -> Array:
    """What a statement computes from the storages of its operands, in the type of its target."""
    target = s.target.dtype
    dtypes = [x.dtype if isinstance(x, Reg) else None for x in s.operands]

    def operand(number: int, wanted: DType) -> Array:
        x, dtype = operands[number], dtypes[number]
        if isinstance(x, Number) or dtype is None:
            return literal_of(s.operands[number], wanted)
        return converted(x, dtype, wanted)

    if s.kind in _COPIES:
        return operand(0, target)
    if s.kind is OpKind.WHERE:
        return np.where(operand(0, DType.BOOL) != 0, operand(1, target), operand(2, target))
    if s.kind in COMPARE:
        return _compared(s, dtypes, operand)
    dtype = COMPUTED_IN[target]
    found = operated(s.kind, [operand(n, dtype) for n in range(len(operands))], dtype, s.grade)
    return converted(found, dtype, target)


def literal_of(x: Reg | Number, dtype: DType) -> Array:
    assert isinstance(x, Literal), "an operand that has no type is a literal"
    if dtype in _HALVES:
        return np.asarray(_ARRAYS.store(np.full((), rounded_to_short(float(x.value), dtype), np.float32), dtype))
    return np.asarray(x.value, NUMPY[dtype])


def _compared(s: Compute, dtypes: Sequence[DType | None], operand: Callable[[int, DType], Array]) -> Array:
    """In the wider type; a literal is rounded as the operand beside it has been."""
    known = [d for d in dtypes if d is not None]
    dtype = next(wide for wide in _WIDEST_FIRST if wide in {COMPUTED_IN[d] for d in known})
    half = next((d for d in known if d in _HALVES), None)
    sides: list[Array] = []
    for number, x in enumerate(s.operands):
        if isinstance(x, Literal) and half is not None:
            sides.append(np.asarray(rounded_to_short(float(x.value), half), NUMPY[dtype]))
        else:
            sides.append(operand(number, dtype))
    return converted(exact(s.kind, sides, np).astype(np.uint8), DType.BOOL, s.target.dtype)


def operated(kind: OpKind, x: Sequence[Array], dtype: DType, grade: MathGrade) -> Array:
    """An operator on operands of the type that it is computed in, in that type."""
    if dtype is DType.F32:
        found = (_F32.get(function(kind, grade)) or _wide(_exact(kind)))(*x)
    elif dtype is DType.F64:
        found = (_F64.get(kind) or _exact(kind))(*x)
    else:
        found = exact(kind, list(x), np)
    return np.asarray(found, NUMPY[dtype])


def first_of(kind: OpKind, dtype: DType) -> Array:
    """What a fold starts from."""
    if kind is OpKind.SUM:
        return np.zeros((), NUMPY[dtype])
    if kind is OpKind.PROD:
        return np.ones((), NUMPY[dtype])
    sign = -1 if kind is OpKind.AMAX else 1
    if dtype.is_float:
        infinite = np.full((), sign * math.inf, np.float64 if dtype is DType.F64 else np.float32)
        return np.asarray(_ARRAYS.store(infinite, dtype))
    if dtype is DType.BOOL:
        return np.asarray(sign > 0, np.uint8)
    ends = np.iinfo(NUMPY[dtype])
    return np.asarray(ends.min if sign < 0 else ends.max, NUMPY[dtype])


def folded(kind: OpKind, a: Array, b: Array, dtype: DType) -> Array:
    """One step of a fold in its type; NaN wins a maximum and a minimum, integers wrap."""
    if kind is OpKind.SUM:
        if dtype in _HALVES:
            return converted(_ARRAYS.load(a, dtype) + _ARRAYS.load(b, dtype), DType.F32, dtype)
        return np.asarray(a + b, NUMPY[dtype])
    if kind is OpKind.PROD:
        return np.asarray(a * b, NUMPY[dtype])
    if dtype is DType.BOOL:
        return a | b if kind is OpKind.AMAX else a & b
    if not dtype.is_float:
        return np.asarray((np.maximum if kind is OpKind.AMAX else np.minimum)(a, b))
    step = floating.maximum if kind is OpKind.AMAX else floating.minimum
    if dtype in _HALVES:
        return converted(step(_ARRAYS.load(a, dtype), _ARRAYS.load(b, dtype), True), DType.F32, dtype)
    return _either(step)(a, b)


# Functions on f32, under the names of device code ---------------------------------------------------------------------

_ONE, _HALF = np.float32(1), np.float32(0.5)
_LOG2_E, _LN_2 = np.float32(1.44269504088896341), np.float32(0.693147180559945309)
_LINEAR = np.float32(0.797884560802865356)
_CUBIC = np.float32(_LINEAR * np.float32(0.044715))
_SCALE = np.float32(np.float32(-2) * _LOG2_E)


def _wide(f: Callable[..., Any]) -> Callable[..., Array]:
    """A function in f64, rounded to f32: within half a unit, as the library's are within a few."""
    return lambda *x: np.asarray(f(*(v.astype(np.float64) for v in x))).astype(np.float32)


_exp, _tanh = _wide(np.exp), _wide(np.tanh)
_fma = _wide(lambda a, b, c: a * b + c)


def _ex2(x: Array) -> Array:
    return approximate.f32("ex2", np.asarray(x), ftz=True)


def _rcp(x: Array) -> Array:
    return approximate.f32("rcp", np.asarray(x), ftz=True)


def _tanh_instruction(x: Array) -> Array:
    """To 12 bits, which is near what the instruction keeps (PTX ISA, "tanh": 2^-11); the emulator gives all of them."""
    found = approximate.f32("tanh", np.asarray(x))
    return ((found.view(np.uint32) + np.uint32(1 << 11)) & np.uint32(0xFFFFF000)).view(np.float32)


def _div_approx(a: Array, b: Array) -> Array:
    size = np.abs(b)
    scale = np.where(size > 2.0**125, 2.0**-32, np.where(size < 2.0**-96, 2.0**32, 1.0)).astype(np.float32)
    return np.asarray((a * scale) * approximate.divide(np.asarray(_ONE), b * scale))


def _gelu_argument(x: Array) -> Array:
    return x * _fma(x * x, _CUBIC, _LINEAR)


def _relu(x: Array) -> Array:
    return _either(floating.maximum)(x, np.zeros((), np.float32))


def _either(f: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """A maximum or minimum that NaN wins, of operands of one shape as the emulator takes them."""

    def found(a: Array, b: Array) -> Array:
        x, y = np.broadcast_arrays(a, b)
        return f(np.ascontiguousarray(x), np.ascontiguousarray(y), True)

    return found


def _sigmoid_approx(x: Array) -> Array:
    return _rcp(_ONE + _ex2(x * -_LOG2_E))


_F32: dict[str, Callable[..., Any]] = {
    "ft_neg": np.negative,
    "ft_abs": np.abs,
    "ft_square": lambda x: x * x,
    "ft_add": np.add,
    "ft_sub": np.subtract,
    "ft_mul": np.multiply,
    "ft_maximum": _either(floating.maximum),
    "ft_minimum": _either(floating.minimum),
    "ft_relu": _relu,
    "ft_fma": _fma,
    "ft_div": np.divide,
    "ft_div_approx": _div_approx,
    "ft_reciprocal": lambda x: _ONE / x,
    "ft_reciprocal_approx": lambda x: approximate.f32("rcp", np.asarray(x)),
    "ft_sqrt": np.sqrt,
    "ft_sqrt_approx": lambda x: approximate.f32("sqrt", np.asarray(x)),
    "ft_rsqrt": lambda x: _ONE / np.sqrt(x),
    "ft_rsqrt_approx": lambda x: approximate.f32("rsqrt", np.asarray(x)),
    "ft_exp": _exp,
    "ft_exp_approx": lambda x: _ex2(x * _LOG2_E),
    "ft_log": _wide(np.log),
    "ft_log_approx": lambda x: approximate.f32("lg2", np.asarray(x)) * _LN_2,
    "ft_tanh": _tanh,
    "ft_tanh_coarse": _tanh_instruction,
    "ft_sigmoid": lambda x: _ONE / (_ONE + _exp(-x)),
    "ft_sigmoid_approx": _sigmoid_approx,
    "ft_sigmoid_coarse": lambda x: _fma(_tanh_instruction(_HALF * x), _HALF, _HALF),
    "ft_silu": lambda x: x / (_ONE + _exp(-x)),
    "ft_silu_approx": lambda x: x * _sigmoid_approx(x),
    "ft_silu_coarse": lambda x: _fma(_HALF * x, _tanh_instruction(_HALF * x), _HALF * x),
    "ft_gelu": lambda x: x / (_ONE + _exp(np.float32(-2) * _gelu_argument(x))),
    "ft_gelu_approx": lambda x: x * _rcp(_ONE + _ex2(x * _fma(x * x, _SCALE * _CUBIC, _SCALE * _LINEAR))),
    "ft_gelu_coarse": lambda x: _fma(_HALF * x, _tanh_instruction(_gelu_argument(x)), _HALF * x),
}

_F64: dict[OpKind, Callable[..., Any]] = {
    OpKind.FMA: lambda x, y, z: floating.fma(x, y, z, "rn"),
    OpKind.MAXIMUM: _either(floating.maximum),
    OpKind.MINIMUM: _either(floating.minimum),
}
"""What is not as the reference has it: a fused product, and which NaN wins."""


def _exact(kind: OpKind) -> Callable[..., Any]:
    """The reference, in the type of its operands."""
    return lambda *x: exact(kind, list(x), np)
