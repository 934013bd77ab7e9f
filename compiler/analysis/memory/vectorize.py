"""Vector accesses: how wide each one is, where its axis lies in memory, and what must divide it.

The axis that a thread takes as one word is walked from the consumer's loops to the producer's memory. It must stay the
inner piece of everything on the way, so that the elements of a word lie side by side (nvFuser, vectorization).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import mul

from compiler.analysis.id.graph import Group, IdGraph
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr, Merge, Split, Swizzle
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import COPIES
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.trivial import before_trivial, loop_of, unchanged


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """A copy that moves words: `output` is made from `source` along the loop axis `axis`, `bits` at a time.

    `reached`: the axis of the source's memory that the walk ends in, None where the axis is no inner piece of one;
    `innermost`: the last axis of the source's memory, None where it has none; `is_contiguous`: its elements lie side by
    side, or a word is no more than what one element is stored in.
    """

    output: str
    source: str
    position: int
    axis: IterDomain
    bits: int
    reached: IterDomain | None
    innermost: IterDomain | None
    is_contiguous: bool

    @property
    def is_inner(self) -> bool:
        """True where the elements of a word lie next to each other in the source's memory order."""
        return self.innermost is None or self.reached == self.innermost


def vector_positions(t: TensorView) -> tuple[int, ...]:
    """Loop axes that are to be taken as one word."""
    return tuple(i for i, p in enumerate(t.types) if p is ParallelType.VECTORIZE)


def vector_accesses(sf: ScheduledFusion, graph: IdGraph) -> tuple[VectorAccess, ...]:
    """Every copy along a vectorized axis of known extent, in the order of the operators; a broadcast axis is none."""
    found = []
    for op in sf.ops:
        t = sf.tensor(op.output)
        positions = vector_positions(t)
        if not positions or op.kind not in COPIES:
            continue
        axis = t.loop[positions[0]]
        if not axis.is_broadcast and axis.size.is_constant:
            found.append(_access(sf, graph, op, t, positions[0]))
    return tuple(found)


def _access(sf: ScheduledFusion, graph: IdGraph, op: TensorOp, t: TensorView, position: int) -> VectorAccess:
    source = sf.tensor(op.tensor_inputs[0])
    axis = t.loop[position]
    bits = axis.extent * t.dtype.nbits
    order = source.allocation.axes if source.allocation is not None else source.logical
    innermost = _innermost(source, order)
    contiguity = source.allocation.contiguity if source.allocation is not None else ()
    flag = contiguity[order.index(innermost)] if contiguity and innermost is not None else True
    if axis.extent == 1 or innermost is None:
        reached = innermost
    else:
        end = _walk(graph, t, axis, order)
        reached = next((a for a in order if end is not None and graph.group(a) == end), None)
        if end == graph.group(innermost):
            reached = innermost
    stored = 8 * source.dtype.nbytes
    return VectorAccess(t.name, source.name, position, axis, bits, reached, innermost, bool(flag) or stored % bits == 0)


def _innermost(t: TensorView, order: tuple[IterDomain, ...]) -> IterDomain | None:
    """The last axis of the memory order that has elements in one block's, or one thread's, part of the memory."""
    for a in reversed(order):
        loop = loop_of(t, a)
        type_ = t.types[loop] if loop is not None else ParallelType.SERIAL
        if a.is_reduction or a.is_broadcast or a.is_trivial:
            continue
        if type_.is_block and t.memory in (MemoryType.SHARED, MemoryType.LOCAL):
            continue
        if type_.is_thread and t.memory is MemoryType.LOCAL:
            continue
        return a
    return None


def _walk(graph: IdGraph, t: TensorView, axis: IterDomain, order: tuple[IterDomain, ...]) -> Group | None:
    """The group that `axis` is the inner piece of when the transforms between the loops of `t` and the memory order are
    undone, or None where it becomes an outer piece or passes a swizzle."""
    at = graph.group(axis)
    path, _ = graph.path(graph.groups(t.loop), graph.groups(order))
    for step in path:
        if isinstance(step.expr.example, Swizzle) and at in (*step.sources, *step.targets):
            return None
        if at not in step.sources:
            continue
        if len(step.sources) == 2 and at != step.sources[1]:
            return None
        inner = step.targets[-1]
        if len(step.targets) == 2 and graph.axis(inner).is_broadcast:
            inner = step.targets[0]
        at = inner
    return at


@dataclass(frozen=True, slots=True)
class WordBound:
    """An extent that a word must divide: of a split from which its axis descends, or of a row at whose end memory
    jumps. `what` names it; `is_piece`: it is a piece of another split, so that only the schedule decides its extent."""

    size: Size
    what: str
    is_piece: bool = False


