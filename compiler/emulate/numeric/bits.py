"""Bit operations of PTX on arrays: shifts, fields, permutations.

Operands are arrays or NumPy scalars; shift counts, positions and lengths are u32. Sources: PTX ISA, "Integer Arithmetic
Instructions" (bit fields), "Logic and Shift Instructions" and "prmt".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.emulate.numeric.integer import Array, nbits, unsigned

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def shift_left(a: Array, count: Array) -> Array:
    """a << count; counts past the width give 0 (PTX ISA, "shl": shifts are clamped)."""
    return np.asarray(a << _clamped_count(a, count))


def shift_right(a: Array, count: Array) -> Array:
    """a >> count, with copies of the sign for signed types; counts past the width give what a shift by it does."""
    return np.asarray(a >> _clamped_count(a, count))


def _clamped_count(a: Array, count: Array) -> Array:
    # NumPy gives no bits, or the sign alone, for a shift by the width or more.
    return np.asarray(np.minimum(count, count.dtype.type(nbits(a))).astype(a.dtype))


def funnel_shift(low: Array, high: Array, count: Array, left: bool, clamp: bool) -> Array:
    """A word of the 64 bits high:low shifted by `count`, modulo or at most 32: the upper one to the left, else the
    lower one (PTX ISA, "shf")."""
    n = (np.minimum(count, np.uint32(32)) if clamp else count & np.uint32(31)).astype(np.uint64)
    both = (high.astype(np.uint64) << _HALF) | low.astype(np.uint64)
    moved = ((both << n) >> _HALF) if left else (both >> n)
    return np.asarray(moved.astype(np.uint32))


def low_mask(length: Array, dtype: npt.DTypeLike) -> Array:
    """Words whose lowest `length` bits are set; all of them from the width on."""
    one: Array = np.ones((), dtype)
    mask: Array = shift_left(one, length) - one
    return mask


def _field_counts(a: Array, position: Array, length: Array) -> tuple[Array, Array]:
    """The position and the length of a field of `a`: of 32-bit words their lowest 8 bits count (PTX ISA, "bfe", "bfi":
    0 to 255), of 64-bit words all 32. Measured on an H200: the assembler makes 64-bit fields of shifts that clamp."""
    if nbits(a) == 64:
        return position, length
    byte = np.uint32(0xFF)
    return position & byte, length & byte


def extract_field(a: Array, position: Array, length: Array) -> Array:
    """The `length` bits of a from `position`, extended by the sign of the field if a is signed (PTX ISA, "bfe").

    Bits past the top of the word count as the word's sign. For the counts see `_field_counts`.
    """
    position, length = _field_counts(a, position, length)
    shifted = shift_right(a, position)
    if a.dtype.kind == "u":
        return np.asarray(shifted & low_mask(length, a.dtype))
    width = np.uint32(nbits(a))
    spare = (width - np.minimum(length, width)).astype(a.dtype)
    # A field of no bits has no sign: a shift by the whole width would leave one.
    field: Array = np.where(length == 0, a.dtype.type(0), (shifted << spare) >> spare)
    return field


def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """b with its `length` bits from `position` replaced by the lowest of a (PTX ISA, "bfi"). Unsigned words."""
    position, length = _field_counts(a, position, length)
    mask = shift_left(low_mask(length, a.dtype), position)
    return np.asarray((b & ~mask) | (shift_left(a, position) & mask))


def leading_zeros(a: Array) -> Array:
    """Zero bits above the highest one, the width for 0, as u32 (PTX ISA, "clz"). Unsigned words of 32 or 64 bits."""
    if nbits(a) == 64:
        high = leading_zeros((a >> _HALF).astype(np.uint32))
        low = leading_zeros((a & _LOW).astype(np.uint32))
        return np.where(high == 32, np.uint32(32) + low, high)
    # A 32-bit word is exact as f64, whose exponent is the number of bits up to the highest one.
    bits = np.frexp(np.asarray(a).astype(np.float64))[1]
    return np.asarray(np.uint32(32) - bits.astype(np.uint32))


def highest_bit(a: Array, as_shift: bool) -> Array:
    """Position of the highest bit that is not the sign, all ones if there is none (PTX ISA, "bfind"), as u32.

    `as_shift`: instead the shift to the left that brings this bit to the top.
    """
    bits = np.where(a < 0, ~unsigned(a), unsigned(a)) if a.dtype.kind == "i" else a
    zeros = leading_zeros(bits)
    top = np.uint32(nbits(a) - 1)
    found = zeros if as_shift else top - zeros
    return np.where(bits == 0, np.uint32(0xFFFFFFFF), found)


def reverse_bits(a: Array) -> Array:
    """The bits in reverse (PTX ISA, "brev")."""
    size = a.dtype.itemsize
    flat = np.atleast_1d(np.asarray(a))
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(-1, size)[:, ::-1]
    reversed_bytes = _REVERSED[raw]
    return np.asarray(np.ascontiguousarray(reversed_bytes).view(a.dtype).reshape(np.shape(a)))


_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1)[:, 0]


def permute_bytes(a: Array, b: Array, selection: Array, mode: str = "") -> Array:
    """Four bytes picked from the eight of b:a (PTX ISA, "prmt"). 32-bit words.

    Without a mode, four bits of `selection` pick each byte; the highest of them asks for its sign in all bits. The
    modes f4e, b4e (forward, backward 4 extract), rc8 (replicate), ecl, ecr (edge clamp) and rc16 take the two lowest.
    """
    both = (b.astype(np.uint64) << _HALF) | a.astype(np.uint64)
    start = (selection & np.uint32(3)).astype(np.uint64)
    result: Array = np.zeros((), np.uint32)
    for place in range(4):
        here = np.uint64(place)
        match mode:
            case "":
                nibble = (selection >> np.uint32(4 * place)) & np.uint32(15)
                index, has_sign = (nibble & np.uint32(7)).astype(np.uint64), nibble > 7
            case "f4e":
                index = start + here
            case "b4e":
                index = (start + np.uint64(8) - here) & np.uint64(7)
            case "rc8":
                index = start
            case "ecl":
                index = np.maximum(start, here)
            case "ecr":
                index = np.minimum(start, here)
            case _:
                index = (start & np.uint64(1)) * np.uint64(2) + np.uint64(place & 1)
        byte = ((both >> (index * np.uint64(8))) & np.uint64(0xFF)).astype(np.uint32)
        if not mode:
            byte = np.where(has_sign, np.where(byte > 127, np.uint32(0xFF), np.uint32(0)), byte)
        result = result | (byte << np.uint32(8 * place))
    return np.asarray(result)


Move = tuple[bool, int, int, int, bool]
"""Bytes that move together: whether out of b, the byte they start at, how many, where to, whether it is their sign."""


def moves(selection: int, mode: str = "") -> tuple[Move, ...]:
    """What `permute_bytes` does for a known `selection`: neighbouring bytes of one source in one move."""
    found: list[Move] = []
    start = selection & 3
    for place in range(4):
        nibble = selection >> 4 * place & 15
        index = {
            "": nibble & 7,
            "f4e": start + place,
            "b4e": (start - place) & 7,
            "rc8": start,
            "ecl": max(start, place),
            "ecr": min(start, place),
            "rc16": (start & 1) * 2 + (place & 1),
        }[mode]
        is_sign = not mode and nibble > 7
        last = found[-1] if found else None
        if last and not is_sign and not last[4] and last[0] == (index > 3) and last[1] + last[2] == index & 3:
            found[-1] = (last[0], last[1], last[2] + 1, last[3], False)
        else:
            found.append((index > 3, index & 3, 1, place, is_sign))
    return tuple(found)


def moved_bytes(a: Array, b: Array, known: tuple[Move, ...]) -> Array:
    """The word that `moves` describes."""
    result: Array = np.zeros((), np.uint32)
    for of_b, start, count, to, is_sign in known:
        source = b if of_b else a
        if is_sign:
            sign = (source >> np.uint32(8 * start + 7)) & np.uint32(1)
            part = sign * np.uint32(0xFF << 8 * to)
        else:
            mask = np.uint32(((1 << 8 * count) - 1) << 8 * to)
            by = 8 * (to - start)
            part = ((source << np.uint32(by)) if by >= 0 else (source >> np.uint32(-by))) & mask
        result = result | part
    return np.asarray(result)


def bit_mask(position: Array, length: Array, clamp: bool) -> Array:
    """`length` ones from `position` (PTX ISA, "bmsk"): both modulo 32, or clamped to the word. 32-bit words."""
    if not clamp:
        position, length = position & np.uint32(31), length & np.uint32(31)
    return shift_left(low_mask(length, np.dtype(np.uint32)), position)


def extend(a: Array, width: Array, clamp: bool) -> Array:
    """The lowest `width` bits of a, extended by their sign if a is signed (PTX ISA, "szext"). 32-bit words.

    `width` counts modulo 32, or from 32 on leaves a as it is (`clamp`).
    """
    count = width if clamp else width & np.uint32(31)
    return extract_field(a, np.zeros((), np.uint32), np.minimum(count, np.uint32(32)))
