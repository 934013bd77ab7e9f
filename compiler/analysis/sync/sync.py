"""Who writes what others read: which tensors pass values between threads or blocks, and which barrier that takes.

A thread that reads what it wrote itself needs no barrier. It does where the loop on a parallel type is the same in the
producer and in the consumer; otherwise the value must lie where the other threads, or blocks, can reach it (nvFuser,
parallel types).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.analysis.id.graph import Group, IdGraph
from compiler.analysis.loops.axes import aligned_positions
from compiler.ir.domain import ScheduledFusion, kept, logical_correspondence
from compiler.ir.form import DomainShape, Form, Reading, form_of, shape_of
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS, OpKind
from compiler.ir.remembered import remembered
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.inline import compute_position
from compiler.schedule.matching import match_axes

Types = frozenset[ParallelType]


@dataclass(frozen=True, slots=True)
class SyncNeed:
    """`consumer` reads elements of `producer` that other threads or blocks wrote: the parallel types across which they
    pass."""

    producer: str
    consumer: str
    threads: tuple[ParallelType, ...]
    blocks: tuple[ParallelType, ...]


@dataclass(frozen=True, slots=True)
class Limited:
    """`tensor` is computed on parallel types on which only one thread or block has what it reads: a sum across them
    leaves its result in one place (nvFuser, thread predicates)."""

    tensor: str
    types: tuple[ParallelType, ...]


@dataclass(frozen=True)
class SyncNeeds:
    """Every need of a scheduled fusion, in the order of its operators, and every value read where it is not."""

    needs: tuple[SyncNeed, ...]
    misread: tuple[Limited, ...]


def sync_of(sf: ScheduledFusion, graph: IdGraph) -> SyncNeeds:
    """The needs of a scheduled fusion whose axes have the types of their loops."""
    expanded = expanded_broadcasts(sf)
    held = _held_in_one_place(sf, expanded)
    runs_as = promotions(sf, graph)
    needs: list[SyncNeed] = []
    misread: list[Limited] = []
    for op in sf.ops:
        consumer = sf.tensor(op.output)
        lacking = held[consumer.name] - _spread_types(sf, consumer, held, expanded)
        if bad := _in_order(lacking & _typed(consumer, expanded)):
            misread.append(Limited(consumer.name, bad))
        for name in dict.fromkeys(op.tensor_inputs):
            if name in sf.inputs:
                continue
            producer = sf.tensor(name)
            passed = _passed(runs_as, op, producer, consumer, _spread_types(sf, producer, held, expanded))
            if types := _in_order(passed | _written_once(sf, producer)):
                threads = tuple(p for p in types if p.is_thread)
                needs.append(SyncNeed(name, consumer.name, threads, tuple(p for p in types if p.is_block)))
    return SyncNeeds(tuple(needs), tuple(misread))


@kept
def expanded_broadcasts(sf: ScheduledFusion) -> frozenset[IterDomain]:
    """Broadcast axes, logical or of the loop, that stand beside an axis with elements in some later tensor."""
    return _expanded(sf.ops, sf.forms)


@remembered(16)
def _expanded(ops: tuple[TensorOp, ...], forms: tuple[tuple[str, Form], ...]) -> frozenset[IterDomain]:
    found: set[IterDomain] = set()
    tensors = dict(forms)
    for op in reversed(ops):
        for name in op.tensor_inputs:
            for p, c in logical_correspondence(op.read_as(name), tensors[name], tensors[op.output]).items():
                if p.is_broadcast and (not c.is_broadcast or c in found):
                    found.add(p)
    for t in tensors.values():
        for e in t.exprs:
            if any(a in found for a in e.inputs):
                found |= {a for a in e.outputs if a.is_broadcast}
    return frozenset(found)


def _typed(t: TensorView, expanded: frozenset[IterDomain]) -> Types:
    """Block and thread dimensions that the tensor is computed on; a broadcast axis counts if it is expanded later."""
    pairs = zip(t.loop, t.types, strict=True)
    return frozenset(p for a, p in pairs if (p.is_block or p.is_thread) and (not a.is_broadcast or a in expanded))


def _held_in_one_place(sf: ScheduledFusion, expanded: frozenset[IterDomain]) -> dict[str, Types]:
    """By tensor: dimensions on which only one thread or block holds what the tensor is computed from. The product that
    blocks of a cluster sum is in all of them, or each block's slice in its own (`loops.cluster_sum`)."""
    held: dict[str, Types] = {name: frozenset() for name in sf.inputs}
    products = {op.output for op in sf.ops if op.kind in CONTRACTIONS}
    for op in sf.ops:
        out = sf.tensor(op.output)
        types: set[ParallelType] = set()
        for name in op.tensor_inputs:
            t = sf.tensor(name)
            axes = list(zip(t.loop, t.types, strict=True))
            left = held[name] - {p for a, p in axes if a.is_broadcast and a in expanded}
            if t.memory in (MemoryType.SHARED, MemoryType.GLOBAL):
                # A barrier makes the value visible to all who can reach that memory.
                left -= {p for p in out.types if p.is_thread or t.memory is MemoryType.GLOBAL}
            types |= left
            if name not in sf.inputs:
                folded = {p for a, p in axes if a.is_reduction and (p.is_thread or p.is_block)}
                types |= folded - ({ParallelType.CLUSTER} if name in products else set())
        held[op.output] = frozenset(types)
    return held


