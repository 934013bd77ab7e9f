"""Products of matrices as tensor cores have them: exact products, their sum in f64, one rounding an instruction.

The PTX ISA leaves the order of the additions, their rounding and the width of what is kept in between open ("mma",
"wgmma.mma_async": at least single precision with an f32 accumulator). This is the emulator's model: every product is
exact, the sum of an instruction and the accumulator are added in f64, and rounded to nearest once. Integers are exact,
and wrap or saturate at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric import minifloat, rounding

Array = npt.NDArray[Any]

_TF32 = np.uint32(0xFFFFE000)
"""The bits of an f32 that tf32 has; the rest is not looked at (PTX ISA, "Alternate Floating-Point Data Formats")."""

ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
"""The factors of products by type, and their sizes. Single bits multiply by `and`, and are counted."""

ACCUMULATORS: dict[str, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "s32": np.dtype(np.int32),
}
"""Results of products by type, as arrays."""


def factors(kind: str, words: Array) -> Array:
    """The f64 values of rows of 32-bit words, (…, words), each word low element first: (…, elements)."""
    words = np.ascontiguousarray(words)
    match kind:
        case "f16":
            return words.view(np.float16).astype(np.float64)
        case "bf16":
            return (words.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case "tf32":
            return (words & _TF32).view(np.float32).astype(np.float64)
        case "s8":
            return words.view(np.int8).astype(np.float64)
        case "u8":
            return words.view(np.uint8).astype(np.float64)
        case "b1":
            return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.float64)
        case _:
            return minifloat.decode(minifloat.FORMATS[kind], words.view(np.uint8))


_SMALL = 1 << 18
"""Multiplications up to which BLAS libraries do not start threads, which for such small matrices cost more than they
bring, and far more where others use the cores."""


def multiplied(left: Array, right: Array) -> Array:
    """left (rows, k) times right (columns, k) transposed, in f64."""
    rows, depth = left.shape
    part = rows
    while part % 2 == 0 and part * len(right) * depth > _SMALL:
        part //= 2
    found: Array = np.matmul(left.reshape(-1, part, depth), right.T)
    return found.reshape(rows, len(right))


def accumulated(kind: str, products: Array, addend: Array | None, saturate: bool = False) -> Array:
    """Sums of products (f64) plus `addend`, in an accumulator's type (`ACCUMULATORS`). `saturate`: integers clamp."""
    if kind == "s32":
        total = products.astype(np.int64)
        if addend is not None:
            total = total + addend
        return np.clip(total, -(1 << 31), (1 << 31) - 1).astype(np.int32) if saturate else total.astype(np.int32)
    total = products if addend is None else products + addend
    if kind == "f32":
        return rounding.canonical(total.astype(np.float32))
    return rounding.to_f16(total, None, "rn").view(np.float16)
