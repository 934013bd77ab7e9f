"""Recognising the hardware pattern of an access to tensor memory from where its elements lie.

Lane and column are expressions over the bits of a thread's number in its warp and of its registers' numbers. A pattern
is linear in those bits, so the steps that they move by decide: they are a pattern's, or no instruction has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.analysis.id.linear import Linearity, slope, values
from compiler.analysis.tmem.patterns import PatternMatch, Step, match
from compiler.analysis.tmem.warps import LANE_BITS
from compiler.arch import TMEM_COLUMN_BITS, TMEM_SUBPARTITIONS, WARP_THREADS
from compiler.ir.expr import Expr, Var
from compiler.ir.size import Size


@dataclass(frozen=True, slots=True)
class AccessPlace:
    """Lane and column (in elements) of an access, the bits that number registers, and what the proof rests on.

    `loop_bits`: of each of `loops` the loop, by its position, and which bit of its index it is.
    """

    lane: Expr
    column: Expr
    vector: tuple[Var, ...]
    loops: tuple[Var, ...]
    sizes: frozenset[Size]
    loop_bits: tuple[tuple[int, int], ...] = ()

    def first(self, e: Expr, loops: Sequence[Var] = ()) -> Expr:
        """An expression of the place for the first thread of a warp, the first of its vector and of those `loops`."""
        return e.substitute({b: Expr() for b in (*LANE_BITS, *self.vector, *loops)})


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The access was not understood, for the reason `why`, which is not to say that no instruction has it."""

    why: str


@dataclass(frozen=True, slots=True)
class NoFixedSteps:
    """Threads or registers do not move by fixed steps."""


@dataclass(frozen=True, slots=True)
class NoPattern:
    """No pattern has these steps, in lanes and columns: of the five bits of a thread, and of the bits of a register."""

    threads: tuple[Step, ...]
    registers: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class WordFill:
    """How elements of `nbits` bits fill columns of 4 bytes, `packed` in each: `inner` are the steps of the first bits
    of a vector, `apart` those column steps of other bits that are no whole columns, `starts` the places inside a column
    at which an access begins."""

    nbits: int
    packed: int
    inner: tuple[Step, ...]
    apart: tuple[int, ...]
    starts: frozenset[int]

    @property
    def is_in_order(self) -> bool:
        """Whether each column has the next elements of a vector, and every access begins with a column."""
        count = self.packed.bit_length() - 1
        return self.inner == tuple((0, 1 << i) for i in range(count)) and not self.apart and self.starts == {0}


@dataclass(frozen=True, slots=True)
class Recognised:
    """The pattern of an access, or None and what was found instead: `fault`, or words that are not in order.

    `columns`: how far the bits of a vector move in one lane, in 4-byte columns.
    """

    match: PatternMatch | None = None
    fault: NotUnderstood | NoFixedSteps | NoPattern | None = None
    words: WordFill | None = None
    columns: tuple[int, ...] = ()


def recognise(place: AccessPlace, nbits: int) -> Recognised:
    """The pattern by which an access reaches elements of `nbits` bits."""
    threads = [_step(place, b) for b in LANE_BITS]
    vector = [_step(place, b) for b in place.vector]
    unknown = [b.name for b, s in zip((*LANE_BITS, *place.vector), (*threads, *vector), strict=True) if s is None]
    if unknown:
        return Recognised(fault=NotUnderstood(f"its lanes and columns are no sums of steps over {unknown}"))
    if any(isinstance(s, Linearity) for s in (*threads, *vector)):
        return Recognised(fault=NoFixedSteps())
    steps, registers = _steps(threads), _steps(vector)
    words = _word_fill(place, nbits, steps, registers)
    if isinstance(words, NotUnderstood):
        return Recognised(fault=words)
    if not words.is_in_order:
        return Recognised(words=words)
    in_words = [_in_words(s, nbits) for s in registers[words.packed.bit_length() - 1 :]]
    loops = [_in_words(s, nbits) if isinstance(s, tuple) else None for s in (_step(place, b) for b in place.loops)]
    return _match([_in_words(s, nbits) for s in steps], _inside_words(nbits), in_words, loops, words)


def _steps(found: Sequence[Step | Linearity | None]) -> list[Step]:
    return [s for s in found if isinstance(s, tuple)]


def _step(place: AccessPlace, bit: Var) -> Step | Linearity | None:
    """Lanes and elements that a bit moves; NOT_LINEAR where it moves by no fixed step, None where that is unknown."""
    lane, column = slope(place.lane, bit), slope(place.column, bit)
    if Linearity.NOT_LINEAR in (lane.linearity, column.linearity):
        return Linearity.NOT_LINEAR
    if Linearity.UNKNOWN in (lane.linearity, column.linearity):
        return None
    return lane.step, column.step


def _in_words(step: Step, nbits: int) -> Step:
    """A step over elements as one over columns of 4 bytes, which it is a whole number of."""
    return step[0], step[1] * nbits // TMEM_COLUMN_BITS


def _inside_words(nbits: int) -> int:
    """Bits of a register's number that wide elements add: one of 8 bytes is two registers."""
    return max(1, nbits // TMEM_COLUMN_BITS).bit_length() - 1


def _word_fill(
    place: AccessPlace, nbits: int, threads: Sequence[Step], vector: Sequence[Step]
) -> WordFill | NotUnderstood:
    packed = max(1, TMEM_COLUMN_BITS // nbits)
    count = packed.bit_length() - 1
    first = place.first(place.column)
    starts = values(first % packed)
    if starts is None:
        return NotUnderstood(f"whether it begins on a column of 4 bytes is not known: at element {first}")
    apart = tuple(column for _, column in (*threads, *vector[count:]) if column % packed)
    return WordFill(nbits, packed, tuple(vector[:count]), apart, frozenset(starts))


def _match(
    threads: Sequence[Step],
    inside: int,
    vector: Sequence[Step],
    loops: Sequence[Step | None],
    words: WordFill,
) -> Recognised:
    """The pattern of steps over words, `inside` bits of registers being the words of one element."""
    registers = (*((0, 1 << i) for i in range(inside)), *vector)
    found = match(threads, registers, loops)
    if found is None:
        return Recognised(fault=NoPattern(tuple(threads), registers), words=words)
    return Recognised(found, words=words, columns=tuple(column for lane, column in vector if lane == 0))


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where accesses begin, in lanes from where the subpartition of their warp does: `lanes`, None where that is not
    known and `text` alone says it; `last`: the last lane at which one of the pattern may begin."""

    lanes: frozenset[int] | None
    last: int
    text: str

    @property
    def outside(self) -> tuple[int, ...]:
        """The lanes at which no access of the pattern may begin: it begins with its subpartition, one of 16 lanes also
        in the middle of it."""
        return tuple(sorted((self.lanes or frozenset()) - {0, self.last}))


def beginning(place: AccessPlace, warp: Expr, match: PatternMatch) -> Beginning:
    """Where an access begins. Where bounds show that it may, its lanes are not listed."""
    begins = place.first(place.lane, [place.loops[i] for i in match.loops]) - (warp % TMEM_SUBPARTITIONS) * WARP_THREADS
    last = WARP_THREADS - match.shape.lanes
    if begins.divisible_by(16) and begins.lo >= 0 and begins.hi <= last:
        return Beginning(frozenset(), last, str(begins))
    taken = values(begins)
    return Beginning(None if taken is None else frozenset(taken), last, str(begins))
