"""An analytical model of memory-bound kernels, to rank candidates before any has run. Expect ±15 %.

    memory = (bandwidth⁶ + latency⁶)^⅙, of kernels that go over their data in loops sqrt(bandwidth² + latency²)
    total = fixed + (memory⁴ + issue⁴ + mufu⁴ + smem⁴ + copies⁴)^¼ + phases + sync + cluster + spills + tail

What the multiprocessors do overlaps with memory: the largest term rules, one at half its size adds 1.5 %, an equal one
19 %. Blocks that come and go wait either for bytes or for trips: the larger rules more sharply. Those rules, and the
constants below, are fits to measurements on an H200 and an H100 (stream kernels, transposes, normalizations, gelu,
logsumexp), most of them to 13,089 candidates of 75 fusions, measured on an H200. Of these, the mean rank correlation
within a fusion is 0.61 before they are compiled and 0.63 once their registers and spills are known; with the constants
fitted to nine tenths of the fusions, it is 0.59 on the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from compiler.arch import Card, sms_for_clusters

FIXED_US = 1.9
"""Launch, ramp and drain: the best copies on an H200 take 1.9 us + bytes / rate, from 6 MB to 1 GB. One trip to memory
is in it, so `latency` counts the trips after the first."""

READ_LATENCY_US = 0.55
MIXED_LATENCY_US = 0.70
MIXED_FROM = 0.1
"""A trip to memory under load, in pure reads and where writes are mixed in: from this share of the reads on."""

BLOCK_LATENCY_US = 1.1
"""The trip of blocks that come and go where writes are mixed in: until its stores have left, a block loads nothing (a
fit to the candidates above)."""

LOOP_OVERLAP, BLOCKS_OVERLAP = 2, 6
"""Exponents by which bandwidth and latency add up, in loops and where blocks come and go. Loops: stream kernels on a
GH200 lost 71, 22, 10, 6 and 1.5 % with 8, 16, 24, 32 and 64 KiB in flight. Blocks: of 13,089 kernels of 75 fusions on
an H200 those with more in flight than they need are not faster for it; 2 ranks them worse, 4 to 8 alike."""

_L2_RATE = ((0.4, 37.0), (0.6, 26.0), (1.0, 16.0))
"""Bytes per clock and multiprocessor by the share of L2 that the data takes which is read again. H200: 9.7 TB/s up to
25 of the 60 MB, 4.5 at 63 (stream kernels); rows read twice by the blocks that have just fetched them 6 to 8 at 34 MB,
5.4 to 5.9 from 50 (logsumexp)."""

HELD_DISTANCE, KEPT_DISTANCE, LOST_SPAN = 0.1, 0.27, 1.0
"""Sizes of L2 that pass between two reads of the same by different blocks until some of it is read anew, by default and
with the hint to keep it, and from there until all is. H200: of a broadcast operand of 12.6 MB 3 % were read anew when
9 MB passed, 11 % at 13, 25 % at 25, 48 % at 38 MB; with the hint nothing at 9 and 31 % at 38 MB."""

BLOCK_US = 0.08
"""An SM starts a block this long after the one before: from 1700 to 7000 blocks an SM, kernels of blocks that do little
took 80 ns a block on an H200, whatever the block did."""

COVERED = 0.3
"""Share of a trip to memory that is left where blocks come and go and no thread waits for another: some ask while
others wait. H200: one 16-byte load a thread, 32 KiB an SM, reads and writes within 1 % of a copy's rate."""

OVERLAP = 4
"""Exponent by which the terms of the multiprocessors add to memory's: of 350 kernels on an H200 whose issue or special
functions take half of memory's time, most take 1 to 3 % more than memory alone."""

ISSUES_PER_CLOCK_PER_SM = 4
MUFU_LANES_PER_CLOCK_PER_SM = 16
BARRIER_US = 0.015
WARP_ISSUES_PER_CLOCK = 0.42
"""Instructions of one warp in a clock, dependent ones among them; a few warps alone cannot use an SM's issue slots (a
fit to the candidates above)."""

FOLD_US = 0.02
"""What a fold over a block, shuffles and barrier, adds to the trip before it (a fit: 0 to 0.05 rank kernels alike)."""

PHASES, PHASE_WARPS = 0.017, 16
"""Share of memory's time by which blocks whose threads wait for each other are slower, where so many warps share an SM;
twice that where half as many do. Between a block's last load and the next block's first, only others use the memory. A
fit to 12 fusions with tiles on an H200, in all of which twice the warps took 1 to 4 % less; it holds for rows too."""

