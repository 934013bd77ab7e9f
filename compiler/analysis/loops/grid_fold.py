"""Products whose sum is cut over blocks along y: what each block hands over to the last one, in global memory.

    part 0, part 1, .. -> the last part, which adds them to its own and goes on with the sum

They are added in their order, so that there is one, and none waits for another but the last, which is started last: it
waits for blocks that run, whatever runs beside them (split of k in one kernel: CUTLASS, gemm; CUDA guide, memory
fences).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.analysis.loops.loop_nest import LoopNest
from compiler.analysis.memory.allocation import allocated_axes, layout_of
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import TensorView

PARTS = ParallelType.BIDY
"""Where the parts of a sum are: blocks are started along x first, those of earlier parts before those that wait."""

TOLD_BYTES = 4
"""Of the number that says that a part is there."""


@dataclass(frozen=True, slots=True)
class GridFold:
    """The sum of a product over `parts` blocks, of which a block is number `part`.

    `tile`: the number, of `tiles`, of the elements that the block has; `thread`: that of a thread, of `threads` that
    have `elems` of them each.
    """

    tensor: str
    dtype: DType
    parts: int
    part: Expr
    tile: Expr
    tiles: int
    thread: Expr
    threads: int
    elems: int

    @property
    def others(self) -> int:
        """Parts that are handed over."""
        return self.parts - 1

    @property
    def sums(self) -> str:
        """The name of the memory in which parts are handed over."""
        return f"{self.tensor}_sums"

    @property
    def told(self) -> str:
        """The name of the memory that says which of them are there."""
        return f"{self.tensor}_told"

    @property
    def sums_bytes(self) -> int:
        return self.tiles * self.others * self.threads * self.elems * self.dtype.nbytes

    @property
    def told_bytes(self) -> int:
        return self.tiles * self.others * TOLD_BYTES


def is_over_grid(t: TensorView) -> bool:
    """Whether a sum is cut over blocks."""
    return any(a.is_reduction and a.extent > 1 and p is PARTS for a, p in zip(t.loop, t.types, strict=True))


def infer_grid_folds(sf: ScheduledFusion, nest: LoopNest) -> dict[str, GridFold]:
    """By name: the products that blocks sum together."""
    made = (sf.tensor(op.output) for op in sf.ops if op.kind in CONTRACTIONS)
    return {t.name: _grid_fold(nest, t) for t in made if is_over_grid(t)}


def _grid_fold(nest: LoopNest, t: TensorView) -> GridFold:
    status = allocated_axes(t)
    tile, tiles = Expr(), 1
    for i, axis in enumerate(t.loop):
        if not axis.is_reduction and status.get(axis) is False and not t.types[i].is_thread:
            tile, tiles = tile * nest.extent(t, i) + nest.variable(t, i), tiles * nest.extent(t, i)
    thread, threads = Expr(), 1
    for name, extent in zip(("tx", "ty", "tz"), nest.block(), strict=True):
        thread, threads = thread + var(Var(name, extent)) * threads, threads * extent
    (at,) = (i for i, p in enumerate(t.types) if p is PARTS)
    parts = nest.extent(t, at)
    return GridFold(
        t.name, t.dtype, parts, nest.variable(t, at), tile, tiles, thread, prod(nest.block()), layout_of(t).elems
    )