def _spread_types(sf: ScheduledFusion, t: TensorView, held: dict[str, Types], expanded: frozenset[IterDomain]) -> Types:
    """Dimensions across which the op that makes `t` spreads a value held in one place: those of its new axes."""
    made = sf.producer(t.name)
    if made is None or made.kind is not OpKind.BROADCAST_TO:
        return frozenset()
    new = {p for a, p in zip(t.loop, t.types, strict=True) if a.is_broadcast and a in expanded}
    return frozenset(p for p in held[t.name] & new if p.is_block or t.memory is not MemoryType.SHARED)


def _passed(
    runs_as: dict[str, list[Group]], op: TensorOp, producer: TensorView, consumer: TensorView, spread: Types
) -> set[ParallelType]:
    """Types across which elements of the producer reach other threads or blocks of the consumer."""
    passed: set[ParallelType] = set()
    for i, (axis, type_) in enumerate(zip(producer.loop, producer.types, strict=True)):
        if not (type_.is_block or type_.is_thread) or axis.is_reduction:
            continue
        if axis.is_broadcast and type_ not in spread:
            continue
        j = next((j for j, p in enumerate(consumer.types) if p is type_), None)
        if j is None:
            passed.add(type_)
        elif runs_as[producer.name][i] == runs_as[consumer.name][j] or (
            axis.is_trivial and consumer.loop[j].is_trivial
        ):
            continue
        elif not axis.is_broadcast or not match_axes(op, producer, consumer).is_same(axis, consumer.loop[j]):
            passed.add(type_)
    return passed


@dataclass(frozen=True, slots=True)
class _Shared:
    """The loops that one tensor shares with one that reads it: position in the one, position in the other."""

    op: TensorOp
    producer: TensorView
    consumer: TensorView
    loops: dict[int, int]


@kept
def promotions(sf: ScheduledFusion, graph: IdGraph) -> dict[str, list[Group]]:
    """For every loop axis of every tensor the axis that it really runs as (nvFuser, loop promotion).

    A loop shared with a consumer runs as the consumer's, or as the widest of those that share it: the one that has the
    most logical axes with elements in it. That may make it another axis, because a broadcast axis was merged into it:
    then all axes that come of the same ones run as that tensor's too.
    """
    found: dict[str, list[Group]] = {t.name: list(graph.groups(t.loop)) for t in sf.tensors}
    shared = list(_shared_loops(sf))
    for s in reversed(shared):
        own, theirs = found[s.producer.name], found[s.consumer.name]
        if taken := [i for i, j in s.loops.items() if own[i] != theirs[j]]:
            _run_as(s, own, theirs, taken, is_up=True)
    width = _widths(graph, sf.forms)
    for _ in shared:
        changed = False
        for s in (*shared, *reversed(shared)):
            own, theirs = found[s.producer.name], found[s.consumer.name]
            if wider := [j for i, j in s.loops.items() if width[own[i]] > width[theirs[j]]]:
                _run_as(s, theirs, own, wider, is_up=False)
                changed = True
            if wider := [i for i, j in s.loops.items() if width[own[i]] < width[theirs[j]]]:
                _run_as(s, own, theirs, wider, is_up=True)
                changed = True
        if not changed:
            break
    return found