CLUSTER_START_US = 0.15
CLUSTER_EXCHANGE_US = 0.15
"""What the blocks of a cluster wait until all of them have begun, and in each exchange. A fit to the kernels with
clusters of 18 fusions on an H200: those are faster than the trips of single blocks let one expect."""

COPY_CLOCKS = 7
COPY_ISSUE_US = 0.027
"""Time of a copy of the copy engine where an SM has many, and where one thread issues one after the other: rows of 64
bytes on an H200, 1 048 576 of them, took 30 us where 24 blocks shared an SM, 72, 79 and 110 us where 3, 3 and 2 did."""

PAST_L1_COST = 0.06
"""Share by which reads that ask L1 to keep nothing slow a kernel that writes as well. H200, pairs of kernels that
differ in nothing else: sums of two tensors 5 to 9 %, products 9 %, rotary embeddings 7 %, permutes 1 to 3 %."""

RING_COST = 0.035
"""Share by which blocks that stay and refill stages are slower than blocks that come and go, where much is written.
H200: copies 6 %, sums of two tensors 4 to 5 %, gated products 5 %, whatever the stages; some of that is in `tail`."""

_SPILL_RATE = ((64, 57.0), (200, 38.0), (400, 22.0))
"""Bytes per clock and multiprocessor that spilled registers move, by the KiB of them that lie on one: in L1, and where
they are more than L1 holds in L2. H200: 150 kernels that spill took longer than their like by that."""

LATE_BLOCKS = 0.1
TAIL = 0.2
"""Of the time by which a last wave that is not full would lengthen a kernel, what it does: the multiprocessors that
still work have the memory to themselves. Of blocks in loops, which share the work, and of others. A fit to 13,089
kernels of 75 fusions on an H200."""

L2_LOSES_FROM, L2_LOST_AT = 0.6, 1.5
"""Bytes that the blocks which run at a time read, of what they read again, over those of L2: from where some come anew
from memory, and where all do. A fit to the kernels of 21 fusions on an H200 that read more than half of L2 again."""


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """What the model reads of a kernel; totals over the launch unless said.

    dram_read_bytes      bytes from device memory, each touched 64-byte half line counted whole
    dram_write_bytes     bytes to device memory, and what sectors cost of which warps fill a part
    l2_read_bytes        bytes that SMs read through L2, those from device memory included
    l2_reused_bytes      size of the data that is read more than once
    l2_reuse_distance_bytes  what passes through L2 and stays there before another block reads the same again
    l2_reuse_is_kept     all loads of what is read again ask L2 to keep it
    l2_reused_bytes_per_sm  what the resident blocks of one SM read of it in their life
    read_run_cost        time per byte over that of long runs, of what is read
    write_run_cost       the same of what is written
    bytes_in_flight_per_sm  bytes that one SM's resident blocks request before any of them waits
    warp_instructions    instructions issued, one a warp
    mufu_ops             special-function operations, one a lane
    smem_wavefronts      shared-memory wavefronts and shuffles
    blocks               of the grid
    blocks_per_sm        resident at a time
    tiles                units of work between block-wide barriers, over all blocks
    syncs_per_tile       block-wide barriers that a tile waits at
    exchanges            exchanges between blocks of a cluster, one a block
    warps_per_block      warps of one block
    cluster              blocks of a cluster, which run on neighbouring SMs
    copies               bulk and tensor copies of the copy engine, issued by one thread of a block
    is_ring              staged loads are in a loop: blocks stay, and go over several tiles
    read_past_l1         share of the loads that ask L1 to keep nothing
    spilled_bytes        what is stored, and read back, because it fits no register
    spilled_bytes_per_sm what lies stored of the resident blocks of one SM at a time
    """

    dram_read_bytes: float
    dram_write_bytes: float
    bytes_in_flight_per_sm: float
    blocks: int
    blocks_per_sm: int
    l2_read_bytes: float = 0.0
    l2_reused_bytes: float = 0.0
    l2_reuse_distance_bytes: float = 0.0
    l2_reuse_is_kept: bool = False
    l2_reused_bytes_per_sm: float = math.inf
    read_run_cost: float = 1.0
    write_run_cost: float = 1.0
    warp_instructions: float = 0.0
    mufu_ops: float = 0.0
    smem_wavefronts: float = 0.0
    tiles: int = 0
    syncs_per_tile: int = 0
    exchanges: int = 0
    warps_per_block: int = 8
    cluster: int = 1
    copies: float = 0.0
    is_ring: bool = False
    read_past_l1: float = 0.0
    spilled_bytes: float = 0.0
    spilled_bytes_per_sm: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not value >= 0 or (math.isinf(value) and name != "l2_reused_bytes_per_sm"):
                raise ValueError(f"{name}: found {value}, expected a finite number from 0.")
        for name in ("blocks", "blocks_per_sm", "bytes_in_flight_per_sm"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name}: found 0, expected more.")

    @property
    def is_loop(self) -> bool:
        """Blocks stay, and go over several tiles."""
        return self.tiles > self.blocks

    @property
    def is_free(self) -> bool:
        """Blocks come and go, and no thread waits for another."""
        return not self.is_loop and not self.syncs_per_tile

    def waves(self, card: Card) -> float:
        """Blocks of the grid over blocks resident on the card at a time."""
        return self.blocks / (self.blocks_per_sm * sms_for_clusters(card.sm_count, self.cluster))


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted time and the terms it is made of, in microseconds; overlapping terms do not add up to the total."""

    total_us: float
    terms: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.total_us:.1f} us (" + ", ".join(f"{name} {us:.1f}" for name, us in self.terms.items()) + ")"


def predict(card: Card, features: KernelFeatures) -> Prediction:
    """The time of one launch on `card` with a cold L2."""
    overlapping = {
        "bandwidth": bandwidth_us(card, features),
        "latency": latency_us(card, features),
        "issue": issue_us(card, features),
        "mufu": features.mufu_ops / (MUFU_LANES_PER_CLOCK_PER_SM * _clocks_per_us(card, features)),
        "smem": features.smem_wavefronts / _clocks_per_us(card, features),
        "copies": copies_us(card, features),
    }
    memory = overlapping["bandwidth"], overlapping["latency"]
    memory_us = _overlapped(memory, LOOP_OVERLAP if features.is_loop else BLOCKS_OVERLAP)
    body_us = _overlapped((memory_us, *list(overlapping.values())[2:]), OVERLAP)
    blocks_us = BLOCK_US * features.blocks / _active_sms(card, features)
    phases_us = phases_us_of(card, features, memory_us)
    body_us = max(body_us, blocks_us) + phases_us
    terms = {
        "fixed": FIXED_US,
        **overlapping,
        "blocks": blocks_us,
        "phases": phases_us,
        "sync": sync_us(card, features),
        "cluster": cluster_us(card, features),
        "spills": spills_us(card, features),
        "tail": tail_us(card, features, body_us),
    }
    total_us = FIXED_US + body_us + terms["sync"] + terms["cluster"] + terms["spills"] + terms["tail"]
    return Prediction(total_us, MappingProxyType(terms))


def _overlapped(terms: Iterable[float], exponent: int) -> float:
    """The sum of the terms' powers, as a time: the largest, and a little of the others."""
    return float(sum(us**exponent for us in terms) ** (1 / exponent))


