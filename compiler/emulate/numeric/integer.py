"""Integer arithmetic of PTX on arrays, exact for every width.

Operands are arrays or NumPy scalars of equal type; results wrap unless said otherwise. Sources: PTX ISA, "Integer
Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def nbits(values: Array) -> int:
    """Width of the elements."""
    return 8 * int(values.dtype.itemsize)


def unsigned(values: Array) -> Array:
    """The same bits as unsigned words."""
    return values if values.dtype.kind == "u" else values.view(f"u{values.dtype.itemsize}")


def signed(values: Array) -> Array:
    """The same bits as two's complement."""
    return values if values.dtype.kind == "i" else values.view(f"i{values.dtype.itemsize}")


def wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The integer type of twice the width."""
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def mul_high(a: Array, b: Array) -> Array:
    """The upper half of the product of twice the width."""
    if nbits(a) < 64:
        wide = wider(a.dtype)
        product = a.astype(wide) * b.astype(wide)
        high: Array = (product >> wide.type(nbits(a))).astype(a.dtype)
        return high
    x, y = unsigned(a), unsigned(b)
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    # Each partial product, with two words of 32 bits added to it, still fits in 64.
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    other = x0 * y1 + (middle & _LOW)
    result = x1 * y1 + (middle >> _HALF) + (other >> _HALF)
    if a.dtype.kind == "u":
        return np.asarray(result)
    # A negative factor counts as itself plus 2^64: take the other factor out of the upper half again.
    zero = np.uint64(0)
    result = result - np.where(signed(a) < 0, y, zero) - np.where(signed(b) < 0, x, zero)
    return np.asarray(result).view(np.int64)


def mul_wide(a: Array, b: Array) -> Array:
    """The whole product, in the type of twice the width (16 and 32-bit operands)."""
    wide = wider(a.dtype)
    return np.asarray(a.astype(wide) * b.astype(wide))


def mul24(a: Array, b: Array, high: bool) -> Array:
    """Bits 31:0, or 47:16, of the product of the low 24 bits, sign-extended if signed."""
    product = _low24(a) * _low24(b)
    shifted = product >> product.dtype.type(16) if high else product
    return np.asarray(shifted.astype(a.dtype))


def _low24(values: Array) -> Array:
    extended = (values << values.dtype.type(8)) >> values.dtype.type(8)
    return np.asarray(extended.astype(wider(values.dtype)))


def add_saturated(a: Array, b: Array) -> Array:
    """The sum, clamped to the range of the type (below 64 bits)."""
    wide = np.dtype(f"i{2 * a.dtype.itemsize}")
    return _clamped(a.astype(wide) + b.astype(wide), a.dtype)


def sub_saturated(a: Array, b: Array) -> Array:
    """The difference, clamped to the range of the type (below 64 bits)."""
    wide = np.dtype(f"i{2 * a.dtype.itemsize}")
    return _clamped(a.astype(wide) - b.astype(wide), a.dtype)


def _clamped(values: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(values, limits.min, limits.max).astype(dtype))


def divide(a: Array, b: Array) -> Array:
    """The quotient, truncated towards zero.

    PTX leaves division by zero open; the code that ptxas makes gives all ones, and so does this. The lowest number
    divided by -1 wraps to itself.
    """
    return _quotient(a, b)[0]


def remainder(a: Array, b: Array) -> Array:
    """What is left of `a` after truncating division: it has the sign of `a`. All ones for a zero divisor (`divide`)."""
    return _quotient(a, b)[1]


def _quotient(a: Array, b: Array) -> tuple[Array, Array]:
    x, y = _magnitude(a), _magnitude(b)
    one, ones = x.dtype.type(1), x.dtype.type(np.iinfo(x.dtype).max)
    safe = np.where(y == 0, one, y)
    quotient, rest = x // safe, x % safe
    if a.dtype.kind == "i":
        quotient = np.where((a < 0) != (b < 0), np.negative(quotient), quotient)
        rest = np.where(a < 0, np.negative(rest), rest)
    is_zero = y == 0
    return (
        np.where(is_zero, ones, quotient).view(a.dtype),
        np.where(is_zero, ones, rest).view(a.dtype),
    )


def _magnitude(values: Array) -> Array:
    if values.dtype.kind == "u":
        return values
    bits = unsigned(values)
    return np.where(values < 0, np.negative(bits), bits)


def absolute_difference(a: Array, b: Array) -> Array:
    """|a - b|, as the type of the operands (PTX ISA, "sad")."""
    return np.where(a < b, b - a, a - b)


def add_with_carry(a: Array, b: Array, carry: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """a + b + carry and the carry out, on unsigned words."""
    partial = a + b
    total = partial + carry.astype(a.dtype)
    return total, (partial < a) | (total < partial)


def sub_with_borrow(a: Array, b: Array, borrow: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """a - (b + borrow) and the borrow out, on unsigned words."""
    partial = a - b
    taken = borrow.astype(a.dtype)
    return partial - taken, (a < b) | (partial < taken)


def parts(values: Array, dtype: npt.DTypeLike) -> Array:
    """The elements of packed words: an array with one axis more, lowest bits first."""
    word = np.asarray(values)
    return np.ascontiguousarray(word[..., np.newaxis]).view(dtype)


def packed(elements: Array, dtype: npt.DTypeLike) -> Array:
    """Words of the elements along the last axis: undoes `parts`."""
    joined: Array = np.ascontiguousarray(elements).view(dtype)[..., 0]
    return joined


def dot4(a: Array, b: Array, c: Array, a_type: npt.DTypeLike, b_type: npt.DTypeLike) -> Array:
    """c plus the four products of the bytes of a and b (PTX ISA, "dp4a")."""
    x, y = parts(a, a_type).astype(np.int32), parts(b, b_type).astype(np.int32)
    return np.asarray(c + _as(_sum(x * y), c.dtype))


def dot2(a: Array, b: Array, c: Array, a_type: npt.DTypeLike, b_type: npt.DTypeLike, high: bool) -> Array:
    """c plus the products of the two halves of a with the lower, or upper, two bytes of b (PTX ISA, "dp2a")."""
    x = parts(a, a_type).astype(np.int32)
    y = parts(b, b_type)[..., 2:] if high else parts(b, b_type)[..., :2]
    return np.asarray(c + _as(_sum(x * y.astype(np.int32)), c.dtype))


def _sum(products: Array) -> Array:
    return np.asarray(products.sum(axis=-1, dtype=np.int32))


def _as(values: Array, dtype: np.dtype[Any]) -> Array:
    return values.view(dtype)
