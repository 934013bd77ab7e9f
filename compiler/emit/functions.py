"""Which device function computes an operator in a type, and which pieces of device code hold it.

Kernels compute in f32 for f32 and halves, in f64, in i32 for i8, and in the integers' and bools' own type otherwise:
`COMPUTED_IN`. Comparisons and `where` are C++ operators.
"""

from __future__ import annotations

from collections.abc import Iterable

from compiler.dtypes import DType
from compiler.emit.math_forms import MATH_FORMS
from compiler.ir.ops import MathGrade, OpKind

COMPUTED_IN = {
    DType.F64: DType.F64,
    DType.F32: DType.F32,
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.I64: DType.I64,
    DType.I32: DType.I32,
    DType.I8: DType.I32,
    DType.BOOL: DType.BOOL,
}
"""The type of the arithmetic for each element type, widest first."""

_INTEGER = (
    OpKind.NEG,
    OpKind.ABS,
    OpKind.SQUARE,
    OpKind.RELU,
    OpKind.ADD,
    OpKind.SUB,
    OpKind.MUL,
    OpKind.MAXIMUM,
    OpKind.MINIMUM,
)

FUNCTIONS: dict[tuple[OpKind, DType], str] = {
    **{(kind, DType.F32): forms.exact for kind, forms in MATH_FORMS.items()},
    **{(kind, DType.F64): f"{forms.exact}_f64" for kind, forms in MATH_FORMS.items()},
    **{(kind, dtype): f"ft_{kind}_{dtype}" for dtype in (DType.I32, DType.I64) for kind in _INTEGER},
    (OpKind.FMA, DType.F32): "ft_fma",
    (OpKind.FMA, DType.F64): "ft_fma_f64",
    **{(kind, DType.BOOL): f"ft_{kind}_bool" for kind in (OpKind.MAXIMUM, OpKind.MINIMUM)},
}
"""The exact function of every operator in every type that it has a meaning in."""

COMPARISONS = {
    OpKind.EQ: "==",
    OpKind.NE: "!=",
    OpKind.LT: "<",
    OpKind.LE: "<=",
    OpKind.GT: ">",
    OpKind.GE: ">=",
}
"""IEEE 754 for floats, as torch: every comparison with NaN is false, but `ne` is true."""

_PIECES = {
    DType.F64: ("math_f64",),
    DType.I64: ("integer",),
    DType.I32: ("integer",),
    DType.I8: ("integer",),
    DType.BOOL: ("integer",),
}


def function(kind: OpKind, grade: MathGrade, dtype: DType = DType.F32) -> str:
    """The device function of an operator on `dtype`: of the grade asked for, or the next more exact one that it has.

    Only f32 and the halves have approximate ones.
    """
    computed = COMPUTED_IN[dtype]
    if computed is DType.F32 and (forms := MATH_FORMS.get(kind)) is not None:
        if grade is MathGrade.COARSE and forms.coarse is not None:
            return forms.coarse.function
        if grade is not MathGrade.EXACT and forms.approx is not None:
            return forms.approx.function
    return FUNCTIONS[kind, computed]


def pieces_for(dtypes: Iterable[DType]) -> set[str]:
    """The device code that computing with, or converting between, these types may call."""
    return {"math", "convert"} | {piece for dtype in dtypes for piece in _PIECES.get(dtype, ())}
