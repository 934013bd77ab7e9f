"""The instruction descriptor of tcgen05.mma: types and shape of a product (PTX ISA, "Instruction descriptor")."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.emulate.binder import UnknownForm

_FLOATS = {0: "f16", 1: "f32"}
_TYPES = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
}
"""Types of A and B by the numbers of a kind."""

_RESULTS = {"f16": _FLOATS, "tf32": {1: "f32"}, "i8": {2: "s32"}, "f8f6f4": _FLOATS}
_NARROW = ("e2m3", "e3m2", "e2m1")

KINDS = tuple(_TYPES)


@dataclass(frozen=True, slots=True)
class TensorForm:
    """`rows` x `columns` of D, and types. A transposed operand is MN-major, a negated one has the other sign."""

    rows: int
    columns: int
    d: str
    a: str
    b: str
    transposes_a: bool
    transposes_b: bool
    negates: bool
    saturates: bool

    @property
    def shape(self) -> tuple[int, int]:
        """What products on one accumulator have in common that are in a pipeline."""
        return self.rows, self.columns


def tensor_form(bits: int, kind: str, is_pair: bool) -> TensorForm:
    """Decodes 32 bits for a kind, for one block or a pair of blocks (.cta_group::2).

    Raises ValueError, with what is wrong, for what none may hold, UnknownForm for sparse ones and narrow types.
    """
    if bits >> 2 & 1:
        raise UnknownForm("tcgen05.mma with a sparse A")
    for low, high in ((0, 1), (6, 6), (23, 23), (29, 31)):
        if bits >> low & ((1 << (high - low + 1)) - 1):
            raise ValueError(f"bits {high}:{low} must be zero")
    d = _type(_RESULTS[kind], bits >> 4 & 3, "D", "5:4", kind)
    a = _type(_TYPES[kind], bits >> 7 & 7, "A", "9:7", kind)
    b = _type(_TYPES[kind], bits >> 10 & 7, "B", "12:10", kind)
    if a in _NARROW or b in _NARROW:
        raise UnknownForm(f"tcgen05.mma of {a} and {b}")
    if kind == "f16" and a != b:
        raise ValueError(f"A is {a} and B is {b}: they must be equal")
    if d == "f16" and a == "bf16":
        raise ValueError("D of bf16 operands must be f32")
    saturates, negates = bool(bits >> 3 & 1), bool((bits >> 13 ^ bits >> 14) & 1)
    if kind == "i8" and bits >> 13 & 3:
        raise ValueError("bits 14:13 negate operands, which integers cannot")
    if kind != "i8" and saturates:
        raise ValueError("bit 3 saturates, which only integers do")
    rows, columns = (bits >> 24 & 0x1F) << 4, (bits >> 17 & 0x3F) << 3
    _expect_shape(rows, columns, kind, is_pair)
    transposes_b = bool(bits >> 16 & 1)
    if transposes_b and kind in ("i8", "f8f6f4") and columns % (32 if is_pair else 16):
        raise ValueError(f"N is {columns}: of an MN-major B of 8 bits it must be a multiple of {32 if is_pair else 16}")
    return TensorForm(rows, columns, d, a, b, bool(bits >> 15 & 1), transposes_b, negates, saturates)


def _type(names: dict[int, str], number: int, what: str, field: str, kind: str) -> str:
    found = names.get(number)
    if found is None:
        known = ", ".join(f"{n} ({name})" for n, name in names.items())
        raise ValueError(f"the type of {what} in bits {field} is {number}; kind::{kind} has {known}")
    return found


def _expect_shape(rows: int, columns: int, kind: str, is_pair: bool) -> None:
    """Shapes of PTX ISA, "Kinds of matrix-multiply". There N is a multiple of 8 with M = 128 too; CUTLASS takes
    multiples of 16 only, and no card was asked."""
    allowed = (128, 256) if is_pair else (64, 128)
    if rows not in allowed:
        raise ValueError(f"M in bits 28:24 is {rows}, it must be {allowed[0]} or {allowed[1]}")
    step = (32 if kind == "i8" else 16) if is_pair else 8 if rows == 64 else 16
    is_small = kind == "i8" and not is_pair and rows == 64 and columns in (8, 24)
    if kind == "i8" and not is_pair:
        step = 16
    if not 0 < columns <= 256 or (columns % step and not is_small):
        raise ValueError(f"N in bits 22:17 is {columns}, with M {rows} it must be a multiple of {step} up to 256")
