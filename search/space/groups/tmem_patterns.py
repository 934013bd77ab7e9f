"""What knobs need to know of the access patterns of tensor memory, all of it from the compiler's table of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from compiler.analysis.tmem.patterns import SHAPES, Pattern, Shape
from compiler.arch import REGISTER_BYTES

BY_LANES = Pattern.P32X32B.value
"""The pattern of a lane for each thread."""

PATTERNS: tuple[str, ...] = tuple(shape.pattern.value for shape in SHAPES)


@dataclass(frozen=True, slots=True)
class LaneExchange:
    """What moves between threads of a warp that store by 32x32b and load by `pattern`: some bits of a thread's number
    are columns then, and as many of its lane are registers.

    `count`: threads that exchange with each other; `inner`: threads side by side that have the same part in it;
    `unit_bytes`: neighbours in columns that stay with their thread, 0 where those that move may be any;
    `register_lanes`: of the `count` lanes that a thread then has, those in registers of one access.
    """

    pattern: str
    count: int
    inner: int
    unit_bytes: int
    register_lanes: int


@cache
def exchange_of(pattern: str) -> LaneExchange | None:
    """The exchange of a pattern; None of 32x32b, which leaves every element with its thread."""
    shape = _shape(pattern)
    columns = {bit: column for bit, (_, column) in enumerate(_thread_steps(shape)) if column}
    if not columns:
        return None
    unit = 0 if shape.has_half_offset else min(columns.values()) * REGISTER_BYTES
    in_registers = sum(lane > 0 for lane, _ in shape.register_steps)
    return LaneExchange(pattern, 1 << len(columns), 1 << min(columns), unit, 1 << in_registers)


@dataclass(frozen=True, slots=True)
class PatternBits:
    """Where the bits of a thread's number, and of the number of a register, lie in a pattern of 16 lanes: steps of
    (lanes, columns). `register_bits`: of those of registers, how many say which lane it is, and all below; `halves`:
    the highest bit of a thread moves by any number of columns."""

    threads: tuple[tuple[int, int], ...]
    registers: tuple[tuple[int, int], ...]
    halves: bool

    @property
    def register_bits(self) -> int:
        return max((bit + 1 for bit, (lane, _) in enumerate(self.registers) if lane), default=0)

    def named(self, inside: int) -> tuple[list[str], list[str], list[str]]:
        """Names of bits, "t" and "r" with their numbers, the outermost first: those that are lanes, those outside all
        columns of a thread, and those inside. `inside`: bits of registers that number the words of one element."""
        bits = {f"t{bit}": step for bit, step in enumerate(self.threads)}
        bits |= {f"r{bit - inside}": self.registers[bit] for bit in range(inside, self.register_bits)}
        outermost = [f"t{len(self.threads) - 1}"] if self.halves else []
        lanes = sorted((name for name in bits if bits[name][0]), key=lambda name: -bits[name][0])
        columns = (name for name in bits if bits[name][1] and name not in outermost)
        return lanes, outermost, sorted(columns, key=lambda name: -bits[name][1])


@cache
def bits_of(pattern: str) -> PatternBits:
    """The bits of a pattern of 16 lanes."""
    shape = _shape(pattern)
    return PatternBits(_thread_steps(shape), shape.register_steps, shape.has_half_offset)


@cache
def least_words(pattern: str) -> int:
    """Words that a thread has of one access, at the least."""
    return _shape(pattern).least_registers


def _shape(pattern: str) -> Shape:
    (found,) = (shape for shape in SHAPES if shape.pattern == pattern)
    return found


def _thread_steps(shape: Shape) -> tuple[tuple[int, int], ...]:
    """Lanes and columns of the bits of a thread, the halves of 16x32bx2 one column apart."""
    return shape.thread_steps(int(shape.has_half_offset))
