"""Tiles of which whole warps are transposed in tensor memory: 32 threads along P before, 32 along Q after.

Every pattern leaves three bits of a thread's number where they are (`tile2d_tmem`), so that a tile that goes there and
back once exchanges two of the five at most. Three rounds, one after the other in the same columns, exchange all:

    round   pattern               columns that become threads    threads, the lowest bit first
                                                                 p0 p1 p2 p3 p4
    1       16x128b or 16x256b    q2 q3                          q2 q3 p0 p1 p2
    2       16x128b or 16x256b    q0 q1                          q0 q1 q2 q3 p0
    3       16x32bx2              q4                             q0 q1 q2 q3 q4

What a thread has is moved in its registers alone. Vectors may be single elements: rows that begin anywhere are read and
written by 32 neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from compiler.analysis.tmem.patterns import Pattern
from compiler.arch import WARP_THREADS
from search.space.builder import TraceBuilder
from search.space.groups import LaneExchange, bits_of, cut_by_words, exchange_of

ROUNDS = 3
"""Times that a tile goes to tensor memory and back, for five bits by two at a time."""

_LAST = Pattern.P16X32BX2.value
_BITS = WARP_THREADS.bit_length() - 1
_GAINED = (("q2", "q3"), ("q0", "q1"), ("q4",))
"""By round: the bits of Q that are columns, the lowest first, which are threads after it."""


@dataclass(frozen=True, slots=True)
class Round:
    """One way there and back. Names of bits, the highest first: of the threads that store and of those that load; of
    the `lanes` that registers of those take, in two accesses and inside one; of the columns. `own`: what threads have
    besides, before and after, in its order."""

    pattern: str
    stored: tuple[str, ...]
    loaded: tuple[str, ...]
    lanes: tuple[tuple[str, ...], tuple[str, ...]]
    columns: tuple[str, ...]
    own: tuple[str, ...]


@cache
def rounds_by(pattern: str) -> tuple[Round, ...]:
    """The rounds of tiles whose knobs name this pattern."""
    threads = [f"p{i}" for i in range(_BITS)]
    registers = ["vout", "vin", *(f"q{i}" for i in reversed(range(_BITS)))]
    found: list[Round] = []
    for number, gained in enumerate(_GAINED, start=1):
        by = _LAST if number == ROUNDS else pattern
        bits, new = bits_of(by), list(gained)
        after = [threads[lane.bit_length() - 1] if lane else new.pop(0) for lane, _ in bits.threads]
        inside = tuple(threads[lane.bit_length() - 1] for lane, _ in bits.registers if lane)
        halves = tuple(t for t in threads if t not in after and t not in inside)
        own = tuple(r for r in registers if r not in gained)
        highest = tuple(reversed(gained))
        columns = (*highest, *own) if bits.halves else (*own, *highest)
        found.append(Round(by, tuple(reversed(threads)), tuple(reversed(after)), (halves, inside), columns, own))
        threads, registers = after, [*halves, *inside, *own]
    return tuple(found)


def whole_exchange(pattern: str) -> LaneExchange | None:
    """What all rounds exchange together; None of a pattern that exchanges one bit at a time."""
    x = exchange_of(pattern)
    if x is None or x.count != 1 << len(_GAINED[0]):
        return None
    return LaneExchange(pattern, WARP_THREADS, 1, x.unit_bytes, x.register_lanes)


def cut_into_bits(b: TraceBuilder, tv: str, lead: int, unit_bytes: int) -> None:
    """The axes of `tile2d_tmem.cut`, px and qx cut into their bits, and vin into places and units, where there are
    several: [tile.., step, warp, lane, p4 .. p0, vin, (unit,) step, outer, q4 .. q0, inner, vout]."""
    _cut_into_bits(b, tv, lead + 7)
    if (unit := _unit(b, tv, unit_bytes)) > 1:
        b.split(tv, lead + 4, unit)
    _cut_into_bits(b, tv, lead + 3)


def _cut_into_bits(b: TraceBuilder, tv: str, at: int) -> None:
    for bit in range(_BITS - 1, 0, -1):
        b.split(tv, at + _BITS - 1 - bit, 1 << bit)


def _unit(b: TraceBuilder, tv: str, unit_bytes: int) -> int:
    """Elements that stay with their thread."""
    return unit_bytes // b.tensor(tv).dtype.nbytes


def _arrange(b: TraceBuilder, tv: str, lead: int, threads: Sequence[str], own: Sequence[str]) -> None:
    """-> [tile.., thread, step, own.., (unit)]."""
    p, q = ([f"{side}{i}" for i in reversed(range(_BITS))] for side in "pq")
    names = ["step_p", "warp", "lane", *p, "vin", "unit", "step_q", "outer", *q, "inner", "vout"]
    if len(b.tensor(tv).loop) - lead < len(names):
        names.remove("unit")
    block = ("warp", "lane", "outer", "inner", *threads)
    order = [*block, "step_p", "step_q", *own, *(["unit"] if "unit" in names else [])]
    b.reorder(tv, [*range(lead), *(lead + names.index(name) for name in order)])
    b.merge(tv, lead, len(block))
    b.merge(tv, lead + 1)


def stored_in(b: TraceBuilder, tv: str, lead: int, by: Round, words: int) -> None:
    """[tile.., thread, step, access, element of it] of what a round has in tensor memory, columns in their order."""
    _arrange(b, tv, lead, by.stored, by.columns)
    cut_by_words(b, tv, lead + 2, words)


def loaded_in(b: TraceBuilder, tv: str, lead: int, by: Round, words: int) -> None:
    """[tile.., thread, step, half of the lanes, lanes of a register, access, element of it] of what comes back."""
    halves, inside = by.lanes
    _arrange(b, tv, lead, by.loaded, (*halves, *inside, *by.own))
    if not inside:
        b.split(tv, lead + 2, 1)
    cut_by_words(b, tv, lead + 4, words)