def bandwidth_us(card: Card, features: KernelFeatures) -> float:
    """Bytes over the rate of device memory at this mix of reads and writes, or over L2's where that takes longer."""
    # What the same blocks read again comes back before others have read much; what L2 cannot hold is read anew.
    again = min(features.l2_reused_bytes, features.l2_reused_bytes_per_sm * card.sm_count)
    size = again / card.l2_bytes
    lost = min(1.0, max(0.0, (size - L2_LOSES_FROM) / (L2_LOST_AT - L2_LOSES_FROM)))
    distance = features.l2_reuse_distance_bytes / card.l2_bytes
    held = KEPT_DISTANCE if features.l2_reuse_is_kept else HELD_DISTANCE
    lost = max(lost, min(1.0, max(0.0, distance - held) / LOST_SPAN))
    anew = lost * max(0.0, features.l2_read_bytes - features.dram_read_bytes)
    read = (features.dram_read_bytes + anew) * features.read_run_cost
    write = features.dram_write_bytes * features.write_run_cost
    # Time per byte goes in straight lines from pure reads over an even copy to pure writes.
    many, few, rate = (read, write, card.dram.best_read) if read >= write else (write, read, card.dram.best_write)
    dram_us = 1e6 * (many / rate + few * (2 / card.dram.best_copy - 1 / rate))
    mixed = (
        min(1.0, 2 * write / many) if many else 0.0
    )  # hints and rings cost nothing measurable where a kernel only reads
    dram_us *= 1 + mixed * (PAST_L1_COST * features.read_past_l1 + RING_COST * features.is_ring)
    l2_bytes_per_clock = _rate(_L2_RATE, again / card.l2_bytes)
    return max(dram_us, features.l2_read_bytes / (l2_bytes_per_clock * _clocks_per_us(card, features)))


def _rate(table: tuple[tuple[float, float], ...], at: float) -> float:
    """The table's rate: straight lines, flat beyond both ends."""
    if at <= table[0][0]:
        return table[0][1]
    for (low, fast), (high, slow) in pairwise(table):
        if at <= high:
            return fast + (at - low) / (high - low) * (slow - fast)
    return table[-1][1]


