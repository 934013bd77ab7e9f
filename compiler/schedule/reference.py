"""Gives loops of one tensor, the reference, to others of its fusion (nvFuser, propagation of transforms).

Which axes of a tensor are the reference's follows from the operators between the two, along the chain of them that
keeps most axes; which loops are, from equal transforms of these.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count

from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, Merge, Shift, Split
from compiler.ir.iter_domain import IterDomain, ParallelType
from compiler.ir.remembered import Memo
from compiler.ir.tensor import TensorView, changed
from compiler.schedule import steps
from compiler.schedule.inline import compute_position, producer_position
from compiler.schedule.matching import is_alike, read_axes
from compiler.schedule.propagate import Apply, edges_from, step_like

Axes = Mapping[IterDomain, IterDomain]
"""Axes of the reference -> axes of another tensor that they are."""


def logical_axes(sf: ScheduledFusion, reference: str) -> Mapping[str, Axes]:
    """Of every tensor that operators connect with the reference: the logical axes that are the reference's.

    Tensors are settled in the order of how many axes they share with it, as a widest path is found (nvFuser,
    MaxInfoSpanningTree). Over an input no axis of extent one is shared: two reads may take it for different axes.
    """
    found = sf.facts.get((logical_axes, reference))
    if found is None:
        key = sf.ops, sf.logicals, sf.inputs, reference
        found = _LOGICAL.get(key) or _LOGICAL.keep(key, _logical_axes(sf, reference))
        sf.facts[logical_axes, reference] = found
    known: Mapping[str, Axes] = found
    return known


_LOGICAL: Memo[Hashable, Mapping[str, Axes]] = Memo(64)
_LOOPS: Memo[Hashable, TensorView] = Memo(2048)
_TYPES: Memo[Hashable, list[steps.Parallelize]] = Memo(2048)


def _logical_axes(sf: ScheduledFusion, reference: str) -> Mapping[str, Axes]:
    found: dict[str, Axes] = {}
    waiting: list[tuple[int, int, str, int, Axes]] = [
        (0, 0, reference, 0, {a: a for a in sf.tensor(reference).logical})
    ]
    numbers = count(1)
    while waiting:
        _, _, name, _, axes = heappop(waiting)
        if name in found:
            continue
        found[name] = axes
        for edge in edges_from(sf, name):
            if edge.target not in found:
                read = read_axes(edge.op, *edge.ends(sf))
                leads = read if edge.upwards else {p: c for c, p in read.items()}
                shared = {a: leads[b] for a, b in axes.items() if b in leads}
                if edge.target in sf.inputs:
                    shared = {a: b for a, b in shared.items() if not b.is_trivial}
                heappush(waiting, (-len(shared), len(found) + len(waiting), edge.target, next(numbers), shared))
    return found


def reached(sf: ScheduledFusion, reference: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the tensors whose every logical axis is one of the reference's."""
    axes = logical_axes(sf, reference)
    return tuple(n for n in names if set(axes.get(n, {}).values()).issuperset(sf.tensor(n).logical))


def propagated(sf: ScheduledFusion, reference: str, names: Iterable[str], apply: Apply) -> ScheduledFusion:
    """The fusion in which the tensors have the reference's transforms, and their loops its order.

    What is done to one tensor, rules and all, is not asked again of those that only their name tells from it.
    """
    logical, source = logical_axes(sf, reference), sf.tensor(reference)
    twins = []
    for name in names:
        t = sf.tensor(name)
        key = (*_likeness(source, t, logical[name]), t.memory, compute_position(t), producer_position(sf, t))
        if (done := _LOOPS.get(key)) is not None:
            twins.append(_renamed(done, t))
        else:
            sf = _with_loops_of(sf, source, name, logical[name], apply)
            _LOOPS.keep(key, sf.tensor(name))
    return sf.with_tensors(twins)


def propagated_steps(sf: ScheduledFusion, step: steps.Propagate, name: str, apply: Apply) -> list[steps.Step]:
    """What a propagation does to one of its tensors, as steps on that tensor alone."""
    taken: list[steps.Step] = []

    def note(at: ScheduledFusion, one: steps.Step) -> ScheduledFusion:
        taken.append(one)
        return apply(at, one)

    _with_loops_of(sf, sf.tensor(step.tv), name, logical_axes(sf, step.tv)[name], note)
    return taken


def _likeness(source: TensorView, t: TensorView, logical: Axes) -> tuple[Hashable, ...]:
    """Equal for tensors that only their name tells apart, and whose axes are the same of references made alike."""
    places = {a: i for i, a in enumerate(t.logical)}
    shared = tuple(places.get(logical[a]) if a in logical else None for a in source.logical)
    own = None if t.allocation is None or t.allocation.is_source else t.allocation
    return source.shape, t.shape, t.types, shared, own


def _renamed(like: TensorView, t: TensorView) -> TensorView:
    """The tensor with the loops of another, whose shape it had, and that one's numbers in the names of its axes."""
    exprs = tuple([e.shape.of(t.name) for e in like.exprs])
    loop = tuple([a.shape.of(t.name) for a in like.loop])
    return changed(t, loop=loop, exprs=exprs, types=like.types)


