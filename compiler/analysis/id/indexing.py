"""Indices of every access of a scheduled fusion, in terms of block, thread, loop and vector-lane variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.loops.loop_nest import LANE, LoopNest, infer_loop_nest
from compiler.analysis.memory.allocation import layout_of
from compiler.ir.algebra import Indices, backward, forward
from compiler.ir.domain import ScheduledFusion, extents, producer_indices
from compiler.ir.expr import Expr, Var, unguarded, unmarked
from compiler.ir.id_exprs import IdExpr, Shift, Split, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.remembered import remembered
from compiler.ir.tensor import TensorOp, TensorView
from compiler.schedule.matching import match_axes


@dataclass(frozen=True, slots=True)
class IndexBound:
    """index < extent must hold for the access to be of a real element: the source of a split that makes holes.

    These bounds are all that is needed (nvFuser, divisibility of split: Theorems 1 to 4).
    """

    index: Expr
    extent: int
    is_shifted: bool = False
    """The index may lie below 0 as well: a place before the first element of a shifted run, or of windows."""

    def __str__(self) -> str:
        return f"{self.index} < {self.extent}"


@dataclass(frozen=True)
class Indexing:
    """Index maps of one scheduled fusion; computed on demand and kept. `graph`: of the same fusion."""

    sf: ScheduledFusion
    graph: IdGraph
    _own: dict[str, Indices] = field(default_factory=dict)
    _read: dict[tuple[str, str], Indices] = field(default_factory=dict)
    _offset: dict[tuple[str, str], Expr] = field(default_factory=dict)

    @cached_property
    def nest(self) -> LoopNest:
        return infer_loop_nest(self.sf, self.graph)

    @property
    def register_loops(self) -> frozenset[str]:
        """Variables of loops to unroll beside those that a schedule unrolls."""
        return frozenset()

    def own(self, t: TensorView) -> Indices:
        """Every axis of `t` at the element being computed."""
        if t.name not in self._own:
            known = backward(self.nest.loop_index(t), t.exprs)
            exprs = t.allocation.exprs if t.allocation is not None else ()
            self._own[t.name] = forward(known, exprs) if exprs else known
        return self._own[t.name]

    def logical(self, t: TensorView) -> tuple[Expr, ...]:
        own = self.own(t)
        return tuple(own[a] for a in t.logical)

    def read(self, op: TensorOp, name: str) -> Indices:
        """Every axis of producer `name` at the element that `op` reads."""
        key = (op.output, name)
        if key not in self._read:
            consumer, producer = self.sf.tensor(op.output), self.sf.tensor(name)
            at = producer_indices(op, producer, self.logical(consumer), extents(consumer.logical))
            known: dict[IterDomain, Expr] = {a: Expr() for a in producer.logical if a.is_reduction}
            known.update(zip((a for a in producer.logical if not a.is_reduction), at, strict=True))
            known.update(self._tiles_read(op, producer, consumer))
            exprs = producer.exprs + (producer.allocation.exprs if producer.allocation is not None else ())
            self._read[key] = forward(known, exprs)
        return self._read[key]

    def _tiles_read(self, op: TensorOp, producer: TensorView, consumer: TensorView) -> Indices:
        """Index of the tile of each of the producer's windows: that of the consumer's axis that says which it reads."""
        tiles = {e.tile for e in producer.exprs if isinstance(e, Window)}
        if not tiles:
            return {}
        own, same = self.own(consumer), match_axes(op, producer, consumer).producer_axis
        return {p: own[c] for c, p in same.items() if p in tiles and c in own}

    def write_offset(self, t: TensorView) -> Expr:
        """Element offset in `t` of the element being computed."""
        key = (t.name, t.name)
        if key not in self._offset:
            self._offset[key] = layout_of(t).offset(self.own(t))
        return self._offset[key]

    def read_offset(self, op: TensorOp, name: str) -> Expr:
        """Element offset in `name` of the element that `op` reads."""
        key = (op.output, name)
        if key not in self._offset:
            self._offset[key] = layout_of(self.sf.tensor(name)).offset(self.read(op, name))
        return self._offset[key]

    def bounds(self, t: TensorView) -> tuple[IndexBound, ...]:
        """What must hold for the element of `t` being computed to exist."""
        return (*self._bounds(t, t.exprs), *self.end_bound(t))

    def end_bound(self, t: TensorView) -> tuple[IndexBound, ...]:
        """What must hold where the places of some logical axes end before these do."""
        if t.end is None:
            return ()
        own, outer, inner = self.own(t), t.logical[t.end.outer], t.logical[t.end.inner]
        index = own[outer] * inner.extent + own[inner]
        return (IndexBound(index, t.end.count),) if index.hi >= t.end.count else ()

    def shifted_bounds(self, t: TensorView) -> tuple[IndexBound, ...]:
        """What must hold for a place of a shifted run to be one of the run's elements."""
        return self._bounds(t, [e for e in t.exprs if isinstance(e, Shift)])

    def bounds_inside(self, t: TensorView) -> tuple[IndexBound, ...]:
        """The bounds of what allocated axes were split or shifted into: beyond them lie places of other elements.

        A hole that a split further out makes has a place of its own, since the allocated axes are made of its pieces.
        """
        if t.allocation is None:
            return ()
        made = {a for e in t.allocation.exprs for a in e.outputs}
        ends = (*t.allocation.axes, *(a for e in t.allocation.exprs for a in e.inputs))
        inner = {a for a in ends if a not in made}
        cut: list[IdExpr] = []
        for e in t.exprs:
            if not inner.isdisjoint(e.inputs):
                inner.update(e.outputs)
                cut.append(e)
        return self._bounds(t, cut)

    def _bounds(self, t: TensorView, exprs: Sequence[IdExpr]) -> tuple[IndexBound, ...]:
        """The bounds of some transforms of `t`; those of shifts, on which indices behind them rely, come first."""
        own = self.own(t)
        shifted = any(isinstance(e, Shift) for e in t.exprs)
        cut = (e for e in exprs if isinstance(e, Split) and not e.divides and own[e.source].hi >= e.source.extent)
        # A broadcast axis has the same element everywhere, also where a shift puts its index below 0. And what a split
        # rounds a shifted run up to lies beyond the run's end.
        runs = _outer_pieces_of_runs(t) if shifted else ()
        holes = [e for e in cut if not (shifted and e.source.is_broadcast) and e.source not in runs]
        moved = [e.source for e in exprs if isinstance(e, Shift | Window) and not e.source.is_broadcast]
        shifts = [IndexBound(unguarded(own[a]), a.extent, True) for a in moved]
        return tuple(dict.fromkeys((*shifts, *(IndexBound(own[e.source], e.source.extent) for e in holes))))


def _outer_pieces_of_runs(t: TensorView) -> set[IterDomain]:
    """Shifted axes, and the outer pieces that they, and those, were split into."""
    found: set[IterDomain] = set()
    for e in t.exprs:
        if isinstance(e, Shift):
            found.add(e.out)
        elif isinstance(e, Split) and e.source in found:
            found.add(e.outer)
    return found


def lane_variable(width: int) -> Var:
    """The variable of a vector access of `width` elements."""
    return Var(LANE, width)


@remembered(1 << 12)
def first_lane(e: Expr, width: int) -> Expr:
    """The index at lane 0."""
    return e.substitute({lane_variable(width): Expr()})


def lanes_are_consecutive(e: Expr, width: int) -> bool:
    """True if provably each lane lies one element after the one before."""
    if width == 1:
        return True
    e = unmarked(e)
    return e - first_lane(e, width) == Expr(((lane_variable(width), 1),))
