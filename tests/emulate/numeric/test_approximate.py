"""The approximate functions: their error bounds, and the special values of the tables in the PTX ISA."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from compiler.emulate.numeric import approximate, half

INF, NAN, TINY = math.inf, math.nan, 2.0**-140


@pytest.mark.parametrize(
    ("opcode", "ftz", "cases"),
    [
        (
            "ex2",
            False,
            [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (TINY, 1.0), (-TINY, 1.0), (-140.0, TINY), (128.0, INF)],
        ),
        ("ex2", True, [(-TINY, 1.0), (-140.0, 0.0)]),
        ("lg2", False, [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF), (TINY, -140.0)]),
        ("lg2", True, [(TINY, -INF), (-TINY, -INF)]),
        ("rcp", False, [(-INF, -0.0), (INF, 0.0), (-0.0, -INF), (0.0, INF), (2.0**127, 2.0**-127), (TINY, INF)]),
        ("rcp", True, [(2.0**127, 0.0), (-(2.0**127), -0.0), (-TINY, -INF)]),
        ("sqrt", False, [(-INF, NAN), (-1.0, NAN), (-0.0, -0.0), (INF, INF), (TINY, 2.0**-70), (-TINY, NAN)]),
        ("sqrt", True, [(TINY, 0.0), (-TINY, -0.0)]),
        ("rsqrt", False, [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (TINY, 2.0**70), (4.0, 0.5)]),
        ("rsqrt", True, [(TINY, INF), (-TINY, -INF)]),
        ("sin", False, [(-INF, NAN), (INF, NAN), (-0.0, -0.0), (0.0, 0.0), (TINY, TINY)]),
        ("sin", True, [(-TINY, -0.0)]),
        ("cos", False, [(-INF, NAN), (INF, NAN), (-0.0, 1.0), (TINY, 1.0)]),
        ("tanh", False, [(-INF, -1.0), (INF, 1.0), (-0.0, -0.0), (TINY, TINY)]),
    ],
)
def test_special_values(opcode: str, ftz: bool, cases: list[tuple[float, float]]) -> None:
    x, want = np.array([*cases, (NAN, NAN)], np.float32).T.copy()
    got = approximate.f32(opcode, x, ftz)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got.view(np.uint32), np.where(np.isnan(want), 0x7FFFFFFF, want.view(np.uint32)))


@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        ("ex2", lambda x: 2.0**x),
        ("lg2", math.log2),
        ("rcp", lambda x: 1 / x),
        ("sqrt", math.sqrt),
        ("rsqrt", lambda x: 1 / math.sqrt(x)),
        ("sin", math.sin),
        ("cos", math.cos),
        ("tanh", math.tanh),
    ],
)
def test_error_is_that_of_rounding(opcode: str, function: Callable[[float], float]) -> None:
    x = np.random.default_rng(9).uniform(0.01, 20, 500).astype(np.float32)
    want = np.array([function(float(v)) for v in x])
    got = approximate.f32(opcode, x).astype(np.float64)
    assert np.max(np.abs(got - want) / np.abs(want)) <= 2.0**-24
    assert approximate.f32(opcode, x[0]) == got[0].astype(np.float32)


@pytest.mark.parametrize(
    ("a", "b", "ftz", "full", "want"),
    [
        (3.0, 2.0, False, False, 1.5),
        (1.0, 2.0**126, False, False, 2.0**-126),
        (1.0, 1.5 * 2.0**126, False, False, 0.0),
        (-1.0, 1.5 * 2.0**126, False, False, -0.0),
        (INF, 1.5 * 2.0**126, False, False, NAN),
        (2.0**100, 1.5 * 2.0**126, False, True, 2.0**-26 / 1.5),
        (1.0, INF, False, False, 0.0),
        (1.0, 0.0, False, False, INF),
        (0.0, 0.0, False, False, NAN),
        (1.0, TINY, False, False, INF),
        (2.0**-30, TINY, True, False, INF),
        (2.0**-30, TINY, False, True, 2.0**110),
        (2.0**-100, 2.0**30, True, True, 0.0),
    ],
)
def test_division(a: float, b: float, ftz: bool, full: bool, want: float) -> None:
    x, y = np.array([a], np.float32), np.array([b], np.float32)
    got = approximate.divide(x, y, ftz, full).view(np.uint32)
    assert got[0] == (0x7FFFFFFF if math.isnan(want) else np.float32(want).view(np.uint32))


@pytest.mark.parametrize(
    ("opcode", "cases"),
    [
        (
            "rcp",
            [
                (-INF, -0.0),
                (INF, 0.0),
                (-0.0, -INF),
                (0.0, INF),
                (5e-310, INF),
                (-5e-310, -INF),
                (4.0, 0.25),
                (2.0**1023, 0.0),
            ],
        ),
        ("rsqrt", [(-INF, NAN), (-1.0, NAN), (-0.0, -INF), (0.0, INF), (5e-310, INF), (INF, 0.0), (4.0, 0.5)]),
    ],
)
def test_gross_f64(opcode: str, cases: list[tuple[float, float]]) -> None:
    x, want = np.array([*cases, (NAN, NAN)]).T.copy()
    got = approximate.gross_f64(opcode, x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.where(np.isnan(want), got, want)))


def test_gross_f64_sees_and_gives_the_high_words_only() -> None:
    x = np.array([3.0, np.pi, 1e300])
    got = approximate.gross_f64("rcp", x)
    assert (got.view(np.uint64) & np.uint64(0xFFFFFFFF)).tolist() == [0, 0, 0]
    assert np.max(np.abs(got * x - 1)) < 2.0**-19
    low_changed = (x.view(np.uint64) ^ np.uint64(0xFFFF)).view(np.float64)
    np.testing.assert_array_equal(approximate.gross_f64("rcp", low_changed), got)


@pytest.mark.parametrize("fmt", [half.F16, half.BF16], ids=lambda f: f.name)
@pytest.mark.parametrize(("opcode", "function"), [("ex2", lambda x: 2.0**x), ("tanh", math.tanh)])
def test_every_half_is_rounded_correctly(fmt: half.Half, opcode: str, function: Callable[[float], float]) -> None:
    every = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    got = approximate.half(opcode, fmt, every)
    wide = fmt.widen(every)
    for bits, x, result in zip(every.tolist(), wide.tolist(), got.tolist(), strict=True):
        if math.isnan(x):
            assert result == 0x7FFF, hex(bits)
            continue
        try:
            want = function(x)
        except OverflowError:
            want = INF
        assert result == int(fmt.narrow(np.array([want]))[0]), (hex(bits), x)
