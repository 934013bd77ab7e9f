"""Every operator, as one row: the table that all other places read. Meanings are torch's on CUDA (docs/contracts.md,
"Fusion"); how one is added: docs/extending/operator.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from math import inf

from compiler.dtypes import FP8, DType
from compiler.ir.ops import ends
from compiler.ir.ops.exact import (
    each_element,
    exact_floor_divide,
    exact_gelu,
    exact_gelu_erf,
    exact_left_shift,
    exact_matmul,
    exact_pow,
    exact_prefix_sum,
    exact_product,
    exact_remainder,
    exact_right_shift,
)
from compiler.ir.ops.philox import uniform
from compiler.ir.ops.row import (
    ANY_TYPE,
    BITS,
    FLOATS,
    INTEGERS,
    STORED,
    ErrorBound,
    FunctionCost,
    MathForm,
    OpClass,
    OpRow,
    Reference,
    Zero,
)

_ULP = 2.0**-23
_LEAST_NORMAL = 2.0**-126
_LEAST = 2.0**-149

_F64 = 2.0**-46
_LEAST_F64 = 2.0**-1074

_LOG2_E = 1.5e-7
"""Twice the relative error of x·log2(e) in f32, 7.3e-8: a rounding (2^-24) and that of the constant (1.33e-8)."""


def _library(relative: float, absolute: float = 0.0, source: str = "the CUDA math API's maximum error") -> MathForm:
    return MathForm(ErrorBound(relative, absolute=absolute), source)


def _tanh(error: ErrorBound) -> MathForm:
    return MathForm(error, "tanh.approx.f32: relative error 2^-11")


_IN_F64 = _library(_F64, _LEAST_F64)
_ANGLE = OpRow(
    OpClass.UNARY,
    takes=FLOATS,
    exact=_library(4 * _ULP, 2 * _LEAST),
    f64=_IN_F64,
    cost=FunctionCost(28, 28),
)
_QUOTIENT = MathForm(ErrorBound(4 * _ULP, absolute=_LEAST_NORMAL), "div.approx.f32 of 1, 2 ulp, and a product")
_SUMMED = OpRow(
    OpClass.FOLD,
    reference=lambda xp, x, axes: xp.sum(x, axis=axes, keepdims=True),
    begins=0.0,
    step="add",
    zero=Zero.OPEN,
)


def _comparison(reference: Reference, rule: ends.Ends, symbol: str, mirrored: str) -> OpRow:
    return OpRow(OpClass.COMPARISON, 2, ANY_TYPE, reference, rule, symbol=symbol, mirrored=mirrored)


def _step(reference: Reference) -> OpRow:
    """A row of what makes an integer of a float, in the float's type."""
    return OpRow(OpClass.UNARY, takes=FLOATS, reference=reference, ends=ends.rising, rounds=False, jumps=True)


def _of_bits(
    arity: int, reference: Reference, takes: frozenset[DType] = BITS, cost: FunctionCost | None = None
) -> OpRow:
    """A row of an operator on integers, exact in every type that it takes."""
    cls = OpClass.UNARY if arity == 1 else OpClass.BINARY
    return OpRow(cls, arity, takes, reference, ends.unordered, cost=cost, rounds=False)


