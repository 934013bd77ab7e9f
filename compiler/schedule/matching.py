"""Which axes of a producer are axes of its consumer: equal transforms of axes that correspond correspond.

An axis that only the consumer has (a new broadcast axis) is stepped over: a consumer axis merged from it and from an
axis of the producer stands for the latter (nvFuser, inlining: broadcast axes are forwarded).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from compiler.ir.algebra import forward
from compiler.ir.domain import ScheduledFusion, computed_from, logical_correspondence, waiting_for_folds
from compiler.ir.expr import Expr, Var, var
from compiler.ir.form import DomainShape, Form, Reading, form_of
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.ops import REDUCTIONS, OpKind
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.trivial import unchanged


@dataclass(frozen=True, slots=True)
class Matching:
    """The axes of one consumer that are axes of one producer.

    `producer_axis`: by consumer axis. `fresh`: consumer axes that nothing of the producer is in. `equal`: loops of the
    two, the consumer's first, that are one though not made alike.
    """

    producer_axis: dict[IterDomain, IterDomain]
    fresh: frozenset[IterDomain]
    equal: frozenset[tuple[IterDomain, IterDomain]] = frozenset()

    def is_same(self, producer: IterDomain, consumer: IterDomain) -> bool:
        return self.producer_axis.get(consumer) == producer or (consumer, producer) in self.equal


def read_axes(
    op: TensorOp | Reading, producer: TensorView | Form, consumer: TensorView | Form
) -> dict[IterDomain, IterDomain]:
    """Consumer's logical axis -> the producer's that it reads, be it a broadcast one of extent one."""
    elements = tuple(a for a in producer.logical if not a.is_reduction)
    op = _reading(op, producer)
    match op.kind:
        case OpKind.PERMUTE:
            return {consumer.logical[c]: elements[p] for c, p in enumerate(op.dims)}
        case OpKind.BROADCAST_TO:
            return {consumer.logical[d]: p for p, d in zip(elements, op.dims, strict=True)}
        case OpKind.VIEW | OpKind.TAKE | OpKind.RESHAPE | OpKind.SLICE | OpKind.FLIP:
            return {c: p for p, c in logical_correspondence(op, producer, consumer).items()}
        case _:
            return dict(zip(consumer.logical, elements, strict=True))


def match_axes(op: TensorOp | Reading, producer: TensorView | Form, consumer: TensorView | Form) -> Matching:
    """The matching of a producer that `op` reads and the consumer that it makes."""
    return _matched(_reading(op, producer), form_of(producer), form_of(consumer))


def _reading(op: TensorOp | Reading, producer: TensorView | Form) -> Reading:
    """How it reads a producer. A form has no name: then `op` says that already."""
    if isinstance(op, Reading):
        return op
    return (op.read_as(producer.name) if isinstance(producer, TensorView) else op).reading


@remembered(512)
def _matched(op: Reading, producer: Form, consumer: Form) -> Matching:
    same = read_axes(op, producer, consumer)
    fresh = {a for a in consumer.logical if a not in same}
    first, own = before_round_trips(producer), before_round_trips(consumer)
    theirs: dict[tuple[IterDomain, ...], list[IdExpr]] = {}
    for e in producer.exprs:
        inputs = e.inputs
        theirs.setdefault(tuple(first.get(a, a) for a in inputs) if first else inputs, []).append(e)
    windows = {first.get(e.source, e.source): e for e in producer.exprs if isinstance(e, Window)}
    moved = {e.out: e for e in consumer.exprs if isinstance(e, Shift)} if windows else {}
    for e in consumer.exprs:
        if windows and isinstance(e, Split):
            shift = moved.get(e.source)
            window = windows.get(same.get(shift.source if shift is not None else e.source, e.source))
            if window is not None and window.holds(e, shift):
                same[e.outer] = first.get(window.tile, window.tile)
        new = [a in fresh for a in e.inputs] if fresh else [False] * len(e.inputs)
        if own and isinstance(e, Merge) and own.get(e.out) in same:
            same[e.out] = same[own[e.out]]
        elif all(new):
            fresh.update(e.outputs)
        elif isinstance(e, Merge) and any(new):
            kept = e.inner if new[0] else e.outer
            if kept in same:
                same[e.out] = same[kept]
        elif all(a in same for a in e.inputs):
            for other in theirs.get(tuple(same[a] for a in e.inputs), ()):
                if is_alike(e, other) and _rows_agree(e, other, same):
                    same.update((a, first.get(b, b)) for a, b in zip(e.outputs, other.outputs, strict=True))
    if first:
        last = {source: out for out, source in first.items()}
        same = {c: last.get(p, p) for c, p in same.items()}
    return Matching(same, frozenset(fresh))


def before_round_trips(t: TensorView | Form) -> dict[IterDomain, IterDomain]:
    """What a split into an axis and extent one, and the merge of the two, made of an axis -> that axis."""
    return _before_round_trips(form_of(t))


@remembered(256)
def _before_round_trips(t: Form) -> dict[IterDomain, IterDomain]:
    first: dict[IterDomain, IterDomain] = {}
    cut: dict[frozenset[IterDomain], IterDomain] = {}
    for e in t.exprs:
        if isinstance(e, Split) and unchanged(e) is not None:
            cut[frozenset(e.outputs)] = first.get(e.source, e.source)
        elif isinstance(e, Merge) and frozenset(e.inputs) in cut:
            first[e.out] = cut[frozenset(e.inputs)]
    return first


def is_alike(a: IdExpr, b: IdExpr) -> bool:
    """Equal transforms, whatever they are applied to."""
    match a, b:
        case Split(), Split():
            if a.source.size is b.source.size and a.outer.size is b.outer.size and a.inner.size is b.inner.size:
                return True
            return not split_factors(a).isdisjoint(split_factors(b))
        case Resize(), Resize():
            return (a.left, a.right) == (b.left, b.right)
        case (Merge(), Merge()) | (Swizzle(), Swizzle()):
            return True
        case Shift(), Shift():
            return (a.factors, a.modulus, a.start) == (b.factors, b.modulus, b.start)
        case Window(), Window():
            return (a.step, a.size, a.before) == (b.step, b.size, b.before)
        case _:
            return False


def _rows_agree(consumer: IdExpr, producer: IdExpr, same: dict[IterDomain, IterDomain]) -> bool:
    """True unless two shifts take their phases from rows that are not each other's."""
    if not isinstance(consumer, Shift) or not isinstance(producer, Shift):
        return True
    return all(same.get(c) == p for c, p in zip(consumer.by, producer.by, strict=True))


