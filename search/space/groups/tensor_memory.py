"""Tensor memory: what threads put there between a load and its uses, where an architecture has it (PTX ISA, tcgen05).

tmem          "none", or what goes there from the registers of its load, and comes back where it is used. "streams":
              what is read from memory; in every pass over a row or a column, of which registers then hold a few
              steps. "values": of what is computed from a row, what later passes read, as `keep_values` says; of
              columns, what costs a special function.
              "transpose": tiles whose threads load along one dimension and go on along another
tmem_pattern  how threads reach it, by the hardware's name (`compiler.analysis.tmem.patterns`). Of "transpose" the loads
              from it: stores are by 32x32b
tmem_dimsep   of patterns of 16 lanes, what lies left of dimsep: "threads" alone, and the other lanes stay empty; or
              the "halves" of what a thread has at a time as well, each in 16 lanes of a subpartition
tmem_buffers  tiles of a persistent block that lie there at a time: all are loaded before the first is used. Stages of
              a circular buffer may not lie in tensor memory (nvFuser, circular buffers)
tmem_rounds   times that a transposed tile goes there and back: three exchange whole warps, whose vectors may be single
              elements
tmem_store    words of 4 bytes that a thread stores at a time (tcgen05.st .x1 to .x128)
tmem_load     the same of a load

What is read where it was put, by one pattern, a thread finds as it has put it down: in cells of its warp's subpartition
that no other thread has. Up to 128 threads are lanes; more of them lie side by side in columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import mul
from typing import Any

import numpy as np

from compiler.analysis.memory.resources import register_limit
from compiler.arch import (
    REGISTER_BYTES,
    TMEM_ACCESS_FEW_REGISTERS,
    TMEM_ACCESS_SPARE_REGISTERS,
    TMEM_COLUMNS,
    TMEM_LANES,
    TMEM_LEAST_COLUMNS,
    WARP_THREADS,
    Arch,
)
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups.hints import DEFAULT
from search.space.groups.occupancy import blocks_promised
from search.space.groups.tmem_layout import DIMSEPS, HALVES, THREADS
from search.space.groups.tmem_patterns import BY_LANES, PATTERNS, exchange_of, least_words
from search.space.knobs import Knob, KnobValue, powers_of_two
from search.space.space import Space

NO_TMEM, STREAMS, VALUES, TRANSPOSE = "none", "streams", "values", "transpose"

WORDS_OF_AN_ACCESS = (1, 4, 16, 64)

WIDTHS = ("tmem_store", "tmem_load")

KNOBS: Mapping[str, tuple[KnobValue, ...]] = {
    "tmem": (NO_TMEM, STREAMS, VALUES, TRANSPOSE),
    "tmem_pattern": PATTERNS,
    "tmem_dimsep": DIMSEPS,
    "tmem_buffers": (1, 2, 4),
    "tmem_rounds": (1, 3),
    "tmem_store": WORDS_OF_AN_ACCESS,
    "tmem_load": WORDS_OF_AN_ACCESS,
}


def tmem_knobs(uses: tuple[str, ...], *others: str) -> tuple[Knob, ...]:
    """The knobs of the group, of a scheduler that has these uses of tensor memory, and of `others` more than one value;
    none where it has no use of it."""
    if not uses:
        return ()
    offered = {name: values if name in (*WIDTHS, *others) else values[:1] for name, values in KNOBS.items()}
    return tuple(Knob(name, values) for name, values in {**offered, "tmem": (NO_TMEM, *uses)}.items())


ACCUMULATORS = "accumulators"
"""The knob of products whose result lies in tensor memory: in how many places."""


def is_kept_there(point: Mapping[str, Any]) -> bool:
    """Whether a point keeps anything in tensor memory, of several launches any of them."""
    return any(_is_use(name) and value != NO_TMEM for name, value in point.items())


def _is_use(knob: str) -> bool:
    """Whether a knob says what goes to tensor memory, of a launch or of the only one."""
    return knob.rpartition(".")[2] in ("tmem", ACCUMULATORS)


def parts_in_tmem(space: Space) -> list[Space]:
    """The parts of a space whose points keep something in tensor memory: one for each use, of several launches one for
    each use of each of them."""
    knobs = [knob for knob in space.knobs if _is_use(knob.name)]
    return [space.having({knob.name: value}) for knob in knobs for value in knob.values if value != NO_TMEM]


def part_without_tmem(space: Space) -> Space | None:
    """The part whose points keep nothing there; None of a space whose points all do: of products that lie there."""
    uses = [knob for knob in space.knobs if _is_use(knob.name)]
    if any(NO_TMEM not in knob.values for knob in uses):
        return None
    return space.having({knob.name: NO_TMEM for knob in uses})


def unused_knobs() -> list[Constraint]:
    """Where nothing is in tensor memory, the other knobs have their first values."""
    return [
        Constraint(
            "redundant_tmem",
            ("tmem", name),
            lambda tmem, value, first=values[0]: (tmem != NO_TMEM) | (value == first),
            "Only what is in tensor memory is moved there and back.",
        )
        for name, values in KNOBS.items()
        if name != "tmem"
    ]


@dataclass(frozen=True)
class TmemUse:
    """What constraints read of a scheduler whose threads read again what they have put in tensor memory, `what` being
    the value of `tmem`.

    `threads`: the knobs of a block's threads, innermost dimension first; `elements`: bytes of the elements that lie
    there. Of the knobs `axes`, those of threads among them: `part_bytes` of a thread lie there at a time, in all
    tensors; `run` elements of a tensor are in its registers side by side.
    """

    what: str
    arch: Arch
    threads: tuple[str, ...]
    axes: tuple[str, ...]
    elements: Sequence[int]
    part_bytes: Callable[..., Any]
    run: Callable[..., Any]
    stays: str | None = None
    """The knob that says how many blocks stay on a multiprocessor."""
    capped: tuple[str, ...] = ()
    """The knob that caps registers (`groups.occupancy`), of a scheduler that has it."""

    def extents(self, knobs: Sequence[Any]) -> list[Any]:
        """Of the threads, among values of `axes`."""
        return [knobs[self.axes.index(name)] for name in self.threads]

    def columns(self, pattern: Any, dimsep: Any, *knobs: Any) -> Any:
        """That a block needs. Patterns of 16 lanes leave the others empty, if no halves of runs lie there."""
        empty = np.where((pattern != BY_LANES) & (dimsep == THREADS), 2, 1)
        return columns_taken(self.extents(knobs), self.part_bytes(*knobs)) * empty


def without_hints(*hints: str) -> list[Constraint]:
    """What goes through tensor memory is loaded and stored without hints of these knobs."""
    return [
        Constraint(
            "redundant_tmem",
            ("tmem", hint),
            lambda tmem, cache: (tmem == NO_TMEM) | (cache == DEFAULT),
            "Hints are told apart without tensor memory.",
        )
        for hint in hints
    ]


def tmem_constraints(*uses: TmemUse) -> list[Constraint]:
    """What tensor memory asks of blocks, and of threads that find there what they have put down; nothing of no use."""
    if not uses:
        return []
    kinds = (_threads, _columns, _clusters, _accesses, _registers, _patterns)
    return [*unused_knobs(), *_alike(), *(constraint for use in uses for kind in kinds for constraint in kind(use))]


def _alike() -> list[Constraint]:
    """What patterns of 16 lanes leave to no other knob, and 32x32b has no use for."""

    return [
        Constraint(
            "redundant_tmem_buffers",
            ("tmem_pattern", "tmem_buffers", *WIDTHS),
            lambda pattern, buffers, store, load: (buffers == 1) | (pattern == BY_LANES) & (store == load),
            "Several tiles lie there by 32x32b, stored by as many words at a time as they are loaded by.",
        ),
        Constraint(
            "redundant_tmem_dimsep",
            ("tmem_pattern", "tmem_dimsep"),
            lambda pattern, dimsep: (pattern != BY_LANES) | (dimsep == THREADS),
            "Threads fill the lanes of 32x32b.",
        ),
        Constraint(
            "redundant_tmem_store",
            ("tmem_pattern", *WIDTHS),
            lambda pattern, store, load: (pattern == BY_LANES) | (store == load),
            "By a pattern of 16 lanes threads store as many words at a time as they load.",
        ),
    ]


def _threads(use: TmemUse) -> list[Constraint]:
    def lanes(tmem: Any, *sizes: Any) -> Any:
        inner, block = sizes[0], reduce(mul, sizes)
        return (tmem != use.what) | (block <= TMEM_LANES) | (inner % TMEM_LANES == 0) | (TMEM_LANES % inner == 0)

    return [
        Constraint(
            "tmem_access_is_warp_collective",
            ("tmem", *use.threads),
            lambda tmem, *sizes: (tmem != use.what) | (reduce(mul, sizes) % WARP_THREADS == 0),
            f"Tensor memory is accessed by whole warps: a block has a multiple of {WARP_THREADS} threads.",
        ),
        Constraint(
            "tmem_lanes_fit",
            ("tmem", *use.threads),
            lanes,
            f"The threads of a block are at most {TMEM_LANES} lanes, or whole groups of so many.",
        ),
    ]


def _columns(use: TmemUse) -> list[Constraint]:
    def resident(blocks: Any, tmem: Any, buffers: Any, *knobs: Any) -> Any:
        taken = allocated_columns(buffers * use.columns(*knobs))
        return (tmem != use.what) | (np.maximum(blocks, 1) * taken <= TMEM_COLUMNS)

    axes = ("tmem", "tmem_buffers", "tmem_pattern", "tmem_dimsep", *use.axes)
    found = [
        Constraint(
            "tmem_columns_fit",
            axes,
            lambda tmem, buffers, *knobs: (tmem != use.what) | (buffers * use.columns(*knobs) <= TMEM_COLUMNS),
            f"What the threads of a block keep takes at most {TMEM_COLUMNS} columns of 4 bytes.",
        )
    ]
    if use.stays is None:
        return found
    return [
        *found,
        Constraint(
            "tmem_columns_are_shared_by_the_blocks_of_an_sm",
            (use.stays, *axes),
            resident,
            f"Blocks that stay share the {TMEM_COLUMNS} columns of their multiprocessor: an allocation waits.",
        ),
    ]


def _clusters(use: TmemUse) -> list[Constraint]:
    """Of a scheduler that has clusters. Shared memory, and a cap on registers, could leave room for fewer blocks."""
    if "cluster" not in use.axes:
        return []
    at = use.axes.index("cluster")

    def together(tmem: Any, buffers: Any, pattern: Any, dimsep: Any, *knobs: Any) -> Any:
        warps = -(-reduce(mul, use.extents(knobs)) // WARP_THREADS)
        blocks = np.minimum(use.arch.max_warps_per_sm // warps, use.arch.max_blocks_per_sm)
        taken = allocated_columns(buffers * use.columns(pattern, dimsep, *knobs))
        return (tmem != use.what) | (knobs[at] == 1) | (blocks * taken <= TMEM_COLUMNS)

    return [
        Constraint(
            "blocks_that_wait_for_each_other_all_have_their_columns",
            ("tmem", "tmem_buffers", "tmem_pattern", "tmem_dimsep", *use.axes),
            together,
            "Blocks of a cluster wait for each other, and an allocation for columns: all blocks that a multiprocessor"
            " has warps for have theirs at once.",
        )
    ]


def _accesses(use: TmemUse) -> list[Constraint]:
    def width(tmem: Any, words: Any, *knobs: Any) -> Any:
        moved, count = words * REGISTER_BYTES, use.run(*knobs)
        whole = [(moved % nbytes == 0) & (count * nbytes % moved == 0) for nbytes in use.elements]
        return (tmem != use.what) | reduce(np.logical_and, whole)

    return [
        Constraint(
            "tmem_access_width_is_a_power_of_two",
            ("tmem", name, *use.axes),
            width,
            "A thread's run in registers is moved by whole accesses.",
        )
        for name in WIDTHS
    ]


def _registers(use: TmemUse) -> list[Constraint]:

    def enough(tmem: Any, words: Any, *knobs: Any) -> Any:
        threads = reduce(mul, knobs[len(use.capped) :])
        blocks = blocks_promised(knobs[0], threads) if use.capped else 1
        limit = register_limit(use.arch, threads, blocks)
        few = words <= TMEM_ACCESS_FEW_REGISTERS
        return (tmem != use.what) | few | (words + TMEM_ACCESS_SPARE_REGISTERS <= limit)

    return [
        Constraint(
            "tmem_accesses_find_their_registers",
            ("tmem", name, *use.capped, *use.threads),
            enough,
            "An access has its words in registers, of those that threads leave each other.",
        )
        for name in WIDTHS
    ]


def _patterns(use: TmemUse) -> list[Constraint]:
    """Of 16 lanes: bits of a thread's number and of its words are lanes and columns."""

    def elements(tmem: Any, pattern: Any) -> Any:
        has = [looked_up(f"has_{n}_bytes", partial(_has, n), pattern) for n in use.elements]
        return (tmem != use.what) | reduce(np.logical_and, has)

    def words(tmem: Any, pattern: Any, dimsep: Any, moved: Any, *knobs: Any) -> Any:
        parts = np.where(dimsep == HALVES, 2, 1)
        least = np.maximum(looked_up("least_words", least_words, pattern), moved)
        whole = [use.run(*knobs) * nbytes % (parts * least * REGISTER_BYTES) == 0 for nbytes in use.elements]
        return (tmem != use.what) | (pattern == BY_LANES) | reduce(np.logical_and, whole)

    return [
        Constraint(
            "tmem_access_has_a_hardware_pattern",
            ("tmem", "tmem_pattern", use.threads[0]),
            lambda tmem, pattern, inner: (tmem != use.what) | (pattern == BY_LANES) | (inner % WARP_THREADS == 0),
            "A warp of a pattern of 16 lanes is threads of one row.",
        ),
        Constraint(
            "tmem_words_hold_neighbours",
            ("tmem", "tmem_pattern"),
            elements,
            "The columns of an element are one thread's.",
        ),
        Constraint(
            "tmem_access_has_a_hardware_pattern",
            ("tmem", "tmem_pattern", "tmem_dimsep", "tmem_load", *use.axes),
            words,
            "A thread has as many words as a pattern takes, in each half of the lanes.",
        ),
    ]


def _has(nbytes: int, pattern: str) -> bool:
    """Whether the threads of a pattern can have elements of so many bytes."""
    x = exchange_of(pattern)
    return x is None or not x.unit_bytes or x.unit_bytes % nbytes == 0


def columns_taken(threads: Sequence[Any], part_bytes: Any) -> Any:
    """Columns that a block needs for so many bytes of each thread."""
    groups = -(-reduce(mul, threads) // TMEM_LANES)
    return groups * -(-part_bytes // REGISTER_BYTES)


def allocated_columns(needed: Any) -> Any:
    """The power of two, of 32 or more, that an allocation of so many columns takes (PTX ISA, tcgen05.alloc)."""
    powers = [n for n in powers_of_two(TMEM_COLUMNS) if n >= TMEM_LEAST_COLUMNS]
    return np.select([needed <= n for n in powers], powers, 2 * TMEM_COLUMNS)
