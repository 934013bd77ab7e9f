"""Rules on multicasts: one bulk copy that brings a tile to the shared memory of all blocks of a cluster.

The first block of the cluster asks for the copy; every block waits for its own bytes on its own mbarrier, at the same
place of its shared memory (PTX ISA, cp.async.bulk: multicast::cluster).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.loop_nest import CLUSTER_VAR
from compiler.errors import Violation
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import BufferKind, CopyVia, TensorOp, TensorView
from compiler.legality.rules import Schedule, model_rule, rule


def _multicasts(s: Schedule) -> Iterator[tuple[TensorOp, TensorView]]:
    """Every copy that is said to be a multicast, with what it writes."""
    for op in s.sf.ops:
        if op.multicasts:
            yield op, s.sf.tensor(op.output)


@model_rule
def multicasts_are_bulk_loads(s: Schedule) -> Iterator[Violation]:
    """The copy engine alone writes the shared memory of several blocks, from global memory (PTX ISA, cp.async.bulk,
    cp.async.bulk.tensor)."""
    for op, t in _multicasts(s):
        if not op.via.is_bulk or t.memory is not MemoryType.SHARED:
            yield Violation(
                "multicasts_are_bulk_loads",
                t.name,
                f"a copy via {op.via} to {t.memory} memory",
                "a copy via tma or bulk1d from global to shared memory",
                "Cache the input in shared memory via tma.",
            )


@model_rule
def multicast_tiles_are_the_same_in_all_blocks(s: Schedule) -> Iterator[Violation]:
    """The blocks of the cluster read one tile: the tensor has a broadcast axis on Cluster, as long as the cluster is. A
    tensor that varies along it has another tile for each block (nvFuser, parallel types)."""
    size = max((a.extent for t in s.sf.tensors for a in t.axes_of(ParallelType.CLUSTER)), default=1)
    for _, t in _multicasts(s):
        axes = t.axes_of(ParallelType.CLUSTER)
        if not axes or not axes[0].is_broadcast or axes[0].extent < size or size < 2:
            found = "no axis on Cluster" if not axes else str(axes[0])
            yield Violation(
                "multicast_tiles_are_the_same_in_all_blocks",
                t.name,
                found,
                f"a broadcast axis of {max(2, size)} on Cluster",
                "Parallelize on Cluster an axis that the tensor does not vary along, or leave the multicast out.",
            )


@model_rule
def multicasts_fill_their_tile_once(s: Schedule) -> Iterator[Violation]:
    """A tile is filled again only when all blocks of the cluster have read it. They tell each other so only of stages
    that warps of their own fill: any other copy stands outside all loops, and its tensor has one stage (PTX ISA,
    mbarrier: arrivals of other blocks)."""
    for _, t in _multicasts(s):
        if t.circular is not None and t.circular.kind is BufferKind.WARP_SPECIALIZED:
            continue
        inside = zip(t.loop[: t.compute_at], t.types[: t.compute_at], strict=True)
        loops = [str(a) for a, p in inside if p.is_loop and a.extent > 1]
        if loops or t.circular is not None:
            found = f"inside the loop of {', '.join(loops)}" if loops else "a circular buffer"
            yield Violation(
                "multicasts_fill_their_tile_once",
                t.name,
                found,
                "one stage, in no loop",
                "Let blocks come and go, each with one tile, or copy without a multicast.",
            )


@rule
def multicasts_are_issued_in_all_blocks_or_none(s: Schedule) -> Iterator[Violation]:
    """Each block announces its bytes where the first one issues the copy: what guards a run depends on no place in the
    cluster. Tensor maps clip, and have no guards (PTX ISA, mbarrier: expect-tx operation)."""
    for op, t in _multicasts(s):
        if op.via is not CopyVia.BULK1D:
            continue
        for bound in s.indexing.bounds(t):
            if any(v.name == CLUSTER_VAR for v in bound.index.variables):
                yield Violation(
                    "multicasts_are_issued_in_all_blocks_or_none",
                    t.name,
                    str(bound),
                    "a condition that is the same in all blocks of a cluster",
                    "Copy via tma, or choose a cluster that divides the axis.",
                )
