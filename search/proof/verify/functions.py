"""How far the functions of a right kernel may be from the exact result, before it is rounded.

Of approximate instructions at least twice what `compiler/emit/math_forms.py` derives from the PTX ISA; of exact forms
twice what the CUDA math API documents ("Single-Precision Floating-Point Functions", maximum errors in ulp), with the
operations that are made of them. An exponential's argument is rounded too, which its result has the more of the larger
it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from compiler.dtypes import DType
from compiler.ir.ops import MathGrade, OpKind
from search.proof.verify.arrays import Array

_LONGEST_CHAIN = 4096
"""Terms that a thread adds one after the other: most of a column, where a fusion has as many columns as threads."""

_ONE_WAY = 0.5
"""Units roundoff that each term of a chain adds to the error at most, where all errors go one way."""

_ULP = 2.0**-23
_SMALLEST_NORMAL = 2.0**-126
_SMALLEST = 2.0**-149
_F64 = 2.0**-46
_SMALLEST_F64 = 2.0**-1074

INCREASING = frozenset({OpKind.EXP, OpKind.LOG, OpKind.TANH, OpKind.SIGMOID, OpKind.SQRT, OpKind.RELU})
"""Functions of one operand that rise with it."""

LOWEST_OF = {OpKind.SILU: (-1.2784645427610738, -0.2784645427610738), OpKind.GELU: (-0.7524614220710162, -0.17004075)}
"""Functions that fall and then rise: where they are least, and a bound of what they are there."""

_CORRECTLY_ROUNDED = frozenset({OpKind.DIV, OpKind.RECIPROCAL, OpKind.SQRT})
"""With the options of every compile (compiler/nvrtc.py): div.rn, rcp.rn, sqrt.rn."""


@dataclass(frozen=True, slots=True)
class Error:
    """At most `relative` of the result, and as much again as `argument` of the result for each unit of the operand;
    `absolute`, and `of_operand` of the operand's size."""

    relative: float = 0.0
    argument: float = 0.0
    absolute: float = 0.0
    of_operand: float = 0.0


_EXACT = {
    OpKind.RSQRT: Error(relative=2 * _ULP),
    OpKind.EXP: Error(relative=2 * _ULP, absolute=2 * _SMALLEST),
    OpKind.LOG: Error(relative=2 * _ULP),
    OpKind.TANH: Error(relative=4 * _ULP, absolute=2 * _SMALLEST),
    OpKind.SIGMOID: Error(relative=6 * _ULP, absolute=2 * _SMALLEST),
    OpKind.SILU: Error(relative=6 * _ULP, absolute=2 * _SMALLEST),
    # The argument of the exponential is a polynomial of four roundings, up to 88.8 where the result is no zero yet.
    OpKind.GELU: Error(relative=2.0**-15, absolute=_SMALLEST_NORMAL),
}
_APPROX = {
    OpKind.DIV: Error(relative=4 * _ULP, absolute=_SMALLEST_NORMAL),
    OpKind.RECIPROCAL: Error(relative=2 * _ULP, absolute=_SMALLEST),
    OpKind.SQRT: Error(relative=2 * _ULP),
    OpKind.RSQRT: Error(relative=3 * _ULP),
    OpKind.EXP: Error(relative=4 * _ULP, argument=1.5e-7, absolute=_SMALLEST_NORMAL),
    OpKind.LOG: Error(relative=8 * _ULP, absolute=2.0**-20),
    OpKind.SIGMOID: Error(relative=8 * _ULP, argument=1.5e-7, absolute=_SMALLEST_NORMAL),
    OpKind.SILU: Error(relative=10 * _ULP, argument=1.5e-7, absolute=_SMALLEST_NORMAL, of_operand=_SMALLEST_NORMAL),
    OpKind.GELU: Error(relative=2.0**-14, absolute=_SMALLEST_NORMAL, of_operand=_SMALLEST_NORMAL),
    OpKind.MEAN: Error(relative=4 * _ULP, absolute=_SMALLEST_NORMAL),
}
_COARSE = {
    OpKind.TANH: Error(relative=2.0**-10),
    OpKind.SIGMOID: Error(absolute=2.0**-11),
    OpKind.SILU: Error(of_operand=2.0**-11),
    OpKind.GELU: Error(of_operand=2.0**-11),
}
_IN_F64 = {kind: Error(relative=_F64, absolute=_SMALLEST_F64) for kind in (*_EXACT, *_APPROX)}
_IN_F64[OpKind.GELU] = Error(relative=2.0**-40, absolute=_SMALLEST_F64)
"""The argument of its exponential, of some roundings, goes up to 745 where the result is no zero yet."""

_IN_F64[OpKind.LOG] = Error(relative=_F64, absolute=_F64)
_IN_F64[OpKind.EXP] = Error(relative=_F64, argument=2.0**-51, absolute=_SMALLEST_F64)


def error_of(kind: OpKind, dtype: DType, grade: MathGrade) -> Error | None:
    """How far a right kernel's result may be from the exact one, in the coarsest form up to `grade`; None for an
    operator whose result is the exact one, rounded."""
    if dtype is DType.F64:
        return None if kind in _CORRECTLY_ROUNDED or kind is OpKind.MEAN else _IN_F64.get(kind)
    forms = [_EXACT.get(kind)]
    if grade is not MathGrade.EXACT:
        forms.append(_APPROX.get(kind))
    if grade is MathGrade.COARSE:
        forms.append(_COARSE.get(kind))
    known = [form for form in forms if form is not None]
    if not known:
        return None
    # A space has kernels of every grade up to this one.
    return Error(*(max(getattr(form, name) for form in known) for name in Error.__slots__))


def widen(error: Error, result: Array, operand: Array, xp: Any) -> Array:
    """The error of results (f64) of operands of this size; nothing for what is no finite number."""
    size, argument = xp.abs(result), xp.abs(operand)
    argument = xp.where(xp.isfinite(argument), argument, xp.zeros_like(argument))
    share = error.relative + error.argument * argument if error.argument else error.relative
    found = size * share + error.absolute
    if error.of_operand:
        found = found + argument * error.of_operand
    return xp.where(xp.isfinite(size), found, xp.zeros_like(size))


def least(kind: OpKind, low: Array, high: Array, at_low: Array, at_high: Array, xp: Any) -> Array:
    """The least result of a function of `LOWEST_OF` between two operands, of which the results are given."""
    where, bottom = LOWEST_OF[kind]
    lower = xp.minimum(at_low, at_high)
    inside = (low < where) & (high > where)
    return xp.where(inside, xp.full_like(lower, bottom * (1 + 2.0**-20)), lower)


def sum_error(count: int, unit_roundoff: float) -> float:
    """How far a sum of `count` terms, in any order, may be from the exact one, as a share of the sum of their sizes.

    The worst case is `count - 1` roundings (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 4.4).
    Rounding errors that are as good as independent reach a multiple of its square root (section 2.8 there; Higham and
    Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019). Measured with
    NumPy: f32 sums of up to a million values one after the other stay at a quarter of sqrt(n) in the root mean square,
    sums in blocks, as kernels make them, far below. Where a thread adds the same few values one after the other, its
    errors go one way: up to 0.16 of a unit for each of 5000. Terms that are products may be rounded before that.
    """
    chain = _ONE_WAY * min(count, _LONGEST_CHAIN)
    return unit_roundoff * min(count + 1.0, 2.0 * math.sqrt(count) + chain + 2.0)
