"""Element types, under their wire names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DType(StrEnum):
    """A tensor element type. The first twelve have a name on the wire; the rest occur in explicit schedules only."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"
    I16 = "i16"
    U8 = "u8"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F4E2M1 = "f4e2m1"
    C64 = "c64"
    C128 = "c128"

    @property
    def nbits(self) -> int:
        """Size of one element in bits."""
        return _BITS[self]

    @property
    def nbytes(self) -> int:
        """Size of one element in bytes; of a smaller one, the byte that it shares."""
        return -(-_BITS[self] // 8)

    @property
    def is_float(self) -> bool:
        """True for real floats of 8 bits and more."""
        return self in _FLOATS

    @property
    def integer_range(self) -> tuple[int, int]:
        """The least and the greatest integer. Raises KeyError for what is no integer type."""
        return _INTEGERS[self]


FP8 = frozenset({DType.F8E4M3, DType.F8E5M2})
"""8-bit floats (OCP 8-bit floating point specification): stored, cast and moved, and no arithmetic on them."""

_FLOATS = FP8 | {DType.F64, DType.F32, DType.F16, DType.BF16}
_INTEGERS = {
    DType.I8: (-(2**7), 2**7 - 1),
    DType.U8: (0, 2**8 - 1),
    DType.I16: (-(2**15), 2**15 - 1),
    DType.I32: (-(2**31), 2**31 - 1),
    DType.I64: (-(2**63), 2**63 - 1),
}

_BITS = {
    DType.F64: 64,
    DType.F32: 32,
    DType.F16: 16,
    DType.BF16: 16,
    DType.I8: 8,
    DType.I32: 32,
    DType.I64: 64,
    DType.BOOL: 8,
    DType.I16: 16,
    DType.U8: 8,
    DType.F8E4M3: 8,
    DType.F8E5M2: 8,
    DType.F4E2M1: 4,
    DType.C64: 64,
    DType.C128: 128,
}


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float: significant bits, the leading one included, and exponents of normal numbers (IEEE 754).

    `saturates`: there are no infinities, and the one NaN stands where the largest number would: the one below it is the
    largest, and what is too large becomes that.
    """

    precision: int
    min_exponent: int
    max_exponent: int
    saturates: bool = False

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding a normal number to nearest."""
        return 2.0**-self.precision

    @property
    def largest(self) -> float:
        """The largest finite number."""
        below_two = 2.0 - 2.0 ** (1 - self.precision) * (2.0 if self.saturates else 1.0)
        return below_two * 2.0**self.max_exponent

    @property
    def smallest(self) -> float:
        """The least positive number, a subnormal one."""
        return 2.0 ** (self.min_exponent - self.precision + 1)


FLOAT_FORMATS = {
    DType.F64: FloatFormat(53, -1022, 1023),
    DType.F32: FloatFormat(24, -126, 127),
    DType.F16: FloatFormat(11, -14, 15),
    DType.BF16: FloatFormat(8, -126, 127),
    DType.F8E4M3: FloatFormat(4, -6, 8, saturates=True),
    DType.F8E5M2: FloatFormat(3, -14, 15),
}
"""IEEE 754 binary64, binary32, binary16; bfloat16 is binary32 with 8 bits of precision (PTX ISA, fundamental types);
e4m3 and e5m2 of the OCP 8-bit floating point specification, which leaves it open whether casts saturate."""
