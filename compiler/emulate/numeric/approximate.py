"""The approximate instructions: ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt and div with `.approx` or `.full`.

PTX bounds their error and fixes the results for zeros, infinities, NaN and subnormal numbers (PTX ISA,
"Floating-Point Instructions", the table of each). Here each gives the f64 function, correctly rounded to the type of
the result as far as f64 functions are: well within every bound, though not the bits that a card gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.emulate.numeric import rounding
from compiler.emulate.numeric.half import Half
from compiler.emulate.numeric.rounding import Array

_F64 = np.float64

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}
"""By opcode, on f64. They give what the tables ask for: lg2 and rsqrt of a zero are infinite (rsqrt(-0) is -infinity),
of a negative number NaN; sin and cos of an infinity are NaN."""

_DIVISOR_LIMIT = np.float32(2.0**126)


def f32(opcode: str, x: Array, ftz: bool = False) -> Array:
    """`opcode.approx{.ftz}.f32`."""
    if ftz:
        x = rounding.flush(x)
    result = FUNCTIONS[opcode](x.astype(_F64)).astype(np.float32)
    return rounding.canonical(rounding.flush(result) if ftz else result)


def half(opcode: str, fmt: Half, bits: Array) -> Array:
    """`opcode.approx` of f16 or bf16 bits."""
    return fmt.narrow(FUNCTIONS[opcode](fmt.widen(bits).astype(_F64)))


def divide(a: Array, b: Array, ftz: bool = False, full: bool = False) -> Array:
    """`div.approx{.ftz}.f32`, or `div.full{.ftz}.f32`, which has no range where the result is lost.

    For 2^126 < |b| < 2^128 div.approx is zero, and NaN where a is infinite (PTX ISA, "div", floating point): it
    multiplies by a reciprocal that is lost as subnormal.
    """
    if ftz:
        a, b = rounding.flush(a), rounding.flush(b)
    quotient = a / b
    if not full:
        size = np.abs(b)
        lost = (size > _DIVISOR_LIMIT) & (size < np.inf)
        if lost.any():
            quotient = np.where(lost, a * np.copysign(np.float32(0), b), quotient)
    return rounding.canonical(rounding.flush(quotient) if ftz else quotient)


def gross_f64(opcode: str, x: Array) -> Array:
    """`rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: only the high 32 bits of the operand count and only those of the
    result are set, with 20 bits of mantissa; subnormal numbers count as zeros, as operands and as results."""
    high = np.uint64(0xFFFFFFFF00000000)
    seen = (x.view(np.uint64) & high).view(_F64)
    result = FUNCTIONS[opcode](_flush_f64(seen))
    rounded = ((result.view(np.uint64) + np.uint64(1 << 31)) & high).view(_F64)
    return _flush_f64(np.where(np.isnan(result), result, rounded))


def _flush_f64(x: Array) -> Array:
    return x * (np.abs(x) >= 2.0**-1022)
