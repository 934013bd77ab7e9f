"""Products whose sum is cut over the blocks of a cluster, which end, or go on with parts of the result of their own.

    part 1, part 2, .. -> part 0, which goes on       or       slice s of all parts -> part s, which goes on with that

Each adds to its own part what the others send, in one order. It lies in the shared memory of the block that adds it up:
nothing goes through memory of the device, and nobody waits for a block that may not run, since those of a cluster do so
together (CUDA guide, distributed shared memory). Where all blocks need all of the sum they exchange their parts
(`loops.fold`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from compiler.analysis.id.indexing import Indexing
from compiler.analysis.loops.loop_nest import CLUSTER_VAR
from compiler.analysis.memory.allocation import layout_of
from compiler.analysis.mma.coordinates import evaluated
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion, computed_from
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import TensorView

PARTS = ParallelType.CLUSTER
"""Where the parts of such a sum are."""


@dataclass(frozen=True, slots=True)
class ClusterSum:
    """The sum of the product `tensor` over the `parts` blocks of a cluster. `thread`: the number of a thread, of
    `threads` that have `elems` elements each. `run`: of these, so many side by side are of one slice, the next ones of
    the next; 0 where the first block goes on with all."""

    tensor: str
    dtype: DType
    parts: int
    thread: Expr
    threads: int
    elems: int
    run: int = 0

    @property
    def part(self) -> Expr:
        """The number of a block's part."""
        return var(self.variable)

    @property
    def variable(self) -> Var:
        return Var(CLUSTER_VAR, self.parts)

    @property
    def others(self) -> int:
        """Parts that are sent to a block."""
        return self.parts - 1

    @property
    def slices(self) -> int:
        """Blocks that go on."""
        return self.parts if self.run else 1

    @property
    def own(self) -> int:
        """Elements of a thread's slice."""
        return self.elems // self.slices

    @property
    def sent_bytes(self) -> int:
        """What a block that goes on is sent by all others together."""
        return self.others * self.threads * self.own * self.dtype.nbytes

    def element(self, part: Expr, at: Expr) -> Expr:
        """Of a thread's elements, number `at` of a slice."""
        if not self.run:
            return at
        return at // self.run * (self.run * self.parts) + part * self.run + at % self.run

    def place(self, other: Expr, word: Expr, width: int) -> Expr:
        """Byte offset of a thread's word, of `width` elements, of another part: neighbours in a warp have neighbouring
        words."""
        words = self.own // width
        return ((other * words + word) * self.threads + self.thread) * (width * self.dtype.nbytes)


def infer_cluster_sums(sf: ScheduledFusion, indexing: Indexing) -> dict[str, ClusterSum]:
    """By name: the product that blocks of a cluster sum for one of them, or each a slice; nothing stands beside it."""
    made = [sf.tensor(op.output) for op in sf.ops if op.kind in CONTRACTIONS]
    found = [t for t in made if t.memory is MemoryType.LOCAL and _is_by_blocks(t) and indexing.nest.depth(t) == 0]
    if len(made) != 1 or not found or not _ends_the_kernel(sf, found[0].name):
        return {}
    (t,) = found
    nest, after = indexing.nest, computed_from(sf.ops, t.name) - {t.name}
    whole = ClusterSum(t.name, t.dtype, nest.cluster, nest.thread(), prod(nest.block()), layout_of(t).elems)
    on_parts = {nest.extent_on(sf.tensor(name), PARTS) for name in after}
    if on_parts == {None}:
        return {t.name: whole}
    run = _run(sf, indexing, whole)
    return {t.name: replace(whole, run=run)} if run and on_parts == {nest.cluster} else {}


def _is_by_blocks(t: TensorView) -> bool:
    """Whether blocks of a cluster have parts of a sum, and threads none."""
    cut = [p for a, p in zip(t.loop, t.types, strict=True) if a.is_reduction and a.extent > 1]
    return PARTS in cut and not any(p.is_thread for p in cut)


def _ends_the_kernel(sf: ScheduledFusion, name: str) -> bool:
    """Whether all that is stored, and all that the copy engine brings, is of the sum or for it: blocks may end once
    they have sent their parts."""
    after = computed_from(sf.ops, name) - {name}
    before = {op.output for op in sf.ops if name in computed_from(sf.ops, op.output)}
    beside = (op.output for op in sf.ops if op.via.is_bulk and op.output not in before | after)
    return set(sf.outputs) <= after and not any(beside)


def _run(sf: ScheduledFusion, indexing: Indexing, whole: ClusterSum) -> int:
    """How many elements of a slice lie side by side in a thread's registers, each block's behind those of the one
    before; 0 where they lie otherwise."""
    runs: set[int] = set()
    for op in sf.ops:
        if whole.tensor in op.tensor_inputs:
            offset = indexing.read_offset(op, whole.tensor)
            run = dict(offset.terms).get(whole.variable, 0)
            others = sorted(offset.variables - {whole.variable}, key=str)
            if run <= 0 or whole.elems % (run * whole.parts):
                return 0
            places = evaluated(offset, (whole.variable, *others)).reshape(whole.parts, -1)
            if not (places // run % whole.parts == np.arange(whole.parts)[:, np.newaxis]).all():
                return 0
            runs.add(run)
    return runs.pop() if len(runs) == 1 else 0
