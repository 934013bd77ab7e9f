"""Guard zones and poison: finding what a kernel wrote where it must not, and did not write where it must.

All buffers of a call lie in one flat byte array (NumPy's or torch's uint8) with a zone of known bytes before, between
and after them. Outputs are filled with a poison before a run; two runs use different poisons, so that an element nobody
wrote differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import ALLOCATION_ALIGN
from search.proof.verify.arrays import Array

GUARD_BYTES = 4096
GUARD_BYTE = 0xA5
POISONS = (0xFF, 0x3B)
"""As f32, f16 and bf16: the first is NaN, the second 0.003, 0.9 and 0.003."""


@dataclass(frozen=True, slots=True)
class Zones:
    """Where each buffer lies in the byte array: `starts[i]` to `starts[i] + lengths[i]`. The rest is guarded."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    total_bytes: int

    @property
    def guards(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of every guarded stretch."""
        ends = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        return tuple(zip([0, *ends], [*self.starts, self.total_bytes], strict=True))


def lay_out(lengths: tuple[int, ...], aligns: tuple[int, ...]) -> Zones:
    """Places buffers of `lengths` bytes, each at an address divisible by its `align` and, below 128, by no more.

    So a kernel that assumes more alignment than its binding promises is found out. The byte array itself must start
    at a multiple of 256, as allocators give.
    """
    starts, end = [], 0
    for length, align in zip(lengths, aligns, strict=True):
        start = -(-(end + GUARD_BYTES) // ALLOCATION_ALIGN) * ALLOCATION_ALIGN
        if align < 128:
            start += align
        starts.append(start)
        end = start + length
    return Zones(tuple(starts), lengths, end + GUARD_BYTES)


def fill_guards(memory: Array, zones: Zones) -> None:
    """Writes the known bytes around every buffer."""
    for start, end in zones.guards:
        memory[start:end] = GUARD_BYTE


def disturbed_bytes(memory: Array, zones: Zones) -> Array:
    """How many guard bytes have changed, as a zero-dimensional array: nothing is synchronised."""
    counts = [(memory[start:end] != GUARD_BYTE).sum() for start, end in zones.guards]
    return sum(counts[1:], counts[0])


def poison(memory: Array, zones: Zones, index: int, run: int) -> None:
    """Fills buffer `index` with the poison of run 0 or 1."""
    start = zones.starts[index]
    memory[start : start + zones.lengths[index]] = POISONS[run]


def buffer(memory: Array, zones: Zones, index: int) -> Array:
    """The bytes of buffer `index`, sharing memory."""
    start = zones.starts[index]
    return memory[start : start + zones.lengths[index]]
