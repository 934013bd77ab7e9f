"""Values as CUDA C++: the type of a register, an operand in the type that is computed in, an operator as an expression.

Floats of 16 and 8 bits are kept as their bits, bools as bytes of 0 or 1.
"""

from __future__ import annotations

from compiler.dtypes import FP8, DType
from compiler.emit.functions import COMPUTED_IN, call
from compiler.emit.literals import literal, rounded_to_short
from compiler.emit.text import total
from compiler.ir.fusion import Literal, Number, Scalar
from compiler.ir.ops import CARRIES, COMPARE, MathGrade, OpKind
from compiler.lower.kernel_ir import Compute, Convert
from compiler.lower.operands import NumberParameter, Reg
from compiler.lower.whole_ir import Divisor, WholeNumber

ELEMENT = {
    DType.F64: "double",
    DType.F32: "float",
    DType.F16: "u16",
    DType.BF16: "u16",
    DType.F8E4M3: "u8",
    DType.F8E5M2: "u8",
    DType.I8: "::i8",
    DType.U8: "u8",
    DType.I16: "::i16",
    DType.I32: "::i32",
    DType.I64: "::i64",
    DType.BOOL: "u8",
    DType.C128: "Vec<16>",
}
"""The C++ type of a register or of an element in memory. The types of signed integers are named from outside: a kernel
may have an input called `i8`."""

_HALVES = frozenset({DType.BF16, DType.F16})
_SHORT = _HALVES | FP8
_THROUGH = {DType.I8: DType.I32, DType.I16: DType.I32, DType.U8: DType.I64}
"""What floats are truncated to before their low bits are kept; of u8 as torch does it for all that i64 holds."""

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
    return "0" if dtype in _SHORT else literal(0, dtype)


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
    """Packed conversions between f32 and shorter floats, and by way of f32 among those; others element by element."""
    source, target = f"&{reg(s.source)}", f"&{reg(s.target)}"
    widened, narrowed = (f"ft_{how}_{r.dtype}<{s.width}>" for how, r in (("widen", s.source), ("narrow", s.target)))
    if s.target.dtype is DType.F32 and s.source.dtype in _SHORT:
        return f"{widened}({target}, {source});"
    if s.source.dtype is DType.F32 and s.target.dtype in _SHORT:
        return f"{narrowed}({target}, {source});"
    if {s.source.dtype, s.target.dtype} <= _SHORT and FP8 & {s.source.dtype, s.target.dtype}:
        return f"{{ float wide[{s.width}]; {widened}(wide, {source}); {narrowed}({target}, wide); }}"
    pairs = ((at(s.target, i), at(s.source, i)) for i in range(s.width))
    return " ".join(f"{reg(t)} = {compute(Compute(OpKind.CAST, t, (x,), MathGrade.EXACT))};" for t, x in pairs)


def divisor(s: Divisor) -> str:
    """What is kept of a divisor."""
    return f"ft_divisor({_as(s.value, DType.F32)}, {_bounds(s)})"


def whole_number(s: WholeNumber) -> str:
    """A whole number between two bounds, as i32."""
    source = converted(s.source, DType.F32)
    return f"ft_whole_quotient({source}, {s.divisor})" if s.divisor else f"ft_whole({source}, {_bounds(s)})"


def _bounds(s: Divisor | WholeNumber) -> str:
    return ", ".join(literal(bound, DType.F32) for bound in (s.low, s.high))


def cast(text: str, source: DType, target: DType) -> str:
    """The expression `text` of type `source` in type `target`, converted as torch does: truncation towards zero from
    floats to integers, integers by their low bits, bool as a comparison with zero, one rounding to nearest otherwise,
    but to 8 bits from f32.
    """
    if source is target:
        return text
    if source in _SHORT:
        return cast(f"ft_to_f32_{source}({text})", DType.F32, target)
    if target in FP8:
        return f"ft_to_{target}({cast(text, source, DType.F32)})"
    if target in _HALVES:
        # To f32 with the lost bits kept in the last place, so that the rounding to a half is the only one.
        wide = f"ft_to_f32_odd({text})" if source in _WIDER_THAN_F32 else cast(text, source, DType.F32)
        return f"ft_to_{target}({wide})"
    if target is DType.BOOL:
        return f"u8({text} != {literal(0, source)})"
    if target in _THROUGH and source.is_float:
        return f"{ELEMENT[target]}({ELEMENT[_THROUGH[target]]}({text}))"
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
    short = next((d for d in dtypes if d in _SHORT), None)
    sides = [
        _rounded(x, short, dtype) if isinstance(x, Number) and short is not None else _as(x, dtype) for x in s.operands
    ]
    return cast(f"({sides[0]} {s.kind.row.symbol} {sides[1]})", DType.BOOL, s.target.dtype)


def _rounded(x: Number, short: DType, dtype: DType) -> str:
    """A number as a type of 16 or 8 bits has it, in type `dtype`."""
    if isinstance(x, Literal):
        return literal(rounded_to_short(x.value, short), dtype)
    return cast(cast(parameter(x), x.dtype, short), short, dtype)
