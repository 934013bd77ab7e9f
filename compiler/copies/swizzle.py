"""Swizzles of shared memory as an xor of address bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from compiler.arch import SMEM_LINE_BYTES, SWIZZLE_CHUNK_BYTES, SWIZZLE_SPANS
from compiler.copies.layout import Array

_HARDWARE_SHIFT = (SMEM_LINE_BYTES // SWIZZLE_CHUNK_BYTES).bit_length() - 1
Address = TypeVar("Address", int, Array)


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Byte address a goes to a ^ ((a >> shift) & mask): `bits` address bits from bit `base` on are xored.

    The hardware's modes have base 4 and shift 3: the 16-byte chunk number is xored with the number of the 128-byte line
    (PTX ISA, tensor-copy swizzle modes). Others are software's: copies by threads may use them, the copy engine cannot.
    """

    bits: int
    base: int = 4
    shift: int = _HARDWARE_SHIFT

    @property
    def mask(self) -> int:
        return ((1 << self.bits) - 1) << self.base

    @property
    def chunk_bytes(self) -> int:
        """Bytes that stay together: a vector access may be that wide."""
        return 1 << self.base

    @property
    def repeat_bytes(self) -> int:
        """Bytes after which the pattern starts again: the alignment of the tile."""
        return 1 << (self.base + self.shift + self.bits)

    @property
    def span(self) -> int | None:
        """Bytes of the hardware mode's span; None for a pattern that is none of its modes."""
        span = SWIZZLE_CHUNK_BYTES << self.bits
        is_hardware = 1 << self.base == SWIZZLE_CHUNK_BYTES and self.shift == _HARDWARE_SHIFT and span in SWIZZLE_SPANS
        return span if is_hardware else None

    def __call__(self, address: Address) -> Address:
        """Where a byte of a dense tile goes; the tile starts on a repeat of the pattern."""
        return address ^ ((address >> self.shift) & self.mask)

    def __str__(self) -> str:
        if self.span is not None:
            return f"{self.span}-byte swizzle"
        return f"swizzle <{self.bits}, {self.base}, {self.shift}>"


def hardware(span: int) -> Swizzle | None:
    """The hardware's mode with that span in bytes; None for 0, which is none."""
    return Swizzle((span // SWIZZLE_CHUNK_BYTES).bit_length() - 1) if span else None
