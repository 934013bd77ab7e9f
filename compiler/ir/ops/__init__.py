"""Operators of a fusion: a row each (`kinds`), of which `row` has the fields and `ends` the interval rules; and their
classes, read off the rows."""

from __future__ import annotations

from compiler.ir.ops.kinds import OpKind
from compiler.ir.ops.row import (
    ANY_TYPE,
    BITS,
    FLOATS,
    STORED,
    ErrorBound,
    MathForm,
    MathGrade,
    OpClass,
    OpRow,
    Zero,
)

__all__ = [
    "ANY_TYPE",
    "ARITHMETIC",
    "BINARY",
    "BITS",
    "CARRIES",
    "CHOICES",
    "COMPARE",
    "COMPILED",
    "CONTRACTIONS",
    "COSTLY",
    "ELSEWHERE",
    "EXTREMES",
    "FLOATS",
    "FOLDS",
    "MOVES",
    "POINTWISE",
    "PRODUCTS",
    "RANDOM",
    "REDUCTIONS",
    "ROUNDING_FOLDS",
    "SCANS",
    "STORED",
    "SUMS",
    "UNARY",
    "VIEWS",
    "ErrorBound",
    "MathForm",
    "MathGrade",
    "OpClass",
    "OpKind",
    "OpRow",
    "Zero",
]


def _of(*classes: OpClass) -> frozenset[OpKind]:
    return frozenset(kind for kind in OpKind if kind.row.cls in classes)


UNARY = _of(OpClass.UNARY)
BINARY = _of(OpClass.BINARY)
COMPARE = _of(OpClass.COMPARISON)
"""Two operands of one dtype, a bool."""

ARITHMETIC = UNARY | BINARY | _of(OpClass.TERNARY)
"""What device functions compute, in the type of their operands."""

POINTWISE = ARITHMETIC | COMPARE | _of(OpClass.CAST, OpClass.SELECTION)
"""One output element from the elements of every operand at the same position."""

RANDOM = _of(OpClass.RANDOM)
"""Of a seed and an offset for the whole tensor, and of the element's position; pointwise in a scheduled fusion, where
those two have been broadcast."""

VIEWS = _of(OpClass.VIEW)
"""Pure index maps: the value of an element does not change, only where it is read from. VIEW, any such map, occurs in
scheduled fusions only: a chain of views on an input is one read."""

CHOICES = _of(OpClass.CHOICE)
"""Reads of the first operand at places that the second one, integers, chooses. GATHER occurs in fusions only: in a
scheduled one every such read is a TAKE, whose view says what of a place is chosen."""

ELSEWHERE = VIEWS | CHOICES
"""Operators that read their first operand at another place than the one they make."""

MOVES = ELSEWHERE | _of(OpClass.COPY)
"""Operators that may carry data between memories."""

COPIES = frozenset({OpKind.COPY, OpKind.PERMUTE})
"""Operators that move elements as they are, a word at a time if asked to."""

CARRIES = MOVES | _of(OpClass.JOIN)
"""Operators whose results are elements of their operands, bit for bit."""

FOLDS = _of(OpClass.FOLD)
"""Reductions of a fusion."""

CONTRACTIONS = _of(OpClass.CONTRACTION)
"""Sums of products of two operands along a dimension that both have, each worked out once, as a fold is."""

REDUCTIONS = FOLDS - {OpKind.MEAN} | CONTRACTIONS
"""Operators of a scheduled fusion that fold the elements along axes into one; a mean is a sum and a quotient there. A
contraction folds the products of its operands, which both have all of its axes."""

SUMS = frozenset({OpKind.SUM, OpKind.MEAN})
"""Folds that add."""

ROUNDING_FOLDS = SUMS | {OpKind.PROD} | CONTRACTIONS
"""Folds of floats whose last bits depend on the order: each is folded once, and read by all."""

SCANS = _of(OpClass.SCAN)
"""Operators whose element is of all elements of the operand up to it along one dimension, or before it; each is worked
out once, as a fold is, and read by all."""

EXTREMES = FOLDS - ROUNDING_FOLDS
"""The greatest or the least of what is folded."""

PRODUCTS = frozenset({OpKind.MUL, OpKind.SQUARE})
"""What a sum may take in unrounded."""

COSTLY = frozenset(kind for kind in OpKind if kind.row.cost is not None)
"""Operators that take a special function, or a division: worth a register where a later pass needs the value again."""

COMPILED = frozenset(OpKind) - {OpKind.VIEW, OpKind.MATMUL_TF32}
"""Operators of a fusion that have a lowering, by their names there: MATMUL_TF32 is a `matmul` too."""