def _shared_loops(sf: ScheduledFusion) -> Iterator[_Shared]:
    for op in sf.ops:
        consumer = sf.tensor(op.output)
        for name in op.tensor_inputs:
            t = sf.tensor(name)
            if name not in sf.inputs and compute_position(t):
                yield _Shared(op, t, consumer, dict(aligned_positions(op, t, consumer)))


@remembered(16)
def _widths(graph: IdGraph, forms: tuple[tuple[str, Form], ...]) -> dict[Group, int]:
    """How many logical axes with elements lead to each axis of a loop domain."""
    found: dict[Group, int] = {}
    for _, t in forms:
        logical = [None if a.is_broadcast else graph.group(a) for a in t.logical]
        for sources, group in zip(_sources_of_loops(shape_of(t)), graph.groups(t.loop), strict=True):
            real = {logical[d] for d in sources} - {None}
            found[group] = max(found.get(group, 0), len(real))
    return found


@remembered(1024)
def _sources_of_loops(t: DomainShape) -> tuple[tuple[int, ...], ...]:
    """Positions of the logical axes that each loop comes from."""
    sources, place = logical_sources(t.producer), {a: d for d, a in enumerate(t.producer.logical)}
    return tuple(tuple(place[a] for a in sources[loop] if a in place) for loop in t.producer.loop)


def _run_as(s: _Shared, mine: list[Group], others: list[Group], taken: list[int], is_up: bool) -> None:
    """Makes `mine` run as `others` at the loops `taken`, and so do the axes beside them that come from the same ones.

    `is_up`: `mine` are the producer's, else the consumer's.
    """
    reading = s.op.read_as(s.producer.name).reading
    loops = tuple(s.loops.items())
    for i, j in _runs_as(reading, s.producer.shape, s.consumer.shape, loops, tuple(taken), is_up):
        mine[i] = others[j] if j >= 0 else mine[i]


@remembered(1024)
def _runs_as(
    op: Reading,
    first: DomainShape,
    second: DomainShape,
    loops: tuple[tuple[int, int], ...],
    taken: tuple[int, ...],
    is_up: bool,
) -> tuple[tuple[int, int], ...]:
    """The loops of the one that run as loops of the other, those at `taken` and beside them; -1: as themselves."""
    producer, consumer = first.producer, second.consumer
    t, other = (producer, consumer) if is_up else (consumer, producer)
    all_loops = dict(loops) if is_up else {j: i for i, j in loops}
    shared = {i: all_loops[i] for i in taken}
    matching = match_axes(op, producer, consumer)
    sources = logical_sources(t)
    origin = frozenset[IterDomain]().union(*(sources[t.loop[i]] for i in taken))
    for i, axis in enumerate(t.loop):
        if i not in all_loops and sources[axis] & origin:
            pairs = ((axis, b) if is_up else (b, axis) for b in other.loop)
            same = (j for j, (p, c) in enumerate(pairs) if matching.is_same(p, c))
            shared[i] = next(same, -1)
    return tuple(shared.items())


def logical_sources(t: TensorView | Form) -> dict[IterDomain, frozenset[IterDomain]]:
    """The logical axes that each axis comes from."""
    return _sources(form_of(t))


@remembered(256)
def _sources(t: Form) -> dict[IterDomain, frozenset[IterDomain]]:
    found = {a: frozenset((a,)) for a in t.logical}
    for e in t.exprs:
        above = frozenset[IterDomain]().union(*(found.get(a, frozenset()) for a in e.inputs))
        found.update((a, found.get(a, frozenset()) | above) for a in e.outputs)
    return {a: found.get(a, frozenset()) for a in (*found, *t.loop)}


def _written_once(sf: ScheduledFusion, t: TensorView) -> set[ParallelType]:
    """Thread dimensions of the kernel of which one thread alone writes a shared tensor, for all to read."""
    if t.memory is not MemoryType.SHARED:
        return set()
    own = {p for a, p in zip(t.loop, t.types, strict=True) if not a.is_broadcast}
    used = {p for other in sf.tensors for a, p in zip(other.loop, other.types, strict=True) if a.extent > 1}
    return {p for p in used - own if p.is_thread}


def _in_order(types: Iterable[ParallelType]) -> tuple[ParallelType, ...]:
    chosen = set(types)
    return tuple(p for p in ParallelType if p in chosen)
