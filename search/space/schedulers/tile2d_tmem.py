"""Transposed tiles that go through tensor memory in place of shared memory: threads load vectors along P from memory,
store them to tensor memory in one pattern and load them in another, and go on with vectors along Q.

A warp reaches 32 lanes alone, so that what moves from thread to thread stays in its warp. It stores by 32x32b: a lane
for each thread, columns for what a thread has. Another pattern takes the same cells apart otherwise: bits of a thread's
number say columns then, and as many bits of the lane are registers. Those columns hold places along Q, the lanes that
registers take are places along P; with `px` of both exchanged, a thread

    stores   qx * vector_out * vector_in elements: of its warp px * .. threads along P, neighbours of vectors
    loads    px * vector_in along P by vector_out along Q, qx * .. threads along Q

    P = [step, warp, lane, px, vector_in]      Q = [step, outer lane, qx, inner lane, vector_out]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from compiler.arch import REGISTER_BYTES, TMEM_COLUMNS, WARP_THREADS
from compiler.ir.iter_domain import ParallelType
from search.space.builder import TraceBuilder
from search.space.constraints import Constraint
from search.space.expressions import looked_up
from search.space.groups import (
    BY_LANES,
    DIRECT,
    NO_TMEM,
    TRANSPOSE,
    LaneExchange,
    ThreadLoops,
    allocated_columns,
    columns_taken,
    cut_by_words,
    exchange_of,
    place_in_tmem,
    unused_knobs,
)
from search.space.schedulers.tile2d_facts import Tile2dFacts
from search.space.schedulers.tile2d_matrix import LANES
from search.space.schedulers.tile2d_sources import Chain

P = ParallelType


def exchange_of_point(point: Mapping[str, Any]) -> LaneExchange | None:
    """What a point's tiles exchange in tensor memory, None where they do not go there."""
    return exchange_of(point["tmem_pattern"]) if point.get("tmem", NO_TMEM) == TRANSPOSE else None


