"""What device memory and L2 take: bytes at the rate of their mix, and trips where too little is in flight."""

from __future__ import annotations

import math
from itertools import pairwise

from compiler.arch import Card
from search.cost.features import KernelFeatures

READ_LATENCY_US = 0.55
MIXED_LATENCY_US = 0.70
MIXED_FROM = 0.1
"""A trip to memory under load of blocks that stay, in pure reads and where writes are mixed in: from this share of the
reads on."""

BLOCK_LATENCY_US = 0.8
"""The trip of blocks that come and go: until its stores have left, a block loads nothing (a fit, 0.75 to 0.9)."""

COVERED = 0.8
"""Share of a trip to memory that is left where blocks come and go and no thread waits for another: some ask while
others wait. H200: one 16-byte load a thread, 32 KiB an SM, reads and writes within 1 % of a copy's rate."""

FOLD_US = 0.02
"""What a fold over a block, shuffles and barrier, adds to the trip before it (a fit: 0 to 0.05 rank kernels alike)."""

WARP_ISSUES_PER_CLOCK = 0.42
"""Instructions of one warp in a clock, dependent ones among them; a few warps alone cannot use an SM's issue slots (a
fit)."""

_L2_RATE = ((0.4, 37.0), (0.6, 26.0), (1.0, 16.0))
"""Bytes per clock and multiprocessor by the share of L2 that the data takes which is read again. H200: 9.7 TB/s up to
25 of the 60 MB, 4.5 at 63 (stream kernels); rows read twice by the blocks that have just fetched them 6 to 8 at 34 MB,
5.4 to 5.9 from 50 (logsumexp)."""

L2_LOSES_FROM, L2_LOST_AT = 0.6, 1.5
"""Bytes of data that is read again, read by the blocks that run at a time, over the bytes of L2: from the first on some
come anew from memory, from the second on all. A fit to the kernels of 21 fusions on an H200 that read more than half of
L2 again."""

HELD_DISTANCE, KEPT_DISTANCE, LOST_SPAN = 0.1, 0.27, 1.0
"""Sizes of L2 that pass between two reads of the same by different blocks until some of it is read anew, by default and
with the hint to keep it, and from there until all is. H200: of a broadcast operand of 12.6 MB 3 % were read anew when
9 MB passed, 11 % at 13, 25 % at 25, 48 % at 38 MB; with the hint nothing at 9 and 31 % at 38 MB."""

PAST_L1_COST = 0.06
"""Reads that ask L1 to keep nothing slow a kernel by this share, if it writes as well and its blocks come in many
waves. H200, pairs of kernels that differ in nothing else: sums of two tensors 5 to 9 %, products 9 %, rotary embeddings
3 to 7 %, permutes 1 to 3 %; of kernels whose blocks all run at once they were 0 to 5 % faster."""

STREAMING_COST = 0.02
"""The same of reads that ask the caches to drop first what they bring. H200, pairs of rows: layer norms 0 to 5 % (their
medians 2 to 5), softmax 0; sums, which only read, 0 to 4 % faster."""

RING_COST = 0.045
"""Blocks that stay and refill stages are slower than blocks that come and go by this share, where much is written.
H200: copies 6 %, sums of two tensors 4 to 5 %, gated products 5 %, whatever the stages; some of that is in `tail`."""

CROWDED_BYTES, CROWD_COST = 64 << 10, 0.01
"""A kernel of free blocks that writes as well is slower if an SM has more than so many bytes in flight: with twice as
many by this share, with more by the square of the doublings times it. A fit to 900 pointwise kernels of 10
fusions on an H200: against those with 64 KB in flight, 0.4 % with 90 KB, 1.3 % with 128, 4 % with 181. Long rows of
clusters with 128 to 256 KB are no slower for it."""

WRITE_SPREAD_COST = 0.05
"""A kernel is slower by this share if blocks that run at a time write to eight times the pages that their bytes would
fill, or more; with twice the pages it is not. H200, blocks that go along what operands repeat along, or across the rows
of a transpose, over the best that go along memory: 3 % (sums of 32 slabs), 5 % (rotary embeddings), 8 % (scaled
channels), 6 % (gelu of a biased matrix), 4 % (transposes)."""


