"""Transposed tiles that go through tensor memory in place of shared memory: threads load vectors along P from memory,
store them to tensor memory in one pattern and load them in another, and go on with vectors along Q.

A warp reaches 32 lanes alone, so that what moves from thread to thread stays in its warp. It stores by 32x32b: a lane
for each thread, columns for what a thread has. Another pattern takes the same cells apart otherwise: bits of a thread's
number say columns then, and as many bits of the lane are registers. Those columns hold places along Q, the lanes that
registers take are places along P; with `px` of both exchanged, a thread

    stores   qx * vector_out * vector_in elements: of its warp px * .. threads along P, neighbours of vectors
    loads    px * vector_in along P by vector_out along Q, qx * .. threads along Q

    P = [step, warp, lane, px, vector_in]      Q = [step, outer lane, qx, inner lane, vector_out]

Three such rounds, one after the other, exchange all 32 threads of a warp (`tile2d_rounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.arch import WARP_THREADS
from compiler.ir.iter_domain import ParallelType
from search.space.builder import TraceBuilder
from search.space.groups import (
    NO_TMEM,
    TRANSPOSE,
    LaneExchange,
    ThreadLoops,
    cut_by_words,
    exchange_of,
    place_in_tmem,
)
from search.space.schedulers.tile2d_rounds import ROUNDS, cut_into_bits, loaded_in, rounds_by, stored_in, whole_exchange
from search.space.schedulers.tile2d_sources import Chain

P = ParallelType


def exchange_of_point(point: Mapping[str, Any]) -> LaneExchange | None:
    """What a point's tiles exchange in tensor memory, None where they do not go there."""
    if point.get("tmem", NO_TMEM) != TRANSPOSE:
        return None
    return _exchange(point["tmem_pattern"], point["tmem_rounds"])


def _exchange(pattern: str, rounds: int) -> LaneExchange | None:
    return whole_exchange(pattern) if rounds == ROUNDS else exchange_of(pattern)


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
    passing = [n for c in chains for n in (c.fetched, *c.in_tmem, *c.between)]
    blocks = [c.block for c in chains]
    b.alike([*names, *blocks, *passing], lambda tv: cut(b, tv, lead, point, x))
    b.alike(names, lambda tv: computing(b, tv, lead))
    b.alike([c.fetched for c in chains], lambda tv: loaded(b, tv, lead))
    if point["tmem_rounds"] == ROUNDS:
        in_rounds = [n for c in chains for n in (*c.in_tmem, *c.between, c.block)]
        b.alike(in_rounds, lambda tv: cut_into_bits(b, tv, lead, x.unit_bytes))
        for c in chains:
            for by, name, after in zip(rounds_by(x.pattern), c.in_tmem, (*c.between, c.block), strict=True):
                stored_in(b, name, lead, by, point["tmem_store"])
                loaded_in(b, after, lead, by, point["tmem_load"])
        return
    for c in chains:
        there(b, c.in_tmem[0], lead, x, point["tmem_store"])
        back(b, c.block, lead, x, point["tmem_load"])


def exchanged_types(b: TraceBuilder, chains: Sequence[Chain], tile: list[P]) -> None:
    """Parallel types of the tensors of the chains, `tile` of the axes of tile, thread and step; where lanes are."""
    thread = len(tile) - 2
    b.parallelize_alike([c.fetched for c in chains], [*tile, P.UNROLL, P.VECTORIZE])
    for c in chains:
        for name in c.in_tmem:
            b.parallelize(name, [*tile, P.UNROLL, P.VECTORIZE])
            place_in_tmem(b, name, ThreadLoops(thread))
        for name in (*c.between, c.block):
            b.parallelize(name, [*tile, P.UNROLL, P.UNROLL, P.UNROLL, P.VECTORIZE])
