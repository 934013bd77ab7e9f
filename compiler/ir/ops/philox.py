"""The generator behind `rand`: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011), on arrays of int64 that hold 32-bit words.

Element e of a tensor, in row-major order, is word e % 4 of the call for the counter (e / 4, offset) and the key seed,
each of two words, the low one first; its upper 24 bits, times 2^-24, are the number.
"""

from __future__ import annotations

from typing import Any

Words = tuple[Any, ...]
"""Arrays of 32-bit words in int64."""

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF
_HALF_MASK = (1 << 16) - 1


def philox(counter: Words, key: Words) -> Words:
    """The four words of a counter of four and a key of two."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(_ROUNDS):
        a_high, a_low = _product(c0, _MULTIPLIERS[0])
        b_high, b_low = _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = b_high ^ c1 ^ k0, b_low, a_high ^ c3 ^ k1, a_low
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(xp: Any, seed: Any, offset: Any, element: Any) -> Any:
    """The numbers of elements (int64) for a seed and an offset (int64), in f64: multiples of 2^-24 in [0, 1)."""
    group, word = element >> 2, element & 3
    words = philox((*_halves(group), *_halves(offset)), _halves(seed))
    even = xp.where((word & 1) == 0, words[0], words[1])
    odd = xp.where((word & 1) == 0, words[2], words[3])
    return xp.asarray(xp.where(word < 2, even, odd) >> 8, dtype=xp.float64) * 2.0**-24


def _halves(x: Any) -> Words:
    """The low and the high word of 64 bits."""
    return x & _MASK, (x >> 32) & _MASK


def _product(x: Any, multiplier: int) -> tuple[Any, Any]:
    """The high and the low word of the product of two words. By halves: 64 bits without a sign do not fit int64."""
    low, high = x * (multiplier & _HALF_MASK), x * (multiplier >> 16)
    total = low + ((high & _HALF_MASK) << 16)
    return ((high >> 16) + (total >> 32)) & _MASK, total & _MASK
