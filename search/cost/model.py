"""An analytical model of memory-bound kernels, to rank candidates before any has run. Expect ±15 %.

    total = fixed + sqrt(bandwidth² + latency² + issue² + mufu² + smem²) + sync + tail

Terms that overlap in time add as root of squares: the largest rules, one at half its size adds 12 %. That rule, and the
constants below, are fits to measurements on an H200 and an H100 (stream kernels, transposes, gelu, logsumexp).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from compiler.arch import Card

FIXED_US = 1.9
"""Launch, ramp and drain: the best copies on an H200 take 1.9 us + bytes / rate, from 6 MB to 1 GB. One trip to memory
is in it, so `latency` counts the trips after the first."""

READ_LATENCY_US = 0.55
MIXED_LATENCY_US = 0.70
"""A trip to memory under load, in pure reads and where writes are mixed in."""

L2_BYTES_PER_CLOCK_PER_SM = 37.0
L2_FAR_BYTES_PER_CLOCK_PER_SM = 19.0
L2_NEAR_SHARE = 0.4
"""H200: 9.7 TB/s while the data that is read again stays under 25 of the 60 MB, about 5 TB/s above."""

ISSUES_PER_CLOCK_PER_SM = 4
MUFU_LANES_PER_CLOCK_PER_SM = 16
BARRIER_US = 0.015

_READ_RUN_COST = ((64, 1.07), (128, 1.07), (256, 1.01), (512, 1.0))
_WRITE_RUN_COST = ((16, 6.0), (32, 2.8), (64, 1.5), (128, 1.07), (256, 1.01), (512, 1.0))
"""Time per byte by the bytes that one warp instruction touches in a row, measured on an H100 for 32, 128, 256, 512 B;
16 and 64 B are estimates. Reads of less than 64 B are already counted as whole half lines."""


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """What the model reads of a kernel; totals over the launch unless said.

    dram_read_bytes      bytes from device memory, each touched 64-byte half line counted whole
    dram_write_bytes     bytes to device memory, each touched 32-byte sector counted whole
    l2_read_bytes        bytes that SMs read through L2, those from device memory included
    l2_reused_bytes      size of the data that is read more than once
    read_run_bytes       contiguous bytes of one warp load instruction (TMA: the inner box row), the shortest of inputs
    write_run_bytes      the same for stores
    bytes_in_flight_per_sm  bytes that one SM's resident blocks request before any of them waits
    warp_instructions    instructions issued, one a warp
    mufu_ops             special-function operations, one a lane
    smem_wavefronts      shared-memory wavefronts and shuffles
    blocks               of the grid
    blocks_per_sm        resident at a time
    tiles                units of work between block-wide barriers, over all blocks
    syncs_per_tile       block-wide barriers that a tile waits at
    """

    dram_read_bytes: float
    dram_write_bytes: float
    bytes_in_flight_per_sm: float
    blocks: int
    blocks_per_sm: int
    l2_read_bytes: float = 0.0
    l2_reused_bytes: float = 0.0
    read_run_bytes: float = 512.0
    write_run_bytes: float = 512.0
    warp_instructions: float = 0.0
    mufu_ops: float = 0.0
    smem_wavefronts: float = 0.0
    tiles: int = 0
    syncs_per_tile: int = 0

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if not value >= 0 or math.isinf(value):
                raise ValueError(f"{name}: found {value}, expected a finite number from 0.")
        for name in ("blocks", "blocks_per_sm", "bytes_in_flight_per_sm", "read_run_bytes", "write_run_bytes"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name}: found 0, expected more.")

    def waves(self, card: Card) -> float:
        """Blocks of the grid over blocks resident on the card at a time."""
        return self.blocks / (self.blocks_per_sm * card.sm_count)


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
        "issue": features.warp_instructions / (ISSUES_PER_CLOCK_PER_SM * _clocks_per_us(card, features)),
        "mufu": features.mufu_ops / (MUFU_LANES_PER_CLOCK_PER_SM * _clocks_per_us(card, features)),
        "smem": features.smem_wavefronts / _clocks_per_us(card, features),
    }
    body_us = math.hypot(*overlapping.values())
    terms = {
        "fixed": FIXED_US,
        **overlapping,
        "sync": sync_us(card, features),
        "tail": tail_us(card, features, body_us),
    }
    return Prediction(FIXED_US + body_us + terms["sync"] + terms["tail"], MappingProxyType(terms))


def bandwidth_us(card: Card, features: KernelFeatures) -> float:
    """Bytes over the rate of device memory at this mix of reads and writes, or over L2's where that takes longer."""
    read = features.dram_read_bytes * _run_cost(_READ_RUN_COST, features.read_run_bytes)
    write = features.dram_write_bytes * _run_cost(_WRITE_RUN_COST, features.write_run_bytes)
    # Time per byte goes in straight lines from pure reads over an even copy to pure writes.
    many, few, rate = (read, write, card.dram.best_read) if read >= write else (write, read, card.dram.best_write)
    dram_us = 1e6 * (many / rate + few * (2 / card.dram.best_copy - 1 / rate))
    near = features.l2_reused_bytes <= L2_NEAR_SHARE * card.l2_bytes
    l2_bytes_per_clock = L2_BYTES_PER_CLOCK_PER_SM if near else L2_FAR_BYTES_PER_CLOCK_PER_SM
    return max(dram_us, features.l2_read_bytes / (l2_bytes_per_clock * _clocks_per_us(card, features)))


def latency_us(card: Card, features: KernelFeatures) -> float:
    """Little's law: trips to memory after the first, each bringing what all SMs in use have in flight."""
    trip_us = MIXED_LATENCY_US if features.dram_write_bytes else READ_LATENCY_US
    trips = features.dram_read_bytes / (_active_sms(card, features) * features.bytes_in_flight_per_sm)
    return max(0.0, trips - 1) * trip_us


def sync_us(card: Card, features: KernelFeatures) -> float:
    """Barriers that one resident block waits at, less what the others on its SM cover while it waits."""
    tiles_per_resident_block = features.tiles / _active_sms(card, features) / features.blocks_per_sm
    exposed_us = BARRIER_US / features.blocks_per_sm
    return features.syncs_per_tile * tiles_per_resident_block * exposed_us


def tail_us(card: Card, features: KernelFeatures, body_us: float) -> float:
    """The last wave is not full. Half of what that wastes: the blocks left get more bandwidth each."""
    waves = features.waves(card)
    whole = math.ceil(waves)
    return 0.5 * (whole - waves) / whole * body_us / whole if waves > 1 else 0.0


def _active_sms(card: Card, features: KernelFeatures) -> int:
    return min(card.sm_count, features.blocks)


def _clocks_per_us(card: Card, features: KernelFeatures) -> float:
    """Clocks of all SMs in use, in a microsecond."""
    return _active_sms(card, features) * card.max_sm_clock_mhz


def _run_cost(table: tuple[tuple[int, float], ...], run_bytes: float) -> float:
    """The table's cost at `run_bytes`: straight lines over log2, flat beyond both ends."""
    if run_bytes <= table[0][0]:
        return table[0][1]
    for (low, low_cost), (high, high_cost) in pairwise(table):
        if run_bytes <= high:
            share = math.log2(run_bytes / low) / math.log2(high / low)
            return low_cost + share * (high_cost - low_cost)
    return table[-1][1]
