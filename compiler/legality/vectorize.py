"""Rules on vector access (nvFuser, vectorization)."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from compiler.analysis.id.indexing import first_lane, lanes_are_consecutive
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.straddle import run_of_words
from compiler.arch import WORD_BYTES
from compiler.errors import Violation
from compiler.ir.expr import Expr, without_marks
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import TensorOp, TensorView
from compiler.legality.rules import Schedule, rule


def _vector_copies(s: Schedule) -> Iterator[tuple[TensorOp, TensorView, int]]:
    """Copies whose vectors are words; those of matrices have rules of their own (`legality.matrix`)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if t.vector_axis is not None and op.kind is not OpKind.CAST and not op.via.is_matrix:
            yield op, t, t.vector_axis.extent


def _sides(s: Schedule, op: TensorOp) -> Iterator[tuple[TensorView, Expr]]:
    """Both ends of a copy with the element offset of the lane; registers excepted, which have no addresses."""
    ends = [(s.sf.tensor(op.output), s.indexing.write_offset(s.sf.tensor(op.output)))]
    ends += [(s.sf.tensor(n), s.indexing.read_offset(op, n)) for n in op.tensor_inputs]
    return (e for e in ends if e[0].memory is not MemoryType.LOCAL)


@rule
def vector_axis_belongs_to_a_copy(s: Schedule) -> Iterator[Violation]:
    """Vectorize carries copies and casts (nvFuser, vectorization)."""
    for op, t, _ in _vector_copies(s):
        if op.kind not in MOVES:
            yield Violation("vector_axis_belongs_to_a_copy", t.name, str(op.kind), "a copy", "Unroll the axis instead.")


@rule
def vector_word_is_one_instruction(s: Schedule) -> Iterator[Violation]:
    """A word is 1, 2, 4, 8 or 16 bytes (PTX ISA, ld and st); the 32-byte form of capability 10 is not emitted yet."""
    for op, t, width in _vector_copies(s):
        for side, _ in _sides(s, op):
            word = width * side.dtype.nbytes
            if word not in WORD_BYTES:
                yield Violation(
                    "vector_word_is_one_instruction",
                    f"{t.name}: {side.name}",
                    word,
                    f"a power of two up to {WORD_BYTES[-1]} bytes",
                    "Vectorize by fewer elements.",
                )


@rule
def vector_lanes_are_consecutive(s: Schedule) -> Iterator[Violation]:
    """The vector axis is innermost in the memory order and contiguous (nvFuser, vectorization).

    Lane v then lies v elements on.
    """
    for op, t, width in _vector_copies(s):
        for side, offset in _sides(s, op) if not op.straddles else ():
            # Where a position is known to be inside, a shift's multiple of a vector hides in its mark.
            if not any(lanes_are_consecutive(o, width) for o in (offset, without_marks(offset))):
                yield Violation(
                    "vector_lanes_are_consecutive",
                    f"{t.name}: {side.name}",
                    str(offset),
                    "... + lane",
                    "Vectorize the axis that is contiguous in memory, by a factor that divides it.",
                )


@rule
def vector_address_is_aligned(s: Schedule) -> Iterator[Violation]:
    """The address of a word is a multiple of its size (PTX ISA, ld and st; nvFuser, vectorization).

    Offsets, strides and the tensor's own address decide it.
    """
    for op, t, width in _vector_copies(s):
        for side, offset in _sides(s, op) if not op.straddles else ():
            base = first_lane(offset, width)
            word = width * side.dtype.nbytes
            known = gcd(base.const, *(c for _, c in base.terms)) * side.dtype.nbytes if base != Expr() else 0
            known = word if known % word and without_marks(base).divisible_by(width) else known
            divisor = gcd(known, side.align) if side.memory is MemoryType.GLOBAL else known
            if divisor % word:
                yield Violation(
                    "vector_address_is_aligned",
                    f"{t.name}: {side.name}",
                    divisor,
                    word,
                    "Vectorize by fewer elements, or align rows and address.",
                )


@rule
def straddling_words_lie_along_a_run(s: Schedule) -> Iterator[Violation]:
    """Two aligned words are loaded for a word at any address: its elements are neighbours in memory, up to the ends of
    a run, near which they come one by one."""
    for op, t, width in _vector_copies(s):
        if op.straddles and width > 1 and run_of_words(s.indexing, op, width) is None:
            yield Violation(
                "straddling_words_lie_along_a_run",
                t.name,
                str(s.indexing.read_offset(op, op.tensor_inputs[0])),
                "... + lane, along one dimension in memory",
                "Vectorize the axis that is contiguous in memory, or load element by element.",
            )


@rule
def vectors_stay_inside_shared_tiles(s: Schedule) -> Iterator[Violation]:
    """A partly valid vector is possible only against global memory, where the tail goes element by element."""
    for op, t, width in _vector_copies(s):
        if any(side.memory is MemoryType.SHARED for side, _ in _sides(s, op)):
            offset = s.indexing.write_offset(t)
            if t.memory is MemoryType.SHARED and offset.hi >= layout_of(t).elems and width > 1:
                yield Violation(
                    "vectors_stay_inside_shared_tiles",
                    t.name,
                    offset.hi,
                    layout_of(t).elems - 1,
                    "Make the tile a multiple of the word.",
                )
