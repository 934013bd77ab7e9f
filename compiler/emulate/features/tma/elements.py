"""Element types of tensor maps (CUDA driver API, CUtensorMapDataType; PTX ISA, "tensormap.replace": elemtype)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Element:
    """An element type.

    `number` is that of `tensormap.replace`, which differs from the driver's. `nbytes`: 0 for packed types, whose
    elements are smaller than a byte. `kind` is the type of a reduction: u32, s32, u64, s64, f16, bf16, f32 or "".
    `nan` are the bytes that fill what lies out of bounds: 0x7FF7 in every 16 bits, whatever the type (measured on an
    H200 for f16, bf16, f32 and f64; the tf32 types are believed to do the same).
    """

    name: str
    number: int
    nbytes: int
    kind: str = ""
    nan: bytes = b""
    is_packed: bool = False
    is_packed_to_16: bool = False
    is_rounded: bool = False

    @property
    def is_float(self) -> bool:
        """Whether there is a NaN to fill with."""
        return bool(self.nan)


_NAN16 = b"\xf7\x7f"
_NAN32, _NAN64 = 2 * _NAN16, 4 * _NAN16

ELEMENTS = (
    Element("UINT8", 0, 1),
    Element("UINT16", 1, 2),
    Element("UINT32", 2, 4, "u32"),
    Element("INT32", 3, 4, "s32"),
    Element("UINT64", 4, 8, "u64"),
    Element("INT64", 5, 8, "s64"),
    Element("FLOAT16", 6, 2, "f16", _NAN16),
    Element("FLOAT32", 7, 4, "f32", _NAN32),
    Element("FLOAT32_FTZ", 8, 4, "f32", _NAN32),
    Element("FLOAT64", 9, 8, "f64", _NAN64),
    Element("BFLOAT16", 10, 2, "bf16", _NAN16),
    Element("TFLOAT32", 11, 4, "", _NAN32, is_rounded=True),
    Element("TFLOAT32_FTZ", 12, 4, "", _NAN32, is_rounded=True),
    Element("16U4_ALIGN8B", 13, 0, is_packed=True),
    Element("16U4_ALIGN16B", 14, 0, is_packed=True, is_packed_to_16=True),
    Element("16U6_ALIGN16B", 15, 0, is_packed=True, is_packed_to_16=True),
)
"""By number."""

_BY_NAME = {e.name: e for e in ELEMENTS}

_OURS = {
    "f64": "FLOAT64",
    "f32": "FLOAT32",
    "tf32": "TFLOAT32",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "i64": "INT64",
    "i32": "INT32",
    "i16": "UINT16",
    "i8": "UINT8",
    "bool": "UINT8",
    "u64": "UINT64",
    "u32": "UINT32",
    "u16": "UINT16",
    "u8": "UINT8",
    "f8e4m3": "UINT8",
    "f8e5m2": "UINT8",
}
"""8-bit types go as UINT8 and i16 as UINT16: the bits are copied, whatever they stand for."""

DTYPES: dict[str, Element] = {
    **{ours: _BY_NAME[cuda] for ours, cuda in _OURS.items()},
    **_BY_NAME,
    **{f"CU_TENSOR_MAP_DATA_TYPE_{name}": e for name, e in _BY_NAME.items()},
}
"""Element types under fusetune's names, CUDA's, and CUDA's in full."""
