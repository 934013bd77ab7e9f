"""Inputs that find mistakes: special values of each type in every combination, then random ones."""

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
    "e4m3x2": 16, "e5m2x2": 16, "shift": 32, "lane": 32, "moderate": 32,
}  # fmt: skip
"""Bits of an operand of each type."""

_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "e4m3x2": "u8", "e5m2x2": "u8"}


def operands(dtypes: tuple[str, ...], seed: int) -> list[Bits]:
    """Bits for each operand, the same number of each: specials crossed for one or two operands, else drawn."""
    rng = np.random.default_rng(seed)
    if len(dtypes) == 1:
        special = [specials(dtypes[0])]
    elif len(dtypes) == 2:
        left, right = specials(dtypes[0]), specials(dtypes[1])
        special = [np.repeat(left, len(right)), np.tile(right, len(left))]
    else:
        special = [rng.choice(specials(d), COUNT // 2) for d in dtypes]
    rest = max(COUNT - len(special[0]), 512)
    drawn = [np.concatenate([s, random(d, rest, rng)]) for s, d in zip(special, dtypes, strict=True)]
    whole = -(-len(drawn[0]) // 128) * 128
    return [np.resize(d, whole) for d in drawn]


def random(dtype: str, count: int, rng: np.random.Generator) -> Bits:
    """Half of them any bits; of floats the others are of moderate size, so that sums and products stay in range."""
    width = WIDTHS[dtype]
    if dtype in _PAIRS:
        half = _PAIRS[dtype]
        return random(half, count, rng) | random(half, count, rng) << np.uint64(WIDTHS[half])
    if dtype == "shift":
        return rng.integers(0, 80, count, np.uint64)
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
    if dtype in _PAIRS:
        half = _PAIRS[dtype]
        few = specials(half)
        return few | np.roll(few, 3) << np.uint64(WIDTHS[half])
    if dtype == "moderate":
        return np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0], np.float32).view(np.uint32).astype(np.uint64)
    width = WIDTHS[dtype]
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
        (bias + 1) * one, (bias - 1) * one, (bias + 1) * one + one // 4, (bias + mantissa) * one + 1,
        (bias - mantissa) * one, (bias + mantissa + 1) * one, top - 1, top, top + one // 2, top + 1,
    ]  # fmt: skip
    sign = 1 << (width - 1)
    return np.array([v | s for v in positive for s in (0, sign)], np.uint64)
