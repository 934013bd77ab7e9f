"""Products whose sum is cut over blocks along y: what each block hands over to the last one, in global memory.

    part 0, part 1, .. -> the last part, which adds them to its own and goes on with the sum

They are added in their order, so that there is one, and none waits for another but the last, which is started last: it
waits for blocks that run, whatever runs beside them (split of k in one kernel: CUTLASS, gemm; CUDA guide, memory
fences).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol

from compiler.analysis.loops.deal import DealtTurns
from compiler.analysis.loops.loop_nest import CLUSTER_VAR, LoopNest
from compiler.analysis.memory.allocation import allocated_axes, layout_of
from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, const, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import TensorView

PARTS = ParallelType.BIDY
"""Where the parts of a sum are: blocks are started along x first, those of earlier parts before those that wait."""

TOLD_BYTES = 4
"""Of the number that says that a part is there."""


Bound = tuple[Expr, Expr]
"""Of two numbers of which the first is to be the smaller one."""


class GridFold(Protocol):
    """A sum that several blocks make. `thread`: the number of a thread, of `threads` that have `elems` elements each.

    `others`: parts that one block adds up beside its own, at most, and `slots` places for all that are handed over.
    """

    @property
    def tensor(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def thread(self) -> Expr: ...
    @property
    def threads(self) -> int: ...
    @property
    def elems(self) -> int: ...
    @property
    def others(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def goes_on(self) -> Bound:
        """What holds in the block that has the whole sum in the end."""
        ...

    @property
    def own_slot(self) -> Expr:
        """Where a block leaves its part, if it does."""
        ...

    def slot(self, other: Expr) -> Expr:
        """Where another part lies, in the block that goes on."""
        ...

    @property
    def count(self) -> Expr:
        """How many there are, in that block."""
        ...

    @property
    def counted(self) -> tuple[Var, Expr] | None:
        """The variable that names the count, and what it is; None where it is always the same."""
        ...


def sums_of(fold: GridFold) -> str:
    """The name of the memory in which parts are handed over."""
    return f"{fold.tensor}_sums"


def told_of(fold: GridFold) -> str:
    """The name of the memory that says which of them are there."""
    return f"{fold.tensor}_told"


def sums_bytes(fold: GridFold) -> int:
    """Of the parts that are handed over."""
    return fold.slots * fold.threads * fold.elems * fold.dtype.nbytes


def told_bytes(fold: GridFold) -> int:
    """Of the numbers that say which are there."""
    return fold.slots * TOLD_BYTES


@dataclass(frozen=True, slots=True)
class PartFold:
    """The sum of a product over `parts` blocks, of which a block is number `part`. `tile`: the number, of `tiles`, of
    the elements that the block has. The rest as `GridFold` has it."""

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
        return self.parts - 1

    @property
    def slots(self) -> int:
        return self.tiles * self.others

    @property
    def goes_on(self) -> Bound:
        return const(self.parts - 2), self.part

    @property
    def own_slot(self) -> Expr:
        return self.slot(self.part)

    def slot(self, other: Expr) -> Expr:
        return self.tile * self.others + other

    @property
    def count(self) -> Expr:
        return const(self.others)

    @property
    def counted(self) -> tuple[Var, Expr] | None:
        return None


@dataclass(frozen=True, slots=True)
class DealtFold:
    """The sums of a product whose turns are dealt: each block hands over one part at most, that of the tile with whose
    middle or end it begins. `rank`: the number of a block in its cluster, of `cluster`. The rest as `GridFold` has it.
    """

    tensor: str
    dtype: DType
    deal: DealtTurns
    rank: Expr
    cluster: int
    thread: Expr
    threads: int
    elems: int

    @property
    def others(self) -> int:
        return self.deal.others

    @property
    def slots(self) -> int:
        return self.deal.blocks * self.cluster

    @property
    def goes_on(self) -> Bound:
        return var(self.deal.begin), self.deal.tile_begin + 1

    @property
    def own_slot(self) -> Expr:
        return self.deal.block * self.cluster + self.rank

    def slot(self, other: Expr) -> Expr:
        return self.own_slot - (other + 1) * self.cluster

    @property
    def count(self) -> Expr:
        return var(self.deal.behind)

    @property
    def counted(self) -> tuple[Var, Expr] | None:
        return self.deal.behind, self.deal.count_behind


def is_over_grid(t: TensorView) -> bool:
    """Whether a sum is made by several blocks."""
    cut = (a.is_reduction and a.extent > 1 and p is PARTS for a, p in zip(t.loop, t.types, strict=True))
    return t.dealt > 0 or any(cut)


def infer_grid_folds(sf: ScheduledFusion, nest: LoopNest, deal: DealtTurns | None) -> dict[str, GridFold]:
    """By name: the products that blocks sum together."""
    made = (sf.tensor(op.output) for op in sf.ops if op.kind in CONTRACTIONS)
    return {t.name: _grid_fold(nest, t, deal) for t in made if is_over_grid(t)}


def _grid_fold(nest: LoopNest, t: TensorView, deal: DealtTurns | None) -> GridFold:
    thread, threads, elems = nest.thread(), prod(nest.block()), layout_of(t).elems
    if deal is not None:
        rank = var(Var(CLUSTER_VAR, nest.cluster))
        return DealtFold(t.name, t.dtype, deal, rank, nest.cluster, thread, threads, elems)
    status = allocated_axes(t)
    tile, tiles = Expr(), 1
    for i, axis in enumerate(t.loop):
        if not axis.is_reduction and status.get(axis) is False and not t.types[i].is_thread:
            tile, tiles = tile * nest.extent(t, i) + nest.variable(t, i), tiles * nest.extent(t, i)
    (at,) = (i for i, p in enumerate(t.types) if p is PARTS)
    return PartFold(t.name, t.dtype, nest.extent(t, at), nest.variable(t, at), tile, tiles, thread, threads, elems)
