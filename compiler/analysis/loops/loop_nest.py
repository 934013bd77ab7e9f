"""Which loops of which tensors are one loop, and how large blocks and grid are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.id_exprs import Shift
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.ops import REDUCTIONS
from compiler.ir.tensor import TensorView

BUILTIN = {
    ParallelType.BIDX: "bx",
    ParallelType.BIDY: "by",
    ParallelType.BIDZ: "bz",
    ParallelType.CLUSTER: "cx",
    ParallelType.TIDX: "tx",
    ParallelType.TIDY: "ty",
    ParallelType.TIDZ: "tz",
}
GRID_VARS = frozenset(("bx", "by", "bz"))
BLOCK_VARS = GRID_VARS | {"cx"}
WARP_VAR = "warp"
"""Name of the variable that numbers the warps of a block."""
THREAD_VARS = frozenset(("tx", "ty", "tz", WARP_VAR))
CLUSTER_VAR = BUILTIN[ParallelType.CLUSTER]
"""Name of the variable that is a block's place in its cluster."""
LANE = "lane"
"""Name of the variable that runs over a vector access."""


@dataclass(frozen=True)
class LoopNest:
    """Loop groups of a scheduled fusion.

    `group[tensor]` has one entry an axis: the number of the loop that carries it, or None where no loop statement does.
    `dims`: extent of every block and thread dimension in use. `rows`: extents of loops that broadcast axes of shifted
    tensors run as.
    """

    group: dict[str, tuple[int | None, ...]]
    dims: dict[ParallelType, int]
    rows: dict[tuple[str, int], int] = field(default_factory=dict, kw_only=True)

    @property
    def beside(self) -> dict[int, Expr]:
        """By number: loops that other tensors have on threads, and their index there."""
        return {}

    def path(self, t: TensorView) -> tuple[int, ...]:
        """Loop numbers around the op that makes `t`, outermost first."""
        return tuple(g for g in self.group[t.name] if g is not None)

    def depth(self, t: TensorView) -> int:
        """Number of loops shared with the consumers of `t`."""
        return sum(g is not None for g in self.group[t.name][: t.compute_at])

    def extent(self, t: TensorView, position: int) -> int:
        """How often a loop axis of `t` runs."""
        return self.rows.get((t.name, position), t.loop[position].extent)

    def carried(self, t: TensorView, loop: int) -> tuple[int, ParallelType] | None:
        """Extent and type of the axis of `t` that loop number `loop` carries; None where it has none of its own."""
        found = self.group[t.name]
        return (self.extent(t, found.index(loop)), t.types[found.index(loop)]) if loop in found else None

    def extent_on(self, t: TensorView, type_: ParallelType) -> int | None:
        """Extent of `t` on a block or thread dimension, None where nothing of it varies along that."""
        pairs = enumerate(zip(t.loop, t.types, strict=True))
        return next((self.extent(t, i) for i, (a, p) in pairs if p is type_ and not a.is_broadcast), None)

    def variable(self, t: TensorView, position: int) -> Expr:
        """Index of a loop axis. Bulk axes and broadcast axes that no loop carries stand at 0."""
        extent, type_ = self.extent(t, position), t.types[position]
        group = self.group[t.name][position]
        if group is not None:
            return var(Var(f"k{group}", extent))
        if type_ in BUILTIN:
            return var(Var(BUILTIN[type_], extent))
        if type_ is ParallelType.VECTORIZE:
            return var(Var(LANE, extent))
        return Expr()

    def loop_index(self, t: TensorView) -> dict[IterDomain, Expr]:
        return {axis: self.variable(t, i) for i, axis in enumerate(t.loop)}

    def grid(self) -> tuple[int, int, int]:
        """Blocks; those of a cluster are neighbours in x."""
        x, y, z = (self.dims.get(p, 1) for p in (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ))
        return x * self.cluster, y, z

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.dims.get(ParallelType.CLUSTER, 1)

    def block(self) -> tuple[int, int, int]:
        x, y, z = (self.dims.get(p, 1) for p in (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ))
        return x, y, z


def infer_loop_nest(sf: ScheduledFusion) -> LoopNest:
    """Loop groups by compute-at: the first `compute_at` axes of a tensor are its consumers' (nvFuser, inlining).

    A loop statement carries a serial or unrolled axis, and a broadcast one where that is one with an axis of elements:
    all that share the loop stand in it. Positions must correspond (`legality.structure` checks that first). Raises
    Unsupported where a reduction would be folded again in every turn of a loop that it does not vary along.
    """
    parent: dict[tuple[str, int], tuple[str, int]] = {}

    def find(key: tuple[str, int]) -> tuple[str, int]:
        while key in parent:
            key = parent[key]
        return key

    for t in sf.tensors:
        for op in sf.consumers(t.name):
            for i in range(t.compute_at):
                a, b = find((t.name, i)), find((op.output, i))
                if a != b:
                    parent[a] = b
    varying = {find((t.name, i)) for t in sf.tensors for i, a in enumerate(t.loop) if not a.is_broadcast}
    rows = _rows(sf, find)
    numbers: dict[tuple[str, int], int] = {}
    group: dict[str, tuple[int | None, ...]] = {}
    dims: dict[ParallelType, int] = {}
    for op in sf.ops:
        t = sf.tensor(op.output)
        entry: list[int | None] = []
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if type_ in BUILTIN:
                dims[type_] = max(dims.get(type_, 1), axis.extent)
            root = find((t.name, i))
            carried = type_.is_loop and rows.get((t.name, i), axis.extent) > 1 and root in varying
            if carried and axis.is_broadcast and i >= t.compute_at and op.kind in REDUCTIONS:
                raise Unsupported(
                    f"an inlining that folds {t.name} again in the loop of {axis}", "Inline it there too."
                )
            entry.append(numbers.setdefault(root, len(numbers)) if carried else None)
        group[t.name] = tuple(entry)
    return LoopNest(group, dims, rows=rows)


def _rows(sf: ScheduledFusion, find: Callable[[tuple[str, int]], tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Extents of the loops that broadcast axes of shifted tensors share with their consumers: which row it is decides
    where in a run an element lies, also of what all rows read."""
    extents: dict[tuple[str, int], int] = {}
    for t in sf.tensors:
        for i, axis in enumerate(t.loop):
            root = find((t.name, i))
            extents[root] = max(extents.get(root, 1), axis.extent)
    shifted = (t for t in sf.tensors if any(isinstance(e, Shift) for e in t.exprs))
    places = ((t, i) for t in shifted for i in range(t.compute_at) if t.loop[i].is_broadcast)
    return {(t.name, i): extents[find((t.name, i))] for t, i in places}
