"""f16 and bf16 arithmetic on their bits (uint16), one element a lane (PTX ISA, "Half Precision Floating-Point
Instructions").

Operands are widened, an exact or safely wider result is rounded once, to nearest even: these instructions know no other
mode. NaN results are 0x7FFF, the canonical NaN of both formats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.emulate.numeric import floating, rounding
from compiler.emulate.numeric.rounding import Array

_SIGN = np.uint16(0x8000)
_MAGNITUDE = np.uint16(0x7FFF)
_NAN = np.uint16(0x7FFF)

OOB_NAN = np.uint16(0x7FF7)
"""The NaN that tensor copies fill with past the end of a tensor, in 16-bit formats; `fma.oob` makes zero of it. The PTX
ISA names the OOB-NaN without giving its bits; measured on an H200."""


@dataclass(frozen=True)
class Half:
    """A 16-bit format: the f32 of its bits, its bits of an f64, and the bits of its exponent."""

    name: str
    widen: Callable[[Array], Array]
    narrow: Callable[[Array], Array]
    infinity: np.uint16

    @property
    def smallest_normal(self) -> np.uint16:
        """The bits of the smallest normal number: the last bit of the exponent."""
        exponent = int(self.infinity)
        return np.uint16(exponent & -exponent)


def _widen_f16(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float32)


def _widen_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _narrow_f16(x: Array) -> Array:
    return rounding.to_f16(x, None, "rn")


def _narrow_bf16(x: Array) -> Array:
    if x.dtype == np.float32:
        return rounding.f32_bits_to_bf16(x.view(np.uint32), np.isnan(x), "rn")
    return rounding.to_bf16(x, None, "rn")


F16 = Half("f16", _widen_f16, _narrow_f16, np.uint16(0x7C00))
BF16 = Half("bf16", _widen_bf16, _narrow_bf16, np.uint16(0x7F80))
FORMATS = {"f16": F16, "bf16": BF16}


def is_nan(fmt: Half, bits: Array) -> Array:
    """Where NaN stands."""
    return (bits & _MAGNITUDE) > fmt.infinity


def add(fmt: Half, a: Array, b: Array) -> Array:
    """a + b. Both formats have at most half the digits of f32 less one, so rounding there first changes nothing
    (Figueroa, "When Is Double Rounding Innocuous?", 1995)."""
    return fmt.narrow(fmt.widen(a) + fmt.widen(b))


def subtract(fmt: Half, a: Array, b: Array) -> Array:
    """a - b."""
    return fmt.narrow(fmt.widen(a) - fmt.widen(b))


def multiply(fmt: Half, a: Array, b: Array, scale: float = 1.0) -> Array:
    """a * b times a power of two, exact in f64 (in f32 a subnormal product of bf16 would be rounded twice)."""
    return fmt.narrow(fmt.widen(a).astype(np.float64) * fmt.widen(b) * scale)


def fma(fmt: Half, a: Array, b: Array, c: Array, scale: float = 1.0) -> Array:
    """a * b + c times a power of two, rounded once."""
    product, addend = fmt.widen(a).astype(np.float64) * fmt.widen(b), fmt.widen(c).astype(np.float64)
    if fmt is BF16:
        return rounding.to_bf16(*rounding.two_sum(product * scale, addend * scale), "rn")
    # f16: exponents lie so close that a sum that f64 rounds is nowhere near the middle of two f16.
    return fmt.narrow((product + addend) * scale)


def minimum(fmt: Half, a: Array, b: Array, propagate_nan: bool = False) -> Array:
    """The smaller one; see floating.minimum."""
    return fmt.narrow(floating.minimum(fmt.widen(a), fmt.widen(b), propagate_nan))


def maximum(fmt: Half, a: Array, b: Array, propagate_nan: bool = False) -> Array:
    """The larger one; see floating.maximum."""
    return fmt.narrow(floating.maximum(fmt.widen(a), fmt.widen(b), propagate_nan))


def negate(fmt: Half, a: Array) -> Array:
    """-a."""
    return np.where(is_nan(fmt, a), _NAN, a ^ _SIGN)


def absolute(fmt: Half, a: Array) -> Array:
    """|a|."""
    return np.where(is_nan(fmt, a), _NAN, a & _MAGNITUDE)


def with_sign_product(fmt: Half, result: Array, a: Array, b: Array) -> Array:
    """`result` with the exclusive or of the signs of a and b (`.xorsign.abs`); NaN stays as it is."""
    return np.where(is_nan(fmt, result), result, (result & _MAGNITUDE) | ((a ^ b) & _SIGN))


def zero_where_oob(result: Array, a: Array, b: Array) -> Array:
    """`result` with zero where a factor is the OOB-NaN (`fma.oob`)."""
    return np.where(((a & _MAGNITUDE) == OOB_NAN) | ((b & _MAGNITUDE) == OOB_NAN), np.uint16(0), result)


def flush(fmt: Half, bits: Array) -> Array:
    """Subnormal numbers made zeros of their sign (`.ftz`)."""
    return np.where((bits & fmt.infinity) == 0, bits & _SIGN, bits)


def flush_result(fmt: Half, bits: Array, scaled: Callable[[float], Array]) -> Array:
    """Results made zeros of their sign where they are tiny; `scaled` gives them times a power of two."""
    scale = 2.0**8
    limit = fmt.narrow(fmt.widen(np.asarray(fmt.smallest_normal)) * np.float32(scale))
    tiny = rounding.is_tiny(bits & _MAGNITUDE, fmt.smallest_normal, lambda: (scaled(scale) & _MAGNITUDE) < limit)
    return np.where(tiny, bits & _SIGN, bits)


def saturate(fmt: Half, bits: Array) -> Array:
    """Clamped to [+0, 1], NaN to +0 (`.sat`)."""
    one = fmt.narrow(np.ones((), np.float32))
    kept = np.where((bits >= _SIGN) | is_nan(fmt, bits), np.uint16(0), bits)
    return np.minimum(kept, one)


def saturate_finite(fmt: Half, bits: Array) -> Array:
    """Infinities made the largest finite number of their sign (`.satfinite`)."""
    infinite = (bits & _MAGNITUDE) == fmt.infinity
    return np.where(infinite, (bits & _SIGN) | (fmt.infinity - np.uint16(1)), bits)


def rectify(bits: Array) -> Array:
    """Negative results made +0 (`.relu`); the canonical NaN has no sign and stays."""
    return np.where(bits >= _SIGN, np.uint16(0), bits)


def compare(fmt: Half, op: str, a: Array, b: Array, ftz: bool = False) -> Array:
    """`a op b` as booleans; see floating.compare."""
    if ftz:
        a, b = flush(fmt, a), flush(fmt, b)
    return floating.compare(op, fmt.widen(a), fmt.widen(b))
