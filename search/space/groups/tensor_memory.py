"""Tensor memory: what threads put there between a load and its uses, where an architecture has it (PTX ISA, tcgen05).

tmem          "none", or what goes there from the registers of its load, and comes back where it is used. "streams":
              what is read from memory; in every pass over a row, whose registers then hold a few steps of it.
              "transpose": tiles whose threads load along one dimension and go on along another
tmem_pattern  how threads reach it, by the hardware's name (`compiler.analysis.tmem.patterns`). Of "transpose" the loads
              from it: stores are by 32x32b
tmem_store    words of 4 bytes that a thread stores at a time (tcgen05.st .x1 to .x128)
tmem_load     the same of a load

What is read where it was put, by one pattern, a thread finds as it has put it down: in cells of its warp's subpartition
that no other thread has. Up to 128 threads are lanes; more of them lie side by side in columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from compiler.arch import (
    REGISTER_BYTES,
    TMEM_COLUMNS,
    TMEM_LANES,
    TMEM_LEAST_COLUMNS,
    WARP_THREADS,
    Arch,
)
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia
from compiler.schedule import steps
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.groups.tmem_patterns import PATTERNS
from search.space.knobs import Knob, KnobValue, powers_of_two

NO_TMEM, STREAMS, TRANSPOSE = "none", "streams", "transpose"

WORDS_OF_AN_ACCESS = (1, 4, 16, 64)

KNOBS: Mapping[str, tuple[KnobValue, ...]] = {
    "tmem": (NO_TMEM, STREAMS, TRANSPOSE),
    "tmem_pattern": PATTERNS,
    "tmem_store": WORDS_OF_AN_ACCESS,
    "tmem_load": WORDS_OF_AN_ACCESS,
}


def tmem_knobs(uses: tuple[str, ...], patterns: tuple[str, ...] = PATTERNS[:1]) -> tuple[Knob, ...]:
    """The knobs of the group, of a scheduler that has these uses of tensor memory, by these patterns; none where it has
    no use of it."""
    if not uses:
        return ()
    offered: Mapping[str, tuple[KnobValue, ...]] = {**KNOBS, "tmem": (NO_TMEM, *uses), "tmem_pattern": patterns}
    return tuple(Knob(name, values) for name, values in offered.items())


def is_kept_there(point: Mapping[str, Any]) -> bool:
    """Whether a point keeps anything in tensor memory."""
    return bool(point.get("tmem", NO_TMEM) != NO_TMEM)


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


def tmem_constraints(
    arch: Arch,
    threads: tuple[str, ...],
    axes: tuple[str, ...],
    elements: Sequence[int],
    part_bytes: Callable[..., Any],
    run: Callable[..., Any],
) -> list[Constraint]:
    """What tensor memory asks of a block of `threads`, innermost dimension first, for tensors whose `elements` have so
    many bytes. Of the knobs `axes`, those of threads among them: `part_bytes` of a thread lie there at a time, in all
    tensors; `run` elements of a tensor are in its registers side by side."""

    def extents(knobs: Sequence[Any]) -> list[Any]:
        return [knobs[axes.index(name)] for name in threads]

    def whole_warps(tmem: Any, *sizes: Any) -> Any:
        return (tmem == NO_TMEM) | (reduce(mul, sizes) % WARP_THREADS == 0)

    def lanes(tmem: Any, *sizes: Any) -> Any:
        inner, block = sizes[0], reduce(mul, sizes)
        return (tmem == NO_TMEM) | (block <= TMEM_LANES) | (inner % TMEM_LANES == 0) | (TMEM_LANES % inner == 0)

    def columns(tmem: Any, *knobs: Any) -> Any:
        return (tmem == NO_TMEM) | (columns_taken(extents(knobs), part_bytes(*knobs)) <= TMEM_COLUMNS)

    def width(tmem: Any, words: Any, *knobs: Any) -> Any:
        moved, count = words * REGISTER_BYTES, run(*knobs)
        whole = [(moved % nbytes == 0) & (count * nbytes % moved == 0) for nbytes in elements]
        return (tmem == NO_TMEM) | reduce(np.logical_and, whole)

    def resident(blocks: Any, tmem: Any, *knobs: Any) -> Any:
        taken = allocated_columns(columns_taken(extents(knobs), part_bytes(*knobs)))
        return (tmem == NO_TMEM) | (np.maximum(blocks, 1) * taken <= TMEM_COLUMNS)

    return [
        *unused_knobs(),
        Constraint(
            "tmem_access_is_warp_collective",
            ("tmem", *threads),
            whole_warps,
            f"Tensor memory is accessed by whole warps: a block has a multiple of {WARP_THREADS} threads.",
        ),
        Constraint(
            "tmem_lanes_fit",
            ("tmem", *threads),
            lanes,
            f"The threads of a block are at most {TMEM_LANES} lanes, or whole groups of so many.",
        ),
        Constraint(
            "tmem_columns_fit",
            ("tmem", *axes),
            columns,
            f"What the threads of a block keep takes at most {TMEM_COLUMNS} columns of 4 bytes.",
        ),
        *(
            Constraint(
                "tmem_access_width_is_a_power_of_two",
                ("tmem", name, *axes),
                width,
                "A thread's run in registers is moved by whole accesses.",
            )
            for name in ("tmem_store", "tmem_load")
        ),
        Constraint(
            "tmem_columns_are_shared_by_the_blocks_of_an_sm",
            ("blocks_per_sm", "tmem", *axes),
            resident,
            f"Blocks that stay share the {TMEM_COLUMNS} columns of their multiprocessor: an allocation waits.",
        ),
    ]


def columns_taken(threads: Sequence[Any], part_bytes: Any) -> Any:
    """Columns that a block needs for so many bytes of each thread."""
    groups = -(-reduce(mul, threads) // TMEM_LANES)
    return groups * -(-part_bytes // REGISTER_BYTES)


def allocated_columns(needed: Any) -> Any:
    """The power of two, of 32 or more, that an allocation of so many columns takes (PTX ISA, tcgen05.alloc)."""
    powers = [n for n in powers_of_two(TMEM_COLUMNS) if n >= TMEM_LEAST_COLUMNS]
    return np.select([needed <= n for n in powers], powers, 2 * TMEM_COLUMNS)


# Steps ---------------------------------------------------------------------------------------------------------------


def stage_in_tmem(b: TraceBuilder, register: str) -> tuple[str, str]:
    """Puts a tensor in tensor memory, and registers after it, between a register tensor and what reads it. Their
    names."""
    there, back = f"{register}_t", f"{register}_l"
    b.do(
        steps.CacheInput(register, there, MemoryType.TENSOR, CopyVia.ST_TMEM),
        steps.CacheInput(there, back, MemoryType.LOCAL, CopyVia.LD_TMEM),
    )
    return there, back


def cut_by_words(b: TraceBuilder, tv: str, first: int, words: int) -> None:
    """[.., what a thread has] -> [.., access, element of it]: the axes of a tensor from `first` on."""
    t = b.tensor(tv)
    b.merge(tv, first, len(t.loop) - first)
    b.split(tv, first, words * REGISTER_BYTES // t.dtype.nbytes)


def move_by_words(b: TraceBuilder, tv: str) -> None:
    """Gives the last two axes of such a tensor their types: an access a turn, unrolled, of all of its elements."""
    last = len(b.tensor(tv).loop) - 1
    b.do(
        steps.Parallelize(tv, last - 1, ParallelType.UNROLL),
        steps.Parallelize(tv, last, ParallelType.VECTORIZE),
    )


def place_in_tmem(b: TraceBuilder, tv: str, inner: int, outer: int | None) -> None:
    """Says which loops of a tensor are lanes: threads, those of the `inner` dimension first, as far as lanes go.

    The others, and what a thread has, are columns. `outer`: the loop of the outer dimension, left of the inner one.
    """
    t = b.tensor(tv)
    count = len(t.loop)
    y = [] if outer is None else [outer]
    x_extent = t.loop[inner].extent
    block = x_extent * (t.loop[outer].extent if outer is not None else 1)
    left = [i for i in range(inner) if i != outer]
    axes = (*left, *y, inner, *range(inner + 1, count))
    at = len(left) + len(y)
    if block <= TMEM_LANES:
        b.do(steps.SetAllocationDomain(tv, axes), steps.TmemDimsep(tv, at + 1))
        return
    # The lanes of what is cut stay beside the other lanes, the rest goes to the columns.
    cut, factor = (at, TMEM_LANES) if x_extent >= TMEM_LANES else (at - 1, TMEM_LANES // x_extent)
    lanes = 1 if x_extent >= TMEM_LANES else 2
    spare = [*range(len(left), cut), cut]
    order = [*range(len(left)), *range(cut + 1, cut + 1 + lanes), *spare, *range(at + 2, count + 1)]
    b.do(
        steps.SetAllocationDomain(
            tv,
            axes,
            (steps.Split(tv, cut, factor), steps.Reorder(tv, tuple((old, new) for new, old in enumerate(order)))),
        ),
        steps.TmemDimsep(tv, len(left) + lanes),
    )
