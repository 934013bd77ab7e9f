"""What the cost model reads of a kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.arch import Card, sms_for_clusters


@dataclass(frozen=True, slots=True)
class KernelFeatures:
    """What the model reads of a kernel; totals over the launch unless said.

    dram_read_bytes      bytes from device memory, each touched 64-byte half line counted whole
    dram_write_bytes     bytes to device memory, more of them for a sector that warps fill only in part
    l2_read_bytes        bytes that SMs read through L2, those from device memory included
    l2_reused_bytes      size of the data that is read more than once
    l2_reuse_distance_bytes  bytes that go through L2 between two reads of the same data by different blocks
    l2_reuse_is_kept     all loads of such data ask L2 to keep it
    l2_reused_bytes_per_sm  bytes of such data that the resident blocks of one SM read in their life
    read_run_cost        time to read a byte, over that of a byte of long runs
    write_run_cost       the same of writing
    write_spread         pages that are written to at a time, over pages that the same bytes would fill
    bytes_in_flight_per_sm  bytes that one SM's resident blocks request before any of them waits
    warp_instructions    instructions that count for the time, one a warp
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
    is_multicast         some of them bring several blocks of a cluster the same
    is_ring              staged loads are in a loop: blocks stay, and go over several tiles
    read_past_l1         share of the loads that ask L1 to keep nothing
    read_streaming       share of the loads that ask the caches to drop first what they bring
    spilled_bytes        bytes that find no register: they are stored and read back, in each tile anew
    spilled_bytes_per_sm such bytes of the resident blocks of one SM, at a time
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
    write_spread: float = 1.0
    warp_instructions: float = 0.0
    mufu_ops: float = 0.0
    smem_wavefronts: float = 0.0
    tiles: int = 0
    syncs_per_tile: int = 0
    exchanges: int = 0
    warps_per_block: int = 8
    cluster: int = 1
    copies: float = 0.0
    is_multicast: bool = False
    is_ring: bool = False
    read_past_l1: float = 0.0
    read_streaming: float = 0.0
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
    def is_meeting(self) -> bool:
        """Blocks come and go, and their threads wait for each other."""
        return not self.is_loop and self.syncs_per_tile > 0

    @property
    def is_free(self) -> bool:
        """Blocks come and go, and no thread waits for another."""
        return not self.is_loop and not self.syncs_per_tile

    def waves(self, card: Card) -> float:
        """Blocks of the grid over blocks resident on the card at a time."""
        return self.blocks / (self.blocks_per_sm * sms_for_clusters(card.sm_count, self.cluster))

    def active_sms(self, card: Card) -> int:
        """Multiprocessors that have a block."""
        return min(sms_for_clusters(card.sm_count, self.cluster), self.blocks)

    def resident(self, card: Card) -> float:
        """Blocks of one SM at a time: what fits, or what the grid has."""
        return min(self.blocks_per_sm, self.blocks / self.active_sms(card))

    def clocks_per_us(self, card: Card) -> float:
        """Clocks of all SMs in use, in a microsecond."""
        return self.active_sms(card) * card.max_sm_clock_mhz