def _with_loops_of(sf: ScheduledFusion, source: TensorView, name: str, logical: Axes, apply: Apply) -> ScheduledFusion:
    known = _Known(sf.tensor(name))
    axes = known.first(logical)
    for e in _lasting(source, axes):
        places = [axes[a] for a in _needed(e)]
        made = known.like(e, places)
        if made is None:
            loop = sf.tensor(name).loop
            if not all(a in loop for a in places):
                continue
            sf = apply(sf, step_like(name, e, [loop.index(a) for a in places]))
            made = sf.tensor(name).exprs[-1]
        axes.update((a, known.now(b)) for a, b in zip(e.outputs, made.outputs, strict=True))
    place = {a: i for i, a in enumerate(sf.tensor(name).loop)}
    order = [place[axes[a]] for a in source.loop if axes.get(a) in place]
    if order == list(range(len(order))):
        return sf
    return apply(sf, steps.Reorder(name, tuple((old, new) for new, old in enumerate(order))))


def types_like(sf: ScheduledFusion, reference: str, names: Iterable[str]) -> list[steps.Parallelize]:
    """The steps that give the tensors' loops the types of the reference's that they are."""
    logical, source = logical_axes(sf, reference), sf.tensor(reference)
    taken: list[steps.Parallelize] = []
    for name in names:
        t = sf.tensor(name)
        key = (*_likeness(source, t, logical[name]), source.types)
        done = _TYPES.get(key)
        if done is None:
            done = _TYPES.keep(key, _types_of(source, t, logical[name]))
        taken += [steps.Parallelize(name, step.axis, step.type) for step in done]
    return taken


def _types_of(source: TensorView, t: TensorView, logical: Axes) -> list[steps.Parallelize]:
    known = _Known(t)
    axes = known.first(logical)
    for e in _lasting(source, axes):
        made = known.like(e, [axes[a] for a in _needed(e)])
        if made is not None:
            axes.update((a, known.now(b)) for a, b in zip(e.outputs, made.outputs, strict=True))
    place = {a: i for i, a in enumerate(t.loop)}
    pairs = ((place.get(axes.get(a, a)), type_) for a, type_ in zip(source.loop, source.types, strict=True))
    return [steps.Parallelize(t.name, i, type_) for i, type_ in pairs if i is not None and t.types[i] is not type_]


def parallelized(sf: ScheduledFusion, taken: list[steps.Parallelize]) -> ScheduledFusion:
    """The fusion with the types of these steps."""
    types: dict[str, list[ParallelType]] = {}
    for step in taken:
        types.setdefault(step.tv, list(sf.tensor(step.tv).types))[step.axis] = step.type
    return sf.with_tensors(changed(sf.tensor(name), types=tuple(found)) for name, found in types.items())


def _lasting(source: TensorView, axes: dict[IterDomain, IterDomain]) -> Iterator[IdExpr]:
    """The transforms of a reference, in order, of axes that stand in `axes` by then. What a merge undoes is left out,
    and the axis that it brings back added."""
    first = _round_trips(source)
    undone = {a for e in source.exprs if e.outputs[-1] in first for a in e.inputs}
    for e in source.exprs:
        if e.outputs[-1] in first:
            if first[e.outputs[-1]] in axes:
                axes[e.outputs[-1]] = axes[first[e.outputs[-1]]]
        elif e.outputs[-1] not in undone and all(a in axes for a in _needed(e)):
            yield e


def _round_trips(t: TensorView) -> dict[IterDomain, IterDomain]:
    """What the merge of an axis' whole parts made of them -> that axis."""
    cut: dict[tuple[IterDomain, ...], IterDomain] = {}
    found: dict[IterDomain, IterDomain] = {}
    for e in t.exprs:
        if isinstance(e, Split) and e.outer.extent * e.inner.extent == e.source.extent:
            cut[e.outputs] = found.get(e.source, e.source)
        elif isinstance(e, Merge) and e.inputs in cut:
            found[e.out] = cut[e.inputs]
    return found


class _Known:
    """The transforms that a tensor has, by what they are of."""

    def __init__(self, t: TensorView) -> None:
        self._last = {source: out for out, source in _round_trips(t).items()}
        self._by_inputs: dict[tuple[IterDomain, ...], list[IdExpr]] = {}
        for e in t.exprs:
            self._by_inputs.setdefault(_needed(e), []).append(e)

    def first(self, axes: Axes) -> dict[IterDomain, IterDomain]:
        """The same for the axes that stand for the tensor's logical ones since."""
        return {a: self.now(b) for a, b in axes.items()}

    def like(self, e: IdExpr, places: list[IterDomain]) -> IdExpr | None:
        """The transform of these axes that does what `e` does, if there is one."""
        found = self._by_inputs.get(tuple(places))
        return next((own for own in found if is_alike(e, own)), None) if found else None

    def now(self, a: IterDomain) -> IterDomain:
        """The axis that stands for an axis since it was cut and merged again."""
        return self._last.get(a, a)


def _needed(e: IdExpr) -> tuple[IterDomain, ...]:
    return (*e.inputs, *e.by) if isinstance(e, Shift) else e.inputs