def cut(b: TraceBuilder, tv: str, lead: int, point: Mapping[str, Any], x: LaneExchange) -> None:
    """[tile.., P, Q] -> [tile.., P as above, Q as above]: ten axes."""
    lanes = point["lanes_out"]
    for factor in (point["vector_out"], x.inner, x.count, lanes // x.inner // x.count):
        b.split(tv, lead + 1, factor)
    for factor in (point["vector_in"], x.count, WARP_THREADS // lanes, point["threads"] // WARP_THREADS):
        b.split(tv, lead, factor)


def computing(b: TraceBuilder, tv: str, lead: int) -> None:
    """[tile.., thread, step, P, Q] of what threads have who compute and store."""
    step_p, warp, lane, px, vin, step_q, outer, qx, inner, vout = range(lead, lead + 10)
    b.reorder(tv, [*range(lead), warp, lane, outer, qx, inner, step_p, step_q, px, vin, vout])
    b.merge(tv, lead, 5)
    b.merge(tv, lead + 1)
    b.merge(tv, lead + 2)


def loaded(b: TraceBuilder, tv: str, lead: int) -> None:
    """[tile.., thread, step, Q, P] of what threads load from memory, who then store it to tensor memory."""
    _by_lanes(b, tv, lead, lambda qx, vin, vout: [qx, vout, vin])
    b.merge(tv, lead + 2)


def _by_lanes(b: TraceBuilder, tv: str, lead: int, own: Any) -> None:
    step_p, warp, lane, px, vin, step_q, outer, qx, inner, vout = range(lead, lead + 10)
    b.reorder(tv, [*range(lead), warp, px, inner, lane, outer, step_p, step_q, *own(qx, vin, vout)])
    b.merge(tv, lead, 5)
    b.merge(tv, lead + 1)


def there(b: TraceBuilder, tv: str, lead: int, x: LaneExchange, words: int) -> None:
    """[tile.., thread, step, access, element of it] of what lies in tensor memory, columns in their order."""
    if not x.unit_bytes:
        _by_lanes(b, tv, lead, lambda qx, vin, vout: [qx, vout, vin])
    else:
        _by_lanes(b, tv, lead, lambda qx, vin, vout: [vout, vin, qx])
        b.split(tv, lead + 3, x.unit_bytes // b.tensor(tv).dtype.nbytes)
        b.reorder(tv, [*range(lead + 3), lead + 3, lead + 5, lead + 4])
    cut_by_words(b, tv, lead + 2, words)


def back(b: TraceBuilder, tv: str, lead: int, x: LaneExchange, words: int) -> None:
    """[tile.., thread, step, half of the lanes, lanes of a register, access, element of it] of what comes back."""
    step_p, warp, lane, px, vin, step_q, outer, qx, inner, vout = range(lead, lead + 10)
    b.reorder(tv, [*range(lead), warp, lane, outer, qx, inner, step_p, step_q, px, vout, vin])
    b.merge(tv, lead, 5)
    b.merge(tv, lead + 1)
    b.split(tv, lead + 2, x.register_lanes)
    cut_by_words(b, tv, lead + 4, words)


def exchanged_loops(
    b: TraceBuilder, chains: Sequence[Chain], names: Sequence[str], lead: int, point: Mapping[str, Any], x: LaneExchange
) -> None:
    """The loops of all tensors of threads inside the tile: of the chains, and `names` that compute and store."""
    passing = [n for c in chains for n in (c.fetched, c.in_tmem)]
    blocks = [c.block for c in chains]
    b.alike([*names, *blocks, *passing], lambda tv: cut(b, tv, lead, point, x))
    b.alike(names, lambda tv: computing(b, tv, lead))
    b.alike([c.fetched for c in chains], lambda tv: loaded(b, tv, lead))
    for c in chains:
        there(b, c.in_tmem, lead, x, point["tmem_store"])
        back(b, c.block, lead, x, point["tmem_load"])


def exchanged_types(b: TraceBuilder, chains: Sequence[Chain], tile: list[P]) -> None:
    """Parallel types of the tensors of the chains, `tile` of the axes of tile, thread and step; where lanes are."""
    thread = len(tile) - 2
    b.parallelize_alike([c.fetched for c in chains], [*tile, P.UNROLL, P.VECTORIZE])
    for c in chains:
        b.parallelize(c.in_tmem, [*tile, P.UNROLL, P.VECTORIZE])
        b.parallelize(c.block, [*tile, P.UNROLL, P.UNROLL, P.UNROLL, P.VECTORIZE])
        place_in_tmem(b, c.in_tmem, ThreadLoops(thread))


# Constraints ---------------------------------------------------------------------------------------------------------


def is_passed(f: Tile2dFacts) -> bool:
    """Whether blocks of a fusion's tiles can pass through tensor memory: where there is some."""
    return f.arch.has_tmem


def exchange_constraints(f: Tile2dFacts) -> list[Constraint]:
    """Where threads, their vectors and the columns of a block are such that a pattern exchanges what is transposed."""
    if not is_passed(f):
        return []
    sizes = f.space.source_bytes

    def count(pattern: str) -> int:
        x = exchange_of(pattern)
        return 1 if x is None else x.count

    def reached(pattern: str) -> int:
        """Neighbours along Q among threads, at the least."""
        x = exchange_of(pattern)
        return 1 if x is None else x.count * x.inner

    def kept(pattern: str) -> int:
        x = exchange_of(pattern)
        return 1 if x is None else max(x.unit_bytes, 1)

    def pattern(tmem: Any, name: Any) -> Any:
        return (tmem == NO_TMEM) | (name != BY_LANES)

    def path(tmem: Any, load: Any, move: Any, shift: Any) -> Any:
        return (tmem == NO_TMEM) | (load == DIRECT) & (move == LANES) & ~shift

    def threads(tmem: Any, name: Any, lanes: Any) -> Any:
        whole = (lanes % looked_up("reached", reached, name) == 0) & (lanes <= WARP_THREADS)
        return (tmem == NO_TMEM) | whole

    def blocks(tmem: Any, name: Any, tile_in: Any, vin: Any, lanes: Any, threads: Any) -> Any:
        own = vin * looked_up("exchanging", count, name) * np.maximum(threads // lanes, 1)
        return (tmem == NO_TMEM) | (tile_in % own == 0)

    def unit(tmem: Any, name: Any, vin: Any) -> Any:
        unit = looked_up("unit", kept, name)
        whole = [(vin * n % unit == 0) & ((unit == 1) | (unit % n == 0)) for n in sizes]
        return (tmem == NO_TMEM) | reduce(np.logical_and, whole)

    def stored(tmem: Any, name: Any, words: Any, vin: Any, vout: Any) -> Any:
        run, moved = looked_up("exchanging", count, name) * vin * vout, words * REGISTER_BYTES
        return (tmem == NO_TMEM) | reduce(np.logical_and, [_moves(moved, run * n, n) for n in sizes])

    def loaded(tmem: Any, words: Any, vin: Any, vout: Any) -> Any:
        moved = words * REGISTER_BYTES
        return (tmem == NO_TMEM) | reduce(np.logical_and, [_moves(moved, vin * vout * n, n) for n in sizes])

    def columns(tile_in: Any, tile_out: Any, threads: Any) -> Any:
        return columns_taken([threads], tile_in * tile_out // threads * f.bytes_in)

    def columns_fit(tmem: Any, *knobs: Any) -> Any:
        return (tmem == NO_TMEM) | (columns(*knobs) <= TMEM_COLUMNS)

    def resident(tmem: Any, blocks: Any, *knobs: Any) -> Any:
        return (tmem == NO_TMEM) | (np.maximum(blocks, 1) * allocated_columns(columns(*knobs)) <= TMEM_COLUMNS)

    return [
        *unused_knobs(),
        Constraint(
            "redundant_tmem",
            ("tmem", "load", "move", "shift_store"),
            path,
            "What threads load straight from memory passes through tensor memory, in rows as they are.",
        ),
        Constraint(
            "redundant_tmem",
            ("tmem", "tmem_pattern"),
            pattern,
            "What is loaded as it was stored stays with its thread: another pattern gives it to others.",
        ),
        Constraint(
            "tmem_access_has_a_hardware_pattern",
            ("tmem", "tmem_pattern", "lanes_out"),
            threads,
            "Threads that exchange lie along a row of the outputs, inside a warp.",
        ),
        Constraint(
            "threads_cover_the_tile",
            ("tmem", "tmem_pattern", "tile_in", "vector_in", "lanes_out", "threads"),
            blocks,
            "Threads have as many vectors of the tile's other side as they exchange.",
        ),
        Constraint(
            "tmem_words_hold_neighbours",
            ("tmem", "tmem_pattern", "vector_in"),
            unit,
            "What stays with its thread beside columns that move is a part of a vector.",
        ),
        Constraint(
            "tmem_access_width_is_a_power_of_two",
            ("tmem", "tmem_pattern", "tmem_store", "vector_in", "vector_out"),
            stored,
            "What a thread has of a step is moved by whole accesses.",
        ),
        Constraint(
            "tmem_access_width_is_a_power_of_two",
            ("tmem", "tmem_load", "vector_in", "vector_out"),
            loaded,
            "What a thread has of a lane is moved by whole accesses.",
        ),
        Constraint(
            "tmem_columns_fit",
            ("tmem", "tile_in", "tile_out", "threads"),
            columns_fit,
            f"The tiles of a block take at most {TMEM_COLUMNS} columns of 4 bytes.",
        ),
        Constraint(
            "tmem_columns_are_shared_by_the_blocks_of_an_sm",
            ("tmem", "blocks_per_sm", "tile_in", "tile_out", "threads"),
            resident,
            f"Blocks that stay share the {TMEM_COLUMNS} columns of their multiprocessor: an allocation waits.",
        ),
    ]


def _moves(moved: Any, run: Any, nbytes: int) -> Any:
    """Whether accesses of `moved` bytes move a run of so many, in whole elements."""
    return (moved % nbytes == 0) & (run % moved == 0)
