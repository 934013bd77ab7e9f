"""Element types, under their wire names."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """A tensor element type. The first eight have a name on the wire; the rest occur in explicit schedules only."""

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
        return self in (DType.F64, DType.F32, DType.F16, DType.BF16)


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
