"""How far the functions and sums of a right kernel may be from the exact result, before it is rounded.

What each form of a function may err stands in its operator's row (`compiler.ir.ops.kinds`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from compiler.dtypes import DType
from compiler.ir.ops import ErrorBound, MathGrade, OpKind
from search.proof.verify.arrays import Array

_LONGEST_CHAIN = 4096
"""Terms that a thread adds one after the other: most of a column, where a fusion has as many columns as threads."""

_ONE_WAY = 0.5
"""Units roundoff that each term of a chain adds to the error at most, where all errors go one way."""


def error_of(kind: OpKind, dtype: DType, grade: MathGrade) -> ErrorBound | None:
    """How far a right kernel's result may be from the exact one, in the coarsest form up to `grade`; None for an
    operator whose result is the exact one, rounded."""
    row = kind.row
    if dtype is DType.F64:
        return None if row.f64 is None else row.f64.error
    forms = [row.exact]
    if grade is not MathGrade.EXACT:
        forms.append(row.approx)
    if grade is MathGrade.COARSE:
        forms.append(row.coarse)
    known = [form.error for form in forms if form is not None]
    if not known:
        return None
    # A space has kernels of every grade up to this one.
    return ErrorBound(*(max(getattr(error, name) for error in known) for name in ErrorBound.__slots__))


def widen(error: ErrorBound, result: Array, operand: Array, xp: Any, *, are_finite: bool = False) -> Array:
    """The error of results (f64) of operands of this size; nothing for what is no finite number. `are_finite`: nobody
    wants to know it of such results, or operands."""
    size, share = xp.abs(result), error.relative
    if error.argument or error.of_operand:
        argument = xp.abs(operand)
        argument = argument if are_finite else xp.where(argument < math.inf, argument, 0.0)
        share = share + error.argument * argument if error.argument else share
    found = size * share
    if error.absolute:
        found = found + error.absolute
    if error.of_operand:
        found = found + argument * error.of_operand
    return found if are_finite else xp.where(size < math.inf, found, 0.0)


def sum_error(count: int, unit_roundoff: float) -> float:
    """How far a sum of `count` terms, in any order, may be from the exact one, as a share of the sum of their sizes.

    The worst case is `count - 1` roundings (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 4.4).
    Rounding errors that are as good as independent reach a multiple of its square root (section 2.8 there; Higham and
    Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019). Measured with
    NumPy: f32 sums of up to a million values one after the other stay at a quarter of sqrt(n) in the root mean square,
    sums in blocks, as kernels make them, far below. Where a thread adds the same few values one after the other, its
    errors go one way: up to 0.16 of a unit for each of 5000. Terms that are products may be rounded before that.
    """
    return float(order_error(np.float64(count), unit_roundoff, np))


def order_error(count: Array, unit_roundoff: float, xp: Any) -> Array:
    """The same of so many roundings in each of several folds: sums, or products, whose roundings are as independent."""
    chain = _ONE_WAY * xp.minimum(count, xp.full_like(count, _LONGEST_CHAIN))
    return unit_roundoff * xp.minimum(count + 1.0, 2.0 * xp.sqrt(count) + chain + 2.0)