class OpKind(StrEnum):
    """Every operator of the scheduling model; the value is its wire name. `COMPILED` says which have a lowering.

    numpy and torch agree on the references: maximum hands NaN on, exp of a large number is infinite. Comparisons are
    those of IEEE 754: every comparison with NaN is false, but `ne` is true.
    """

    _value_: str
    row: OpRow

    def __new__(cls, value: str, row: OpRow | None = None) -> OpKind:
        assert row is not None  # a member by its name, `OpKind("add")`, does not come here
        made = str.__new__(cls, value)
        made._value_ = value
        made.row = row
        return made

    # Copies and casts ------------------------------------------------------------------------------------------------

    COPY = "copy", OpRow(OpClass.COPY, takes=STORED, rounds=False)
    CAST = "cast", OpRow(OpClass.CAST, takes=STORED, torch="")

    # Arithmetic ------------------------------------------------------------------------------------------------------

    NEG = "neg", OpRow(OpClass.UNARY, reference=lambda xp, x: -x, ends=ends.falling, rounds=False)
    ABS = (
        "abs",
        OpRow(
            OpClass.UNARY,
            reference=lambda xp, x: xp.abs(x),
            ends=ends.sizes,
            is_never_negative=True,
            rounds=False,
        ),
    )
    RELU = (
        "relu",
        OpRow(
            OpClass.UNARY,
            reference=lambda xp, x: xp.maximum(x, xp.zeros_like(x)),
            ends=ends.rising,
            zero=Zero.OPEN,
            rounds=False,
        ),
    )
    SQUARE = (
        "square",
        OpRow(OpClass.UNARY, reference=lambda xp, x: x * x, ends=ends.squares, is_never_negative=True),
    )
    ADD = "add", OpRow(OpClass.BINARY, 2, reference=lambda xp, x, y: x + y, ends=ends.rising)
    SUB = "sub", OpRow(OpClass.BINARY, 2, reference=lambda xp, x, y: x - y, ends=ends.difference)
    MUL = "mul", OpRow(OpClass.BINARY, 2, reference=lambda xp, x, y: x * y, ends=ends.products)
    DIV = (
        "div",
        OpRow(
            OpClass.BINARY,
            2,
            takes=FLOATS,
            reference=lambda xp, x, y: x / y,
            ends=ends.quotients,
            approx=_QUOTIENT,
            cost=FunctionCost(10, 2),
            zero=Zero.TOLD,
        ),
    )
    MAXIMUM = (
        "maximum",
        OpRow(
            OpClass.BINARY,
            2,
            takes=ANY_TYPE,
            reference=lambda xp, x, y: xp.maximum(x, y),
            ends=ends.rising,
            zero=Zero.OPEN,
            rounds=False,
        ),
    )
    MINIMUM = (
        "minimum",
        OpRow(
            OpClass.BINARY,
            2,
            takes=ANY_TYPE,
            reference=lambda xp, x, y: xp.minimum(x, y),
            ends=ends.rising,
            zero=Zero.OPEN,
            rounds=False,
        ),
    )

    SIGN = (
        "sign",
        OpRow(
            OpClass.UNARY,
            reference=lambda xp, x: xp.asarray(x > 0, dtype=x.dtype) - xp.asarray(x < 0, dtype=x.dtype),
            ends=ends.rising,
            rounds=False,
            jumps=True,
        ),
    )
    ROUND = "round", _step(lambda xp, x: xp.round(x))
    FLOOR = "floor", _step(lambda xp, x: xp.floor(x))
    CEIL = "ceil", _step(lambda xp, x: xp.ceil(x))
    TRUNC = "trunc", _step(lambda xp, x: xp.trunc(x))

    # Of integers: their bits and whole quotients --------------------------------------------------------------------

    BITWISE_NOT = "bitwise_not", _of_bits(1, lambda xp, x: ~x)
    BITWISE_AND = "bitwise_and", _of_bits(2, lambda xp, x, y: x & y)
    BITWISE_OR = "bitwise_or", _of_bits(2, lambda xp, x, y: x | y)
    BITWISE_XOR = "bitwise_xor", _of_bits(2, lambda xp, x, y: x ^ y)
    BITWISE_LEFT_SHIFT = "bitwise_left_shift", _of_bits(2, exact_left_shift, INTEGERS)
    BITWISE_RIGHT_SHIFT = "bitwise_right_shift", _of_bits(2, exact_right_shift, INTEGERS)
    FLOOR_DIVIDE = "floor_divide", _of_bits(2, exact_floor_divide, INTEGERS, FunctionCost(24, 24))
    REMAINDER = "remainder", _of_bits(2, exact_remainder, INTEGERS, FunctionCost(24, 24))

    # Transcendental functions, roots and quotients -------------------------------------------------------------------

    EXP = (
        "exp",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.exp(x),
            ends=ends.rising,
            exact=_library(2 * _ULP, 2 * _LEAST),
            approx=MathForm(
                ErrorBound(4 * _ULP, argument=_LOG2_E, absolute=_LEAST_NORMAL),
                "ex2.approx.ftz.f32: relative error 2^-22; argument rounded to f32",
            ),
            f64=MathForm(ErrorBound(_F64, argument=2.0**-51, absolute=_LEAST_F64), "as exact; argument rounded"),
            cost=FunctionCost(8, 2),
            is_never_negative=True,
        ),
    )
    LOG = (
        "log",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.log(x),
            ends=ends.rising,
            exact=_library(2 * _ULP),
            approx=MathForm(
                ErrorBound(8 * _ULP, absolute=2.0**-20),
                "lg2.approx.f32: 2^-22, in (0.5, 2) of one instead of the result",
            ),
            f64=_library(_F64, _F64),
            cost=FunctionCost(16, 2),
            is_of_positive=True,
        ),
    )
    EXP2 = (
        "exp2",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.exp2(x),
            ends=ends.rising,
            exact=_library(4 * _ULP, 2 * _LEAST),
            approx=MathForm(ErrorBound(4 * _ULP, absolute=_LEAST_NORMAL), "ex2.approx.ftz.f32: relative error 2^-22"),
            f64=_IN_F64,
            cost=FunctionCost(4, 1),
            is_never_negative=True,
        ),
    )
    EXPM1 = (
        "expm1",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.expm1(x),
            ends=ends.rising,
            exact=_library(2 * _ULP, 2 * _LEAST),
            f64=_IN_F64,
            cost=FunctionCost(26, 26),
        ),
    )
    LOG2 = (
        "log2",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.log2(x),
            ends=ends.rising,
            exact=_library(2 * _ULP),
            approx=MathForm(
                ErrorBound(4 * _ULP, absolute=2.0**-21),
                "lg2.approx.f32: 2^-22, in (0.5, 2) of one instead of the result",
            ),
            f64=_library(_F64, _F64),
            cost=FunctionCost(18, 1),
            is_of_positive=True,
        ),
    )
    LOG1P = (
        "log1p",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.log1p(x),
            ends=ends.rising,
            exact=_library(2 * _ULP, 2 * _LEAST),
            f64=_IN_F64,
            cost=FunctionCost(24, 24),
            is_of_positive=True,
        ),
    )
    SIN = "sin", replace(_ANGLE, reference=lambda xp, x: xp.sin(x), ends=ends.waves(math.pi / 2))
    COS = "cos", replace(_ANGLE, reference=lambda xp, x: xp.cos(x), ends=ends.waves(0.0))
    POW = (
        "pow",
        OpRow(
            OpClass.BINARY,
            2,
            takes=FLOATS,
            reference=exact_pow,
            ends=ends.powers,
            exact=_library(8 * _ULP, 2 * _LEAST),
            f64=_IN_F64,
            cost=FunctionCost(70, 70, special=2),
            zero=Zero.TOLD,
            is_of_positive=True,
        ),
    )
    ERF = (
        "erf",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: each_element(xp, "erf", math.erf, x),
            ends=ends.rising,
            exact=_library(4 * _ULP, 2 * _LEAST),
            f64=_IN_F64,
            cost=FunctionCost(24, 24),
        ),
    )
    TANH = (
        "tanh",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.tanh(x),
            ends=ends.rising,
            exact=_library(4 * _ULP, 2 * _LEAST),
            coarse=_tanh(ErrorBound(2.0**-10)),
            f64=_IN_F64,
            cost=FunctionCost(24, 1),
        ),
    )
    SIGMOID = (
        "sigmoid",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: 1.0 / (1.0 + xp.exp(-x)),
            ends=ends.rising,
            exact=_library(6 * _ULP, _LEAST_NORMAL, "as exp, a sum and a quotient; 0 where exp(-x) is infinite"),
            approx=MathForm(
                ErrorBound(8 * _ULP, argument=_LOG2_E, absolute=_LEAST_NORMAL), "as exp; rcp.approx.ftz.f32: 1 ulp"
            ),
            coarse=_tanh(ErrorBound(absolute=2.0**-11)),
            f64=_IN_F64,
            cost=FunctionCost(18, 4, special=2),
            is_never_negative=True,
        ),
    )
    GELU = (
        "gelu",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=exact_gelu,
            ends=ends.lowest_at(-0.7524614220710162, -0.17004075),
            exact=MathForm(
                ErrorBound(2.0**-15, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL),
                "as silu; the exponential's argument is a polynomial of four roundings, up to 88.8 where the result is"
                " no zero yet",
            ),
            approx=MathForm(
                ErrorBound(2.0**-14, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL),
                "as silu; the argument is a polynomial of four roundings",
            ),
            coarse=_tanh(ErrorBound(of_operand=2.0**-11)),
            f64=_library(2.0**-40, _LEAST_F64, "as exact, its argument up to 745"),
            cost=FunctionCost(30, 7, special=2),
            torch="nn.functional.gelu",
            torch_options=(("approximate", "tanh"),),
        ),
    )
    GELU_ERF = (
        "gelu_erf",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=exact_gelu_erf,
            ends=ends.lowest_at(-0.7517915246935645, -0.16997120747990369),
            exact=MathForm(
                ErrorBound(2.0**-15, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL),
                "a polynomial within 2^-23 of it, and an exponential whose argument is rounded, up to 88.8 where the"
                " result is no zero yet",
            ),
            approx=MathForm(
                ErrorBound(2.0**-15, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL),
                "as exact; rcp.approx.ftz.f32: 1 ulp, ex2.approx.ftz.f32: 2^-22",
            ),
            f64=_library(2.0**-40, _LEAST_F64, "the CUDA math API's maximum error; the reference rounds its argument"),
            cost=FunctionCost(45, 17, special=2),
            torch="nn.functional.gelu",
        ),
    )
    SILU = (
        "silu",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: x / (1.0 + xp.exp(-x)),
            ends=ends.lowest_at(-1.2784645427610738, -0.2784645427610738),
            exact=MathForm(
                ErrorBound(6 * _ULP, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL), "as sigmoid, times x"
            ),
            approx=MathForm(
                ErrorBound(10 * _ULP, argument=_LOG2_E, absolute=_LEAST_NORMAL, of_operand=_LEAST_NORMAL),
                "as sigmoid, and a product",
            ),
            coarse=_tanh(ErrorBound(of_operand=2.0**-11)),
            f64=_IN_F64,
            cost=FunctionCost(19, 5, special=2),
            torch="nn.functional.silu",
        ),
    )
    SQRT = (
        "sqrt",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: xp.sqrt(x),
            ends=ends.rising,
            approx=MathForm(ErrorBound(2 * _ULP), "sqrt.approx.f32: relative error 2^-23"),
            cost=FunctionCost(8, 1),
            is_of_positive=True,
        ),
    )
    RSQRT = (
        "rsqrt",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: 1.0 / xp.sqrt(x),
            ends=ends.inverse_roots,
            exact=_library(2 * _ULP, source="a root and a quotient, each rounded"),
            approx=MathForm(ErrorBound(3 * _ULP), "rsqrt.approx.f32: relative error 2^-22.9"),
            f64=_IN_F64,
            cost=FunctionCost(4, 1),
            zero=Zero.TOLD,
            is_of_positive=True,
        ),
    )
    RECIPROCAL = (
        "reciprocal",
        OpRow(
            OpClass.UNARY,
            takes=FLOATS,
            reference=lambda xp, x: 1.0 / x,
            ends=ends.reciprocals,
            approx=MathForm(ErrorBound(2 * _ULP, absolute=_LEAST), "rcp.approx.f32: 1 ulp"),
            cost=FunctionCost(8, 1),
            zero=Zero.TOLD,
        ),
    )

    # Comparisons: two operands of one type, a bool -------------------------------------------------------------------

    EQ = "eq", replace(_comparison(lambda xp, x, y: x == y, ends.equal, "==", "eq"), takes=STORED)
    NE = "ne", replace(_comparison(lambda xp, x, y: x != y, ends.unequal, "!=", "ne"), takes=STORED)
    LT = "lt", _comparison(lambda xp, x, y: x < y, ends.below, "<", "gt")
    LE = "le", _comparison(lambda xp, x, y: x <= y, ends.below, "<=", "ge")
    GT = "gt", _comparison(lambda xp, x, y: x > y, ends.difference, ">", "lt")
    GE = "ge", _comparison(lambda xp, x, y: x >= y, ends.difference, ">=", "le")

    # Of three operands -----------------------------------------------------------------------------------------------

    WHERE = "where", OpRow(OpClass.SELECTION, 3, STORED, lambda xp, mask, x, y: xp.where(mask, x, y), rounds=False)
    FMA = (
        "fma",
        OpRow(OpClass.TERNARY, 3, FLOATS, lambda xp, x, y, z: x * y + z, ends.fused, torch=""),
    )

    # Views: index maps, which `compiler.ir.views` has ----------------------------------------------------------------

    BROADCAST_TO = "broadcast_to", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    PERMUTE = "permute", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    RESHAPE = "reshape", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    SLICE = "slice", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    FLIP = "flip", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    VIEW = "view", OpRow(OpClass.VIEW, takes=STORED, rounds=False)
    PAD = "pad", OpRow(OpClass.JOIN, takes=STORED, rounds=False)
    CAT = "cat", OpRow(OpClass.JOIN, None, STORED, rounds=False)
    IOTA = "iota", OpRow(OpClass.SOURCE, 0)
    FULL = "full", OpRow(OpClass.SOURCE, 0, ANY_TYPE)

    # Of a seed and an offset, and of the number of the element, its reference's third operand -------------------------

    RAND = (
        "rand",
        OpRow(
            OpClass.RANDOM,
            2,
            takes=frozenset({DType.I64}),
            reference=uniform,
            ends=ends.in_unit,
            cost=FunctionCost(20, 20, special=0),
            torch="",
            is_never_negative=True,
            rounds=False,
        ),
    )

    # Reads at places that integers of the second operand choose ------------------------------------------------------

    TAKE = "take", OpRow(OpClass.CHOICE, 2, STORED, rounds=False)
    GATHER = "gather", OpRow(OpClass.CHOICE, 2, STORED, rounds=False)

    # Folds -----------------------------------------------------------------------------------------------------------

    SUM = "sum", _SUMMED
    PROD = (
        "prod",
        OpRow(
            OpClass.FOLD,
            takes=FLOATS | {DType.I64},
            reference=exact_product,
            begins=1.0,
            step="mul",
        ),
    )
    MEAN = "mean", replace(_SUMMED, takes=FLOATS, approx=_QUOTIENT)
    AMAX = (
        "amax",
        OpRow(
            OpClass.FOLD,
            takes=ANY_TYPE,
            reference=lambda xp, x, axes: xp.amax(x, axis=axes, keepdims=True),
            begins=-inf,
            step="maximum",
            zero=Zero.OPEN,
            rounds=False,
        ),
    )
    AMIN = (
        "amin",
        OpRow(
            OpClass.FOLD,
            takes=ANY_TYPE,
            reference=lambda xp, x, axes: xp.amin(x, axis=axes, keepdims=True),
            begins=inf,
            step="minimum",
            zero=Zero.OPEN,
            rounds=False,
        ),
    )

    # Contractions: sums of products of two operands, along a dimension that both have ---------------------------------

    MATMUL = (
        "matmul",
        OpRow(
            OpClass.CONTRACTION,
            2,
            takes=frozenset({DType.F32, DType.F16, DType.BF16, DType.I8}) | FP8,
            reference=exact_matmul,
            begins=0.0,
            step="add",
            zero=Zero.OPEN,
        ),
    )

    # Scans: an element of all those up to it ------------------------------------------------------------------------

    CUMSUM = (
        "cumsum",
        OpRow(
            OpClass.SCAN,
            takes=frozenset({DType.F64, DType.F32, DType.I64}),
            reference=exact_prefix_sum,
            zero=Zero.OPEN,
        ),
    )
