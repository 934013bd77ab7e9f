"""The loop nest of an explicit schedule: loops shared through broadcasts, out of order and with other loops between.

Schedulers write loops that correspond position by position (`loop_nest`). Explicit schedules need not: a tensor inlined
below a broadcast shares its consumer's wider loop and runs as that one (nvFuser, loop promotion), and stands inside the
consumer's loops that it has no part in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.loops.axes import Loop, loop_map
from compiler.analysis.loops.loop_nest import BUILTIN, LANE, LoopNest
from compiler.analysis.sync.sync import promotions
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView
from compiler.schedule.inline import compute_position


@dataclass(frozen=True)
class PromotedNest(LoopNest):
    """`runs_as`: for each tensor the group that each of its loops runs as, `extents` its extent; `paths`: the loops
    around the op that makes a tensor, its consumers' among them; `depths`: how many of them are shared with consumers;
    `shared`: axes that share a loop; `groups`: loops that other tensors have on threads, and their index there.
    """

    runs_as: dict[str, tuple[Group, ...]] = field(default_factory=dict)
    extents: dict[str, tuple[int, ...]] = field(default_factory=dict)
    paths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)
    shared: frozenset[Loop] = frozenset()
    groups: dict[int, Expr] = field(default_factory=dict)

    @property
    def beside(self) -> dict[int, Expr]:
        return self.groups

    def path(self, t: TensorView) -> tuple[int, ...]:
        return self.paths[t.name]

    def depth(self, t: TensorView) -> int:
        return self.depths[t.name]

    def extent(self, t: TensorView, position: int) -> int:
        return self.extents[t.name][position]

    def extent_on(self, t: TensorView, type_: ParallelType) -> int | None:
        pairs = enumerate(zip(t.loop, t.types, strict=True))
        found = (i for i, (a, p) in pairs if p is type_ and (not a.is_broadcast or (t.name, i) in self.shared))
        return next((self.extent(t, i) for i in found), None)

    def variable(self, t: TensorView, position: int) -> Expr:
        extent = self.extents[t.name][position]
        group, type_ = self.group[t.name][position], t.types[position]
        if group is not None:
            return var(Var(f"k{group}", extent))
        if extent == 1:
            return Expr()
        if type_ in BUILTIN:
            return var(Var(BUILTIN[type_], extent))
        return var(Var(LANE, extent)) if type_ is ParallelType.VECTORIZE else Expr()


def infer_promoted_nest(sf: ScheduledFusion, graph: IdGraph) -> PromotedNest:
    """The loops of a scheduled fusion whose axes have the types of their loops. Raises Unsupported where inlining asks
    for one loop in two places."""
    loops = loop_map(sf)
    runs_as = {name: tuple(groups) for name, groups in promotions(sf, graph).items()}
    numbers: dict[Loop, int] = {}
    group: dict[str, tuple[int | None, ...]] = {}
    extents: dict[str, tuple[int, ...]] = {}
    dims: dict[ParallelType, int] = {}
    for op in sf.ops:
        t = sf.tensor(op.output)
        extents[t.name] = tuple(graph.size(g).value for g in runs_as[t.name])
        entry: list[int | None] = []
        for i, type_ in enumerate(t.types):
            varies = (t.name, i) in loops.roots or not t.loop[i].is_broadcast
            if type_ in BUILTIN and varies:
                dims[type_] = max(dims.get(type_, 1), extents[t.name][i])
            carried = type_.is_loop and extents[t.name][i] > 1 and varies
            entry.append(numbers.setdefault(loops.loop(t.name, i), len(numbers)) if carried else None)
        group[t.name] = tuple(entry)
    members = loops.shared()
    groups: dict[int, Expr] = {}
    for root, number in numbers.items():
        for name, i in members.get(root, ()):
            type_ = sf.tensor(name).types[i]
            if type_.is_thread and name in extents:
                groups[number] = var(Var(BUILTIN[type_], extents[name][i]))
    paths = _paths(sf, loops.roots, group)
    depths = {t: _depth(sf.tensor(t), group[t], paths[t]) for t in group}
    return PromotedNest(group, dims, runs_as, extents, paths, depths, frozenset(loops.roots), groups)


def _paths(
    sf: ScheduledFusion, roots: dict[Loop, Loop], group: dict[str, tuple[int | None, ...]]
) -> dict[str, tuple[int, ...]]:
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
