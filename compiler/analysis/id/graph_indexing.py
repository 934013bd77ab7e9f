"""Indices of an explicit schedule, along the graph of all its axes.

Where a consumer has a producer's axis among its own, the index of the one is that of the other, whatever holes the
splits above have made; only what differs goes by the logical axes. Loops that run as another tensor's (nvFuser, loop
promotion) get their logical index through the axes of that tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from compiler.analysis.id.graph import GraphStep, Group, transforms_of
from compiler.analysis.id.group_index import walk
from compiler.analysis.id.indexing import IndexBound, Indexing
from compiler.errors import Unsupported
from compiler.ir.algebra import Indices, backward, forward
from compiler.ir.domain import extents, producer_indices
from compiler.ir.expr import Expr
from compiler.ir.id_exprs import Resize, Split
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import TensorOp, TensorView


@dataclass(frozen=True)
class GraphIndexing(Indexing):
    """Index maps of one explicit schedule."""

    def own(self, t: TensorView) -> Indices:
        if t.name not in self._own:
            self._own[t.name] = self._own_indices(t)
        return self._own[t.name]

    def _own_indices(self, t: TensorView) -> Indices:
        loops = self.nest.loop_index(t)
        exprs = t.allocation.exprs if t.allocation is not None and not t.allocation.is_source else ()
        if self._runs_as_its_own(t):
            return forward(backward(loops, t.exprs), exprs)
        _, index = self._promoted(t)
        found = forward({a: index[self.graph.group(a)] for a in t.logical}, t.exprs)
        pairs = zip(t.loop, self.nest.runs_as[t.name], strict=True)
        found |= {a: loops[a] for a, g in pairs if g == self.graph.group(a)}
        return forward(found, exprs)

    def _runs_as_its_own(self, t: TensorView) -> bool:
        """Whether every loop runs as the tensor's own axis; one of extent one does not run."""
        pairs = zip(self.nest.runs_as[t.name], t.loop, strict=True)
        return all(g == self.graph.group(a) or self.graph.size(g).value == a.extent == 1 for g, a in pairs)

    def _promoted(self, t: TensorView) -> tuple[tuple[GraphStep, ...], dict[Group, Expr]]:
        """The path from the axes that the loops run as to the logical ones, and the index of all on it. Raises
        Unsupported where none leads there."""
        loops = self.nest.loop_index(t)
        known = {g: loops[a] for g, a in zip(self.nest.runs_as[t.name], t.loop, strict=True)}
        known |= {self.graph.group(a): Expr() for a in t.logical if a.is_broadcast or a.extent == 1}
        path, lost = self.graph.path(tuple(known), self.graph.groups(t.logical))
        if lost:
            names = ", ".join(str(a) for a in t.logical if self.graph.group(a) in lost)
            raise Unsupported(
                f"{t.name}: {names} in loops that run as those of other tensors", "Inline it less deeply."
            )
        return path, walk(self.graph, path, known)

    def read(self, op: TensorOp, name: str) -> Indices:
        key = (op.output, name)
        if key not in self._read:
            self._read[key] = self._read_indices(op, name)
        return self._read[key]

    def _read_indices(self, op: TensorOp, name: str) -> Indices:
        consumer, producer = self.sf.tensor(op.output), self.sf.tensor(name)
        at = producer_indices(op, producer, self.logical(consumer), extents(consumer.logical))
        known: dict[IterDomain, Expr] = {a: Expr() for a in producer.logical if a.is_reduction}
        known.update(zip((a for a in producer.logical if not a.is_reduction), at, strict=True))
        if producer.allocation is not None and producer.allocation.is_source:
            return backward(known, producer.allocation.exprs)
        exprs = transforms_of(producer)
        index = forward(known, exprs)
        if producer.memory is MemoryType.GLOBAL or name in self.sf.inputs:
            return index
        return index | self._same(consumer, producer)

    def _same(self, consumer: TensorView, producer: TensorView) -> Indices:
        """Indices of the producer's axes that follow from the consumer's loops without a way through the logical ones,
        or that both have in the same loop."""
        loops = self.nest.loop_index(consumer)
        runs_as = self.nest.runs_as[consumer.name]
        known: dict[Group, Expr] = {}
        for g, a in zip(runs_as, consumer.loop, strict=True):
            if self.graph.size(g).value > 1 and known.setdefault(g, loops[a]) != loops[a]:
                return {}  # one axis of the producer is read along two of the consumer's
        theirs = self.nest.runs_as[producer.name]
        goal = tuple(g for g in (*theirs, *self.graph.groups(_placed(producer))) if self.graph.size(g).value > 1)
        path, lost = self.graph.path(tuple(known), goal)
        index = walk(self.graph, path, known)
        found = {a: index[g] for a in _placed(producer) if (g := self.graph.group(a)) in index and g not in lost}
        return found | {a: index[g] for a, g in zip(producer.loop, theirs, strict=True) if g in index and g not in lost}

    def bounds(self, t: TensorView) -> tuple[IndexBound, ...]:
        own = self.own(t)
        padded = (e for e in t.exprs if isinstance(e, Resize) and (e.left > 0 or e.right > 0))
        inside = [IndexBound(own[e.source], e.source.extent, own[e.source].lo < 0) for e in padded]
        found = tuple(dict.fromkeys((*super().bounds(t), *inside)))
        if self._runs_as_its_own(t):
            return found
        past = [IndexBound(own[a], a.extent) for a in t.logical if own[a].hi >= a.extent]
        return tuple(dict.fromkeys((*found, *past, *self._holes_of_others(t))))

    def _holes_of_others(self, t: TensorView) -> Iterator[IndexBound]:
        """The bounds of splits of other tensors that the loops of this one run as: a hole of theirs is one of its."""
        path, index = self._promoted(t)
        for step in path:
            (whole, *more), e = step.targets, step.expr.example
            extent = self.graph.size(whole).value
            if not more and isinstance(e, Split) and not e.divides and index[whole].hi >= extent:
                yield IndexBound(index[whole], extent)

    @cached_property
    def register_loops(self) -> frozenset[str]:
        """Variables of loops that choose an element of a register array: registers have no addresses."""
        found: set[str] = set()
        for op in self.sf.ops:
            if self.sf.tensor(op.output).memory is MemoryType.LOCAL:
                found |= {v.name for v in self.write_offset(self.sf.tensor(op.output)).variables}
            for name in op.tensor_inputs:
                if self.sf.tensor(name).memory is MemoryType.LOCAL:
                    found |= {v.name for v in self.read_offset(op, name).variables}
        return frozenset(found)


def _placed(t: TensorView) -> tuple[IterDomain, ...]:
    """Axes by which the tensor's elements are placed."""
    return tuple(dict.fromkeys((*t.loop, *(t.allocation.axes if t.allocation is not None else ()))))
