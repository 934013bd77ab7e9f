"""f32 and f64 arithmetic as PTX defines it (PTX ISA, "Floating-Point Instructions").

Every function takes arrays of f32 or of f64 (or NumPy scalars), one element a lane, and rounds the exact result once.
NaN results are not yet those of PTX here: `rounding.canonical` makes them for f32, `rounding.operand_nan` for f64; and
`.ftz` and `.sat` are `rounding.flush`, `flush_result` and `saturate`. Where there is a `scale`, a power of two, f32
results are those of infinite range times it, rounded once: what `flush_result` asks for.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from compiler.emulate.numeric import exact, rounding
from compiler.emulate.numeric.rounding import Array, Rounding

Comparison = Literal[
    "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"
]  # fmt: skip
"""Comparisons of floats: eq to ge are false for a NaN, equ to geu true (PTX ISA, "Floating Point Comparisons")."""

_F64 = np.float64

NAN_ORDER: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max"), (1, 0)),
    **dict.fromkeys(("fma", "mad"), (1, 2, 0)),
    "div": (0, 1),
    **dict.fromkeys(("rcp", "sqrt", "abs", "neg"), (0,)),
}
"""By opcode, the order in which f64 operands are asked for the NaN of the result, each as it is: `sub`, `neg` and `abs`
leave its sign alone (measured on an H200 with pairs and triples of NaNs of differing signs and payloads)."""


def add(a: Array, b: Array, mode: Rounding) -> Array:
    """a + b."""
    if mode == "rn":
        return a + b
    if a.dtype == _F64:
        return exact.add(a, b, mode)
    return rounding.sum_to_f32(a.astype(_F64), b.astype(_F64), mode)


def subtract(a: Array, b: Array, mode: Rounding) -> Array:
    """a - b."""
    return a - b if mode == "rn" else add(a, -b, mode)


def multiply(a: Array, b: Array, mode: Rounding, scale: float = 1.0) -> Array:
    """a * b."""
    if mode == "rn" and scale == 1.0:
        return a * b
    if a.dtype == _F64:
        return exact.multiply(a, b, mode)
    return rounding.to_f32(a.astype(_F64) * b.astype(_F64) * scale, None, mode)


def fma(a: Array, b: Array, c: Array, mode: Rounding, scale: float = 1.0) -> Array:
    """a * b + c, rounded once."""
    if a.dtype == _F64:
        return _fma_f64(a, b, c) if mode == "rn" else exact.fma(a, b, c, mode)
    product, addend = a.astype(_F64) * b.astype(_F64), c.astype(_F64)
    if scale != 1.0:
        product, addend = product * scale, addend * scale
    return rounding.sum_to_f32(product, addend, mode)


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond's fused multiply-add, to nearest; `exact` where a part could overflow or underflow."""
    high, low = rounding.two_product(a, b)
    sum_high, sum_low = rounding.two_sum(c, low)
    total, rest = rounding.two_sum(high, sum_high)
    result = total + rounding.to_odd(*rounding.two_sum(sum_low, rest))
    is_zero_product = (a == 0) | (b == 0)
    is_finite_product, is_finite_addend = np.isfinite(a) & np.isfinite(b), np.isfinite(c)
    plain = np.where(is_finite_product & ~is_finite_addend, c, high + c)  # where only `high` overflows, c stands
    is_plain = is_zero_product | ~(is_finite_product & is_finite_addend)
    size, size_c = np.abs(high), np.abs(c)
    is_safe = (
        (np.maximum(np.abs(a), np.abs(b)) < 2.0**990) & (size > 2.0**-900) & (np.maximum(size, size_c) < 2.0**1000)
    )
    is_safe &= (size_c > 2.0**-900) | (size_c == 0)
    is_zero = result == 0  # -0 can come out of the parts where the sum cancels
    result = np.where(is_plain, plain, np.where(is_zero, 0.0, result))
    doubtful = ~(is_plain | is_safe)
    if doubtful.any():
        a, b, c = (np.broadcast_to(x, doubtful.shape)[doubtful] for x in (a, b, c))
        result[doubtful] = exact.fma(a, b, c, "rn")
    return result


def divide(a: Array, b: Array, mode: Rounding, scale: float = 1.0) -> Array:
    """a / b."""
    if mode == "rn" and scale == 1.0:
        return a / b
    if a.dtype == _F64:
        return exact.divide(a, b, mode)
    # A quotient of two f32 that is no f32 differs from every f32 by more than 2^-49 of itself: f64 keeps the side.
    return rounding.to_f32(a.astype(_F64) / b.astype(_F64) * scale, None, mode)


def reciprocal(a: Array, mode: Rounding, scale: float = 1.0) -> Array:
    """1 / a."""
    return divide(np.ones((), a.dtype), a, mode, scale)


def square_root(a: Array, mode: Rounding) -> Array:
    """The square root; NaN below zero, -0 of -0."""
    if mode == "rn":
        return np.sqrt(a)
    if a.dtype == _F64:
        return exact.square_root(a, mode)
    return rounding.to_f32(np.sqrt(a.astype(_F64)), None, mode)


def minimum(a: Array, b: Array, propagate_nan: bool = False) -> Array:
    """The smaller one, with -0 < +0; the other one where one is NaN, or NaN with `.NaN`."""
    words: Any = f"u{a.dtype.itemsize}"
    smaller = np.minimum(a, b) if propagate_nan else _of_numbers(np.fmin(a, b), a, b)
    return np.where(a == b, (a.view(words) | b.view(words)).view(a.dtype), smaller)


def maximum(a: Array, b: Array, propagate_nan: bool = False) -> Array:
    """The larger one, with -0 < +0; the other one where one is NaN, or NaN with `.NaN`."""
    words: Any = f"u{a.dtype.itemsize}"
    larger = np.maximum(a, b) if propagate_nan else _of_numbers(np.fmax(a, b), a, b)
    return np.where(a == b, (a.view(words) & b.view(words)).view(a.dtype), larger)


def _of_numbers(result: Array, a: Array, b: Array) -> Array:
    """`result` of fmin or fmax, with the number that stands beside a signalling NaN, where they may give NaN."""
    bad = np.isnan(result)
    return np.where(bad, np.where(np.isnan(a), b, a), result) if bad.any() else result


def with_sign_product(result: Array, a: Array, b: Array) -> Array:
    """`result`, a minimum or maximum of |a| and |b|, with the exclusive or of their signs (`.xorsign.abs`)."""
    return np.where(np.signbit(a) ^ np.signbit(b), -result, result)


def compare(op: str, a: Array, b: Array, ftz: bool = False) -> Array:
    """`a op b` for f16, f32 or f64 arrays, as booleans; `op` is one of `Comparison`. Raises KeyError for another."""
    if ftz:
        a, b = rounding.flush(a), rounding.flush(b)
    result: Array = _COMPARISONS[op](a, b)
    return result


_COMPARISONS: dict[str, Any] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


def has_property(name: str, a: Array) -> Array:
    """`testp`: whether `a` is finite, infinite, a number, notanumber, normal (zeros are) or subnormal."""
    match name:
        case "finite":
            return np.isfinite(a)
        case "infinite":
            return np.isinf(a)
        case "number":
            return np.logical_not(np.isnan(a))
        case "notanumber":
            return np.isnan(a)
    small: Array = (np.abs(a) < np.finfo(a.dtype).smallest_normal) & (a != 0)
    return small if name == "subnormal" else np.logical_and(np.isfinite(a), ~small)
