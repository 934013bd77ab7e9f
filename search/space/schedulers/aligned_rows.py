"""Rows of a pointwise fusion that begin at any element, shifted so that vectors lie at multiples of a vector in memory.

Rows whose pitch is no multiple of a vector begin at different phases of it. The rows of a thread are as many apart as
there are phases: then they begin alike, one vector of an operand that all rows share serves every one of them, and so
do the places where a row's ends cut vectors.
"""

from __future__ import annotations

from math import gcd

from compiler.arch import MAX_WORD_BYTES, WARP_THREADS
from search.space.groups import LEAST_WORD_ELEMS, widest_word
from search.space.schedulers.iteration_space import IterationSpace, Operand
from search.space.schedulers.row_shape import Phase

EVEN_THREADS = 2
"""Numbers of threads beside powers of two that are tried."""

MOST_EVEN_THREADS = 384
"""The largest of them: blocks of more are waited for longer at their ends."""


def phase_of(space: IterationSpace, elems: int) -> Phase | None:
    """By how much rows are shifted so that vectors of `elems` are aligned; None where they are aligned as rows are, or
    cannot be so. Strides are by group of the space."""
    last = len(space.sizes) - 1
    operand = reference(space)
    if not last or operand is None or space.lanes(operand, "2d", elems) == widest_word(operand.nbytes, elems):
        return None
    strides = tuple((g, space.stride(operand, g)) for g in range(last) if space.stride(operand, g) % elems)
    phase = Phase(elems, operand.start % elems, strides)
    return phase if lanes_along(space, operand, phase, elems) == widest_word(operand.nbytes, elems) else None


def reference(space: IterationSpace) -> Operand | None:
    """The operand whose rows vectors are aligned to: a stored one, parts of whose sectors cost most, else the one with
    the longest elements; it varies along every dimension, and its rows are runs of neighbours in memory."""
    able = (o for o in space.streams if _is_run(space, o) and not o.is_chosen)
    return max(able, key=lambda o: (o.is_output, o.nbytes), default=None)


def lanes_along(space: IterationSpace, operand: Operand, phase: Phase, most: int) -> int:
    """The widest word of at most `most` elements in which the operand can be moved along shifted rows: one whose rows
    begin at the same phase of such a word, and that no bound of a view may cut."""
    width = most
    while width > 1 and not _takes(space, operand, phase, width):
        width //= 2
    return width


def straddles(space: IterationSpace, operand: Operand, phase: Phase) -> bool:
    """True if an input may be loaded in words that straddle two aligned ones: its rows are runs of neighbours, no bound
    of a view cuts them, and vectors are not aligned."""
    elems, last = phase.modulus, len(space.sizes) - 1
    able = LEAST_WORD_ELEMS <= elems <= MAX_WORD_BYTES // operand.nbytes and not operand.is_output
    is_run = operand.is_affine and space.stride(operand, last) == 1 and not operand.run and not operand.is_chosen
    return able and is_run and lanes_along(space, operand, phase, elems) < elems


def rows_apart(phase: Phase, group: int) -> int:
    """Rows of a group from one to the next that begins at the same phase."""
    stride = dict(phase.strides).get(group, 0)
    return phase.modulus // gcd(phase.modulus, stride)


def even_threads(space: IterationSpace, elems: int) -> tuple[int, ...]:
    """Whole warps, beside powers of two, by whose vectors of `elems` shifted rows are cut with the least rest: a row
    has places for a vector more than it is long, and of powers of two most of the last tile would be idle."""
    vectors = -(-(space.sizes[-1] + elems) // elems)
    able = [
        t
        for t in range(WARP_THREADS, MOST_EVEN_THREADS + 1, WARP_THREADS)
        if t & (t - 1) and t < vectors + WARP_THREADS
    ]
    return tuple(sorted(sorted(able, key=lambda t: (-vectors % t, -t))[:EVEN_THREADS]))


def _is_run(space: IterationSpace, o: Operand) -> bool:
    last = len(space.sizes) - 1
    ahead = all(space.stride(o, g) >= 0 for g in range(last)) and o.start >= 0
    return o.is_affine and space.stride(o, last) == 1 and ahead


def _takes(space: IterationSpace, o: Operand, phase: Phase, width: int) -> bool:
    last = len(space.sizes) - 1
    if width * o.nbytes > MAX_WORD_BYTES or not o.is_affine or space.stride(o, last) != 1 or o.run:
        return False
    moved = dict(phase.strides)
    alike = all((space.stride(o, g) - moved.get(g, 0)) % width == 0 for g in range(last))
    return alike and (o.start - phase.start) % width == 0 and o.base % (width * o.nbytes) == 0
