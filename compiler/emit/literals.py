"""Numbers as CUDA C++ constants of an element type."""

from __future__ import annotations

import math
import struct

from compiler.dtypes import DType

INTEGER_BITS = {DType.I8: 8, DType.I32: 32, DType.I64: 64}
_INFINITY = {DType.F16: 0x7C00, DType.BF16: 0x7F80}
_SUFFIX = {DType.I8: "", DType.I32: "", DType.I64: "ll"}


def literal(value: int | float, dtype: DType) -> str:
    """`value` in the C++ type that holds an element of `dtype`: a half as its bits, a bool as 0 or 1.

    Integers must fit their type. A float is rounded to nearest even.
    """
    match dtype:
        case DType.F32:
            return _float(float(value))
        case DType.F64:
            return _double(float(value))
        case DType.F16 | DType.BF16:
            return f"u16({_half_bits(float(value), dtype):#06x}u)"
        case DType.BOOL:
            return "1" if value else "0"
        case _:
            return _integer(int(value), dtype)


def rounded_to_half(value: float, dtype: DType) -> float:
    """`value` as f16 or bf16 holds it: what a literal beside such an operand stands for."""
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
    suffix = _SUFFIX[dtype]
    if value == -(1 << INTEGER_BITS[dtype] - 1):
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
