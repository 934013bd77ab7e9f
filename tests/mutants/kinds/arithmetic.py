"""Wrong operators, operands and literals."""

from __future__ import annotations

from dataclasses import replace

from compiler.dtypes import DType
from compiler.ir.fusion import Literal
from compiler.ir.ops import UNARY, OpKind
from compiler.lower.kernel_ir import Compute, Stmt
from compiler.lower.operands import Reg
from tests.mutants.kinds.kind import changing, compute, spare

_ORDERED = frozenset({OpKind.SUB, OpKind.DIV, OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE})
_CONFUSED = {
    OpKind.ADD: OpKind.SUB,
    OpKind.SUB: OpKind.ADD,
    OpKind.MUL: OpKind.DIV,
    OpKind.DIV: OpKind.MUL,
    OpKind.MAXIMUM: OpKind.MINIMUM,
    OpKind.MINIMUM: OpKind.MAXIMUM,
}
_NEAR = {
    OpKind.LT: OpKind.LE,
    OpKind.LE: OpKind.LT,
    OpKind.GT: OpKind.GE,
    OpKind.GE: OpKind.GT,
    OpKind.EQ: OpKind.GE,
    OpKind.NE: OpKind.LT,
}
_INTEGERS = frozenset({DType.I8, DType.I32, DType.I64})
_FLOAT_ONLY = frozenset({OpKind.DIV})
Made = tuple[Stmt, ...] | None


@changing
def operands_swapped(s: Stmt) -> Made:
    """The operands of a difference, quotient or comparison change places."""
    return (replace(s, operands=s.operands[::-1]),) if isinstance(s, Compute) and s.kind in _ORDERED else None


@changing
def other_operator(s: Stmt) -> Made:
    """A sum is a difference, a product a quotient, a maximum a minimum, or the other way round."""
    if not isinstance(s, Compute) or s.kind not in _CONFUSED:
        return None
    kind = _CONFUSED[s.kind]
    return None if kind in _FLOAT_ONLY and not s.target.dtype.is_float else (replace(s, kind=kind),)


@changing
def operator_left_out(s: Stmt) -> Made:
    """A function of one operand is not applied."""
    return (replace(s, kind=OpKind.CAST),) if isinstance(s, Compute) and s.kind in UNARY else None


@changing
def second_operand_left_out(s: Stmt) -> Made:
    """A sum, difference or product has its first operand only."""
    if not isinstance(s, Compute) or s.kind not in (OpKind.ADD, OpKind.SUB, OpKind.MUL):
        return None
    return (compute(OpKind.CAST, s.target, s.operands[0]),) if isinstance(s.operands[0], Reg) else None


@changing
def scaled_twice(s: Stmt) -> Made:
    """A product is multiplied by its second operand once more."""
    if not isinstance(s, Compute) or s.kind is not OpKind.MUL or s.operands[1] == s.target:
        return None
    return s, replace(s, operands=(s.target, s.operands[1]))


@changing
def added_twice(s: Stmt) -> Made:
    """The second operand of a sum is added once more."""
    if not isinstance(s, Compute) or s.kind is not OpKind.ADD or s.operands[1] == s.target:
        return None
    return s, replace(s, operands=(s.target, s.operands[1]))


@changing
def choice_inverted(s: Stmt) -> Made:
    """A condition chooses the other one."""
    if not isinstance(s, Compute) or s.kind is not OpKind.WHERE:
        return None
    condition, chosen, other = s.operands
    return (replace(s, operands=(condition, other, chosen)),)


@changing
def equality_on_the_wrong_side(s: Stmt) -> Made:
    """A comparison takes equal operands the other way, or an equality takes more than equal ones."""
    return (replace(s, kind=_NEAR[s.kind]),) if isinstance(s, Compute) and s.kind in _NEAR else None


@changing
def literal_off(s: Stmt) -> Made:
    """A number is off: by one where it is a count, by a thousandth or so where it is not."""
    if not isinstance(s, Compute):
        return None
    for at, x in enumerate(s.operands):
        if isinstance(x, Literal) and 0 < abs(x.value) < 1e30:
            value: float = x.value - 1 if float(x.value).is_integer() and x.value > 1 else x.value * (1 + 2.0**-10)
            if s.target.dtype in _INTEGERS or isinstance(x.value, int):
                value = int(x.value) - 1
            return (replace(s, operands=(*s.operands[:at], Literal(value), *s.operands[at + 1 :])),)
    return None


@changing
def epsilon_of_another_size(s: Stmt) -> Made:
    """A small number that keeps a root or a quotient from its pole is ten times as large."""
    if not isinstance(s, Compute):
        return None
    for at, x in enumerate(s.operands):
        if isinstance(x, Literal) and 0 < abs(x.value) < 0.01:
            return (replace(s, operands=(*s.operands[:at], Literal(x.value * 10), *s.operands[at + 1 :])),)
    return None


@changing
def nan_lost_in_a_maximum(s: Stmt) -> Made:
    """A maximum or minimum is a comparison and a choice, by which a NaN may lose."""
    if not isinstance(s, Compute) or s.kind not in (OpKind.MAXIMUM, OpKind.MINIMUM) or not s.target.dtype.is_float:
        return None
    declared, first = spare(DType.BOOL)
    kind = OpKind.GT if s.kind is OpKind.MAXIMUM else OpKind.LT
    a, b = s.operands
    return declared, compute(kind, first, a, b), compute(OpKind.WHERE, s.target, first, a, b)


@changing
def nan_lost_in_relu(s: Stmt) -> Made:
    """relu(NaN) is 0."""
    if not isinstance(s, Compute) or s.kind is not OpKind.RELU or not s.target.dtype.is_float:
        return None
    declared, positive = spare(DType.BOOL)
    (x,) = s.operands
    return (
        declared,
        compute(OpKind.GT, positive, x, Literal(0.0)),
        compute(OpKind.WHERE, s.target, positive, x, Literal(0.0)),
    )


@changing
def zero_without_its_sign(s: Stmt) -> Made:
    """-x is 0 - x, and a product of no size is +0."""
    if not isinstance(s, Compute) or not s.target.dtype.is_float:
        return None
    if s.kind is OpKind.NEG:
        return (compute(OpKind.SUB, s.target, Literal(0.0), s.operands[0]),)
    if s.kind in (OpKind.MUL, OpKind.CAST, OpKind.COPY):
        return s, compute(OpKind.ADD, s.target, s.target, Literal(0.0))
    return None


@changing
def infinity_clamped(s: Stmt) -> Made:
    """An exponential or quotient stops at the largest number."""
    if not isinstance(s, Compute) or s.target.dtype is not DType.F32:
        return None
    if s.kind not in (OpKind.EXP, OpKind.DIV, OpKind.RECIPROCAL, OpKind.RSQRT):
        return None
    largest = (2 - 2.0**-23) * 2.0**127
    return s, compute(OpKind.MINIMUM, s.target, s.target, Literal(largest))


KINDS = (
    operands_swapped,
    other_operator,
    operator_left_out,
    second_operand_left_out,
    scaled_twice,
    added_twice,
    choice_inverted,
    equality_on_the_wrong_side,
    literal_off,
    epsilon_of_another_size,
    nan_lost_in_a_maximum,
    nan_lost_in_relu,
    zero_without_its_sign,
    infinity_clamped,
)
