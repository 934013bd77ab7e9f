"""Recognising the hardware pattern of an access to tensor memory from where its elements lie.

Lane and column are expressions over the bits of a thread's number in its warp and of its registers' numbers. A pattern
is linear in those bits, so the steps that they move by decide: they are a pattern's, or no instruction has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.analysis.id.linear import Linearity, slope, values
from compiler.analysis.tmem.patterns import SHAPES, PatternMatch, Step, match, shapes_of_threads
from compiler.analysis.tmem.warps import LANE_BITS
from compiler.arch import TMEM_COLUMN_BITS, TMEM_SUBPARTITIONS, WARP_THREADS
from compiler.errors import Violation
from compiler.ir.expr import Expr, Var
from compiler.ir.size import Size


@dataclass(frozen=True, slots=True)
class AccessPlace:
    """Lane and column (in elements) of an access, the bits that number registers, and what the proof rests on."""

    lane: Expr
    column: Expr
    vector: tuple[Var, ...]
    loops: tuple[Var, ...]
    sizes: frozenset[Size]

    def first(self, e: Expr, loops: Sequence[Var] = ()) -> Expr:
        """An expression of the place for the first thread of a warp, the first of its vector and of those `loops`."""
        return e.substitute({b: Expr() for b in (*LANE_BITS, *self.vector, *loops)})


@dataclass(frozen=True, slots=True)
class Recognised:
    """The pattern of an access, or None; and what is wrong with it."""

    match: PatternMatch | None
    breaches: tuple[Violation, ...] = ()


def recognise(where: str, place: AccessPlace, nbits: int) -> Recognised:
    """The pattern by which an access reaches elements of `nbits` bits."""
    threads = [_step(place, b) for b in LANE_BITS]
    vector = [_step(place, b) for b in place.vector]
    unknown = [b.name for b, s in zip((*LANE_BITS, *place.vector), (*threads, *vector), strict=True) if s is None]
    if unknown:
        return Recognised(None, (not_recognised(where, f"its lanes and columns are no sums of steps over {unknown}"),))
    if any(isinstance(s, Linearity) for s in (*threads, *vector)):
        return Recognised(None, (_impossible(where, "threads or registers do not move by fixed steps"),))
    steps, registers = _steps(threads), _steps(vector)
    breaches = tuple(_misaligned(where, place, nbits, steps, registers))
    if breaches:
        return Recognised(None, breaches)
    packed = max(1, TMEM_COLUMN_BITS // nbits).bit_length() - 1
    in_words = [_in_words(s, nbits) for s in registers[packed:]]
    loops = [_in_words(s, nbits) if isinstance(s, tuple) else None for s in (_step(place, b) for b in place.loops)]
    return _match(where, [_in_words(s, nbits) for s in steps], _inside_words(nbits), in_words, loops)


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


def _misaligned(
    where: str, place: AccessPlace, nbits: int, threads: Sequence[Step], vector: Sequence[Step]
) -> Iterator[Violation]:
    """Elements narrower than 4 bytes must fill the words of an access in order, and each access begins on a word."""
    packed = max(1, TMEM_COLUMN_BITS // nbits)
    count = packed.bit_length() - 1
    inner = list(vector[:count])
    first = place.first(place.column)
    starts = values(first % packed)
    if starts is None:
        yield not_recognised(where, f"whether it begins on a column of 4 bytes is not known: at element {first}")
        return
    apart = [column for _, column in (*threads, *vector[count:]) if column % packed]
    if inner != [(0, 1 << i) for i in range(count)] or apart or starts != {0}:
        yield Violation(
            "tmem_words_hold_neighbours",
            where,
            f"{inner} for the elements of a column, {apart or sorted(starts - {0})} between columns",
            f"{packed} elements next to each other in every column",
            "Make the inner columns of the allocation domain the inner part of the Vectorize axis.",
            f"a column holds {packed} elements of {nbits} bits; the first {packed} of a vector must be neighbours in"
            " one, in order, and no access may begin inside a column",
        )


def _match(
    where: str, threads: Sequence[Step], inside: int, vector: Sequence[Step], loops: Sequence[Step | None]
) -> Recognised:
    """The pattern of steps over words, `inside` bits of registers being the words of one element."""
    registers = [*((0, 1 << i) for i in range(inside)), *vector]
    found = match(threads, registers, loops)
    if found is None:
        return Recognised(None, (_no_pattern(where, threads, registers),))
    ascending = [column for lane, column in vector if lane == 0]
    if ascending != sorted(ascending):
        breach = Violation(
            "tmem_vector_is_in_memory_order",
            where,
            f"column steps {ascending}",
            "steps that grow",
            "Order the pieces of the Vectorize axis as the columns of the allocation domain are.",
            f"the registers of a vector lie {ascending} columns apart, expected columns in memory order",
        )
        return Recognised(found, (breach,))
    return Recognised(found)


def _no_pattern(where: str, threads: Sequence[Step], vector: Sequence[Step]) -> Violation:
    """Why no pattern has these steps."""
    lanes, columns = [lane for lane, _ in threads], [column for _, column in threads]
    if lanes[0] > 1 and lanes == [lanes[0] << i for i in range(5)] and not any(columns):
        return Violation(
            "tmem_lane_stride_is_one",
            where,
            lanes[0],
            1,
            "Make the axis on the inner thread dimension the innermost lane axis of the allocation domain.",
            f"the threads of a warp lie {lanes[0]} lanes apart, expected 1",
        )
    allowed = shapes_of_threads(threads)
    if allowed:
        names = " or ".join(s.pattern for s in allowed)
        needs = "; ".join(f"{s.pattern} has {list(s.register_steps)}" for s in allowed)
        return _impossible(where, f"its threads are those of {names}, its registers move by {vector}, where {needs}")
    needs = "; ".join(f"{s.pattern} has {list(s.thread_steps())}" for s in SHAPES)
    return _impossible(
        where, f"threads 1, 2, 4, 8 and 16 of a warp lie {threads} (lanes, columns) from the first; {needs}"
    )


def _impossible(where: str, why: str) -> Violation:
    return Violation(
        "tmem_access_has_a_hardware_pattern",
        where,
        "none",
        ", ".join(s.pattern for s in SHAPES),
        "Let a warp take 32 consecutive lanes, or 16 in the order of one of the other patterns.",
        f"impossible: {why}",
    )


def not_recognised(where: str, why: str) -> Violation:
    """The breach of an access that was not understood, which is not to say that no instruction has it."""
    return Violation(
        "tmem_access_has_a_hardware_pattern",
        where,
        "not recognised",
        ", ".join(s.pattern for s in SHAPES),
        "Schedule the copy by splits and merges of the allocated axes.",
        f"not recognised: {why}",
    )


def outside_subpartition(where: str, place: AccessPlace, warp: Expr, match: PatternMatch) -> Iterator[Violation]:
    """An access begins at the first lane of its warp's subpartition, one of 16 lanes also in the middle of it."""
    begins = place.first(place.lane, [place.loops[i] for i in match.loops]) - (warp % TMEM_SUBPARTITIONS) * WARP_THREADS
    last = WARP_THREADS - match.shape.lanes
    if begins.divisible_by(16) and begins.lo >= 0 and begins.hi <= last:
        return
    taken = values(begins)
    if taken is None:
        yield not_recognised(where, f"the lane that a warp begins at is not known: {begins} from its subpartition")
    elif not taken <= {0, last}:
        wrong = sorted(taken - {0, last})
        yield Violation(
            "tmem_warps_stay_in_their_subpartition",
            where,
            f"{wrong[:4]} lanes off",
            "lanes 32 * (warp mod 4) to + 31",
            "Give each of four consecutive warps its own 32 lanes, and other warps other columns.",
            f"a warp begins {wrong[0]} lanes from where its subpartition does, and warp w reaches lanes 32 * (w mod 4)"
            " to + 31 alone",
        )
