"""Which lane is which thread: the geometry of the blocks that run together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

WARP = 32

Lanes = npt.NDArray[np.intp]
"""Lane numbers, ascending."""


@dataclass(frozen=True)
class Threads:
    """The lanes of a batch: `blocks` (linear block indices, whole clusters in a row) times the threads of a block.

    A block takes `pitch` lanes: its threads, padded to whole warps; padding lanes never run. Lane = slot * pitch +
    linear thread index; slot is the place of the block in `blocks`. Sizes are (x, y, z). Within a cluster, slots are in
    the order of `%cluster_ctarank` (PTX ISA, "Special Registers").
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    blocks: tuple[int, ...]

    @cached_property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @cached_property
    def pitch(self) -> int:
        """Lanes of a block, padding included."""
        return -(-self.threads // WARP) * WARP

    @cached_property
    def lanes(self) -> int:
        """Lanes of the batch."""
        return len(self.blocks) * self.pitch

    @cached_property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @cached_property
    def slot(self) -> npt.NDArray[np.intp]:
        """Slot of the block of each lane."""
        return np.arange(self.lanes) // self.pitch

    @cached_property
    def thread(self) -> npt.NDArray[np.intp]:
        """Linear thread index of each lane in its block."""
        return np.arange(self.lanes) % self.pitch

    @cached_property
    def warp(self) -> npt.NDArray[np.intp]:
        """Warp of each lane, numbered over the batch."""
        return np.arange(self.lanes) // WARP

    @cached_property
    def real(self) -> Lanes:
        """The lanes that are threads."""
        return np.flatnonzero(self.thread < self.threads)

    def block_index(self, slot: int) -> tuple[int, int, int]:
        """`%ctaid` of the block in a slot."""
        return unflattened(self.blocks[slot], self.grid)

    def thread_index(self, lane: int) -> tuple[int, int, int]:
        """`%tid` of a lane."""
        return unflattened(int(self.thread[lane]), self.block)

    def cluster_slots(self, slot: int) -> range:
        """Slots of the cluster that the block in `slot` belongs to, by rank."""
        first = slot - slot % self.cluster_blocks
        return range(first, first + self.cluster_blocks)


def unflattened(linear: int, size: tuple[int, int, int]) -> tuple[int, int, int]:
    """(x, y, z) of a linear index, x fastest."""
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])


def cluster_order(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    """Linear block indices, (clusters, blocks of one by rank). The grid is a multiple of the cluster."""
    counts = [g // c for g, c in zip(grid, cluster, strict=True)]
    axes = [size for pair in zip(reversed(counts), reversed(cluster), strict=True) for size in pair]
    blocks = np.arange(grid[0] * grid[1] * grid[2]).reshape(axes)
    size = cluster[0] * cluster[1] * cluster[2]
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(-1, size)
