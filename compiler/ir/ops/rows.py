"""Rows that several operators share the most of, as functions of what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.dtypes import FP8, DType
from compiler.ir.ops import ends
from compiler.ir.ops.exact import exact_matmul, exact_prefix_sum, exact_product
from compiler.ir.ops.row import (
    ANY_TYPE,
    BITS,
    FLOATS,
    STORED,
    ErrorBound,
    FunctionCost,
    MathForm,
    OpClass,
    OpRow,
    Reference,
    Zero,
)

ULP = 2.0**-23
LEAST_NORMAL = 2.0**-126
LEAST = 2.0**-149

RELATIVE_F64 = 2.0**-46
LEAST_F64 = 2.0**-1074

LOG2_E = 1.5e-7
"""Twice the relative error of x·log2(e) in f32, 7.3e-8: a rounding (2^-24) and that of the constant (1.33e-8)."""


def library(relative: float, absolute: float = 0.0, source: str = "the CUDA math API's maximum error") -> MathForm:
    """A form that calls the library, or is made of IEEE operations."""
    return MathForm(ErrorBound(relative, absolute=absolute), source)


def by_tanh(error: ErrorBound) -> MathForm:
    """A form whose one instruction is `tanh.approx`."""
    return MathForm(error, "tanh.approx.f32: relative error 2^-11")


IN_F64 = library(RELATIVE_F64, LEAST_F64)
QUOTIENT = MathForm(ErrorBound(4 * ULP, absolute=LEAST_NORMAL), "div.approx.f32 of 1, 2 ulp, and a product")
SUMMED = OpRow(
    OpClass.FOLD,
    reference=lambda xp, x, axes: xp.sum(x, axis=axes, keepdims=True),
    begins=0.0,
    step="add",
    zero=Zero.OPEN,
)
MULTIPLIED = OpRow(OpClass.FOLD, takes=FLOATS | {DType.I64}, reference=exact_product, begins=1.0, step="mul")
CONTRACTED = OpRow(
    OpClass.CONTRACTION,
    2,
    takes=frozenset({DType.F32, DType.F16, DType.BF16, DType.I8}) | FP8,
    reference=exact_matmul,
    begins=0.0,
    step="add",
    zero=Zero.OPEN,
)
CONTRACTED_TF32 = replace(CONTRACTED, takes=frozenset({DType.F32}))
"""A kernel may multiply what tf32 holds of each factor, 10 bits behind the first: cut off, as tensor cores do, or
rounded; and it may multiply all of it. The reference does."""

SCANNED = OpRow(
    OpClass.SCAN, takes=frozenset({DType.F64, DType.F32, DType.I64}), reference=exact_prefix_sum, zero=Zero.OPEN
)


def function(reference: Reference, rule: ends.Ends, cost: FunctionCost, **more: Any) -> OpRow:
    """A row of a function of one float, which takes a special-function unit."""
    return OpRow(OpClass.UNARY, 1, FLOATS, reference, rule, cost=cost, **more)


def angle(reference: Reference, rule: ends.Ends) -> OpRow:
    """A row of a sine or a cosine."""
    return function(reference, rule, FunctionCost(28, 28), exact=library(4 * ULP, 2 * LEAST), f64=IN_F64)


def comparison(reference: Reference, rule: ends.Ends, symbol: str, mirrored: str) -> OpRow:
    """A row of two operands of one type that give a bool."""
    return OpRow(OpClass.COMPARISON, 2, ANY_TYPE, reference, rule, symbol=symbol, mirrored=mirrored)


def whole(reference: Reference) -> OpRow:
    """A row of what makes an integer of a float, in the float's type."""
    return OpRow(OpClass.UNARY, takes=FLOATS, reference=reference, ends=ends.rising, rounds=False, jumps=True)


def of_bits(arity: int, reference: Reference, takes: frozenset[DType] = BITS) -> OpRow:
    """A row of an operator on integers, exact in every type that it takes."""
    cls = OpClass.UNARY if arity == 1 else OpClass.BINARY
    return OpRow(cls, arity, takes, reference, ends.unordered, rounds=False)


def larger_or_smaller(reference: Reference) -> OpRow:
    """A row of what picks one of two numbers."""
    return OpRow(OpClass.BINARY, 2, ANY_TYPE, reference, ends.rising, zero=Zero.OPEN, rounds=False)


def extremes(reference: Reference, begins: float, step: str) -> OpRow:
    """A row of the largest or the smallest element: `step` picks one of two, and nothing is picked over `begins`."""
    return OpRow(OpClass.FOLD, 1, ANY_TYPE, reference, begins=begins, step=step, zero=Zero.OPEN, rounds=False)


def moved(cls: OpClass = OpClass.VIEW, arity: int | None = 1) -> OpRow:
    """A row of what says only where elements are read: any type, nothing computed."""
    return OpRow(cls, arity, STORED, rounds=False)
