"""f16 and bf16 arithmetic against exact rational numbers, over many or all of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.emulate.numeric import half
from compiler.emulate.numeric.half import BF16, F16, Half
from compiler.emulate.numeric.rounding import Array
from tests.emulate.numeric import oracle

ORACLES = {"f16": oracle.F16, "bf16": oracle.BF16}
BOTH = pytest.mark.parametrize("fmt", [F16, BF16], ids=lambda f: f.name)


def operands(fmt: Half, count: int, number: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [oracle.random_bits(ORACLES[fmt.name], rng, count) for _ in range(number)]


def check(got: Array, want: list[int | None], *bits: Array) -> None:
    assert got.dtype == np.uint16
    assert sum(w is not None for w in want) > len(want) // 2
    for i, expected in enumerate(want):
        if expected is not None:
            assert int(got[i]) == expected, [hex(int(x[i])) for x in bits] + [hex(int(got[i])), hex(expected)]


@BOTH
def test_every_result_is_the_exact_one_rounded_once(fmt: Half) -> None:
    ieee = ORACLES[fmt.name]
    a, b, c = operands(fmt, 4000, 3, seed=3)
    one, sign = ieee.bias << (ieee.digits - 1), ieee.sign
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    check(half.fma(fmt, a, b, c), [oracle.fused(ieee, x, y, z, "rn") for x, y, z in rows], a, b, c)
    check(half.add(fmt, a, b), [oracle.fused(ieee, x, one, y, "rn") for x, y, _ in rows], a, b)
    check(half.subtract(fmt, a, b), [oracle.fused(ieee, x, one, y ^ sign, "rn") for x, y, _ in rows], a, b)
    products = [oracle.fused(ieee, x, y, (x ^ y) & sign, "rn") for x, y, _ in rows]
    check(half.multiply(fmt, a, b), products, a, b)


@BOTH
def test_fma_where_the_addend_decides_a_tie(fmt: Half) -> None:
    ieee = ORACLES[fmt.name]
    rng = np.random.default_rng(4)
    a, b = (oracle.random_bits(ieee, rng, 6000) for _ in range(2))
    signs = rng.integers(0, 2, 6000) << 15
    c = (signs | rng.integers(0, 1 << (ieee.digits + 1), 6000)).astype(np.uint16)  # zeros and the tiniest numbers
    near_one = (rng.integers(ieee.bias - 1, ieee.bias + 2, 6000) << (ieee.digits - 1)).astype(np.uint16)
    few_digits = (rng.integers(0, 1 << (ieee.digits - 1), 6000) & ~rng.integers(0, 4, 6000)).astype(np.uint16)
    a[::2], b[::2] = (near_one | few_digits)[::2], (near_one | few_digits[::-1])[::2]
    got = half.fma(fmt, a, b, c)
    rows = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    check(got, [oracle.fused(ieee, x, y, z, "rn") for x, y, z in rows], a, b, c)


@BOTH
def test_widening_and_narrowing_keep_every_number(fmt: Half) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    wide = fmt.widen(every)
    back, back_from_f64 = fmt.narrow(wide), fmt.narrow(wide.astype(np.float64))
    nan = half.is_nan(fmt, every)
    assert nan.sum() == 2 * (0x7FFF - int(fmt.infinity))
    np.testing.assert_array_equal(back, np.where(nan, 0x7FFF, every))
    np.testing.assert_array_equal(back_from_f64, back)
    ieee = ORACLES[fmt.name]
    for bits in range(0, 1 << 16, 37):
        exact = oracle.value(ieee, bits)
        assert exact is None or float(wide[bits]) == float(exact)


@BOTH
def test_signs_of_every_number(fmt: Half) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    nan = half.is_nan(fmt, every)
    np.testing.assert_array_equal(half.negate(fmt, every), np.where(nan, 0x7FFF, every ^ 0x8000))
    np.testing.assert_array_equal(half.absolute(fmt, every), np.where(nan, 0x7FFF, every & 0x7FFF))


def u(*bits: int) -> Array:
    return np.array(bits, np.uint16)


@pytest.mark.parametrize(
    ("fmt", "function", "operands", "want"),
    [
        (F16, half.minimum, (0x8000, 0x0000), 0x8000),
        (F16, half.maximum, (0x8000, 0x0000), 0x0000),
        (F16, half.minimum, (0x7E00, 0x4000), 0x4000),
        (F16, half.maximum, (0x7C01, 0xFE00), 0x7FFF),
        (BF16, half.maximum, (0x7F81, 0x4000), 0x4000),
        (BF16, half.minimum, (0xFF80, 0x0001), 0xFF80),
        (BF16, half.minimum, (0x0001, 0x0002), 0x0001),
        (F16, lambda f, a, b: half.maximum(f, a, b, True), (0x7E00, 0x4000), 0x7FFF),
        (F16, lambda f, a, b: half.with_sign_product(f, a, a, b), (0x4000, 0xBC00), 0xC000),
        (F16, lambda f, a, b: half.with_sign_product(f, a, a, b), (0x7FFF, 0xBC00), 0x7FFF),
        (F16, lambda f, a: half.saturate(f, a), (0x7FFF,), 0x0000),
        (F16, lambda f, a: half.saturate(f, a), (0x8000,), 0x0000),
        (F16, lambda f, a: half.saturate(f, a), (0x4000,), 0x3C00),
        (F16, lambda f, a: half.saturate(f, a), (0x3800,), 0x3800),
        (F16, lambda f, a: half.rectify(a), (0xC000,), 0x0000),
        (F16, lambda f, a: half.rectify(a), (0x7FFF,), 0x7FFF),
        (F16, half.flush, (0x83FF,), 0x8000),
        (F16, half.flush, (0x8400,), 0x8400),
        (F16, half.saturate_finite, (0xFC00,), 0xFBFF),
        (BF16, half.saturate_finite, (0x7F80,), 0x7F7F),
        (BF16, half.saturate_finite, (0x7FFF,), 0x7FFF),
        (F16, lambda f, r, a, b: half.zero_where_oob(r, a, b), (0x7FFF, 0xFFF7, 0x3C00), 0x0000),
        (F16, lambda f, r, a, b: half.zero_where_oob(r, a, b), (0x7FFF, 0x7FFF, 0x3C00), 0x7FFF),
        (F16, half.add, (0x7C00, 0xFC00), 0x7FFF),
        (F16, half.multiply, (0x7C00, 0x0000), 0x7FFF),
        (BF16, half.add, (0x7F7F, 0x7F7F), 0x7F80),
        (BF16, half.fma, (0x7F80, 0x0000, 0x3F80), 0x7FFF),
    ],
)
def test_special_results(fmt: Half, function: Any, operands: tuple[int, ...], want: int) -> None:
    assert function(fmt, *(u(x) for x in operands)).tolist() == [want]
    assert int(function(fmt, *(np.uint16(x) for x in operands))) == want  # scalars stand for all lanes


def test_comparison_flushes_and_orders() -> None:
    assert half.compare(F16, "lt", u(0x0001, 0x7E00), u(0x0002, 0x3C00)).tolist() == [True, False]
    assert half.compare(F16, "ltu", u(0x0001, 0x7E00), u(0x0002, 0x3C00), ftz=True).tolist() == [False, True]
    assert half.compare(BF16, "eq", u(0x8000), u(0x0000)).tolist() == [True]
