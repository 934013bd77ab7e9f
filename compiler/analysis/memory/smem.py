"""Where shared tensors and their barriers lie in the block's dynamic shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compiler.analysis.loops.cluster_sum import ClusterSum
from compiler.analysis.loops.fold import Fold
from compiler.analysis.loops.scan import BlockScan
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.memory.swizzle import repeat_bytes
from compiler.analysis.sync.circular_buffer import barriers_of
from compiler.arch import BARRIER_BYTES, MAX_WORD_BYTES, REGISTER_BYTES
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import MemoryType
from compiler.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class Placement:
    """One shared tensor: offset of its first stage, bytes from stage to stage, number of stages."""

    tensor: str
    offset: int
    stage_bytes: int
    stages: int


@dataclass(frozen=True, slots=True)
class SharedMemoryPlan:
    """Offsets from the start of dynamic shared memory, which is aligned to `align` bytes."""

    placements: tuple[Placement, ...]
    barrier_offset: int
    total_bytes: int
    align: int
    partials: tuple[tuple[str, int, int], ...] = ()
    """Of each fold: the tensor, and the bytes at which the partials of its warps, and of its blocks, begin."""
    parked: tuple[tuple[str, int], ...] = ()
    """Of each register tensor that is parked in part: its name, and the bytes at which the block's part begins."""
    scans: tuple[tuple[str, int], ...] = ()
    """Of each scan whose warps hand on what they come to: its tensor, and the bytes at which that begins."""
    tmem_address: int = 0
    """Where the address of the block's tensor memory is handed on, in a kernel that has some."""

    def of(self, tensor: str) -> Placement:
        return next(p for p in self.placements if p.tensor == tensor)

    def partials_of(self, tensor: str) -> tuple[int, int]:
        """Where the partials of a fold begin: those of warps, and of blocks."""
        return next((warps, blocks) for name, warps, blocks in self.partials if name == tensor)

    def sums_of(self, tensor: str) -> int:
        """Where the sums of the warps of a scan begin."""
        return next(at for name, at in self.scans if name == tensor)

    def parked_at(self, tensor: str) -> int:
        """Where the parked elements of a register tensor begin."""
        return next(at for name, at in self.parked if name == tensor)


def plan_shared_memory(
    sf: ScheduledFusion,
    swizzle_span: Callable[[str], int],
    folds: Sequence[Fold] = (),
    threads: int = 1,
    scans: Sequence[BlockScan] = (),
    turns: int = 0,
    accumulators: int = 0,
    cluster_sums: Sequence[ClusterSum] = (),
) -> SharedMemoryPlan:
    """Places every shared tensor, most aligned first, then one barrier for each stage of each bulk-loaded tensor and
    each of the groups of threads that take `turns` with them, those of `accumulators`,
    then the partials of folds and of sums over a cluster, the sums of scans, what each
    of the `threads` of a block has parked, and the address of its tensor memory."""
    shared = [t for t in sf.tensors if t.memory is MemoryType.SHARED]
    shared.sort(key=lambda t: -repeat_bytes(swizzle_span(t.name)))
    placements: list[Placement] = []
    at = 0
    barriers = 0
    for t in shared:
        span = swizzle_span(t.name)
        align = repeat_bytes(span)
        stages = t.circular.stages if t.circular is not None else 1
        at = -(-at // align) * align
        placements.append(Placement(t.name, at, stage_bytes(t, span), stages))
        at += stages * stage_bytes(t, span)
        producer = sf.producer(t.name)
        if producer is not None and producer.via.is_bulk:
            barriers += stages * (2 if t.circular is not None and barriers_of(t.circular) > stages else 1)
    barriers += turns + accumulators + sum(op.via.by_tensor_cores for op in sf.ops)
    barriers += sum(fold.stages for fold in folds if fold.cluster > 1) + len(cluster_sums)
    barrier_offset = -(-at // BARRIER_BYTES) * BARRIER_BYTES
    total = barrier_offset + barriers * BARRIER_BYTES
    partials: list[tuple[str, int, int]] = []
    for fold in folds:
        warps = -(-total // MAX_WORD_BYTES) * MAX_WORD_BYTES
        blocks = -(-(warps + fold.slot_bytes) // MAX_WORD_BYTES) * MAX_WORD_BYTES
        if fold.slot_bytes or fold.cluster_bytes:
            total = blocks + fold.cluster_bytes
        partials.append((fold.tensor, warps, blocks))
    for one in cluster_sums:
        at = -(-total // MAX_WORD_BYTES) * MAX_WORD_BYTES
        partials.append((one.tensor, at, at))
        total = at + one.sent_bytes
    sums: list[tuple[str, int]] = []
    for scan in (scan for scan in scans if scan.shared_bytes):
        at = -(-total // MAX_WORD_BYTES) * MAX_WORD_BYTES
        sums.append((scan.tensor, at))
        total = at + scan.shared_bytes
    parked: list[tuple[str, int]] = []
    for t in (t for t in sf.tensors if t.parked):
        at = -(-total // MAX_WORD_BYTES) * MAX_WORD_BYTES
        parked.append((t.name, at))
        total = at + max(0, layout_of(t).elems - t.parked) * t.dtype.nbytes * threads
    tmem_address = -(-total // REGISTER_BYTES) * REGISTER_BYTES
    if any(t.memory is MemoryType.TENSOR for t in sf.tensors):
        total = tmem_address + REGISTER_BYTES
    return SharedMemoryPlan(
        tuple(placements),
        barrier_offset,
        total,
        max((repeat_bytes(swizzle_span(t.name)) for t in shared), default=16),
        tuple(partials),
        tuple(parked),
        tuple(sums),
        tmem_address,
    )


def stage_bytes(t: TensorView, swizzle_span: int) -> int:
    """Bytes from one circular-buffer stage to the next: the tensor rounded up to its alignment."""
    align = repeat_bytes(swizzle_span)
    return -(-layout_of(t).elems * t.dtype.nbytes // align) * align