def split_factors(e: Split) -> frozenset[tuple[bool, Size]]:
    """The factors that may have been given, each with whether it was the inner one.

    A split of a broadcast axis of extent one equals one of a longer axis if the factors are equal, not the extents.
    """
    return _factors(e.source.size, e.outer.size, e.inner.size)


@remembered(512)
def _factors(source: Size, outer: Size, inner: Size) -> frozenset[tuple[bool, Size]]:
    given = []
    if source.ceil_div(inner) == outer:
        given.append((True, inner))
    if source.ceil_div(outer) == inner:
        given.append((False, outer))
    return frozenset(given)


def match_indices(op: TensorOp | Reading, producer: TensorView | Form, consumer: TensorView | Form) -> Matching:
    """The matching by what the loops do: a loop of the producer is one of the consumer's where both give the same
    index for every element, and are equally long, however they were made (nvFuser, theory of IterDomains: Theorem 2.1).
    """
    return _matched_by_index(_reading(op, producer), form_of(producer), form_of(consumer))


@remembered(512)
def _matched_by_index(op: Reading, producer: Form, consumer: Form) -> Matching:
    m = _matched(op, producer, consumer)
    if any(a.symbolic is not None for t in (producer, consumer) for a in (*t.logical, *t.loop)):
        return m
    place = {c: var(Var(c.name, c.extent)) for c in consumer.logical}
    read = {p: place[c] if p.extent == c.extent else Expr() for c, p in read_axes(op, producer, consumer).items()}
    own = {a: read[a] if a in read else var(Var(a.name, a.extent)) for a in producer.logical}
    theirs, mine = forward(own, producer.exprs), forward(place, consumer.exprs)
    equal = {(c, p) for c in consumer.loop for p in producer.loop if c.extent == p.extent and mine[c] == theirs[p]}
    return Matching(m.producer_axis, m.fresh, frozenset(equal))


def matched_positions(op: TensorOp, producer: TensorView, consumer: TensorView) -> tuple[int, ...]:
    """`positions_in` the matching of a producer that `op` reads and the consumer that it makes."""
    return _positions(_reading(op, producer), producer.shape, consumer.shape)


@remembered(2048)
def _positions(op: Reading, producer: DomainShape, consumer: DomainShape) -> tuple[int, ...]:
    first, second = producer.producer, consumer.consumer
    return positions_in(_matched(op, first, second), first, second)


def matched_positions_by_index(op: TensorOp, producer: TensorView, consumer: TensorView) -> tuple[int, ...]:
    """The same of the matching by what the loops do."""
    return _positions_by_index(_reading(op, producer), producer.shape, consumer.shape)


@remembered(2048)
def _positions_by_index(op: Reading, producer: DomainShape, consumer: DomainShape) -> tuple[int, ...]:
    first, second = producer.producer, consumer.consumer
    return positions_in(_matched_by_index(op, first, second), first, second)


