"""The two parts of a block that is warp specialised: the threads that compute, and those appended to them that load.

Threads are appended to one dimension of the block (nvFuser, warp specialisation). In the order of the hardware, x first
(CUDA guide, thread hierarchy), each part is one run where that dimension is the outermost in use; else runs of both
alternate, and a run has to be whole warps, or whole warp groups where registers move from one part to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.analysis.loops.loop_nest import LoopNest
from compiler.analysis.sync.circular_buffer import specialized_dimension
from compiler.arch import REGISTER_UNIT, WARPGROUP_THREADS
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType

THREAD_DIMENSIONS = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)


@dataclass(frozen=True, slots=True)
class BlockParts:
    """Threads below index `computing` of dimension `on` compute; `extents` are all of those.

    `registers`: what each thread of the part that loads, and that computes, is to have.
    """

    on: ParallelType
    computing: int
    extents: tuple[int, int, int]
    registers: tuple[int, int] | None

    @property
    def threads(self) -> int:
        """Threads that compute."""
        return prod(self.extents)

    @property
    def added(self) -> int:
        """What the dimension has more of for those that load, at least one."""
        return max(1, WARPGROUP_THREADS // (self.threads // self.computing))

    @property
    def launched(self) -> tuple[int, int, int]:
        """The block with the threads that load."""
        x, y, z = (
            n + (self.added if p is self.on else 0) for p, n in zip(THREAD_DIMENSIONS, self.extents, strict=True)
        )
        return x, y, z

    @property
    def common_registers(self) -> int | None:
        """Of every thread at the start, where registers move between the parts: enough for both together."""
        if self.registers is None:
            return None
        load, compute = self.registers
        threads = self.threads + WARPGROUP_THREADS
        return -(-(load * WARPGROUP_THREADS + compute * self.threads) // threads // REGISTER_UNIT) * REGISTER_UNIT

    @property
    def runs(self) -> tuple[int, int]:
        """Neighbouring threads of the part that computes, and of the one that loads, before the other one's begin."""
        inside = prod(self.extents[: THREAD_DIMENSIONS.index(self.on)])
        return inside * self.computing, inside * self.added


def block_parts(sf: ScheduledFusion, nest: LoopNest) -> BlockParts | None:
    """The parts of the block; None where all of its threads do the same."""
    on = specialized_dimension(sf)
    if on is None:
        return None
    block = nest.block()
    asked = (t.circular for t in sf.tensors if t.circular is not None and t.circular.on is not None)
    shared = next((o.registers for o in asked if o.registers is not None), None)
    return BlockParts(on, block[THREAD_DIMENSIONS.index(on)], block, shared)


def launched_block(sf: ScheduledFusion, nest: LoopNest) -> tuple[int, int, int]:
    """Threads of the block in each dimension, with those that load."""
    parts = block_parts(sf, nest)
    return nest.block() if parts is None else parts.launched
