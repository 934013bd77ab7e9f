"""What a fusion means, worked out in f64 apart from the rest of the compiler (docs/contracts.md, "Right before fast").

`xp` is the array module, numpy or torch; arrays are its own. No operator rounds to the dtype of its result, casts
between floats included: kernels may skip rounding between operators (docs/contracts.md, "Fusion"), so what they must be
near to is the unrounded value. `round_to` gives the stored one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compiler.dtypes import DType
from compiler.ir.fusion import Fusion, Literal, Op
from compiler.ir.ops import OpKind

Array = Any


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float: significant bits, the leading one included, and exponents of normal numbers (IEEE 754)."""

    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding a normal number to nearest."""
        return 2.0**-self.precision

    @property
    def largest(self) -> float:
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent

    @property
    def smallest(self) -> float:
        """The least positive number, a subnormal one."""
        return 2.0 ** (self.min_exponent - self.precision + 1)


FLOAT_FORMATS = {
    DType.F64: FloatFormat(53, -1022, 1023),
    DType.F32: FloatFormat(24, -126, 127),
    DType.F16: FloatFormat(11, -14, 15),
    DType.BF16: FloatFormat(8, -126, 127),
}
"""IEEE 754 binary64, binary32, binary16; bfloat16 is binary32 with 8 bits of precision (PTX ISA, fundamental types)."""


def evaluate(fusion: Fusion, inputs: Sequence[Array], xp: Any) -> tuple[Array, ...]:
    """The outputs in f64, unrounded, of the logical shapes. `inputs` have the logical shapes, in any float dtype."""
    last_use = {name: i for i, op in enumerate(fusion.ops) for name in op.tensor_inputs}
    known = {name: _as_f64(x, xp) for name, x in zip(fusion.inputs, inputs, strict=True)}
    with _quiet(xp):
        for i, op in enumerate(fusion.ops):
            operands = [known[x] if isinstance(x, str) else x for x in op.inputs]
            known[op.output] = _apply(op, operands, fusion.value(op.output).shape, xp)
            for name in set(op.tensor_inputs):
                if last_use[name] == i and name not in fusion.outputs:
                    del known[name]
    return tuple(known[name] for name in fusion.outputs)


def evaluate_rows(fusion: Fusion, inputs: Sequence[Array], xp: Any, *, output: int, start: int, stop: int) -> Array:
    """Rows `start` up to `stop` of output number `output`, as `evaluate` gives them, without computing the others.

    Works back from the rows that are wanted: an operand is asked for the part of it that they need, so that no more
    than that is in f64 at any time. A result without dimensions is one row.
    """
    name = fusion.outputs[output]
    shape = fusion.value(name).shape
    rows = shape[0] if shape else 1
    if not 0 <= start < stop <= rows:
        raise ValueError(f"rows {start} to {stop} of output {output}, which has {rows}")
    block = _Block(fusion, dict(zip(fusion.inputs, inputs, strict=True)), xp)
    with _quiet(xp):
        return block.part(name, _Part(0, start, stop) if shape else None)


def round_to(x: Array, dtype: DType, xp: Any) -> Array:
    """`x` (f64) as `dtype` stores it, still in f64: to nearest, ties to even; infinite past the largest."""
    if dtype is DType.F64:
        return x
    form = FLOAT_FORMATS[dtype]
    with _quiet(xp):
        mantissa, _ = xp.frexp(x)
        # x / mantissa is the power of two above |x|, exactly. Zero, NaN and infinities are put back at the end.
        quantum = xp.abs(x / mantissa) * form.unit_roundoff
        quantum = xp.where(quantum > form.smallest, quantum, _scalar(form.smallest, quantum, xp))
        rounded = xp.round(x / quantum) * quantum
        # The second test is for the last binade of f64, whose power of two overflows.
        over = (xp.abs(rounded) > form.largest) | (xp.abs(x) > 2.0 * form.largest)
        rounded = xp.where(over, xp.copysign(_scalar(math.inf, x, xp), x), rounded)
        return xp.where(xp.isfinite(x) & (x != 0), rounded, x)


@dataclass(frozen=True, slots=True)
class _Part:
    """Positions `start` up to `stop` along one dimension, all along the others."""

    axis: int
    start: int
    stop: int


class _Block:
    """The parts of values that one row block needs; each is computed once."""

    def __init__(self, fusion: Fusion, inputs: dict[str, Array], xp: Any) -> None:
        self.fusion = fusion
        self.inputs = inputs
        self.xp = xp
        self.producers = {op.output: op for op in fusion.ops}
        self.known: dict[tuple[str, _Part | None], Array] = {}

    def part(self, name: str, part: _Part | None) -> Array:
        """The part of value `name`, or all of it."""
        key = (name, part)
        if key not in self.known:
            self.known[key] = self._compute(name, part)
        return self.known[key]

    def _compute(self, name: str, part: _Part | None) -> Array:
        if name in self.inputs:
            whole = self.inputs[name]
            where = () if part is None else (slice(None),) * part.axis + (slice(part.start, part.stop),)
            return _as_f64(whole[where] if where else whole, self.xp)
        op = self.producers[name]
        shape = list(self.fusion.value(name).shape)
        if part is not None:
            shape[part.axis] = part.stop - part.start
        operands = [self.part(x, self._needed(op, x, part)) if isinstance(x, str) else x for x in op.inputs]
        return _apply(op, operands, tuple(shape), self.xp)

    def _needed(self, op: Op, operand: str, part: _Part | None) -> _Part | None:
        """The part of `operand` that `part` of `op`'s result is made of."""
        if part is None:
            return None
        if op.kind is OpKind.PERMUTE:
            return _Part(op.dims[part.axis], part.start, part.stop)
        if op.kind is OpKind.BROADCAST_TO:
            if part.axis not in op.dims:
                return None
            axis = op.dims.index(part.axis)
            expands = self.fusion.value(operand).shape[axis] != self.fusion.value(op.output).shape[part.axis]
            return None if expands else _Part(axis, part.start, part.stop)
        return part


