"""Which axes of all tensors are the same: one graph of groups over a scheduled fusion.

Axes that an operator maps one to one are one group, equal transforms of equal groups give equal groups (nvFuser, exact
graph), and transforms that change nothing are invisible: a split whose other piece has extent one, a merge with an
axis of extent one (nvFuser, almost-exact graph).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compiler.ir.domain import ScheduledFusion, logical_correspondence
from compiler.ir.form import Form, shape_of
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.trivial import unchanged

MOST_TENSORS = 64
"""The graph of a larger fusion is not kept."""

Group = int
"""A set of axes that are one; groups of one graph are numbered."""


@dataclass(frozen=True, slots=True)
class GroupExpr:
    """A transform between groups; `example` is one of the transforms between their axes. `by`: groups that say by how
    much a shift moves."""

    inputs: tuple[Group, ...]
    outputs: tuple[Group, ...]
    example: IdExpr
    by: tuple[Group, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphStep:
    """A transform walked from its inputs to its outputs (`forward`), or back."""

    expr: GroupExpr
    forward: bool

    @property
    def sources(self) -> tuple[Group, ...]:
        return self.expr.inputs if self.forward else self.expr.outputs

    @property
    def targets(self) -> tuple[Group, ...]:
        return self.expr.outputs if self.forward else self.expr.inputs


@dataclass(eq=False)
class IdGraph:
    """Groups of every axis of a scheduled fusion, and the transforms between them. Built by `id_graph`, then only read.
    Fusions whose axes were made alike have the same one; it equals no other, since the same number is another group
    there.

    `exprs`: each transform once; one stands after those that make its inputs.
    """

    exprs: tuple[GroupExpr, ...] = ()
    _parent: list[Group] = field(default_factory=list)
    _of: dict[IterDomain, Group] = field(default_factory=dict)
    _axis: list[IterDomain] = field(default_factory=list)

    def group(self, axis: IterDomain) -> Group:
        """The group of an axis of the fusion."""
        parent, at = self._parent, self._of[axis]
        while parent[at] != at:
            at = parent[at]
        return at

    def groups(self, axes: Iterable[IterDomain]) -> tuple[Group, ...]:
        return tuple(map(self.group, axes))

    def axis(self, group: Group) -> IterDomain:
        """One of its axes; a broadcast one only if all are."""
        return self._axis[group]

    def size(self, group: Group) -> Size:
        """Extent of its axes."""
        return self._axis[group].size

    def is_same(self, a: IterDomain, b: IterDomain) -> bool:
        """True where the two are one axis."""
        return self.group(a) == self.group(b)

    def path(self, start: Sequence[Group], goal: Sequence[Group]) -> tuple[tuple[GraphStep, ...], frozenset[Group]]:
        """The transforms that lead from `start` to `goal`, in walking order, and the goals that none reaches.

        A transform is walked once all groups on its near side are reached (breadth first, so by the fewest). An axis of
        extent one counts as reached where nothing else leads on: it stands at 0, and merging leaves no trace of it.
        That is so of pieces first: what was cut into a piece of extent one and a longer one, with holes, goes by the
        longer one.
        """
        came_by: dict[Group, GraphStep | None] = dict.fromkeys(start)
        taken: list[GraphStep] = []
        waiting = self._reach(came_by, taken, self.exprs, goal)
        for ones in (self._pieces_of_one, self._axes_of_one(goal)):
            if all(g in came_by for g in goal):
                break
            for g in ones:
                came_by.setdefault(g, None)
            waiting = self._reach(came_by, taken, waiting, goal)
        needed: list[GraphStep] = []
        wanted = {g for g in goal if g in came_by}
        for step in reversed(taken):
            if any(came_by.get(g) is step and g in wanted for g in step.targets):
                needed.append(step)
                wanted |= {*step.sources, *step.expr.by}
        return tuple(reversed(needed)), frozenset(g for g in goal if g not in came_by)

    @cached_property
    def ones(self) -> tuple[Group, ...]:
        """Groups of the transforms that have extent one at the binding."""
        ends = dict.fromkeys(g for e in self.exprs for g in (*e.inputs, *e.outputs))
        return tuple(g for g in ends if self._axis[g].extent == 1)

    @cached_property
    def _pieces_of_one(self) -> tuple[Group, ...]:
        """Groups of extent one beside another in a split or merge, that are not split or merged alone."""
        sides = [side for e in self.exprs for side in (e.inputs, e.outputs)]
        alone = {side[0] for side in sides if len(side) == 1}
        pairs = dict.fromkeys(g for side in sides if len(side) == 2 for g in side)
        return tuple(g for g in pairs if g not in alone and self._axis[g].is_trivial)

    def _axes_of_one(self, goal: Sequence[Group]) -> tuple[Group, ...]:
        """All groups of extent one of the transforms and the goal."""
        ends = dict.fromkeys(g for e in self.exprs for g in (*e.inputs, *e.outputs))
        return tuple(g for g in (*ends, *goal) if self._axis[g].is_trivial)

    def _reach(
        self,
        came_by: dict[Group, GraphStep | None],
        taken: list[GraphStep],
        exprs: Iterable[GroupExpr],
        goal: Sequence[Group],
    ) -> list[GroupExpr]:
        """Walks what can be walked of `exprs`, until the goals are reached; returns what is left."""
        waiting = list(exprs)
        progress = True
        while progress and not all(g in came_by for g in goal):
            progress = False
            left: list[GroupExpr] = []
            known = set(came_by)
            for e in waiting:
                step = self._step(e, known)
                if step is None:
                    left.append(e)
                    continue
                progress = True
                taken.append(step)
                for g in step.targets:
                    came_by.setdefault(g, step)
            waiting = left
        return waiting

    @staticmethod
    def _step(e: GroupExpr, known: set[Group]) -> GraphStep | None:
        """The direction in which `e` leads on from what is known, if it leads to anything new."""
        for step in (GraphStep(e, forward=False), GraphStep(e, forward=True)):
            if all(g in known for g in (*step.sources, *e.by)) and not all(g in known for g in step.targets):
                return step
        return None

    def add(self, axis: IterDomain) -> Group:
        """The group of an axis that may be new."""
        if axis in self._of:
            return self.group(axis)
        number = self._of[axis] = len(self._parent)
        self._parent.append(number)
        self._axis.append(axis)
        return number

    def know(self, exprs: Iterable[IdExpr], like: Iterable[IdExpr]) -> None:
        """Adds the axes that transforms make as those that the same transforms of the same axes have made."""
        for own, other in zip(exprs, like, strict=True):
            for a, b in zip(own.outputs, other.outputs, strict=True):
                if a in self._of:
                    self.unite(a, b)
                else:
                    self._of[a] = self._of[b]

    def unite(self, a: IterDomain, b: IterDomain) -> None:
        """Makes two axes one group."""
        x, y = self.add(a), self.add(b)
        if x == y:
            return
        keep, drop = (x, y) if x < y else (y, x)
        if self._axis[keep].is_broadcast and not self._axis[drop].is_broadcast:
            self._axis[keep] = self._axis[drop]
        self._parent[drop] = keep


def id_graph(sf: ScheduledFusion) -> IdGraph:
    """The graph of a scheduled fusion."""
    return _built(sf.ops, sf.forms) if len(sf.forms) > MOST_TENSORS else _graph(sf.ops, sf.forms)


def _built(ops: Sequence[TensorOp], forms: tuple[tuple[str, Form], ...]) -> IdGraph:
    g = IdGraph()
    tensors = dict(forms)
    for t in tensors.values():
        for axis in (*t.logical, *(t.allocation.axes if t.allocation is not None and t.allocation.is_source else ())):
            g.add(axis)
    for op in ops:
        for name in op.tensor_inputs:
            for p, c in logical_correspondence(op.read_as(name), tensors[name], tensors[op.output]).items():
                if p.is_broadcast == c.is_broadcast:
                    g.unite(p, c)
    made = _inserted(g, tensors.values())
    if _unite_tiles(g, made.values()):
        made = _inserted(g, tensors.values())  # what was made of tiles that are one is one too
    unique = {(type(e), g.groups(e.inputs), g.groups(e.outputs)): e for e in reversed(made.values())}
    g.exprs = tuple(
        GroupExpr(i, o, e, g.groups(e.by) if isinstance(e, Shift) else ()) for (_, i, o), e in reversed(unique.items())
    )
    return g


_graph = remembered(16)(_built)
"""Steps that only say how loops run leave the graph as it is."""


def transforms_of(t: TensorView | Form) -> tuple[IdExpr, ...]:
    """Every transform of a tensor, of its loop and of its allocation; one stands after those that make its inputs."""
    if t.allocation is None:
        return t.exprs
    own = t.allocation.exprs
    return (*own, *t.exprs) if t.allocation.is_source else (*t.exprs, *own)


def _inserted(g: IdGraph, tensors: Iterable[Form]) -> dict[tuple[object, ...], IdExpr]:
    """Adds all transforms of tensors; returns one of those that are equal, each by its key."""
    made: dict[tuple[object, ...], IdExpr] = {}
    zeros: set[IterDomain] = set()
    cut: dict[tuple[Group, ...], IterDomain] = {}
    first: dict[tuple[object, ...], Form] = {}
    for t in tensors:
        twin = t if t.allocation is not None else first.setdefault((shape_of(t).exprs, g.groups(t.logical)), t)
        if twin is not t:
            g.know(t.exprs, twin.exprs)
            continue
        for e in transforms_of(t):
            if isinstance(e, Merge) and (whole := cut.get(tuple(map(g.add, e.inputs)))) is not None:
                g.unite(whole, e.out)  # it joins again what a split without a rest has cut
                continue
            _insert(g, e, made, zeros)
            if isinstance(e, Split) and e.divides:
                cut[g.groups(e.outputs)] = e.source
    return made


def _unite_tiles(g: IdGraph, exprs: Iterable[IdExpr]) -> bool:
    """Makes the tiles of windows one with the pieces of splits that read them. False where there are none."""
    windows = {g.group(e.source): e for e in exprs if isinstance(e, Window)}
    moved = {g.group(e.out): e for e in exprs if isinstance(e, Shift)} if windows else {}
    for e in exprs if windows else ():
        if isinstance(e, Split):
            shift = moved.get(g.group(e.source))
            window = windows.get(g.group(shift.source if shift is not None else e.source))
            if window is not None and window.holds(e, shift):
                g.unite(e.outer, window.tile)
    return bool(windows)


def _insert(g: IdGraph, e: IdExpr, made: dict[tuple[object, ...], IdExpr], zeros: set[IterDomain]) -> None:
    """Adds a transform: its outputs join those of an equal one, and its input where it changes nothing.

    `zeros`: the axes of extent one that such splits add. Of two axes of extent one that are merged, the other is kept.
    """
    for a in (*e.inputs, *e.outputs):
        g.add(a)
    if (pair := unchanged(e)) is not None:
        before, after = pair
        if isinstance(e, Split):
            zeros.update(a for a in e.outputs if a != after)
        elif isinstance(e, Merge) and before in zeros and e.outer.is_trivial and e.inner.is_trivial:
            before = e.inner
            zeros.update((after,) if before in zeros else ())
        g.unite(before, after)
        return
    twin = made.setdefault(_key(g, e), e)
    for a, b in zip(e.outputs, twin.outputs, strict=True):
        g.unite(a, b)


def _key(g: IdGraph, e: IdExpr) -> tuple[object, ...]:
    """Equal for equal transforms of equal groups."""
    sources = g.groups(e.inputs)
    match e:
        case Split():
            # Unknown extents of one group may have different names, so a split is known by a factor that has none.
            inner, outer = e.inner.size, e.outer.size
            if inner.is_constant or not outer.is_constant:
                return ("split by inner", sources, inner)
            return ("split by outer", sources, outer)
        case Merge():
            return ("merge", sources)
        case Swizzle():
            return ("swizzle", sources)
        case Resize():
            return ("resize", sources, e.left, e.right)
        case Shift():
            for a in e.by:
                g.add(a)
            return ("shift", sources, g.groups(e.by), e.factors, e.modulus, e.start)
        case Window():
            return ("window", sources, e.step, e.size, e.before)
