"""What the multiprocessors take: instructions, shared memory, copies, barriers, clusters; and how it overlaps."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compiler.arch import Card
from search.cost.features import KernelFeatures
from search.cost.memory import WARP_ISSUES_PER_CLOCK, rate_at

ISSUES_PER_CLOCK_PER_SM = 4
MUFU_LANES_PER_CLOCK_PER_SM = 16
BARRIER_US = 0.015

OVERLAP = 2.5
"""Exponent by which the largest term of the multiprocessors adds to memory's: the larger rules, one at half its size
adds 7 %, an equal one 32 %. A fit; 2 to 3 rank kernels alike."""

MEETING_OVERLAP, BY_BLOCKS, BY_WARPS, MOST_OVERLAP = 1.5, 0.5, 0.2, 4.0
"""The same of blocks that come and go and whose threads wait for each other: it grows with the blocks of an SM, and the
eights of warps of each, by these powers, up to the last. While a block works between two barriers, only others use the
memory: tiles of 16 warps, alone on an SM, took the sum of memory's and shared memory's time (transposes of odd rows on
an H200), five of 8 warps little more than the larger."""

BLOCK_US = 0.08
"""An SM starts a block this long after the one before: from 1700 to 7000 blocks an SM, kernels of blocks that do little
took 80 ns a block on an H200, whatever the block did."""

PHASES, PHASE_WARPS = 0.012, 16
"""Share of memory's time by which blocks whose threads wait for each other are slower, where so many warps share an SM;
twice that where half as many do. Between a block's last load and the next block's first, only others use the memory. A
fit; in 12 fusions with tiles on an H200 twice the warps took 1 to 4 % less, some of that is in `MEETING_OVERLAP`."""

CLUSTER_START_US = 0.15
CLUSTER_EXCHANGE_US = 0.12
"""What the blocks of a cluster wait until all of them have begun, and in each exchange. A fit to the kernels with
clusters of 30 fusions on an H200 gave 0.3 and 0.12; since blocks arrive without a fence (`barrier.cluster.arrive`,
relaxed), such kernels took 2 to 4 % less: about half of the first."""

EXCHANGE_US, FROM_CLUSTER = 0.04, 3
"""What each exchange of a block adds on its multiprocessor in clusters of so many blocks or more, whatever runs beside
it. A fit to 4,701 kernels of 25 fusions on an H200; pairs are predicted as well without."""

MULTICAST_US = 0.08
"""What each block of a kernel with multicasts adds on its multiprocessor: a place stays empty until all blocks of a
cluster have ended, and a copy waits until all have begun. H200, 100 pairs of kernels with and without, of 5 fusions:
0.06 to 0.16 us a block where blocks move 2 to 8 KB, none faster; clusters of 4 another 1 to 4 % of the whole."""

COPY_CLOCKS = 7
COPY_ISSUE_US = 0.027
"""Time of a copy of the copy engine where an SM has many, and where one thread issues one after the other: rows of 64
bytes on an H200, 1 048 576 of them, took 30 us where 24 blocks shared an SM, 72, 79 and 110 us where 3, 3 and 2 did."""

_SPILL_RATE = ((64, 57.0), (200, 38.0), (400, 22.0))
"""Bytes per clock and multiprocessor that spilled registers move, by the KiB of them that lie on one: in L1, and where
they are more than L1 holds in L2. H200: 150 kernels that spill took longer than their like by that."""

DRAIN, LOOP_DRAIN = 0.15, 0.025
"""Of the time in which all blocks that run at a time do, what a kernel is longer for: at its end, places stay empty one
after the other. Of blocks that come and go, and of those in loops. H200: kernels of one fusion take 0.5 to 1.5 % more
with each doubling of what a block does (pointwise, tiles, rows; a fit: 0.1 to 0.17)."""

LATE_BLOCKS = 0.1
"""A last wave that is not full lengthens a kernel. Blocks in loops share the work, and lengthen it by this share of
that time (a fit)."""


def overlapped_us(card: Card, features: KernelFeatures, memory_us: float, others: Iterable[float]) -> float:
    """Memory's time and the multiprocessors', which go on at once as far as other blocks are at work meanwhile."""
    exponent = OVERLAP
    if features.is_meeting:
        blocks = max(1.0, features.resident(card))
        exponent = MEETING_OVERLAP * blocks**BY_BLOCKS * (max(1, features.warps_per_block) / 8) ** BY_WARPS
    return overlap((memory_us, max(others)), min(MOST_OVERLAP, max(1.0, exponent)))


def overlap(terms: Iterable[float], exponent: float) -> float:
    """The sum of the terms' powers, as a time: the largest, and a little of the others."""
    found = list(terms)
    most = max(found)
    return most * float(sum((us / most) ** exponent for us in found) ** (1 / exponent)) if most else 0.0


