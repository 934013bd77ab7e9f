"""Which device function computes an operator in a type, and which pieces of device code hold it.

Kernels compute in f32 for f32 and shorter floats, in f64, in i32 for shorter integers, and in the integers' and bools'
own type otherwise: `COMPUTED_IN`. Device functions are named after operators, grades and types; how wrong each may be
stands in the rows (`compiler.ir.ops.kinds`). Comparisons and `where` are C++ operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler.dtypes import FP8, DType
from compiler.emit.pieces import piece_with
from compiler.ir.ops import ARITHMETIC, MathGrade, OpKind

COMPUTED_IN = {
    DType.F64: DType.F64,
    DType.F32: DType.F32,
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.F8E4M3: DType.F32,
    DType.F8E5M2: DType.F32,
    DType.I64: DType.I64,
    DType.I32: DType.I32,
    DType.I16: DType.I32,
    DType.I8: DType.I32,
    DType.U8: DType.I32,
    DType.BOOL: DType.BOOL,
}
"""The type of the arithmetic for each element type, widest first."""

_GRADES = {MathGrade.EXACT: "", MathGrade.APPROX: "_approx", MathGrade.COARSE: "_coarse"}
_TYPES = {DType.F32: "", DType.F64: "_f64", DType.I32: "_i32", DType.I64: "_i64", DType.BOOL: "_bool"}

_PIECES = {
    DType.F64: ("math_f64",),
    DType.I64: ("integer",),
    DType.I32: ("integer",),
    DType.I16: ("integer",),
    DType.I8: ("integer",),
    DType.U8: ("integer",),
    DType.BOOL: ("integer",),
    DType.F8E4M3: ("fp8",),
    DType.F8E5M2: ("fp8",),
}


def has_meaning(kind: OpKind, dtype: DType) -> bool:
    """Whether an operator is arithmetic that `dtype` has."""
    return kind in ARITHMETIC and dtype in kind.row.takes


def function(kind: OpKind, grade: MathGrade, dtype: DType = DType.F32) -> str:
    """The device function of an operator on `dtype`: of the grade asked for, or the next more exact one that it has.

    Only f32 and the halves have approximate ones.
    """
    computed = COMPUTED_IN[dtype]
    assert has_meaning(kind, dtype), f"{kind} has no meaning on {dtype}"
    found = kind.row.nearest(grade if computed is DType.F32 else MathGrade.EXACT)
    return f"ft_{kind}{_GRADES[found]}{_TYPES[computed]}"


def call(kind: OpKind, grade: MathGrade, dtype: DType, operands: Sequence[str]) -> str:
    """An operator on operands of the type that `dtype` is computed in."""
    name = function(kind, grade, dtype)
    if kind.row.calls:
        return kind.row.calls.format(*operands, t=_TYPES[COMPUTED_IN[dtype]])
    return f"{name}({', '.join(operands)})"


def pieces_for_casts(*dtypes: DType) -> set[str]:
    """The device code that converting vectors between these types may call."""
    return {"convert", "fp8"} if FP8.intersection(dtypes) else {"convert"}


def pieces_for_folds(kind: OpKind, dtype: DType) -> set[str]:
    """The device code that folding in this type may call."""
    if kind is OpKind.PROD:
        return {"product"}
    return {"fold", "fold_short"} if dtype in (DType.U8, DType.I16) else {"fold"}


def pieces_for(dtypes: Iterable[DType], kinds: Iterable[OpKind] = ()) -> set[str]:
    """The device code that computing these operators with, or converting between, these types may call."""
    dtypes = frozenset(dtypes)
    called = {
        piece_with(function(kind, MathGrade.EXACT, dtype))
        for kind in kinds
        for dtype in dtypes
        if has_meaning(kind, dtype) and not kind.row.calls
    }
    return {"math", "convert"} | called | {piece for dtype in dtypes for piece in _PIECES.get(dtype, ())}