def positions_in(m: Matching, producer: TensorView | Form, consumer: TensorView | Form) -> tuple[int, ...]:
    """For k = 0, 1, ...: how many of the consumer's first loops the producer's first k are, as far as they agree.

    Reduction axes of the producer and fresh axes of the consumer are no loops of the other.
    """
    found = [0]
    at = 0
    for axis in producer.loop:
        if not axis.is_reduction:
            while at < len(consumer.loop) and consumer.loop[at] in m.fresh:
                at += 1
            if at == len(consumer.loop) or not m.is_same(axis, consumer.loop[at]):
                break
            at += 1
        found.append(at)
    return tuple(found)


def aligned_position(m: Matching, producer: TensorView, consumer: TensorView, position: int) -> int:
    """The end of the consumer's last loop that is one of the producer's first `position`."""
    shared = producer.loop[:position]
    return max((i + 1 for i, c in enumerate(consumer.loop) if any(m.is_same(p, c) for p in shared)), default=0)


_Stand = tuple[IterDomain, IterDomain]
"""An axis and the one that it stands for: itself, or what a broadcast axis becomes further on."""


def unmappable_axes(sf: ScheduledFusion) -> frozenset[IterDomain]:
    """Logical axes that no loop of all consumers can be (nvFuser, inlining): it would hold both a sum over them and a
    use of its result, or they are broadcast axes that become different axes in different consumers.

    Axes are joined from the last operator to the first, a broadcast axis once for each that it becomes; one that would
    join a sum's axis with an axis of what is computed from that sum stays apart from all of its consumers'.
    """
    found = sf.facts.get(unmappable_axes)
    if found is None:
        found = sf.facts[unmappable_axes] = _unmappable(sf.ops, sf.logicals)
    known: frozenset[IterDomain] = found
    return known


@remembered(64)
def _unmappable(
    ops: tuple[TensorOp, ...], tensors: tuple[tuple[str, tuple[IterDomain, ...]], ...]
) -> frozenset[IterDomain]:
    summed = {op.output for op in ops if op.kind in REDUCTIONS}
    if not summed and not any(a.is_broadcast for _, logical in tensors for a in logical):
        return frozenset()
    after = {name: computed_from(waiting_for_folds(ops), name) for name in summed}
    uses = _Uses({name: Form(logical, (), (), None) for name, logical in tensors}, ops)
    becomes: dict[IterDomain, tuple[IterDomain, ...]] = {}
    group: dict[_Stand, set[tuple[str, _Stand]]] = {}
    apart: list[tuple[_Stand, _Stand]] = []
    found: set[IterDomain] = set()
    for name in reversed(uses.in_order()):
        read = _stands(uses, name, becomes)
        for own, users in read.items():
            group[own] = {(name, own)}
            joined = set[tuple[str, _Stand]]().union(*(group[c] for c in users))
            sums = {one for one, (a, _) in joined if a.is_reduction}
            stands = {stand for _, stand in joined}
            clash = any(one in after[s] for s in sums for one, _ in joined)
            if clash or any(x in stands and y in stands for x, y in apart):
                found.add(own[0])
                pairs = ((x, y) for i, x in enumerate(users) for y in users[i + 1 :])
                apart += [(x, y) for x, y in pairs if group[x] is not group[y]]
                continue
            joined |= group[own]
            for _, stand in joined:
                group[stand] = joined
    for p, ends in becomes.items():
        # Axes of size one are alike, whichever they are: their loop has one turn.
        real = [end for end in ends if not (end.is_broadcast or end.is_trivial)]
        if any(group[end, end] is not group[real[0], real[0]] for end in real):
            found.add(p)
    return frozenset(found)


@dataclass(frozen=True)
class _Uses:
    """Tensors by name, as far as operators know them, and the operators."""

    tensors: dict[str, Form]
    ops: tuple[TensorOp, ...]

    def in_order(self) -> list[str]:
        """Names, each after those that the tensor is computed from."""
        made = {op.output: None for op in self.ops}
        return [*(name for name in self.tensors if name not in made), *made]

    @cached_property
    def readers(self) -> dict[str, list[TensorOp]]:
        """By tensor: the operators that read it, each once."""
        found: dict[str, list[TensorOp]] = {}
        for op in self.ops:
            for name in dict.fromkeys(op.tensor_inputs):
                found.setdefault(name, []).append(op)
        return found


def _stands(uses: _Uses, name: str, becomes: dict[IterDomain, tuple[IterDomain, ...]]) -> dict[_Stand, list[_Stand]]:
    """The axes of a tensor, for each that they become, and the consumers' axes that become the same. Adds what the
    axes of the tensor become to that of its consumers."""
    read: dict[_Stand, list[_Stand]] = {}
    t = uses.tensors[name]
    for op in uses.readers.get(name, ()):
        for c, p in read_axes(op.read_as(name), t, uses.tensors[op.output]).items():
            for end in becomes[c]:
                read.setdefault((p, end if p.is_broadcast else p), []).append((c, end))
    for a in t.logical:
        own = tuple(end for p, end in read if p == a) or (a,)
        becomes[a] = own
        read.setdefault((a, own[0]), [])
    return read
