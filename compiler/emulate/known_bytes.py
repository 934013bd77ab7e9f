"""Which bytes of a result have values, of the bytes of what it is made of that have: masks, the lowest byte first.

Bits past a register's last byte are set, as in a register that has its whole value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from compiler.emulate.binder import WHOLE

Bytes = npt.NDArray[np.uint16]
"""For each lane the bytes of a register that have values, lowest first; bits past its last byte are set."""


def above(nbytes: int) -> np.uint16:
    """The bits of bytes that a register of that size does not have."""
    return np.uint16(int(WHOLE) >> nbytes << nbytes)


def all_or_none(has: npt.NDArray[np.bool_]) -> Bytes:
    """Where a result has a value as a whole or none at all."""
    return np.where(has, WHOLE, np.uint16(0))


def shifted_left(known: Bytes, bits: int, nbytes: int) -> Bytes:
    """Of a value of `nbytes`: zeros come in below."""
    if bits >= 8 * nbytes:
        return np.full_like(known, WHOLE)
    count, rest = divmod(bits, 8)
    moved = _up(known, count)
    return (moved & _up(known, count + 1) if rest else moved) | above(nbytes)


def shifted_right(known: Bytes, bits: int, nbytes: int, is_signed: bool) -> Bytes:
    """Of a value of `nbytes`: zeros come in above, or the highest bit."""
    bits = min(bits, 8 * nbytes - is_signed)
    count, rest = divmod(bits, 8)
    wide = known.astype(np.uint32) | np.uint32(0xFFFF0000)
    if is_signed:
        no_sign = (known >> np.uint16(nbytes - 1) & np.uint16(1)) == 0
        wide = np.where(no_sign, wide & np.uint32((1 << nbytes) - 1), wide)
    moved = wide >> np.uint32(count)
    if rest:
        moved = moved & wide >> np.uint32(count + 1)
    return moved.astype(np.uint16) | above(nbytes)


def carried(known: Sequence[Bytes]) -> Bytes:
    """Of sums and products: a byte is made of the bytes of all operands up to its own."""
    both = reduce(np.bitwise_and, known)
    return both & (both ^ (both + np.uint16(1)))


def converted(known: Bytes, to: int, source: int, is_signed: bool) -> Bytes:
    """Of an integer of `source` bytes made one of `to`: cut, or continued by zeros or by its highest bit."""
    if to <= source or not is_signed:
        return known | above(min(to, source))
    no_sign = (known >> np.uint16(source - 1) & np.uint16(1)) == 0
    continued = np.where(no_sign, known & ~above(source), known | above(source))
    return continued | above(to)


def permuted(low: Bytes, high: Bytes, selector: int) -> Bytes:
    """Of prmt with an immediate selector: each of four bytes is one of two words, or its sign (PTX ISA, "prmt")."""
    found = np.full_like(low, above(4))
    for place in range(4):
        which = selector >> 4 * place & 7
        word = low if which < 4 else high
        found = found | (word >> np.uint16(which % 4) & np.uint16(1)) << np.uint16(place)
    return found


def _up(known: Bytes, count: int) -> Bytes:
    return known << np.uint16(count) | np.uint16((1 << count) - 1)
