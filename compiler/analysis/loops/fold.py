"""How the threads of a block, and the blocks of a cluster, put together what each of them has folded.

Every thread folds its own loops into registers first. What is left are the reduction axes on thread dimensions and on
the cluster; all threads get the result, by the same tree whenever the kernel runs:

    shuffles inside a warp -> one partial a warp in shared memory -> one partial a block, in all blocks of the cluster

(CUDA guide, warp shuffle functions, distributed shared memory; fusions of memory-bound reductions spend one barrier.)
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from compiler.analysis.loops.loop_nest import LoopNest
from compiler.analysis.loops.online import OnlineFold, online_folds
from compiler.analysis.memory.allocation import layout_of
from compiler.arch import REGISTER_BYTES, WARP_THREADS
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion, computed_from, waiting_for_folds
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import CONTRACTIONS, REDUCTIONS, OpKind
from compiler.ir.tensor import TensorOp, TensorView

EXCHANGE_STAGES = 2
"""Of a fold in a loop. A block sends for the next fold but one only after all blocks have sent for the next, which they
do once they have read what they got for this one: two stages of partials and barriers are enough."""

SPREAD_SLOTS, SPREAD_PARTIALS = 4, 32
"""Slots, and partials that a reader would fold for itself, from which on a barrier of about 20 ns costs less: 32
partials are 8 words of 16 bytes, which take a warp 8 wavefronts or more, and there are as many warps as slots or more.
"""
LANE_PARTIALS = 4
"""Partials of a fold of several values from which on each lane of a warp reads one: an exponential for each of fewer
takes no longer than the shuffles."""

_THREADS = (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ)


@dataclass(frozen=True, slots=True)
class Fold:
    """What is left of one reduction once every thread has folded its own elements.

    `masks`: lane distances of the shuffles, each twice the one before, among the lanes of the bit mask `members`.
    `slots`: partials that each of `groups` groups of threads then has, 1 if there is no need of shared memory; a thread
    writes partial `slot` of group `group` if each of `leader` is 0.
    `slot_major`: partials lie as [slot][group][element], else as [group][slot] of one element.
    `readers`: thread dimensions of which the first thread alone needs the result; `has_one_reader`: in a group that is
    one thread. `cluster`: blocks that fold together; `stages`: of their exchange, one where the fold happens once.
    `is_online`: a maximum, or a sum that is scaled to it, of a fold of several values (`analysis.online`);
    `has_whole_warps`: all threads of a warp fold together, and have one element each.
    """

    tensor: str
    kind: OpKind
    dtype: DType
    elems: int
    masks: tuple[int, ...]
    members: int
    slots: int
    slot: Expr
    group: Expr
    groups: int
    leader: tuple[Expr, ...]
    slot_major: bool
    readers: tuple[Var, ...]
    has_one_reader: bool
    cluster: int
    stages: int
    is_online: bool = False
    has_whole_warps: bool = False

    @property
    def is_shared(self) -> bool:
        """True where warps exchange partials."""
        return self.slots > 1

    @property
    def is_spread(self) -> bool:
        """True where all threads fold the partials, each a few results: one more barrier, which so many are worth.

        Not where a sum is scaled by what another one holds of the same slots, which the first of them would overwrite.
        """
        many = self.slots >= SPREAD_SLOTS and self.slots * self.elems >= SPREAD_PARTIALS
        return self.slot_major and many and not self.is_online

    def is_read_by_lanes(self, count: int) -> bool:
        """True where each lane of a warp reads one of `count` partials, and shuffles fold them."""
        return self.is_online and self.has_whole_warps and LANE_PARTIALS <= count <= WARP_THREADS

    @property
    def slot_bytes(self) -> int:
        """Shared memory of the partials of warps."""
        return self.groups * self.slots * self.elems * self.dtype.nbytes if self.is_shared else 0

    @property
    def exchanged_bytes(self) -> int:
        """What one element takes that blocks exchange: a word of 4 bytes or more (PTX ISA, st.async) where a thread's
        elements do not fill such words together."""
        fills = self.elems * self.dtype.nbytes % REGISTER_BYTES == 0
        return self.dtype.nbytes if fills else max(REGISTER_BYTES, self.dtype.nbytes)

    @property
    def exchange_bytes(self) -> int:
        """What a block gets from all blocks of the cluster, itself included, in one fold."""
        return self.groups * self.cluster * self.elems * self.exchanged_bytes if self.cluster > 1 else 0

    @property
    def cluster_bytes(self) -> int:
        """Shared memory of the partials of blocks: one fold's may come while another's are read."""
        return self.stages * self.exchange_bytes

    def place(self, slot: Expr) -> Expr:
        """Element offset of element 0 of this group's partial `slot`."""
        if self.slot_major:
            return (slot * self.groups + self.group) * self.elems
        return self.group * self.slots + slot


def folded_dims(t: TensorView) -> tuple[ParallelType, ...]:
    """Thread dimensions and the cluster that carry reduction axes of more than one place."""
    return tuple(
        p
        for a, p in zip(t.loop, t.types, strict=True)
        if a.is_reduction and a.extent > 1 and (p.is_thread or p is ParallelType.CLUSTER)
    )


