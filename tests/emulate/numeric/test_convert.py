"""Conversions against exact rational numbers: every f16, bf16 and fp8 value, and random ones of the wider types."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compiler.emulate.numeric import convert, minifloat
from compiler.emulate.numeric.rounding import ROUNDINGS, Array, Rounding
from tests.emulate.numeric import oracle
from tests.shares import inside

EVERY16 = np.arange(1 << 16, dtype=np.uint16)


def as_bits(kind: str, x: Array) -> Array:
    return np.asarray(x.view(oracle.FORMATS[kind].dtype))


def random_floats(kind: str, count: int, seed: int) -> Array:
    bits = oracle.random_bits(oracle.FORMATS[kind], np.random.default_rng(seed), count)
    return np.asarray(bits.view(convert.DTYPES[kind]))


def near_halves(kind: str, narrow: str, count: int, seed: int) -> Array:
    """Values of `kind` at and next to the middle of two values of `narrow`, from below its range to above it."""
    rng = np.random.default_rng(seed)
    fmt = oracle.FORMATS[narrow]
    low = rng.integers(0, fmt.infinity - 1, count)
    low[: count // 8] = rng.integers(0, 4, count // 8)  # where subnormal numbers begin
    low[count // 8 : count // 4] = fmt.infinity - 1
    values = []
    for bits in low.tolist():
        here = oracle.value(fmt, bits)
        assert here is not None
        above = oracle.value(fmt, bits + 1)
        step = above - here if above is not None else here - (oracle.value(fmt, bits - 1) or Fraction(0))
        values.append(float(here + step / 2))
    middle = np.array(values).astype(convert.DTYPES[kind])
    nudged = np.nextafter(middle, np.where(rng.integers(0, 2, count), np.inf, -np.inf).astype(middle.dtype))
    return np.asarray(np.where(rng.integers(0, 3, count), nudged, middle) * rng.choice([-1.0, 1.0], count)).astype(
        middle.dtype
    )


def kept_nan(bits: int, fmt: oracle.Format) -> int:
    """The sign and the upper payload of an f64's NaN in a narrower format, quiet."""
    payload = (bits & (1 << 52) - 1) >> 53 - fmt.digits
    return (bits >> 63) * fmt.sign | fmt.infinity | 1 << fmt.digits - 2 | payload


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("f32", "f16"),
        ("f32", "bf16"),
        ("f64", "f16"),
        ("f64", "bf16"),
        ("f64", "f32"),
        ("f16", "bf16"),
        ("bf16", "f16"),
    ],
)
def test_narrowing_floats(source: str, to: str, mode: Rounding) -> None:
    x = random_floats(source, 2000, 5)
    if source in ("f32", "f64"):
        x = np.concatenate([x, near_halves(source, to, 800, 6)])
    wide, narrow = oracle.FORMATS[source], oracle.FORMATS[to]
    got = as_bits(to, convert.float_to_float(x, source, to, mode))
    for bits, result in zip(as_bits(source, x).tolist(), got.tolist(), strict=True):
        exact = oracle.value(wide, bits)
        if exact is not None:
            assert result == oracle.rounded(narrow, exact, mode, bool(bits & wide.sign)), (hex(bits), hex(result))
        elif oracle.is_nan(wide, bits):
            assert result == (kept_nan(bits, narrow) if source == "f64" else narrow.sign - 1), hex(bits)
        else:
            assert result == narrow.infinity | (narrow.sign if bits & wide.sign else 0)


