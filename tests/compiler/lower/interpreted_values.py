"""Numbers of the interpreter: registers hold bits, arithmetic is done in f64 and rounded to f32, then to the target.

Rounding through f64 gives the correctly rounded f32 sum, product, quotient and root (53 >= 2 * 24 + 2 bits), and for
the other functions a value within one f32 ulp. Math grades are not modelled: every function is exact here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.dtypes import DType
from compiler.ir.expr import Expr
from compiler.ir.ops import MOVES, OpKind
from compiler.lower.operands import Less
from compiler.reference.operators import exact

Array = NDArray[Any]

BITS: dict[DType, np.dtype[Any]] = {
    DType.F32: np.dtype(np.uint32),
    DType.F16: np.dtype(np.uint16),
    DType.BF16: np.dtype(np.uint16),
}
"""What registers and memory hold of each element type."""


WORDS = (1, 2, 4, 8, 16)
"""Bytes that a thread moves in one access (PTX ISA, ld and st)."""


class KernelFault(AssertionError):
    """The kernel breaks a rule of the machine, named by `rule`."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


def decoded(bits: Array, dtype: DType) -> Array:
    """The f32 values of elements of `dtype`; exact."""
    match dtype:
        case DType.F32:
            return bits.view(np.float32)
        case DType.F16:
            return bits.view(np.float16).astype(np.float32)
        case DType.BF16:
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    raise KernelFault("dtype_is_interpreted", f"{dtype} has no registers here")


def encoded(values: Array, dtype: DType) -> Array:
    """f32 values as `dtype` stores them: to nearest, ties to even; too large becomes infinite, NaN stays NaN."""
    with np.errstate(all="ignore"):
        match dtype:
            case DType.F32:
                return np.ascontiguousarray(values, np.float32).view(np.uint32)
            case DType.F16:
                return values.astype(np.float16).view(np.uint16)
            case DType.BF16:
                wide = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
                # Half of the last kept bit, less one where that bit is even: ties go to even. Carries reach infinity.
                rounded = (
                    (wide + np.uint64(0x7FFF) + ((wide >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)
                ).astype(np.uint16)
                return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)
    raise KernelFault("dtype_is_interpreted", f"{dtype} has no registers here")


_KEEPS = MOVES | {OpKind.CAST}


def computed(kind: OpKind, operands: Sequence[Array]) -> Array:
    """`kind` of f32 operands, as f32."""
    with np.errstate(all="ignore"):
        found: Array = operands[0] if kind in _KEEPS else exact(kind, [x.astype(np.float64) for x in operands], np)
        return found.astype(np.float32)


def folded(kind: OpKind, a: Array, b: Array) -> Array:
    """One step of a reduction; NaN wins a maximum and a minimum."""
    with np.errstate(all="ignore"):
        match kind:
            case OpKind.SUM:
                return np.asarray(a.astype(np.float64) + b, np.float32)
            case OpKind.PROD:
                return np.asarray(a.astype(np.float64) * b, np.float32)
            case OpKind.AMAX:
                return np.maximum(a, b)
            case OpKind.AMIN:
                return np.minimum(a, b)
    raise KernelFault("reductions_are_interpreted", f"{kind} is none")


@cache
def sides(condition: Less) -> tuple[Expr, Expr]:
    """Both sides as kernels compute them, worked out once however often the condition is asked."""
    return condition.unsigned
