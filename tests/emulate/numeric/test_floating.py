"""f32 and f64 arithmetic against exact rational numbers, bit for bit, in every rounding mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from compiler.emulate.numeric import exact, floating, rounding
from compiler.emulate.numeric.rounding import ROUNDINGS, Array, Rounding
from tests.emulate.numeric import oracle
from tests.emulate.numeric.oracle import F32, F64, Format

DTYPES = {"f32": np.float32, "f64": np.float64}
NAN32 = np.uint32(0x7FFFFFFF)


def operands(fmt: Format, count: int, number: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [oracle.random_bits(fmt, rng, count) for _ in range(number)]


def bits_of(fmt: Format, function: Callable[..., Array], *bits: Array) -> Array:
    result = function(*(x.view(DTYPES[fmt.name]) for x in bits))
    assert result.dtype == DTYPES[fmt.name]
    return np.asarray(result.view(fmt.dtype))


def check(fmt: Format, got: Array, want: list[int | None], *bits: Array) -> None:
    for i, expected in enumerate(want):
        if expected is not None:
            assert int(got[i]) == expected, [hex(int(x[i])) for x in bits] + [hex(int(got[i])), hex(expected)]


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("fmt", [F32, F64], ids=lambda f: f.name)
def test_every_result_is_the_exact_one_rounded_once(fmt: Format, mode: Rounding) -> None:
    a, b, c = operands(fmt, 1500, 3, seed=1)
    one = fmt.dtype(fmt.bias << (fmt.digits - 1))
    minus_zero = fmt.dtype(fmt.sign)
    cases = range(len(a))
    ai, bi, ci = ([int(x) for x in xs] for xs in (a, b, c))
    fma = bits_of(fmt, partial(floating.fma, mode=mode), a, b, c)
    check(fmt, fma, [oracle.fused(fmt, ai[i], bi[i], ci[i], mode) for i in cases], a, b, c)
    add = bits_of(fmt, partial(floating.add, mode=mode), a, b)
    check(fmt, add, [oracle.fused(fmt, ai[i], int(one), bi[i], mode) for i in cases], a, b)
    sub = bits_of(fmt, partial(floating.subtract, mode=mode), a, b)
    check(fmt, sub, [oracle.fused(fmt, ai[i], int(one), bi[i] ^ int(minus_zero), mode) for i in cases], a, b)
    product = bits_of(fmt, partial(floating.multiply, mode=mode), a, b)
    zero_of_product = [(x ^ y) & fmt.sign for x, y in zip(ai, bi, strict=True)]
    check(fmt, product, [oracle.fused(fmt, ai[i], bi[i], zero_of_product[i], mode) for i in cases], a, b)
    quotients: list[int | None] = []
    for x, y in zip(ai, bi, strict=True):
        p, q = oracle.value(fmt, x), oracle.value(fmt, y)
        quotients.append(oracle.rounded(fmt, p / q, mode, bool((x ^ y) & fmt.sign)) if p is not None and q else None)
    check(fmt, bits_of(fmt, partial(floating.divide, mode=mode), a, b), quotients, a, b)
    roots = bits_of(fmt, lambda x: floating.square_root(x, mode), a)
    check(fmt, roots, [oracle.root(fmt, x, mode) for x in ai[:500]], a)


def cancelling(fmt: Format, seed: int) -> list[Array]:
    """Operands whose sum nearly cancels, or where the addend decides a tie of the product."""
    rng = np.random.default_rng(seed)
    a, b = (oracle.random_bits(fmt, rng, 800).view(DTYPES[fmt.name]) for _ in range(2))
    c = -(a * b)
    c[1::2] = np.copysign(np.exp2(rng.integers(-148, 40, 400)), rng.standard_normal(400))
    a[1::2] = rng.integers(1, 1 << 12, 400) * 2.0 + 1
    b[1::2] = rng.integers(1, 1 << (fmt.digits - 12), 400) * 2.0 + 1
    return [a.view(fmt.dtype), b.view(fmt.dtype), c.view(fmt.dtype)]


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("fmt", [F32, F64], ids=lambda f: f.name)
def test_fma_where_the_sum_cancels_or_ties(fmt: Format, mode: Rounding) -> None:
    a, b, c = cancelling(fmt, seed=2)
    got = bits_of(fmt, partial(floating.fma, mode=mode), a, b, c)
    want = [oracle.fused(fmt, int(x), int(y), int(z), mode) for x, y, z in zip(a, b, c, strict=True)]
    assert sum(w is not None for w in want) > 500
    check(fmt, got, want, a, b, c)


def f(*bits: int) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


def test_f64_would_round_these_products_twice() -> None:
    # (1 + 2^-12)(1 + 2^-12) = 1 + 2^-11 + 2^-24 is the middle of two f32; a tiny addend must break the tie.
    a, tiny = f(0x3F800800), np.float32(2.0**-140)
    up, tie, down = (floating.fma(a, a, np.full(1, c), "rn") for c in (tiny, np.float32(0), -tiny))
    assert up[0] > tie[0] == down[0]


@pytest.mark.parametrize(
    ("function", "a", "b", "want"),
    [
        (floating.minimum, 0x80000000, 0x00000000, 0x80000000),
        (floating.minimum, 0x00000000, 0x80000000, 0x80000000),
        (floating.maximum, 0x80000000, 0x00000000, 0x00000000),
        (floating.maximum, 0x00000000, 0x80000000, 0x00000000),
        (floating.minimum, 0x7FC00000, 0x40000000, 0x40000000),
        (floating.maximum, 0x40000000, 0xFFC00000, 0x40000000),
        (floating.maximum, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
        (floating.minimum, 0xFF800000, 0x00000001, 0xFF800000),
        (floating.maximum, 0x00000001, 0x00000002, 0x00000002),
        (lambda a, b: floating.minimum(a, b, True), 0x7FC00000, 0x40000000, 0x7FFFFFFF),
        (lambda a, b: floating.maximum(a, b, True), 0x40000000, 0x7F800000, 0x7F800000),
    ],
)
def test_minimum_and_maximum(function: Any, a: int, b: int, want: int) -> None:
    assert int(rounding.canonical(function(f(a), f(b))).view(np.uint32)[0]) == want


def test_sign_product_of_xorsign() -> None:
    a, b = np.array([2.0, -2.0, -2.0], np.float32), np.array([3.0, 3.0, -3.0], np.float32)
    largest = floating.maximum(np.abs(a), np.abs(b))
    assert floating.with_sign_product(largest, a, b).tolist() == [3.0, -3.0, 3.0]


@pytest.mark.parametrize(
    ("op", "less", "equal", "greater", "unordered"),
    [
        ("eq", 0, 1, 0, 0),
        ("ne", 1, 0, 1, 0),
        ("lt", 1, 0, 0, 0),
        ("le", 1, 1, 0, 0),
        ("gt", 0, 0, 1, 0),
        ("ge", 0, 1, 1, 0),
        ("equ", 0, 1, 0, 1),
        ("neu", 1, 0, 1, 1),
        ("ltu", 1, 0, 0, 1),
        ("leu", 1, 1, 0, 1),
        ("gtu", 0, 0, 1, 1),
        ("geu", 0, 1, 1, 1),
        ("num", 1, 1, 1, 0),
        ("nan", 0, 0, 0, 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_comparisons(op: str, less: int, equal: int, greater: int, unordered: int, dtype: Any) -> None:
    a, b = np.array([1, 2, 3, np.nan], dtype), np.array([2, 2, 2, 2], dtype)
    assert floating.compare(op, a, b).tolist() == [less, equal, greater, unordered]
    assert bool(floating.compare(op, a[0], b[0])) == less
    assert bool(floating.compare(op, b[0], a[3])) == unordered


def test_comparison_flushes_subnormal_numbers() -> None:
    a, b = f(0x00000001), f(0x80000001)
    assert floating.compare("gt", a, b).tolist() == [True]
    assert floating.compare("eq", a, b, ftz=True).tolist() == [True]


def test_flush_keeps_signs_normal_numbers_and_nan() -> None:
    flushed = rounding.flush(f(0x007FFFFF, 0x807FFFFF, 0x00800000, 0xFF800000, 0x7FC00000)).view(np.uint32)
    assert flushed[:4].tolist() == [0, 0x80000000, 0x00800000, 0xFF800000]
    assert np.isnan(flushed.view(np.float32)[4])


def test_saturation() -> None:
    x = f(0x80000000, 0xBF800000, 0x3F000000, 0x40000000, 0x7FC00000, 0x7F800000)
    assert rounding.saturate(x).view(np.uint32).tolist() == [0, 0, 0x3F000000, 0x3F800000, 0, 0x3F800000]


@pytest.mark.parametrize(
    ("name", "true_for"),
    [
        ("finite", {0.0, -1.0, 1e-40}),
        ("infinite", {np.inf}),
        ("number", {0.0, -1.0, 1e-40, np.inf}),
        ("notanumber", set()),
        ("normal", {0.0, -1.0}),
        ("subnormal", {1e-40}),
    ],
)
def test_properties(name: str, true_for: set[float]) -> None:
    values = [0.0, -1.0, 1e-40, np.inf, np.nan]
    got = floating.has_property(name, np.array(values, np.float32)).tolist()
    assert got == [v in true_for or (name == "notanumber" and np.isnan(v)) for v in values]


@pytest.mark.parametrize("mode", ROUNDINGS)
def test_scalars_give_what_arrays_give(mode: Rounding) -> None:
    for dtype in (np.float32, np.float64):
        scalars: list[Any] = [dtype(1.1), dtype(3.3), dtype(-3.6)]
        a, b, c = scalars
        one = [np.full(1, x) for x in scalars]
        assert floating.fma(a, b, c, mode) == floating.fma(one[0], one[1], one[2], mode)[0]
        for function in (floating.add, floating.subtract, floating.multiply, floating.divide):
            assert function(a, b, mode) == function(one[0], one[1], mode)[0]
        assert floating.square_root(a, mode) == floating.square_root(one[0], mode)[0]


def test_an_f64_fma_far_from_the_middle_range() -> None:
    # The product underflows where the addend does not, and the other way round: no part may be lost.
    tiny, huge = 2.0**-600, 2.0**600
    cases = [
        (tiny, tiny, 1.0),
        (tiny, tiny, 5e-324),
        (huge, huge, -np.inf),
        (huge, 2.0**423, -huge),
        (huge, huge, -huge),
    ]
    a, b, c = (np.array(x) for x in zip(*cases, strict=True))
    got = floating.fma(a, b, c, "rn")
    bits = [x.view(np.uint64) for x in (a, b, c)]
    want = [oracle.fused(F64, int(x), int(y), int(z), "rn") for x, y, z in zip(*bits, strict=True)]
    check(F64, got.view(np.uint64), want, *bits)
    assert got[2] == -np.inf
    for mode in ROUNDINGS:
        assert exact.fma(a[2:3], b[2:3], c[2:3], mode)[0] == -np.inf
