"""Numbers as CUDA C++ constants of an element type."""

from __future__ import annotations

import math
import struct

from compiler.dtypes import FLOAT_FORMATS, FP8, DType

_INFINITY = {DType.F16: 0x7C00, DType.BF16: 0x7F80}
_FP8_NAN = 0x7F


def literal(value: int | float, dtype: DType) -> str:
    """`value` in the C++ type that holds an element of `dtype`: a shorter float than f32 as its bits, a bool as 0 or 1.

    Integers must fit their type. A float is rounded to nearest even.
    """
    match dtype:
        case DType.F32:
            return _float(float(value))
        case DType.F64:
            return _double(float(value))
        case DType.F16 | DType.BF16:
            return f"u16({_half_bits(float(value), dtype):#06x}u)"
        case DType.F8E4M3 | DType.F8E5M2:
            return f"u8({_fp8_bits(float(value), dtype):#04x}u)"
        case DType.BOOL:
            return "1" if value else "0"
        case _:
            return _integer(int(value), dtype)


def rounded_to_short(value: float, dtype: DType) -> float:
    """`value` as a float of 16 or 8 bits holds it: what a literal beside such an operand stands for."""
    if dtype in FP8:
        return _fp8_value(_fp8_bits(value, dtype), dtype)
    bits = _half_bits(value, dtype)
    if dtype is DType.F16:
        (half,) = struct.unpack("<e", struct.pack("<H", bits))
    else:
        (half,) = struct.unpack("<f", struct.pack("<I", bits << 16))
    return float(half)


def _float(value: float) -> str:
    if math.isnan(value):
        return "__uint_as_float(0x7fffffffu)"
    if math.isinf(value):
        return f"__uint_as_float(0x{'7' if value > 0 else 'f'}f800000u)"
    return f"{_decimal(value)}f"


def _double(value: float) -> str:
    if math.isnan(value):
        return "__longlong_as_double(0x7fffffffffffffffll)"
    if math.isinf(value):
        return f"__longlong_as_double({'0x7ff0000000000000ull' if value > 0 else '0xfff0000000000000ull'})"
    return _decimal(value)


def _decimal(value: float) -> str:
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"


def _integer(value: int, dtype: DType) -> str:
    """The least integer is written as a difference: in C++ its digits alone are a number of the next wider type."""
    suffix = "ll" if dtype is DType.I64 else ""
    if value and value == dtype.integer_range[0]:
        return f"(-{-value - 1}{suffix} - 1{suffix})"
    return f"{value}{suffix}"


def _half_bits(value: float, dtype: DType) -> int:
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return 0x7FFF
    if math.isinf(value):
        return sign | _INFINITY[dtype]
    try:
        if dtype is DType.F16:
            (bits,) = struct.unpack("<H", struct.pack("<e", value))
            return int(bits)
        (wide,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return sign | _INFINITY[dtype]
    # To nearest even: half a unit of the kept bits, less one where the last kept bit is zero.
    return (int(wide) + 0x7FFF + ((int(wide) >> 16) & 1)) >> 16


def _fp8_bits(value: float, dtype: DType) -> int:
    """By way of f32, as casts go; past the largest number that one, or the infinity, which is the next code."""
    if math.isnan(value):
        return _FP8_NAN
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", abs(value)))
    except OverflowError:
        single = math.inf
    form = FLOAT_FORMATS[dtype]
    last = _fp8_code(form.largest, dtype) + (not form.saturates)
    return sign | min(_fp8_code(min(single, 2.0 * form.largest), dtype), last)


def _fp8_code(size: float, dtype: DType) -> int:
    """The code of the nearest number, ties to the even one: codes count numbers from 0 up."""
    form = FLOAT_FORMATS[dtype]
    binade = max(math.frexp(size)[1] - 1 - form.min_exponent, 0) if size else 0
    return round(size / (form.smallest * 2.0**binade)) + (binade << form.precision - 1)


def _fp8_value(bits: int, dtype: DType) -> float:
    if bits & 0x7F == _FP8_NAN:
        return math.nan
    form, kept = FLOAT_FORMATS[dtype], FLOAT_FORMATS[dtype].precision - 1
    binade = max((bits & 0x7F) >> kept, 1) - 1
    size = ((bits & 0x7F) - (binade << kept)) * form.smallest * 2.0**binade
    return math.copysign(size if size <= form.largest else math.inf, -1.0 if bits & 0x80 else 1.0)
