"""Operators of a fusion and their classes. Meanings are torch's on CUDA (docs/contracts.md, "Fusion")."""

from __future__ import annotations

from enum import StrEnum


class OpKind(StrEnum):
    """Every operator of the scheduling model; the value is its wire name. `COMPILED` says which have a lowering."""

    COPY = "copy"
    CAST = "cast"
    NEG = "neg"
    ABS = "abs"
    EXP = "exp"
    LOG = "log"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    RELU = "relu"
    GELU = "gelu"
    SILU = "silu"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    SQUARE = "square"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    WHERE = "where"
    FMA = "fma"
    BROADCAST_TO = "broadcast_to"
    PERMUTE = "permute"
    RESHAPE = "reshape"
    SLICE = "slice"
    VIEW = "view"
    CAT = "cat"
    IOTA = "iota"
    SUM = "sum"
    MEAN = "mean"
    AMAX = "amax"
    AMIN = "amin"


class MathGrade(StrEnum):
    """How exactly an elementwise function is computed: a few ulp, approximate instructions that keep nearly all bits of
    f32, or the coarse ones that suffice for results stored in 16 bits. The more exact ones come first."""

    EXACT = "exact"
    APPROX = "approx"
    COARSE = "coarse"


UNARY = frozenset(
    {
        OpKind.NEG,
        OpKind.ABS,
        OpKind.EXP,
        OpKind.LOG,
        OpKind.TANH,
        OpKind.SIGMOID,
        OpKind.RELU,
        OpKind.GELU,
        OpKind.SILU,
        OpKind.SQRT,
        OpKind.RSQRT,
        OpKind.RECIPROCAL,
        OpKind.SQUARE,
    }
)
BINARY = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.MAXIMUM, OpKind.MINIMUM})
COMPARE = frozenset({OpKind.EQ, OpKind.NE, OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
"""Two operands of one dtype, a bool."""

POINTWISE = UNARY | BINARY | COMPARE | {OpKind.CAST, OpKind.WHERE, OpKind.FMA}
"""One output element from the elements of every operand at the same position."""

VIEWS = frozenset({OpKind.BROADCAST_TO, OpKind.PERMUTE, OpKind.RESHAPE, OpKind.SLICE, OpKind.VIEW})
"""Pure index maps: the value of an element does not change, only where it is read from. VIEW, any such map, occurs in
scheduled fusions only: a chain of views on an input is one read."""

MOVES = VIEWS | {OpKind.COPY}
"""Operators that may carry data between memories."""

COPIES = frozenset({OpKind.COPY, OpKind.PERMUTE})
"""Operators that move elements as they are, a word at a time if asked to."""

REDUCTIONS = frozenset({OpKind.SUM, OpKind.AMAX, OpKind.AMIN})
"""Operators of a scheduled fusion that fold the elements along axes into one; a mean is a sum and a quotient there."""

FOLDS = REDUCTIONS | {OpKind.MEAN}
"""Reductions of a fusion."""

COMPILED = (POINTWISE | MOVES | FOLDS | {OpKind.CAT, OpKind.IOTA}) - {OpKind.VIEW}
"""Operators of a fusion that have a lowering."""
