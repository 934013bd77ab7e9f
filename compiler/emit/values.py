"""Values as CUDA C++: the type of a register, an operand in the type that is computed in, an operator as an expression.

Halves are kept as their bits, bools as bytes of 0 or 1.
"""

from __future__ import annotations

from compiler.dtypes import DType
from compiler.emit.functions import COMPUTED_IN, call
from compiler.emit.literals import literal, rounded_to_half
from compiler.emit.text import total
from compiler.ir.fusion import Literal, Number, Scalar
from compiler.ir.ops import CARRIES, COMPARE, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Convert
from compiler.lower.operands import NumberParameter, Reg

ELEMENT = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "u16",
    DType.BF16: "u16",
    DType.I8: "::i8",
    DType.I32: "::i32",
    DType.I64: "::i64",
    DType.BOOL: "u8",
    DType.C128: "Vec<16>",
}
"""The C++ type of a register or of an element in memory. The types of signed integers are named from outside: a kernel
may have an input called `i8`."""

_HALVES = {DType.BF16: "bf16", DType.F16: "f16"}
_WIDER_THAN_F32 = frozenset({DType.F64, DType.I64, DType.I32})
_WIDEST_FIRST = tuple(dict.fromkeys(COMPUTED_IN.values()))
_COPIES = CARRIES | {OpKind.CAST}


def reg(r: Reg) -> str:
    """A register as an lvalue."""
    return f"{r.name}[{total(r.offset)}]"


def at(r: Reg, lane: int) -> Reg:
    """The register `lane` places further on."""
    return Reg(r.name, r.dtype, r.offset + lane)


def zero(dtype: DType) -> str:
    """The zero of an element type."""
    if dtype is DType.C128:
        return f"{ELEMENT[dtype]}{{}}"
    return "0" if dtype in _HALVES else literal(0, dtype)


def compute(s: Compute) -> str:
    """The value of `s`, in the type of its target register."""
    target = s.target.dtype
    if s.kind in _COPIES:
        return _as(s.operands[0], target)
    if s.kind is OpKind.WHERE:
        condition, chosen, other = s.operands
        return f"{_as(condition, DType.BOOL)} ? {_as(chosen, target)} : {_as(other, target)}"
    if s.kind in COMPARE:
        return _comparison(s)
    if s.element is not None:
        seed, offset = (_as(x, DType.I64) for x in s.operands)
        drawn = f"{seed}, {offset}, {total(s.element)}"
        if (shared := s.call) is None:
            return cast(f"ft_rand({drawn})", DType.F32, target)
        in_turn = f"ft_rand_in_turn<{shared.group}u>({shared.words}, {drawn}, {shared.turn.name})"
        return cast(in_turn, DType.F32, target)
    dtype = COMPUTED_IN[target]
    return cast(call(s.kind, s.grade, dtype, [_as(x, dtype) for x in s.operands]), dtype, target)


def convert(s: Convert) -> str:
    """Packed conversions between f32 and the halves; others element by element."""
    source, target = f"&{reg(s.source)}", f"&{reg(s.target)}"
    if s.target.dtype is DType.F32 and s.source.dtype in _HALVES:
        return f"ft_widen_{_HALVES[s.source.dtype]}<{s.width}>({target}, {source});"
    if s.source.dtype is DType.F32 and s.target.dtype in _HALVES:
        return f"ft_narrow_{_HALVES[s.target.dtype]}<{s.width}>({target}, {source});"
    pairs = ((at(s.target, i), at(s.source, i)) for i in range(s.width))
    return " ".join(f"{reg(t)} = {compute(Compute(OpKind.CAST, t, (x,), MathGrade.EXACT))};" for t, x in pairs)


def cast(text: str, source: DType, target: DType) -> str:
    """The expression `text` of type `source` in type `target`, converted as torch does: truncation towards zero from
    floats to integers, integers by their low bits, bool as a comparison with zero, one rounding to nearest otherwise.
    """
    if source is target:
        return text
    if source in _HALVES:
        return cast(f"ft_to_f32_{_HALVES[source]}({text})", DType.F32, target)
    if target in _HALVES:
        # To f32 with the lost bits kept in the last place, so that the rounding to a half is the only one.
        wide = f"ft_to_f32_odd({text})" if source in _WIDER_THAN_F32 else cast(text, source, DType.F32)
        return f"ft_to_{_HALVES[target]}({wide})"
    if target is DType.BOOL:
        return f"u8({text} != {literal(0, source)})"
    if target is DType.I8 and source.is_float:
        return f"::i8(::i32({text}))"
    return f"{ELEMENT[target]}({text})"


def parameter(x: Scalar | NumberParameter) -> str:
    """The kernel's parameter that holds a scalar in this type."""
    return f"{x.name}_{x.dtype}"


def _as(x: Reg | Number, dtype: DType) -> str:
    """An operand in type `dtype`."""
    if isinstance(x, Literal):
        return literal(x.value, dtype)
    return cast(parameter(x), x.dtype, dtype) if isinstance(x, Scalar) else converted(x, dtype)


def converted(x: Reg, dtype: DType) -> str:
    """The value of a register in type `dtype`."""
    if x.dtype is DType.BF16 and dtype is not DType.BF16:
        return cast(f"ft_to_f32_bf16({x.name}, {total(x.offset)})", DType.F32, dtype)
    return cast(reg(x), x.dtype, dtype)


def _comparison(s: Compute) -> str:
    """Both operands in the wider of their types. A number is rounded as the operand beside it has been."""
    dtypes = [x.dtype for x in s.operands if isinstance(x, Reg)]
    dtype = next(wide for wide in _WIDEST_FIRST if wide in {COMPUTED_IN[d] for d in dtypes})
    half = next((d for d in dtypes if d in _HALVES), None)
    sides = [
        _rounded(x, half, dtype) if isinstance(x, Number) and half is not None else _as(x, dtype) for x in s.operands
    ]
    return cast(f"({sides[0]} {s.kind.row.symbol} {sides[1]})", DType.BOOL, s.target.dtype)


def _rounded(x: Number, half: DType, dtype: DType) -> str:
    """A number as a 16-bit type has it, in type `dtype`."""
    if isinstance(x, Literal):
        return literal(rounded_to_half(x.value, half), dtype)
    return cast(cast(parameter(x), x.dtype, half), half, dtype)
