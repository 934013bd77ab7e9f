"""The access patterns of tensor memory: where thread t of a warp finds its register r (PTX ISA, tcgen05.ld shapes).

Every pattern is linear in the bits of t and of r, so it is a table of steps: how many lanes and columns each bit moves.
The loops that give them, for a tensor of 16 lanes (32 for the first) by columns of 4 bytes, written [outer .. inner]:

| pattern | lanes, columns | TIDx | registers |
|---|---|---|---|
| 32x32b | [32], [N] | lanes | Vectorize N |
| 16x64b | [2, 8], [N, 2] | [8, 2, 2] of lanes 8, columns 2, lanes 2 | Vectorize N |
| 16x128b | [2, 8], [N, 4] | [8, 4] of lanes 8, columns 4 | lanes 2 and columns N |
| 16x256b | [2, 8], [N, 4, 2] | [8, 4] of lanes 8, columns 4 | columns 2, lanes 2, columns N |
| 16x32bx2 | [16], [2, N] | [2, 16] of columns 2, lanes 16 | Vectorize N |

Registers are bits of the Vectorize axis. 16x128b and 16x256b have at least two and four of them, and take what the
vector lacks from serial or unrolled loops around this copy alone: 16x256b over [.., 2 serial, 2 Vectorize] is a vector
of two columns in each of two lanes, moved by one instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compiler.arch import TMEM_ACCESS_REGISTERS

Step = tuple[int, int]
"""Lanes and columns that one bit moves."""


def is_access_width(words: int) -> bool:
    """Whether an access can move so many words of 4 bytes a thread (PTX ISA, tcgen05.ld: .x1 to .x128)."""
    return 0 < words <= TMEM_ACCESS_REGISTERS and not words & (words - 1)


class Pattern(StrEnum):
    """Which lanes and columns the threads of a warp reach in one access (PTX ISA, tcgen05.ld shapes)."""

    P32X32B = "32x32b"
    P16X64B = "16x64b"
    P16X128B = "16x128b"
    P16X256B = "16x256b"
    P16X32BX2 = "16x32bx2"


@dataclass(frozen=True, slots=True)
class Shape:
    """A pattern: lane and column of (thread, register), fewest registers of a thread, lanes of an access.

    16x32bx2 puts its upper 16 threads at a column offset of their own, an immediate; it is 0 here.
    """

    pattern: Pattern
    lane: Callable[[int, int], int]
    column: Callable[[int, int], int]
    least_registers: int = 1
    lanes: int = 16

    @property
    def has_half_offset(self) -> bool:
        return self.pattern is Pattern.P16X32BX2

    def thread_steps(self, half_offset: int = 0) -> tuple[Step, ...]:
        """Of the five bits of a thread's number in its warp."""
        steps = [(self.lane(1 << i, 0), self.column(1 << i, 0)) for i in range(5)]
        return (*steps[:4], (steps[4][0], steps[4][1] + half_offset))

    @property
    def register_steps(self) -> tuple[Step, ...]:
        """Of the bits of a register's number, up to the largest access."""
        bits = TMEM_ACCESS_REGISTERS.bit_length() - 1
        return tuple((self.lane(0, 1 << i), self.column(0, 1 << i)) for i in range(bits))


SHAPES = (
    Shape(Pattern.P32X32B, lambda t, r: t, lambda t, r: r, lanes=32),
    Shape(Pattern.P16X64B, lambda t, r: (t >> 2) + 8 * (t & 1), lambda t, r: ((t >> 1) & 1) + 2 * r),
    Shape(
        Pattern.P16X128B,
        lambda t, r: (t >> 2) + 8 * (r & 1),
        lambda t, r: (t & 3) + 4 * (r >> 1),
        least_registers=2,
    ),
    Shape(
        Pattern.P16X256B,
        lambda t, r: (t >> 2) + 8 * ((r >> 1) & 1),
        lambda t, r: 2 * (t & 3) + (r & 1) + 8 * (r >> 2),
        least_registers=4,
    ),
    Shape(Pattern.P16X32BX2, lambda t, r: t & 15, lambda t, r: r),
)
"""In the order in which they are tried."""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A pattern that an access has: how many registers of a thread it takes, which bits of loops number some of them;
    `half_offset` of 16x32bx2, in columns.

    `order`: of each bit of a register's number, the lowest first, the bit that it is: of the words of a vector, or,
    counted on from those, of `loops`.
    """

    shape: Shape
    registers: int
    loops: tuple[int, ...] = ()
    half_offset: int = 0
    order: tuple[int, ...] = ()

    @property
    def is_in_order(self) -> bool:
        """Whether registers are the words of a vector, one after the other."""
        return not self.loops and self.order == tuple(range(len(self.order)))


def match(threads: Sequence[Step], vector: Sequence[Step], loops: Sequence[Step | None]) -> PatternMatch | None:
    """The first pattern that has these steps: `threads` of the five bits of a thread, `vector` of the bits that are
    registers in any case, `loops` of bits that may be registers too (None: not that one)."""
    for shape in SHAPES:
        half_offset = threads[4][1] if shape.has_half_offset else 0
        if tuple(threads) == shape.thread_steps(half_offset):
            added = _added_to(vector, shape)
            if added is None or not all(step in loops for step in added):
                continue
            numbered = (*vector, *added)
            order = tuple(numbered.index(step) for step in shape.register_steps[: len(numbered)])
            of_loops = tuple(loops.index(step) for step in added)
            return PatternMatch(shape, 1 << len(numbered), of_loops, half_offset, order)
    return None


def shapes_of_threads(threads: Sequence[Step]) -> tuple[Shape, ...]:
    """The patterns that the threads alone allow."""
    return tuple(s for s in SHAPES if tuple(threads) == s.thread_steps(threads[4][1] if s.has_half_offset else 0))


def _added_to(vector: Sequence[Step], shape: Shape) -> tuple[Step, ...] | None:
    """The steps that a vector lacks to be the fewest registers of the shape that hold it; None if it does not fit.

    A pattern that moves single registers lacks none: each of them is an access of its own.
    """
    steps = shape.register_steps
    for bits in range(shape.least_registers.bit_length() - 1, len(steps) + 1):
        lacking = list(steps[:bits])
        if all(step in lacking for step in vector) and len(set(vector)) == len(vector):
            lacking = [step for step in lacking if step not in vector]
            return None if lacking and shape.least_registers == 1 else tuple(lacking)
    return None
