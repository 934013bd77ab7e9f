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
    BROADCAST_TO = "broadcast_to"
    PERMUTE = "permute"
    SUM = "sum"


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
POINTWISE = UNARY | BINARY | {OpKind.CAST}
"""One output element from the elements of every operand at the same position."""

VIEWS = frozenset({OpKind.BROADCAST_TO, OpKind.PERMUTE})
"""Pure index maps: the value of an element does not change, only where it is read from."""

MOVES = VIEWS | {OpKind.COPY}
"""Operators that may carry data between memories."""

COMPILED = POINTWISE | MOVES
"""Operators with a lowering. A sum can be scheduled and checked, and is not lowered yet."""
