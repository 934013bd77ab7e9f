"""Every operator, as one row: the table that all other places read. Meanings are torch's on CUDA (docs/contracts.md,
"Fusion"); how one is added: docs/extending/operator.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from math import inf

from compiler.dtypes import DType
from compiler.ir.ops import ends
from compiler.ir.ops.exact import (
    each_element,
    exact_floor_divide,
    exact_gelu,
    exact_gelu_erf,
    exact_left_shift,
    exact_pow,
    exact_remainder,
    exact_right_shift,
)
from compiler.ir.ops.philox import uniform
from compiler.ir.ops.row import (
    ANY_TYPE,
    FLOATS,
    INTEGERS,
    STORED,
    ErrorBound,
    FunctionCost,
    MathForm,
    OpClass,
    OpRow,
    Zero,
)
from compiler.ir.ops.rows import (
    CONTRACTED,
    CONTRACTED_TF32,
    IN_F64,
    LEAST,
    LEAST_F64,
    LEAST_NORMAL,
    LOG2_E,
    MULTIPLIED,
    QUOTIENT,
    RELATIVE_F64,
    SCANNED,
    SUMMED,
    ULP,
    angle,
    by_tanh,
    comparison,
    extremes,
    function,
    larger_or_smaller,
    library,
    moved,
    of_bits,
    whole,
)


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

    COPY = "copy", moved(OpClass.COPY)
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
            approx=QUOTIENT,
            cost=FunctionCost(15, 2),
            zero=Zero.TOLD,
        ),
    )
    MAXIMUM = "maximum", larger_or_smaller(lambda xp, x, y: xp.maximum(x, y))
    MINIMUM = "minimum", larger_or_smaller(lambda xp, x, y: xp.minimum(x, y))

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
    ROUND = "round", whole(lambda xp, x: xp.round(x))
    FLOOR = "floor", whole(lambda xp, x: xp.floor(x))
    CEIL = "ceil", whole(lambda xp, x: xp.ceil(x))
    TRUNC = "trunc", whole(lambda xp, x: xp.trunc(x))

    # Of integers: their bits ----------------------------------------------------------------------------------------

    BITWISE_NOT = "bitwise_not", of_bits(1, lambda xp, x: ~x)
    BITWISE_AND = "bitwise_and", of_bits(2, lambda xp, x, y: x & y)
    BITWISE_OR = "bitwise_or", of_bits(2, lambda xp, x, y: x | y)
    BITWISE_XOR = "bitwise_xor", of_bits(2, lambda xp, x, y: x ^ y)
    BITWISE_LEFT_SHIFT = "bitwise_left_shift", of_bits(2, exact_left_shift, INTEGERS)
    BITWISE_RIGHT_SHIFT = "bitwise_right_shift", of_bits(2, exact_right_shift, INTEGERS)

    # Whole quotients, and what they leave ---------------------------------------------------------------------------

    FLOOR_DIVIDE = (
        "floor_divide",
        OpRow(
            OpClass.BINARY,
            2,
            reference=exact_floor_divide,
            ends=ends.whole_quotients,
            ends_of_integers=ends.unordered,
            cost=FunctionCost(24, 24),
            zero=Zero.TOLD,
            jumps=True,
        ),
    )
    REMAINDER = (
        "remainder",
        OpRow(
            OpClass.BINARY,
            2,
            reference=exact_remainder,
            ends=ends.remainders,
            ends_of_integers=ends.unordered,
            cost=FunctionCost(24, 24),
            jumps=True,
        ),
    )

    # Transcendental functions, roots and quotients -------------------------------------------------------------------

    EXP = (
        "exp",
        function(
            lambda xp, x: xp.exp(x),
            ends.rising,
            FunctionCost(8, 2),
            exact=library(2 * ULP, 2 * LEAST),
            approx=MathForm(
                ErrorBound(4 * ULP, argument=LOG2_E, absolute=LEAST_NORMAL),
                "ex2.approx.ftz.f32: relative error 2^-22; argument rounded to f32",
            ),
            f64=MathForm(ErrorBound(RELATIVE_F64, argument=2.0**-51, absolute=LEAST_F64), "as exact; argument rounded"),
            is_never_negative=True,
        ),
    )
    LOG = (
        "log",
        function(
            lambda xp, x: xp.log(x),
            ends.rising,
            FunctionCost(25, 2),
            exact=library(2 * ULP),
            approx=MathForm(
                ErrorBound(8 * ULP, absolute=2.0**-20),
                "lg2.approx.f32: 2^-22, in (0.5, 2) of one instead of the result",
            ),
            f64=library(RELATIVE_F64, RELATIVE_F64),
            is_of_positive=True,
        ),
    )
    EXP2 = (
        "exp2",
        function(
            lambda xp, x: xp.exp2(x),
            ends.rising,
            FunctionCost(4, 1),
            exact=library(4 * ULP, 2 * LEAST),
            approx=MathForm(ErrorBound(4 * ULP, absolute=LEAST_NORMAL), "ex2.approx.ftz.f32: relative error 2^-22"),
            f64=IN_F64,
            is_never_negative=True,
        ),
    )
    EXPM1 = (
        "expm1",
        function(
            lambda xp, x: xp.expm1(x),
            ends.rising,
            FunctionCost(26, 26),
            exact=library(2 * ULP, 2 * LEAST),
            f64=IN_F64,
        ),
    )
    LOG2 = (
        "log2",
        function(
            lambda xp, x: xp.log2(x),
            ends.rising,
            FunctionCost(18, 1),
            exact=library(2 * ULP),
            approx=MathForm(
                ErrorBound(4 * ULP, absolute=2.0**-21),
                "lg2.approx.f32: 2^-22, in (0.5, 2) of one instead of the result",
            ),
            f64=library(RELATIVE_F64, RELATIVE_F64),
            is_of_positive=True,
        ),
    )
    LOG1P = (
        "log1p",
        function(
            lambda xp, x: xp.log1p(x),
            ends.rising,
            FunctionCost(24, 24),
            exact=library(2 * ULP, 2 * LEAST),
            f64=IN_F64,
            is_of_positive=True,
        ),
    )
    SIN = "sin", angle(lambda xp, x: xp.sin(x), ends.waves(math.pi / 2))
    COS = "cos", angle(lambda xp, x: xp.cos(x), ends.waves(0.0))
    POW = (
        "pow",
        OpRow(
            OpClass.BINARY,
            2,
            reference=exact_pow,
            ends=ends.powers,
            ends_of_integers=ends.unordered,
            exact=library(8 * ULP, 2 * LEAST),
            f64=IN_F64,
            cost=FunctionCost(70, 70, special=2),
            zero=Zero.TOLD,
            is_of_positive=True,
        ),
    )
    ERF = (
        "erf",
        function(
            lambda xp, x: each_element(xp, "erf", math.erf, x),
            ends.rising,
            FunctionCost(24, 24),
            exact=library(4 * ULP, 2 * LEAST),
            f64=IN_F64,
        ),
    )
    TANH = (
        "tanh",
        function(
            lambda xp, x: xp.tanh(x),
            ends.rising,
            FunctionCost(24, 1),
            exact=library(4 * ULP, 2 * LEAST),
            coarse=by_tanh(ErrorBound(2.0**-10)),
            f64=IN_F64,
        ),
    )
    SIGMOID = (
        "sigmoid",
        function(
            lambda xp, x: 1.0 / (1.0 + xp.exp(-x)),
            ends.rising,
            FunctionCost(24, 4, special=2),
            exact=library(6 * ULP, LEAST_NORMAL, "as exp, a sum and a quotient; 0 where exp(-x) is infinite"),
            approx=MathForm(
                ErrorBound(8 * ULP, argument=LOG2_E, absolute=LEAST_NORMAL), "as exp; rcp.approx.ftz.f32: 1 ulp"
            ),
            coarse=by_tanh(ErrorBound(absolute=2.0**-11)),
            f64=IN_F64,
            is_never_negative=True,
        ),
    )
    GELU = (
        "gelu",
        function(
            exact_gelu,
            ends.lowest_at(-0.7524614220710162, -0.17004075),
            FunctionCost(28, 7, special=2),
            exact=MathForm(
                ErrorBound(2.0**-15, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL),
                "as silu; the exponential's argument is a polynomial of four roundings, up to 88.8 where the result is"
                " no zero yet",
            ),
            approx=MathForm(
                ErrorBound(2.0**-14, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL),
                "as silu; the argument is a polynomial of four roundings",
            ),
            coarse=by_tanh(ErrorBound(of_operand=2.0**-11)),
            f64=library(2.0**-40, LEAST_F64, "as exact, its argument up to 745"),
            torch="nn.functional.gelu",
            torch_options=(("approximate", "tanh"),),
        ),
    )
    GELU_ERF = (
        "gelu_erf",
        function(
            exact_gelu_erf,
            ends.lowest_at(-0.7517915246935645, -0.16997120747990369),
            FunctionCost(45, 17, special=2),
            exact=MathForm(
                ErrorBound(2.0**-15, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL),
                "a polynomial within 2^-23 of it, and an exponential whose argument is rounded, up to 88.8 where the"
                " result is no zero yet",
            ),
            approx=MathForm(
                ErrorBound(2.0**-15, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL),
                "as exact; rcp.approx.ftz.f32: 1 ulp, ex2.approx.ftz.f32: 2^-22",
            ),
            f64=library(2.0**-40, LEAST_F64, "the CUDA math API's maximum error; the reference rounds its argument"),
            torch="nn.functional.gelu",
        ),
    )
    SILU = (
        "silu",
        function(
            lambda xp, x: x / (1.0 + xp.exp(-x)),
            ends.lowest_at(-1.2784645427610738, -0.2784645427610738),
            FunctionCost(24, 5, special=2),
            exact=MathForm(ErrorBound(6 * ULP, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL), "as sigmoid, times x"),
            approx=MathForm(
                ErrorBound(10 * ULP, argument=LOG2_E, absolute=LEAST_NORMAL, of_operand=LEAST_NORMAL),
                "as sigmoid, and a product",
            ),
            coarse=by_tanh(ErrorBound(of_operand=2.0**-11)),
            f64=IN_F64,
            torch="nn.functional.silu",
        ),
    )
    SQRT = (
        "sqrt",
        function(
            lambda xp, x: xp.sqrt(x),
            ends.rising,
            FunctionCost(14, 1),
            approx=MathForm(ErrorBound(2 * ULP), "sqrt.approx.f32: relative error 2^-23"),
            is_of_positive=True,
        ),
    )
    RSQRT = (
        "rsqrt",
        function(
            lambda xp, x: 1.0 / xp.sqrt(x),
            ends.inverse_roots,
            FunctionCost(4, 1),
            exact=library(2 * ULP, source="a root and a quotient, each rounded"),
            approx=MathForm(ErrorBound(3 * ULP), "rsqrt.approx.f32: relative error 2^-22.9"),
            f64=IN_F64,
            zero=Zero.TOLD,
            is_of_positive=True,
        ),
    )
    RECIPROCAL = (
        "reciprocal",
        function(
            lambda xp, x: 1.0 / x,
            ends.reciprocals,
            FunctionCost(14, 1),
            approx=MathForm(ErrorBound(2 * ULP, absolute=LEAST), "rcp.approx.f32: 1 ulp"),
            zero=Zero.TOLD,
        ),
    )

    # Comparisons: two operands of one type, a bool -------------------------------------------------------------------

    EQ = "eq", replace(comparison(lambda xp, x, y: x == y, ends.equal, "==", "eq"), takes=STORED)
    NE = "ne", replace(comparison(lambda xp, x, y: x != y, ends.unequal, "!=", "ne"), takes=STORED)
    LT = "lt", comparison(lambda xp, x, y: x < y, ends.below, "<", "gt")
    LE = "le", comparison(lambda xp, x, y: x <= y, ends.below, "<=", "ge")
    GT = "gt", comparison(lambda xp, x, y: x > y, ends.difference, ">", "lt")
    GE = "ge", comparison(lambda xp, x, y: x >= y, ends.difference, ">=", "le")

    # Of three operands -----------------------------------------------------------------------------------------------

    WHERE = "where", OpRow(OpClass.SELECTION, 3, STORED, lambda xp, mask, x, y: xp.where(mask, x, y), rounds=False)
    FMA = (
        "fma",
        OpRow(OpClass.TERNARY, 3, FLOATS, lambda xp, x, y, z: x * y + z, ends.fused, torch=""),
    )

    # Views: index maps, which `compiler.ir.views` has ----------------------------------------------------------------

    BROADCAST_TO = "broadcast_to", moved()
    PERMUTE = "permute", moved()
    RESHAPE = "reshape", moved()
    SLICE = "slice", moved()
    FLIP = "flip", moved()
    VIEW = "view", moved()
    PAD = "pad", moved(OpClass.JOIN)
    CAT = "cat", moved(OpClass.JOIN, None)
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

    TAKE = "take", moved(OpClass.CHOICE, 2)
    GATHER = "gather", moved(OpClass.CHOICE, 2)

    # Folds -----------------------------------------------------------------------------------------------------------

    SUM = "sum", SUMMED
    PROD = "prod", MULTIPLIED
    MEAN = "mean", replace(SUMMED, takes=FLOATS, approx=QUOTIENT)
    AMAX = "amax", extremes(lambda xp, x, axes: xp.amax(x, axis=axes, keepdims=True), -inf, "maximum")
    AMIN = "amin", extremes(lambda xp, x, axes: xp.amin(x, axis=axes, keepdims=True), inf, "minimum")

    # Contractions: sums of products of two operands, along a dimension that both have ---------------------------------

    MATMUL = "matmul", CONTRACTED
    MATMUL_TF32 = "matmul_tf32", CONTRACTED_TF32
    """A fusion's `matmul` with `"precision": "tf32"`."""

    # Scans: an element of all those up to it ------------------------------------------------------------------------

    CUMSUM = "cumsum", SCANNED