def bandwidth_us(card: Card, features: KernelFeatures) -> float:
    """Bytes over the rate of device memory at this mix of reads and writes, or over L2's where that takes longer."""
    # What the same blocks read again comes back before others have read much; what L2 cannot hold is read anew.
    again = min(features.l2_reused_bytes, features.l2_reused_bytes_per_sm * card.sm_count)
    anew = _lost(card, features, again) * max(0.0, features.l2_read_bytes - features.dram_read_bytes)
    read = (features.dram_read_bytes + anew) * features.read_run_cost
    write = features.dram_write_bytes * features.write_run_cost
    # Time per byte goes in straight lines from pure reads over an even copy to pure writes.
    many, few, rate = (read, write, card.dram.best_read) if read >= write else (write, read, card.dram.best_write)
    dram_us = 1e6 * (many / rate + few * (2 / card.dram.best_copy - 1 / rate))
    # What follows costs nothing measurable where a kernel only reads.
    mixed = min(1.0, 2 * write / many) if many else 0.0
    dram_us *= 1 + mixed * (_hints(card, features) + RING_COST * features.is_ring)
    dram_us *= 1 + mixed * (_crowd(card, features) + _spread(features))
    l2_bytes_per_clock = rate_at(_L2_RATE, again / card.l2_bytes)
    return max(dram_us, features.l2_read_bytes / (l2_bytes_per_clock * features.clocks_per_us(card)))


def _lost(card: Card, features: KernelFeatures, again: float) -> float:
    """Share of what is read again that L2 no longer has."""
    size = again / card.l2_bytes
    lost = min(1.0, max(0.0, (size - L2_LOSES_FROM) / (L2_LOST_AT - L2_LOSES_FROM)))
    distance = features.l2_reuse_distance_bytes / card.l2_bytes
    held = KEPT_DISTANCE if features.l2_reuse_is_kept else HELD_DISTANCE
    return max(lost, min(1.0, max(0.0, distance - held) / LOST_SPAN))


def _hints(card: Card, features: KernelFeatures) -> float:
    cost = PAST_L1_COST * features.read_past_l1 + STREAMING_COST * features.read_streaming
    return cost * (1 - 1 / max(1.0, features.waves(card)))


def _crowd(card: Card, features: KernelFeatures) -> float:
    if not features.is_free:
        return 0.0
    doublings = max(0.0, math.log2(_in_flight(card, features) / CROWDED_BYTES))
    return CROWD_COST * doublings**2


def _spread(features: KernelFeatures) -> float:
    return WRITE_SPREAD_COST * min(1.0, max(0.0, math.log2(max(1.0, features.write_spread)) - 1) / 2)


def rate_at(table: tuple[tuple[float, float], ...], at: float) -> float:
    """The table's rate: straight lines, flat beyond both ends."""
    if at <= table[0][0]:
        return table[0][1]
    for (low, fast), (high, slow) in pairwise(table):
        if at <= high:
            return fast + (at - low) / (high - low) * (slow - fast)
    return table[-1][1]


def latency_us(card: Card, features: KernelFeatures) -> float:
    """Little's law: trips to memory after the first, each bringing what all SMs in use have in flight.

    A block asks for nothing while its threads fold and wait for each other: that makes the trip longer. In a loop, a
    thread works on what has come before it asks again, unless stages that are on their way are filled meanwhile.
    """
    is_mixed = features.dram_write_bytes > MIXED_FROM * features.dram_read_bytes
    trip_us = BLOCK_LATENCY_US
    if features.is_loop:
        trip_us = MIXED_LATENCY_US if is_mixed else READ_LATENCY_US
    trip_us += features.syncs_per_tile * FOLD_US
    if features.is_free:
        trip_us *= COVERED
    trips = features.dram_read_bytes / (features.active_sms(card) * _in_flight(card, features))
    works_us = 0.0
    if features.is_loop and not features.is_ring:
        warps = features.active_sms(card) * features.resident(card) * features.warps_per_block
        works_us = features.warp_instructions / warps / (WARP_ISSUES_PER_CLOCK * card.max_sm_clock_mhz)
    return max(0.0, trips - 1) * (trip_us + works_us / max(1.0, trips))


def _in_flight(card: Card, features: KernelFeatures) -> float:
    """Bytes that the blocks of one SM ask for at a time."""
    return features.bytes_in_flight_per_sm * features.resident(card) / features.blocks_per_sm