def word_bounds(sf: ScheduledFusion, graph: IdGraph, access: VectorAccess) -> Iterator[WordBound]:
    """What a word must divide so that none of them crosses the end of a split axis or of a row.

    On the way from the vector axis to the logical axes, the source of every split is cut into words. Of axes that were
    merged, those that follow each other in memory, from the innermost on, are a row; it is cut too unless it is all of
    them (nvFuser, divisibility of split: corollary).
    """
    t = sf.tensor(access.output)
    memories = [_memory(graph, x) for x in (sf.tensor(access.source), t) if x.memory is MemoryType.GLOBAL]
    made = {a: e for e in t.exprs for a in e.outputs}
    at: IterDomain | None = before_trivial(access.axis, made)
    while at is not None:
        match made.get(at):
            case Split(source=source, inner=inner) if inner == at:
                source = before_trivial(source, made)
                yield WordBound(source.size, f"the split of {source}", isinstance(made.get(source), Split))
                at = source
            case Merge():
                leaves = _merged_from(at, made)
                row = _row(graph, leaves, memories)
                if len(row) < len(leaves):
                    size = reduce(mul, (a.size for a in row))
                    yield WordBound(size, f"the row of {', '.join(map(str, row))}")
                at = leaves[-1]
            case _:
                at = None


def _merged_from(axis: IterDomain, made: Mapping[IterDomain, IdExpr]) -> list[IterDomain]:
    """The axes that were merged into this one, outermost first, without those of size one."""
    axis = before_trivial(axis, made)
    e = made.get(axis)
    if not isinstance(e, Merge):
        return [axis]
    kept = [a for a in e.inputs if not a.is_broadcast] or [e.inner]
    return [leaf for a in kept for leaf in _merged_from(a, made)]


def _row(graph: IdGraph, axes: Sequence[IterDomain], memories: Sequence[_Memory]) -> Sequence[IterDomain]:
    """The innermost of the axes that follow each other in every one of these memories."""
    start = len(axes) - 1
    while start > 0 and all(m.joins(graph.group(axes[start - 1]), graph.group(axes[start])) for m in memories):
        start -= 1
    return axes[start:]


@dataclass(frozen=True, slots=True)
class _Memory:
    """Axes of a tensor's memory, outermost first, and whether each continues the next; none of size one."""

    axes: tuple[Group, ...]
    follows: tuple[bool, ...]

    def joins(self, outer: Group, inner: Group) -> bool:
        """True where the one is the next axis out from the other, and continues it."""
        pairs = zip(pairwise(self.axes), self.follows, strict=False)
        return any(follows and pair == (outer, inner) for pair, follows in pairs)


def _memory(graph: IdGraph, t: TensorView) -> _Memory:
    """The memory of a global tensor in axes near its logical ones: the pieces of a split are taken for its source, and
    a merged axis for what it was merged from."""
    a = t.allocation
    axes, flags = (a.axes, a.contiguity) if a is not None else (t.logical, ())
    listed = [(x, f is not False) for x, f in zip(axes, flags or (True,) * len(axes), strict=False)]
    if a is not None and a.is_source:
        for e in a.exprs:
            same = unchanged(e)
            old, new = (e.inputs, e.outputs) if same is None else (same[:1], same[1:])
            listed = _replaced(listed, old, new) if isinstance(e, Split | Merge) else listed
    else:
        for e in reversed((*t.exprs, *(a.exprs if a is not None else ()))):
            same = unchanged(e)
            old, new = (e.outputs, e.inputs) if same is None else (same[1:], same[:1])
            listed = _replaced(listed, old, new) if isinstance(e, Split | Merge) else listed
    kept = [(graph.group(x), f) for x, f in listed if not x.is_broadcast and not x.is_trivial]
    return _Memory(tuple(g for g, _ in kept), tuple(f for _, f in kept))


def _replaced(
    listed: list[tuple[IterDomain, bool]], old: tuple[IterDomain, ...], new: tuple[IterDomain, ...]
) -> list[tuple[IterDomain, bool]]:
    """The list with `new` in the place of `old`, where that stands in it in a row and each continues the next."""
    for i in range(len(listed) - len(old) + 1):
        run = listed[i : i + len(old)]
        if tuple(x for x, _ in run) == old and all(f for _, f in run[:-1]):
            return [*listed[:i], *((x, True) for x in new[:-1]), (new[-1], run[-1][1]), *listed[i + len(old) :]]
    return listed