def issue_us(card: Card, features: KernelFeatures) -> float:
    """Instructions over the issue slots, and over what the resident warps fill of them: a warp that waits for itself
    waits for others, too."""
    warps = features.resident(card) * features.warps_per_block
    clocks = 1 / ISSUES_PER_CLOCK_PER_SM + 1 / (WARP_ISSUES_PER_CLOCK * warps)
    return clocks * features.warp_instructions / features.clocks_per_us(card)


def mufu_us(card: Card, features: KernelFeatures) -> float:
    """Special-function operations at their rate."""
    return features.mufu_ops / (MUFU_LANES_PER_CLOCK_PER_SM * features.clocks_per_us(card))


def smem_us(card: Card, features: KernelFeatures) -> float:
    """Wavefronts of shared memory and L1, one a clock."""
    return features.smem_wavefronts / features.clocks_per_us(card)


def copies_us(card: Card, features: KernelFeatures) -> float:
    """Copies of the copy engine at its rate, or at that of the threads that issue them."""
    per_sm = features.copies / features.active_sms(card)
    return max(per_sm * COPY_CLOCKS / card.max_sm_clock_mhz, per_sm / features.resident(card) * COPY_ISSUE_US)


def blocks_us(card: Card, features: KernelFeatures) -> float:
    """Blocks that a multiprocessor starts one after the other."""
    return BLOCK_US * features.blocks / features.active_sms(card)


def phases_us(card: Card, features: KernelFeatures, memory_us: float) -> float:
    """Time in which blocks load nothing, since their threads wait for each other or store."""
    if features.is_free:
        return 0.0
    warps = max(1.0, features.resident(card) * features.warps_per_block)
    return PHASES * memory_us * PHASE_WARPS / warps


def spills_us(card: Card, features: KernelFeatures) -> float:
    """Values that fit no register, stored and read back: nothing covers it, a thread waits for what is its own."""
    rate = rate_at(_SPILL_RATE, features.spilled_bytes_per_sm / 1024)
    return features.spilled_bytes / (rate * features.clocks_per_us(card))


def sync_us(card: Card, features: KernelFeatures) -> float:
    """Barriers that one resident block waits at, less what the others on its SM cover while it waits."""
    resident = features.resident(card)
    tiles_per_resident_block = features.tiles / features.active_sms(card) / resident
    exposed_us = BARRIER_US / resident
    return features.syncs_per_tile * tiles_per_resident_block * exposed_us


def cluster_us(card: Card, features: KernelFeatures) -> float:
    """Time in which the blocks of clusters wait for each other, one set of resident blocks after the other."""
    if features.cluster == 1:
        return 0.0
    sms = features.active_sms(card)
    places = sms * features.resident(card)
    waits_us = (features.blocks * CLUSTER_START_US + features.exchanges * CLUSTER_EXCHANGE_US) / places
    if features.cluster >= FROM_CLUSTER:
        waits_us += EXCHANGE_US * features.exchanges / sms
    return waits_us + (MULTICAST_US * features.blocks / sms if features.is_multicast else 0.0)


def tail_us(card: Card, features: KernelFeatures, body_us: float) -> float:
    """The end, at which some multiprocessors have nothing left to do: the blocks left get more bandwidth each.

    Blocks that stay share the work evenly: those that find no room at first begin when the others have ended.
    """
    waves = features.waves(card)
    if waves <= 1:
        return 0.0
    if features.is_loop:
        return (LATE_BLOCKS * (math.ceil(waves) / waves - 1) + LOOP_DRAIN / waves) * body_us
    return DRAIN / waves * body_us
