"""How the threads of a block share a scan: the sums of all elements up to each along some axes.

Along the scanned axes loops come first, then threads, then the word that a thread holds; each of these is in the order
of the elements. A thread adds up its word; lanes of a warp add what lanes before them have by shuffles, at distances
1, 2, 4, …; warps hand their sums on in shared memory; a loop carries what its turns so far came to (CUDA guide, warp
shuffle functions). The order of additions follows from the loops alone, so that it is the same whenever a kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.analysis.loops.loop_nest import LoopNest
from compiler.arch import WARP_THREADS
from compiler.dtypes import DType
from compiler.ir.algebra import forward
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.ops import SCANS
from compiler.ir.tensor import TensorOp, TensorView

STAGES = 2
"""Of the sums of warps in a loop: a warp writes those of the next turn but one after the barrier of the next, at which
all have read what was written for this one."""


@dataclass(frozen=True, slots=True)
class ScanLoops:
    """The loops of a scan's tensor that go along its scanned axes, and the others, by position.

    `turns`: those that are walked, outermost first; `threads`, `words`: those on thread dimensions and in words;
    `blocks`: those that blocks share; `mixed`: those that go along other axes too. `is_ordered`: elements stand in the
    order of turns, threads and words.
    """

    turns: tuple[int, ...]
    threads: tuple[int, ...]
    words: tuple[int, ...]
    blocks: tuple[int, ...]
    mixed: tuple[int, ...]
    is_ordered: bool


def scan_loops(op: TensorOp, t: TensorView) -> ScanLoops:
    """The loops of the tensor that a scan makes."""
    place: dict[IterDomain, Expr] = {a: var(Var(f"d{d}", a.extent)) for d, a in enumerate(t.logical)}
    index = forward(place, t.exprs)
    own, other = set[Var](), set[Var]()
    for d, a in enumerate(t.logical):
        (own if d in op.dims else other).update(place[a].variables)
    along = [i for i, a in enumerate(t.loop) if not own.isdisjoint(index[a].variables)]
    blocks = tuple(i for i in along if t.types[i].is_block or t.types[i] is ParallelType.CLUSTER)
    threads = tuple(i for i in along if t.types[i].is_thread)
    words = tuple(i for i in along if t.types[i] is ParallelType.VECTORIZE)
    turns = tuple(i for i in along if t.types[i].is_loop)
    total, stride = Expr(), 1
    for i in reversed((*turns, *threads, *words)):
        total = total + index[t.loop[i]] * stride
        stride *= t.loop[i].extent
    element = Expr()
    for d in op.dims:
        element = element * t.logical[d].extent + place[t.logical[d]]
    mixed = tuple(i for i in along if not other.isdisjoint(index[t.loop[i]].variables))
    return ScanLoops(turns, threads, words, blocks, mixed, total == element)


@dataclass(frozen=True, slots=True)
class BlockScan:
    """How the threads of a block share one scan.

    `width`: elements of the word that a thread has. `lanes` neighbours of a warp go on with one another, `lane` is the
    thread's place among them; `slots` such runs make up a row of threads, of which there are `groups`; one lane alone
    where no threads share the scan. `carry_depth`: the loops around what a thread carries from turn to turn, a sum for
    each of the places `carry` in `carry_elems`; None where nothing is carried. `stages`: of the sums of warps.
    """

    tensor: str
    dtype: DType
    width: int
    is_exclusive: bool
    lanes: int
    lane: Expr
    members: int
    slots: int
    slot: Expr
    group: Expr
    groups: int
    carry_depth: int | None
    carry: Expr
    carry_elems: int
    stages: int

    @property
    def is_shared(self) -> bool:
        """True where threads share the scan."""
        return self.lanes * self.slots > 1

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the sums of warps."""
        return self.stages * self.stage_bytes if self.slots > 1 else 0

    @property
    def stage_bytes(self) -> int:
        """The same of one turn."""
        return self.groups * self.slots * self.dtype.nbytes


def infer_scans(sf: ScheduledFusion, nest: LoopNest) -> dict[str, BlockScan]:
    """By name: the scans of a fusion whose loops are legal."""
    return {op.output: _scan(op, sf.tensor(op.output), nest) for op in sf.ops if op.kind in SCANS}


def _scan(op: TensorOp, t: TensorView, nest: LoopNest) -> BlockScan:
    loops = scan_loops(op, t)
    x, y, z = nest.block()
    tx, ty, tz = (var(Var(f"t{a}", n)) for a, n in zip("xyz", (x, y, z), strict=True))
    shared = x if loops.threads else 1
    lanes = min(shared, WARP_THREADS)
    path = nest.path(t)
    groups = nest.group[t.name]
    turns = {groups[i] for i in loops.turns if groups[i] is not None}
    depth = next((k for k, g in enumerate(path) if g in turns), None)
    carry, elems = Expr(), 1
    for g in path[depth:] if depth is not None else ():
        own = nest.carried(t, g)
        if g not in turns and own is not None:
            carry, elems = carry * own[0] + var(Var(f"k{g}", own[0])), elems * own[0]
    return BlockScan(
        tensor=t.name,
        dtype=t.dtype,
        width=prod(t.loop[i].extent for i in loops.words),
        is_exclusive=bool(op.start),
        lanes=lanes,
        lane=tx % lanes,
        members=(1 << min(x * y * z, WARP_THREADS)) - 1,
        slots=shared // lanes,
        slot=tx // lanes,
        group=ty + tz * y,
        groups=y * z,
        carry_depth=depth,
        carry=carry,
        carry_elems=elems,
        stages=STAGES if path else 1,
    )
