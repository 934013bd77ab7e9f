"""Which loops of which tensors are one loop, and how large blocks and grid are.

The loops left of a tensor's compute position are its consumers' (nvFuser, inlining). Schedulers write loops that
correspond position by position; explicit schedules need not. A tensor inlined below a broadcast shares its consumer's
wider loop and runs as that one (nvFuser, loop promotion), and stands inside those of the consumer's loops that it has
no part in.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.loops.axes import Loop, LoopMap, loop_map
from compiler.analysis.sync.sync import promotions
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.ops import REDUCTIONS
from compiler.ir.remembered import remembered
from compiler.ir.tensor import TensorView
from compiler.schedule.inline import compute_position

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
MMA = "mma"
"""How the names of the variables begin that run over the axes of one instruction of the tensor cores."""
LANE = "lane"
"""Name of the variable that runs over a vector access."""


@dataclass(frozen=True)
class LoopNest:
    """Loop groups of a scheduled fusion.

    `group[tensor]` has one entry an axis: the number of the loop that carries it, or None where no loop statement does.
    `dims`: extent of every block and thread dimension in use. `runs_as`: the group of axes that each loop of a tensor
    runs as, `extents` its extent. `paths`: by tensor, the loops around the op that makes it, its consumers' among
    them; `depths`: how many of these are shared with consumers. `varying`: axes along whose loops
    elements differ, of this tensor or of one that shares the loop. `beside`: by number, loops that other tensors have
    on threads, and their index there. `in_turns`: of these, the loops in whose turns a ring goes round: one group of
    threads after the other uses it, each for a whole turn. `dealt`: blocks that have equal shares of the turns of a
    product's loops; 0 where axes make the grid.
    """

    group: dict[str, tuple[int | None, ...]]
    dims: dict[ParallelType, int]
    runs_as: dict[str, tuple[Group, ...]]
    extents: dict[str, tuple[int, ...]]
    paths: dict[str, tuple[int, ...]]
    depths: dict[str, int]
    varying: frozenset[Loop]
    beside: dict[int, Expr]
    in_turns: frozenset[int] = frozenset()
    dealt: int = 0

    @property
    def turns(self) -> int:
        """Groups of threads that take turns with rings, of all loops in which they do."""
        return sum(max(v.extent for v in self.beside[n].variables) for n in self.in_turns)

    def path(self, t: TensorView) -> tuple[int, ...]:
        """Loop numbers around the op that makes `t`, outermost first."""
        return self.paths[t.name]

    def depth(self, t: TensorView) -> int:
        """Number of loops shared with the consumers of `t`."""
        return self.depths[t.name]

    def extent(self, t: TensorView, position: int) -> int:
        """How often a loop axis of `t` runs."""
        return self.extents[t.name][position]

    def carried(self, t: TensorView, loop: int) -> tuple[int, ParallelType] | None:
        """Extent and type of the axis of `t` that loop number `loop` carries; None where it has none of its own."""
        found = self.group[t.name]
        return (self.extent(t, found.index(loop)), t.types[found.index(loop)]) if loop in found else None

    def extent_on(self, t: TensorView, type_: ParallelType) -> int | None:
        """Extent of `t` on a block or thread dimension, None where nothing of it varies along that."""
        pairs = enumerate(zip(t.loop, t.types, strict=True))
        found = (i for i, (_, p) in pairs if p is type_ and (t.name, i) in self.varying)
        return next((self.extent(t, i) for i in found), None)

    def variable(self, t: TensorView, position: int) -> Expr:
        """Index of a loop axis. Bulk axes and broadcast axes that no loop carries stand at 0."""
        extent, type_ = self.extent(t, position), t.types[position]
        group = self.group[t.name][position]
        if group is not None:
            return _loop_variable(group, extent)
        if extent == 1:
            return Expr()
        if type_ in BUILTIN:
            return var(Var(BUILTIN[type_], extent))
        if type_ is ParallelType.MMA:
            return var(Var(f"{MMA}{position}", extent))
        return var(Var(LANE, extent)) if type_ is ParallelType.VECTORIZE else Expr()

    def standing(self, t: TensorView, position: int) -> Expr:
        """Where an axis of a tensor stands for those who read it: of groups that take turns, each at its own index."""
        number = self.group[t.name][position]
        if number in self.in_turns and t.types[position].is_thread:
            return self.beside[number]
        return self.variable(t, position)

    def loop_index(self, t: TensorView) -> dict[IterDomain, Expr]:
        return {axis: self.variable(t, i) for i, axis in enumerate(t.loop)}

    def grid(self) -> tuple[int, int, int]:
        """Blocks; those of a cluster are neighbours in x."""
        x, y, z = (self.dims.get(p, 1) for p in (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ))
        return (self.dealt or x) * self.cluster, y, z

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.dims.get(ParallelType.CLUSTER, 1)

    def block(self) -> tuple[int, int, int]:
        x, y, z = (self.dims.get(p, 1) for p in (ParallelType.TIDX, ParallelType.TIDY, ParallelType.TIDZ))
        return x, y, z

    def thread(self) -> Expr:
        """The number of a thread in its block."""
        number, threads = Expr(), 1
        for name, extent in zip(("tx", "ty", "tz"), self.block(), strict=True):
            number, threads = number + var(Var(name, extent)) * threads, threads * extent
        return number


@remembered(1 << 12)
def _loop_variable(number: int, extent: int) -> Expr:
    return var(Var(f"k{number}", extent))


def infer_loop_nest(sf: ScheduledFusion, graph: IdGraph) -> LoopNest:
    """The loops of a scheduled fusion whose axes have the types of their loops; `graph` is of the same fusion.

    A loop statement carries a serial or unrolled axis, and a broadcast one where that is one with an axis of elements:
    all that share the loop stand in it. Raises Unsupported where a reduction would be folded again in every turn of a
    loop that it does not vary along, and where inlining asks for one loop in two places.
    """
    loops = loop_map(sf)
    runs_as = {name: tuple(groups) for name, groups in promotions(sf, graph).items()}
    varying = _varying(sf, loops)
    numbers: dict[Loop, int] = {}
    group: dict[str, tuple[int | None, ...]] = {}
    extents: dict[str, tuple[int, ...]] = {}
    dims: dict[ParallelType, int] = {}
    for op in sf.ops:
        t = sf.tensor(op.output)
        extents[t.name] = tuple(graph.size(g).value for g in runs_as[t.name])
        entry: list[int | None] = []
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            varies = (t.name, i) in varying
            if type_ in BUILTIN and varies:
                dims[type_] = max(dims.get(type_, 1), extents[t.name][i])
            carried = type_.is_loop and extents[t.name][i] > 1 and varies
            if carried and axis.is_broadcast and i >= compute_position(t) and op.kind in REDUCTIONS:
                raise Unsupported(
                    f"an inlining that folds {t.name} again in the loop of {axis}", "Inline it there too."
                )
            entry.append(numbers.setdefault(loops.loop(t.name, i), len(numbers)) if carried else None)
        group[t.name] = tuple(entry)
    members = loops.shared()
    beside: dict[int, Expr] = {}
    for root, number in numbers.items():
        for name, i in members.get(root, ()):
            type_ = sf.tensor(name).types[i]
            if type_.is_thread and name in extents:
                beside[number] = var(Var(BUILTIN[type_], extents[name][i]))
    in_turns = _in_turns(sf, loops, group)
    paths = _paths(sf, group)
    depths = {t: _depth(sf.tensor(t), group[t], paths[t]) for t in group}
    dealt = max((t.dealt for t in sf.tensors), default=0)
    return LoopNest(group, dims, runs_as, extents, paths, depths, varying, beside, in_turns, dealt)


def _in_turns(sf: ScheduledFusion, loops: LoopMap, group: dict[str, tuple[int | None, ...]]) -> frozenset[int]:
    """Loops that threads have and a ring inside of them goes round in: they stand around what the threads do, too.

    Stages that are slices go from one group to the other in every turn of the ring, and the threads have no such loop.
    """
    found: dict[int, Loop] = {}
    for t in sf.tensors:
        if t.circular is None or t.circular.slice_position is not None or t.name not in group:
            continue
        for i in range(t.compute_at):
            number = group[t.name][i]
            is_around = any(group[t.name][j] is not None for j in range(i + 1, t.compute_at))
            if number is not None and is_around:
                found[number] = loops.loop(t.name, i)
    members = loops.shared()
    taken: set[int] = set()
    for number, root in found.items():
        for name, i in members.get(root, ()):
            if name in group and sf.tensor(name).types[i].is_thread:
                taken.add(number)
                group[name] = (*group[name][:i], number, *group[name][i + 1 :])
    return frozenset(taken)


def _varying(sf: ScheduledFusion, loops: LoopMap) -> frozenset[Loop]:
    """The axes that are no broadcast ones, and those that share a loop with one of them."""
    axes = [(t.name, i, a) for t in sf.tensors for i, a in enumerate(t.loop)]
    found = {loops.loop(name, i) for name, i, a in axes if not a.is_broadcast}
    return frozenset((name, i) for name, i, _ in axes if loops.loop(name, i) in found)


def _paths(sf: ScheduledFusion, group: dict[str, tuple[int | None, ...]]) -> dict[str, tuple[int, ...]]:
    """Loops around each op, outermost first: those of a consumer up to the last that both share, then its own."""
    paths: dict[str, tuple[int, ...]] = {}
    for op in reversed(sf.ops):
        t = sf.tensor(op.output)
        own = [g for g in group[t.name] if g is not None]
        shared = {g for i, g in enumerate(group[t.name]) if g is not None and i < compute_position(t)}
        prefix: tuple[int, ...] = ()
        for user in sf.consumers(t.name):
            around = paths[user.output]
            last = max((k for k, g in enumerate(around) if g in shared), default=-1)
            prefix = max(prefix, around[: last + 1], key=len)
        paths[t.name] = (*prefix, *(g for g in own if g not in prefix))
    _expect_one_place(paths)
    return paths


def _expect_one_place(paths: dict[str, tuple[int, ...]]) -> None:
    """Raises Unsupported where a loop would stand inside different loops."""
    outside: dict[int, tuple[int, ...]] = {}
    for name, path in paths.items():
        for k, g in enumerate(path):
            if outside.setdefault(g, path[:k]) != path[:k]:
                raise Unsupported(f"an inlining that puts a loop of {name} in two places", "Inline it less deeply.")


def _depth(t: TensorView, own: tuple[int | None, ...], path: tuple[int, ...]) -> int:
    """Loops of the path up to the last that lies left of the compute-at position."""
    kept = {g for g in own[: t.compute_at] if g is not None}
    return max((k + 1 for k, g in enumerate(path) if g in kept), default=0)
