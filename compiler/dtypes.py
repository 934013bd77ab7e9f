"""Element types, under their wire names."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """A tensor element type; the value is its name on the wire."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

    @property
    def nbytes(self) -> int:
        """Size of one element in bytes."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.F64, DType.F32, DType.F16, DType.BF16)


_BYTES = {
    DType.F64: 8,
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.I8: 1,
    DType.I32: 4,
    DType.I64: 8,
    DType.BOOL: 1,
}