def infer_folds(sf: ScheduledFusion, nest: LoopNest, apart: Container[str] = ()) -> dict[str, Fold]:
    """By name: the reductions in which threads or blocks fold together. `apart`: sums that blocks make otherwise."""
    found = ((op, sf.tensor(op.output)) for op in sf.ops if op.kind in REDUCTIONS and op.output not in apart)
    online = online_folds(sf)
    return {t.name: _fold(sf, nest, op, t, online.get(t.name)) for op, t in found if folded_dims(t)}


def _fold(sf: ScheduledFusion, nest: LoopNest, op: TensorOp, t: TensorView, online: OnlineFold | None) -> Fold:
    dims = folded_dims(t)
    threads = [p for p in _THREADS if p in dims]
    x, y, z = nest.block()
    tx, ty, tz = (var(Var(f"t{a}", n)) for a, n in zip("xyz", (x, y, z), strict=True))
    linear = tx + ty * x + tz * (x * y)
    elems = layout_of(t).elems
    cluster = nest.dims.get(ParallelType.CLUSTER, 1) if ParallelType.CLUSTER in dims else 1
    masks, slots, slot = _tree(threads, (x, y, z), (tx, ty, tz))
    group, groups = Expr(), 1
    for p, index, extent in zip(_THREADS, (tx, ty, tz), (x, y, z), strict=True):
        if p not in threads:
            group, groups = group + index * groups, groups * extent
    readers = _readers(sf, online.tensors if online is not None else (t.name,), nest, threads)
    leader = (linear // masks[0] % (2 * masks[-1] // masks[0]),) if masks else ()
    return Fold(
        tensor=t.name,
        kind=OpKind.SUM if op.kind in CONTRACTIONS else op.kind,
        dtype=t.dtype,
        elems=elems,
        masks=masks,
        members=(1 << min(x * y * z, WARP_THREADS)) - 1,
        slots=slots,
        slot=slot,
        group=group,
        groups=groups,
        leader=leader,
        slot_major=elems > 1 or ParallelType.TIDX not in threads,
        readers=readers,
        has_one_reader=len(readers) == len(threads),
        cluster=cluster,
        stages=EXCHANGE_STAGES if nest.depth(t) else 1,
        is_online=online is not None,
        has_whole_warps=threads == [ParallelType.TIDX] and x % WARP_THREADS == 0 and elems == 1,
    )


def _tree(
    threads: list[ParallelType], extents: tuple[int, int, int], indices: tuple[Expr, Expr, Expr]
) -> tuple[tuple[int, ...], int, Expr]:
    """Shuffle distances, partials left in a group, and which of them a thread has.

    A warp is 32 threads in a row, x first (CUDA guide, thread hierarchy). Where a warp's part of the fold is no power
    of two, every thread has a partial of its own.
    """
    x, y, z = extents
    tx, ty, _ = indices
    if not threads:
        return (), 1, const(0)
    match threads:
        case [ParallelType.TIDX]:
            inside, count, index, step = x, x, tx, 1
        case [ParallelType.TIDY]:
            inside, count, index, step = x * y, y, ty, x
        case [ParallelType.TIDX, ParallelType.TIDY]:
            inside, count, index, step = x * y, x * y, tx + ty * x, 1
        case _:
            inside, count, index, step = 0, 1, const(0), 0
    if step and (x * y * z % WARP_THREADS == 0 or x * y * z < WARP_THREADS):
        if step % WARP_THREADS == 0:
            return (), count, index
        lanes = min(count, WARP_THREADS // step) if WARP_THREADS % step == 0 else 1
        whole_warps = inside % WARP_THREADS == 0 or (inside & (inside - 1) == 0)
        if whole_warps and lanes & (lanes - 1) == 0 and count % lanes == 0:
            masks = tuple(step << bit for bit in range(lanes.bit_length() - 1))
            return masks, count // lanes, index // lanes
    slots, slot = 1, const(0)
    for p, i, n in zip(_THREADS, indices, extents, strict=True):
        if p in threads:
            slot, slots = slot + i * slots, slots * n
    return (), slots, slot


def _readers(
    sf: ScheduledFusion, names: tuple[str, ...], nest: LoopNest, threads: list[ParallelType]
) -> tuple[Var, ...]:
    """Folded thread dimensions that nothing computed from the whole reductions has: their first thread stores for all.

    None where the result says which row is read: every thread looks whether there is such a row. Sums that are scaled
    to a maximum are read with it.
    """
    waiting = waiting_for_folds(sf.ops)
    later = {x for name in names for x in computed_from(waiting, name)} - {*names}
    if any(op.choosing and op.output in later for op in sf.ops):
        return ()
    after = [sf.tensor(x) for x in sorted(later)]
    extents = dict(zip(_THREADS, nest.block(), strict=True))
    called = dict(zip(_THREADS, ("tx", "ty", "tz"), strict=True))
    unused = (p for p in threads if all(p not in other.types for other in after))
    return tuple(Var(called[p], extents[p]) for p in unused)