@pytest.mark.parametrize("source", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("to", ["f32", "f64"])
def test_widening_keeps_every_number(source: str, to: str) -> None:
    x = EVERY16 if source != "f32" else random_floats("f32", 2000, 10)
    got = as_bits(to, convert.float_to_float(x, source, to, "rn"))
    for bits, result in zip(as_bits(source, x).tolist(), got.tolist(), strict=True):
        exact = oracle.value(oracle.FORMATS[source], bits)
        assert oracle.value(oracle.FORMATS[to], result) == exact
        if exact is not None:
            assert (bits & oracle.FORMATS[source].sign > 0) == (result & oracle.FORMATS[to].sign > 0)


def test_widening_nan() -> None:
    for kind, bits, want in (("bf16", [0x7F81, 0xFFC1], [0x7F810000, 0xFFC10000]), ("f16", [0x7C01], [0x7FFFFFFF])):
        wide = convert.float_to_float(np.array(bits, np.uint16), kind, "f32", "rn")
        assert wide.view(np.uint32).tolist() == want


def test_narrowing_near_the_middle_meets_ties_and_both_sides() -> None:
    x = near_halves("f32", "f16", 800, 6).astype(np.float64)
    inside = np.abs(x) < 60000
    back = convert.decode("f16", convert.encode("f16", x, None, "rn"))
    up = convert.decode("f16", convert.encode("f16", x, None, "rp"))
    down = convert.decode("f16", convert.encode("f16", x, None, "rm"))
    assert inside.sum() > 500
    assert ((up - x) == (x - down))[inside].sum() > 100
    assert (back == up)[inside].sum() > 100
    assert (back == down)[inside].sum() > 100


@inside("mode", ROUNDINGS)
@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("source", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_integers_to_floats(source: str, to: str, mode: Rounding) -> None:
    dtype = convert.DTYPES[source]
    limits, rng = np.iinfo(dtype), np.random.default_rng(7)
    x = rng.integers(limits.min, limits.max, 600, dtype=dtype, endpoint=True)
    x = np.concatenate([x, x >> rng.integers(0, limits.bits, 600).astype(dtype)])
    x = np.concatenate([x, np.array([0, 1, limits.min, limits.max, limits.max - 1, limits.max // 2 + 1], dtype)])
    if limits.bits == 64:  # ties of every format, and next to them
        tie = np.array([(2 * k + 1) << s for k in (128, 1024, 1 << 23, 1 << 52) for s in (1, 5, 8)], dtype)
        x = np.concatenate([x, tie - 1, tie, tie + 1])
    got = as_bits(to, convert.integer_to_float(x, to, mode))
    for number, result in zip(x.tolist(), got.tolist(), strict=True):
        assert result == oracle.rounded(oracle.FORMATS[to], Fraction(number), mode), (number, hex(result))


def rounded_integer(exact: Fraction, mode: str) -> int:
    down = exact.numerator // exact.denominator
    match mode:
        case "rmi":
            return down
        case "rpi":
            return -((-exact.numerator) // exact.denominator)
        case "rzi":
            return down if exact >= 0 else -((-exact.numerator) // exact.denominator)
    return round(exact)


@inside("mode", ("rni", "rzi", "rmi", "rpi"))
@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_floats_to_integers_clamp(source: str, to: str, mode: Any) -> None:
    fmt, dtype = oracle.FORMATS[source], convert.DTYPES[to]
    limits = np.iinfo(dtype)
    if source in ("f16", "bf16"):
        x = EVERY16[::13]
    else:
        edges = [
            s * (2.0**k + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1) for s in (1, -1)
        ]
        x = np.concatenate([random_floats(source, 700, 8), np.array(edges).astype(convert.DTYPES[source])])
    got = convert.float_to_integer(convert.decode(source, x), source, dtype, mode)
    assert got.dtype == dtype
    for bits, result in zip(as_bits(source, x).tolist(), got.tolist(), strict=True):
        exact = oracle.value(fmt, bits)
        if exact is not None:
            want = min(max(rounded_integer(exact, mode), int(limits.min)), int(limits.max))
        elif oracle.is_nan(fmt, bits):
            top = source == "f64" or limits.bits == 64
            want = (int(limits.min) if limits.min else 1 << (limits.bits - 1)) if top else 0
        else:
            want = int(limits.min if bits & fmt.sign else limits.max)
        assert result == want, (hex(bits), result, want)


@pytest.mark.parametrize(
    ("x", "to", "saturate", "want"),
    [
        (np.int32(-1), "s64", False, -1),
        (np.int32(-1), "u64", False, 2**64 - 1),
        (np.uint32(0xFFFFFFFF), "s64", False, 2**32 - 1),
        (np.int8(-128), "u16", False, 0xFF80),
        (np.int32(300), "u8", False, 44),
        (np.int32(300), "u8", True, 255),
        (np.int32(-300), "s8", True, -128),
        (np.int32(-1), "u32", True, 0),
        (np.uint64(2**63), "s64", True, 2**63 - 1),
        (np.int64(-5), "u64", True, 0),
    ],
)
def test_integers_to_integers(x: Any, to: str, saturate: bool, want: int) -> None:
    got = convert.integer_to_integer(np.full(2, x), convert.DTYPES[to], saturate)
    assert got.dtype == convert.DTYPES[to]
    assert got.tolist() == [want, want]
    assert int(convert.integer_to_integer(x, convert.DTYPES[to], saturate)) == want


@pytest.mark.parametrize(
    ("a", "b", "c", "signed", "bits", "want"),
    [
        (70000, -5, None, False, 16, 0xFFFF0000),
        (70000, -5, None, True, 16, 0x7FFFFFFB),
        (-200, 200, 0x1234, True, 8, 0x1234807F),
        (-200, 200, 0xFFFF, False, 8, 0xFFFF00C8),
        (9, -9, 0xABCDEF, True, 4, 0xABCDEF78),
        (3, 9, 1, False, 2, 0x1F),
    ],
)
def test_pack(a: int, b: int, c: int | None, signed: bool, bits: int, want: int) -> None:
    third = None if c is None else np.full(1, c, np.uint32)
    got = convert.pack_saturated(np.full(1, a, np.int32), np.full(1, b, np.int32), third, signed, bits)
    assert got.tolist() == [want]


def minifloat_values(fmt: minifloat.Minifloat) -> dict[int, Fraction]:
    """The finite values by their bits, positive ones only, from the definition of the format."""
    values = {}
    for bits in range(fmt.sign):
        exponent, mantissa = bits >> fmt.mantissa_bits, bits % (1 << fmt.mantissa_bits)
        number = Fraction(mantissa, 1 << fmt.mantissa_bits) + (1 if exponent else 0)
        exact = number * Fraction(2) ** (max(exponent, 1) - (2 ** (fmt.exponent_bits - 1) - 1))
        if exact <= Fraction(fmt.largest):
            values[bits] = exact
    return values


NARROW = pytest.mark.parametrize("fmt", minifloat.FORMATS.values(), ids=lambda f: f.name)


@NARROW
def test_narrow_formats_hold_the_values_of_their_definition(fmt: minifloat.Minifloat) -> None:
    values = minifloat_values(fmt)
    special = {"e4m3": 1, "e5m2": 4}.get(fmt.name, 0)
    assert len(values) == fmt.sign - special
    bits = np.array(list(values), np.uint8)
    assert minifloat.decode(fmt, bits).tolist() == [float(v) for v in values.values()]
    assert minifloat.decode(fmt, bits | np.uint8(fmt.sign)).tolist() == [-float(v) for v in values.values()]
    np.testing.assert_array_equal(minifloat.encode(fmt, minifloat.decode(fmt, bits)), bits)


@NARROW
def test_narrow_formats_round_every_f16_to_the_nearest(fmt: minifloat.Minifloat) -> None:
    values = minifloat_values(fmt)
    finite = sorted(values.items(), key=lambda item: item[1])
    x = EVERY16.view(np.float16).astype(np.float64)
    got = minifloat.encode(fmt, x)
    rectified = minifloat.encode(fmt, x, relu=True)
    exact_values = np.array([float(v) for _, v in finite])
    middles = (exact_values[1:] + exact_values[:-1]) / 2  # exact: both have few digits
    codes = np.array([bits for bits, _ in finite])
    below, upto = np.searchsorted(middles, np.abs(x), "left"), np.searchsorted(middles, np.abs(x), "right")
    nearest = np.where(below == upto, codes[below], np.where(codes[below] % 2 == 0, codes[below], codes[upto]))
    nan = np.isnan(x)
    signed = nearest | np.where(np.signbit(x), fmt.sign, 0)
    largest = codes[-1] if fmt.nan is None else fmt.nan
    np.testing.assert_array_equal(got, np.where(nan, largest, signed))
    np.testing.assert_array_equal(rectified, np.where(nan, largest, np.where(np.signbit(x), 0, nearest)))


@pytest.mark.parametrize(
    ("name", "bits", "want"),
    [
        ("e4m3", 0x7F, np.nan),
        ("e4m3", 0xFF, np.nan),
        ("e5m2", 0x7C, np.inf),
        ("e5m2", 0xFC, -np.inf),
        ("e5m2", 0x7D, np.nan),
    ],
)
def test_what_is_no_number(name: str, bits: int, want: float) -> None:
    np.testing.assert_array_equal(minifloat.decode(minifloat.FORMATS[name], np.array([bits], np.uint8)), want)


def f32_bits(*values: int) -> Array:
    return np.array(values, np.uint32)


@pytest.mark.parametrize(
    ("bits", "up", "satfinite", "want"),
    [
        (0x3F800000, False, True, 127),
        (0x3F800001, False, True, 127),
        (0x3F800001, True, True, 128),
        (0xBFC00000, True, True, 128),
        (0x00000000, True, True, 0),
        (0x00400000, True, True, 0),
        (0x00400001, True, True, 1),
        (0x7F7FFFFF, True, True, 254),
        (0x7F7FFFFF, True, False, 255),
        (0x7F800000, False, True, 254),
        (0x7F800000, False, False, 255),
        (0x7FC00000, False, True, 255),
    ],
)
def test_ue8m0(bits: int, up: bool, satfinite: bool, want: int) -> None:
    assert minifloat.encode_ue8m0(f32_bits(bits), up, satfinite).tolist() == [want]


def test_ue8m0_back() -> None:
    got = minifloat.decode_ue8m0(np.array([0, 1, 127, 254, 255], np.uint8))
    assert got.tolist() == [0x0040, 0x0080, 0x3F80, 0x7F00, 0x7FFF]


@pytest.mark.parametrize(
    ("bits", "mode", "want"),
    [
        (0x3F801000, "rna", 0x3F802000),
        (0x3F801000, "rn", 0x3F800000),
        (0x3F803000, "rn", 0x3F804000),
        (0x3F801001, "rn", 0x3F802000),
        (0x3F801FFF, "rz", 0x3F800000),
        (0xBF800FFF, "rna", 0xBF800000),
        (0x7F7FFFFF, "rna", 0x7F800000),
        (0x7FC00000, "rz", 0x7FFFE000),
        (0xFF800001, "rn", 0x7FFFE000),
        (0x7F800001, "rna", 0x7F800000),
        (0xFFFFFFFF, "rna", 0xFFFFE000),
        (0x7F802345, "rna", 0x7F802000),
    ],
)
def test_tf32(bits: int, mode: str, want: int) -> None:
    assert minifloat.to_tf32(f32_bits(bits).view(np.float32), mode).tolist() == [want]


def test_tf32_clamps() -> None:
    x = f32_bits(0x7F7FFFFF, 0xFF800000, 0xBF800000).view(np.float32)
    assert minifloat.to_tf32(x, "rna", satfinite=True).tolist() == [0x7F7FE000, 0xFF7FE000, 0xBF800000]
    assert minifloat.to_tf32(x, "rna", relu=True).tolist() == [0x7F800000, 0, 0]