def latency_us(card: Card, features: KernelFeatures) -> float:
    """Little's law: trips to memory after the first, each bringing what all SMs in use have in flight.

    A block asks for nothing while its threads fold and wait for each other: that makes the trip longer.
    """
    is_mixed = features.dram_write_bytes > MIXED_FROM * features.dram_read_bytes
    mixed_us = MIXED_LATENCY_US if features.is_loop else BLOCK_LATENCY_US
    trip_us = mixed_us if is_mixed else READ_LATENCY_US
    trip_us += features.syncs_per_tile * FOLD_US
    if features.is_free:
        trip_us *= COVERED
    in_flight = features.bytes_in_flight_per_sm * _resident(card, features) / features.blocks_per_sm
    trips = features.dram_read_bytes / (_active_sms(card, features) * in_flight)
    loops_us = 0.0
    if features.is_loop:  # in a loop, a thread works on what has come before it asks again
        warps = _active_sms(card, features) * _resident(card, features) * features.warps_per_block
        loops_us = features.warp_instructions / warps / (WARP_ISSUES_PER_CLOCK * card.max_sm_clock_mhz)
    return max(0.0, trips - 1) * (trip_us + loops_us / max(1.0, trips))


def phases_us_of(card: Card, features: KernelFeatures, memory_us: float) -> float:
    """Time in which blocks load nothing, since their threads wait for each other or store."""
    if features.is_free:
        return 0.0
    warps = max(1.0, _resident(card, features) * features.warps_per_block)
    return PHASES * memory_us * PHASE_WARPS / warps


def copies_us(card: Card, features: KernelFeatures) -> float:
    """Copies of the copy engine at its rate, or at that of the threads that issue them."""
    per_sm = features.copies / _active_sms(card, features)
    return max(per_sm * COPY_CLOCKS / card.max_sm_clock_mhz, per_sm / _resident(card, features) * COPY_ISSUE_US)


def spills_us(card: Card, features: KernelFeatures) -> float:
    """Values that fit no register, stored and read back: nothing covers it, a thread waits for what is its own."""
    rate = _rate(_SPILL_RATE, features.spilled_bytes_per_sm / 1024)
    return features.spilled_bytes / (rate * _clocks_per_us(card, features))


def issue_us(card: Card, features: KernelFeatures) -> float:
    """Instructions over the issue slots, or over what the resident warps can fill of them."""
    warps = _resident(card, features) * features.warps_per_block
    per_clock = min(ISSUES_PER_CLOCK_PER_SM, WARP_ISSUES_PER_CLOCK * warps)
    return features.warp_instructions / (per_clock * _clocks_per_us(card, features))


def sync_us(card: Card, features: KernelFeatures) -> float:
    """Barriers that one resident block waits at, less what the others on its SM cover while it waits."""
    resident = _resident(card, features)
    tiles_per_resident_block = features.tiles / _active_sms(card, features) / resident
    exposed_us = BARRIER_US / resident
    return features.syncs_per_tile * tiles_per_resident_block * exposed_us


def cluster_us(card: Card, features: KernelFeatures) -> float:
    """Time in which the blocks of clusters wait for each other, one set of resident blocks after the other."""
    if features.cluster == 1:
        return 0.0
    places = _active_sms(card, features) * _resident(card, features)
    return (features.blocks * CLUSTER_START_US + features.exchanges * CLUSTER_EXCHANGE_US) / places


def tail_us(card: Card, features: KernelFeatures, body_us: float) -> float:
    """The last wave is not full. Some of what that wastes: the blocks left get more bandwidth each.

    Blocks that stay share the work evenly: those that find no room at first begin when the others have ended.
    """
    waves = features.waves(card)
    whole = math.ceil(waves)
    if waves > 1 and features.is_loop:
        return LATE_BLOCKS * (whole / waves - 1) * body_us
    return TAIL * (whole - waves) / whole * body_us / whole if waves > 1 else 0.0


def _resident(card: Card, features: KernelFeatures) -> float:
    """Blocks of one SM at a time: what fits, or what the grid has."""
    return min(features.blocks_per_sm, features.blocks / _active_sms(card, features))


def _active_sms(card: Card, features: KernelFeatures) -> int:
    return min(sms_for_clusters(card.sm_count, features.cluster), features.blocks)


def _clocks_per_us(card: Card, features: KernelFeatures) -> float:
    """Clocks of all SMs in use, in a microsecond."""
    return _active_sms(card, features) * card.max_sm_clock_mhz