def _apply(op: Op, operands: list[Array | Literal], shape: tuple[int, ...], xp: Any) -> Array:
    """One operator; `shape` is the result's, or that of the part of it which `operands` make."""
    like = next(x for x in operands if not isinstance(x, Literal))
    args = [_scalar(x.value, like, xp) if isinstance(x, Literal) else x for x in operands]
    match op.kind:
        case OpKind.BROADCAST_TO:
            (x,) = args
            sizes = dict(zip(op.dims, x.shape, strict=True))
            return xp.broadcast_to(x.reshape(tuple(sizes.get(dim, 1) for dim in range(len(shape)))), shape)
        case OpKind.PERMUTE:
            return xp.moveaxis(args[0], op.dims, tuple(range(len(op.dims))))
        case OpKind.ADD | OpKind.SUB | OpKind.MUL | OpKind.DIV | OpKind.MAXIMUM | OpKind.MINIMUM:
            return _binary(op.kind, args[0], args[1], xp)
        case _:
            return _unary(op.kind, args[0], xp)


def _binary(kind: OpKind, x: Array, y: Array, xp: Any) -> Array:
    match kind:
        case OpKind.ADD:
            return x + y
        case OpKind.SUB:
            return x - y
        case OpKind.MUL:
            return x * y
        case OpKind.DIV:
            return x / y
        case OpKind.MAXIMUM:
            return xp.maximum(x, y)
        case OpKind.MINIMUM:
            return xp.minimum(x, y)
    raise AssertionError(f"{kind} is no operator of two operands")


def _unary(kind: OpKind, x: Array, xp: Any) -> Array:
    """numpy and torch agree on these: maximum hands NaN on, exp of a large number is infinite."""
    match kind:
        case OpKind.COPY | OpKind.CAST:
            return x
        case OpKind.NEG:
            return -x
        case OpKind.ABS:
            return xp.abs(x)
        case OpKind.EXP:
            return xp.exp(x)
        case OpKind.LOG:
            return xp.log(x)
        case OpKind.TANH:
            return xp.tanh(x)
        case OpKind.SIGMOID:
            return 1.0 / (1.0 + xp.exp(-x))
        case OpKind.RELU:
            return xp.maximum(x, _scalar(0.0, x, xp))
        case OpKind.GELU:
            return _gelu_tanh(x, xp)
        case OpKind.SILU:
            return x / (1.0 + xp.exp(-x))
        case OpKind.SQRT:
            return xp.sqrt(x)
        case OpKind.RSQRT:
            return 1.0 / xp.sqrt(x)
        case OpKind.RECIPROCAL:
            return 1.0 / x
        case OpKind.SQUARE:
            return x * x
    raise AssertionError(f"{kind} is no operator of one operand")


def _gelu_tanh(x: Array, xp: Any) -> Array:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016)."""
    return 0.5 * x * (1.0 + xp.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def _as_f64(x: Array, xp: Any) -> Array:
    return xp.asarray(x, dtype=xp.float64)


def _scalar(value: float, like: Array, xp: Any) -> Array:
    """`value` as an f64 array without dimensions, on the device of `like`."""
    return xp.full_like(like[(0,) * len(like.shape)], value)


def _quiet(xp: Any) -> contextlib.AbstractContextManager[None]:
    """numpy warns of overflow and of invalid operands; here both are answers."""
    errstate = getattr(xp, "errstate", None)
    return errstate(all="ignore") if errstate is not None else contextlib.nullcontext()
