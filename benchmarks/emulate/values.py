"""Inputs that find mistakes: special values of each type in every combination, then random ones.

A type may be followed by what it is converted to: `f64>f16` has the midpoints between numbers of f16 too, and `f32>int`
halves and the limits of the integer types.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]

COUNT = 4096
"""Values an operand, unless few special ones are combined in more ways."""

WIDTHS = {
    **{f"{kind}{width}": width for kind in "usb" for width in (8, 16, 32, 64)},
    "f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32,
    "e4m3x2": 16, "e5m2x2": 16, "shift": 32, "field": 32, "lane": 32, "moderate": 32,
}  # fmt: skip
"""Bits of an operand of each type."""


def width(dtype: str) -> int:
    """Bits of an operand of a type, which may say what it is converted to."""
    return WIDTHS[dtype.partition(">")[0]]


_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
_TARGETS = {**_FLOATS, "tf32": (8, 10), "e4m3": (4, 3), "e5m2": (5, 2)}
"""Bits of exponent and mantissa."""

_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "e4m3x2": "u8", "e5m2x2": "u8"}


def operands(dtypes: tuple[str, ...], seed: int) -> list[Bits]:
    """Bits for each operand, the same number of each: specials crossed for one or two operands, else drawn."""
    rng = np.random.default_rng(seed)
    near = near_underflow(dtypes)
    if len(dtypes) == 1:
        special = [specials(dtypes[0])]
    elif len(dtypes) == 2 and len(specials(dtypes[0])) * len(specials(dtypes[1])) <= COUNT:
        left, right = specials(dtypes[0]), specials(dtypes[1])
        special = [np.repeat(left, len(right)), np.tile(right, len(left))]
    else:
        special = [rng.choice(specials(d), COUNT // 2) for d in dtypes]
    special = [np.concatenate(parts) for parts in zip(special, near, strict=True)]
    rest = max(COUNT - len(special[0]), 512)
    drawn = [np.concatenate([s, random(d, rest, rng)]) for s, d in zip(special, dtypes, strict=True)]
    whole = -(-len(drawn[0]) // 128) * 128
    return [np.resize(d, whole) for d in drawn]


def random(dtype: str, count: int, rng: np.random.Generator) -> Bits:
    """Half of them any bits; of floats the others are of moderate size, so that sums and products stay in range."""
    dtype = dtype.partition(">")[0]
    width = WIDTHS[dtype]
    if dtype in _PAIRS:
        half = _PAIRS[dtype]
        return random(half, count, rng) | random(half, count, rng) << np.uint64(WIDTHS[half])
    if dtype == "shift":
        return rng.integers(0, 80, count, np.uint64)
    if dtype == "field":
        huge: Bits = rng.integers(0, 2**32 - 80, count, np.uint64)
        huge[rng.random(count) < 0.9] = 0
        small: Bits = rng.integers(0, 70, count, np.uint64)
        return small + huge
    if dtype == "lane":
        return rng.integers(0, 64, count, np.uint64)
    if dtype == "moderate":
        return rng.uniform(-20, 20, count).astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = rng.integers(0, 2**width, count, np.uint64) if width < 64 else rng.integers(0, 2**64 - 1, count, np.uint64)
    if dtype in _FLOATS:
        exponent, mantissa = _FLOATS[dtype]
        bias = 2 ** (exponent - 1) - 1
        moderate = rng.integers(max(bias - 12, 1), bias + 12, count // 2).astype(np.uint64)
        keep = np.uint64(~(((1 << exponent) - 1) << mantissa) & (2**width - 1))
        bits[::2][: count // 2] = bits[::2][: count // 2] & keep | moderate << np.uint64(mantissa)
    return bits


@cache
def specials(dtype: str) -> Bits:
    """Zeros, ones, extremes, neighbours of powers of two; of floats also subnormals, infinities, NaNs and halves."""
    of, _, to = dtype.partition(">")
    if to:
        return np.concatenate([specials(of), _whole_and_half(of) if to == "int" else _midpoints(of, to)])
    if dtype in _PAIRS:
        half = _PAIRS[dtype]
        few = specials(half)
        return few | np.roll(few, 3) << np.uint64(WIDTHS[half])
    if dtype == "moderate":
        return np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0], np.float32).view(np.uint32).astype(np.uint64)
    width = WIDTHS[dtype]
    if dtype == "field":
        counts = (0, 1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 264, 300, 0xFF00, 0x10000, 0x10008)
        return np.array([*counts, 0x80000000, 0xFFFFFF08, 0xFFFFFFFF], np.uint64)
    if dtype in ("shift", "lane"):
        return np.array([0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, 255, 0x80000000, 0xFFFFFFFF], np.uint64)
    if dtype not in _FLOATS:
        mask = 2**width - 1
        powers = [1 << k for k in range(0, width, 5)] + [1 << (width - 1)]
        found = {0, mask} | {v & mask for p in powers for v in (p, p - 1, p + 1, -p)}
        return np.array(sorted(found), np.uint64)
    exponent, mantissa = _FLOATS[dtype]
    bias, one = 2 ** (exponent - 1) - 1, 1 << mantissa
    top = ((1 << exponent) - 1) << mantissa
    positive = [
        0, 1, 2, one // 2, one - 1, one, one + 1, bias * one - 1, bias * one, bias * one + 1, bias * one + one // 2,
        bias * one - 2, bias * one - 3, (2 * bias - 1) * one, (2 * bias - 1) * one + 1,
        (bias + 1) * one, (bias - 1) * one, (bias + 1) * one + one // 4, (bias + mantissa) * one + 1,
        (bias - mantissa) * one, (bias + mantissa + 1) * one, top - 1, top, top + one // 2, top + 1,
        top + one - 1, top + one // 2 + 2, top + one // 2 - 1, top + one - 9,
    ]  # fmt: skip
    sign = 1 << (width - 1)
    return np.array([v | s for v in positive for s in (0, sign)], np.uint64)


def near_underflow(dtypes: tuple[str, ...]) -> list[Bits]:
    """Operands whose product, quotient or fused sum lies within some steps of the smallest normal number; none where
    they are no floats of one type."""
    kind = _PAIRS.get(dtypes[0], dtypes[0])
    if kind not in _FLOATS or len(dtypes) < 2 or len(set(dtypes)) > 1:
        return [np.empty(0, np.uint64)] * len(dtypes)
    exponent, mantissa = _FLOATS[kind]
    one, sign = 1 << mantissa, 1 << (exponent + mantissa)
    unit = (2 ** (exponent - 1) - 1) * one
    about_least = [one + k for k in range(9)]
    about_one = [unit - k for k in range(1, 13)] + [unit + k for k in range(1, 5)]
    rows = [(x | s, y, z) for x in about_least for y in about_one for s in (0, sign) for z in (0, sign)]
    # Numbers and the neighbours of their reciprocals: short of the smallest normal number by any part of a step.
    for first in range(one + 1, 2 * one, max(one // 64, 1)):
        second = 2 * one * one // first
        rows += [(first, unit - one + second + k - one, sign * (first % 2)) for k in (0, 1)]
    # A product of some quarters of the last place of the smallest normal number, taken from it or put to it.
    far = unit - mantissa * one
    quarters = [(far - e * one) + f for e in (0, 1, 2) for f in (0, one // 4, one // 2, one // 2 + 1)]
    rows += [(q | s, one | t, one | u) for q in quarters for s in (0, sign) for t in (0, sign) for u in (0, sign)]
    rows += [(q | sign, one, one + 1) for q in quarters]
    columns = [np.array(c, np.uint64) for c in zip(*rows, strict=True)][: len(dtypes)]
    if dtypes[0] in _PAIRS:
        shift = np.uint64(WIDTHS[kind])
        columns = [c | np.roll(c, 5) << shift for c in columns]
    return columns


def _bits_of(values: npt.NDArray[np.float64], dtype: str) -> Bits:
    """The bits of numbers as a float type, cut off for bf16."""
    if dtype == "f64":
        return values.view(np.uint64)
    with np.errstate(over="ignore", under="ignore"):
        narrow = values.astype(np.float16 if dtype == "f16" else np.float32)
    bits = narrow.view(np.uint16 if dtype == "f16" else np.uint32).astype(np.uint64)
    return bits >> np.uint64(16) if dtype == "bf16" else bits


def _midpoints(of: str, to: str) -> Bits:
    """Numbers of type `of` in the middle between two of type `to`, and the next ones to each side, of either sign: from
    the smallest up, about the smallest normal one, about 1, about the largest and past it."""
    exponent, mantissa = _TARGETS[to]
    bias, one = 2 ** (exponent - 1) - 1, 1 << mantissa
    steps = [0, 1, 2, 3, one // 2, one - 2, one - 1, one, one + 1, 2 * one - 2, 2 * one - 1, 2 * one]
    places = [np.ldexp(k + part, 1 - bias - mantissa) for k in steps for part in (0.0, 0.25, 0.5, 0.75)]
    for top in (0, bias - 1, bias, bias + 1):
        places += [np.ldexp(1 + (k + part) / one, top) for k in (0, 1, one - 3, one - 2, one - 1) for part in (0, 0.5)]
    bits = _bits_of(np.array(places, np.float64), of)
    around = np.concatenate([bits, bits + np.uint64(1), np.maximum(bits, np.uint64(1)) - np.uint64(1)])
    return np.concatenate([around, around | np.uint64(1 << (WIDTHS[of] - 1))])


def _whole_and_half(of: str) -> Bits:
    """Small whole numbers and halves, the limits of integer types and their neighbours, of either sign."""
    small = [k / 4 for k in range(1, 20)]
    limits = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 53, 63, 64) for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    bits = _bits_of(np.array(small + limits, np.float64), of)
    around = np.concatenate([bits, bits + np.uint64(1), bits - np.uint64(1)])
    return np.concatenate([around, around | np.uint64(1 << (WIDTHS[of] - 1))])
