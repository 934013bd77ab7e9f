"""What each axis is to the copy engine: coordinate, box, tile or stride, told by the Bulk axes of the consumer.

The path from the consumer's loop axes to the global tensor's allocation axes is searched for patterns, in a fixed
priority: after a pattern was found anywhere, the search starts again from the first. Each transform serves one pattern
and is then used up; what is left over is how the global tensor is viewed (nvFuser, TMA inference: roles).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.arch import TENSOR_MAP_BOX
from compiler.ir.id_exprs import Merge, Resize, Split, Swizzle
from compiler.ir.size import Size

Piece = tuple[Group, ...]
"""The merge of groups, outermost first."""


@dataclass(frozen=True, slots=True)
class BoxedAxis:
    """One axis that is cut into boxes: `box` is cut out of `partitioned`, `tile` and `stride` out of the box."""

    partitioned: Piece
    box: Piece
    tile: Piece
    stride: Group | None = None

    @property
    def is_partitioned(self) -> bool:
        """False where the box is the whole axis."""
        return self.partitioned != self.box


@dataclass(frozen=True, slots=True)
class Roles:
    """Groups wholly inside (`bulk`) and wholly outside the tile, the axes cut into boxes, and the transforms that no
    pattern used up, in walking order: the view of the global tensor."""

    bulk: frozenset[Group]
    non_bulk: frozenset[Group]
    boxed: tuple[BoxedAxis, ...]
    view: tuple[GraphStep, ...]

    def is_bulk(self, piece: Piece) -> bool:
        return all(g in self.bulk for g in piece)

    def is_non_bulk(self, piece: Piece) -> bool:
        return all(g in self.non_bulk for g in piece)


def size_of(graph: IdGraph, piece: Piece) -> Size:
    """Extent of a merge; one of nothing."""
    size = Size(1)
    for g in piece:
        size = size * graph.size(g)
    return size


def infer_roles(graph: IdGraph, bulk: Sequence[Group], non_bulk: Sequence[Group], path: Sequence[GraphStep]) -> Roles:
    """Roles along `path`, given the consumer's loop axes that are Bulk and those that are not."""
    s = _Search(graph, set(bulk), set(non_bulk) - set(bulk), list(path))
    passes = (s.bulk_pass, s.non_bulk_pass, s.striding, s.boxing, s.rotate_up, s.rotate_in, s.padding)
    while any(s.run(one) for one in passes):
        pass
    return Roles(frozenset(s.bulk), frozenset(s.non_bulk), tuple(s.boxed), tuple(s.left))


@dataclass
class _Search:
    """The search's state: `left` are the transforms that no pattern has used up yet."""

    graph: IdGraph
    bulk: set[Group]
    non_bulk: set[Group]
    left: list[GraphStep]
    boxed: list[BoxedAxis] = field(default_factory=list)

    def run(self, pattern: Callable[[GraphStep], bool]) -> bool:
        """Applies one pattern along the path; True where it used up anything."""
        before = len(self.left)
        self.left = [step for step in self.left if not pattern(step)]
        return len(self.left) != before

    def bulk_pass(self, step: GraphStep) -> bool:
        """What is made of Bulk axes alone lies inside the tile."""
        if not isinstance(step.expr.example, Split | Merge | Swizzle):
            return False  # Padding a tile axis would shift the tile against what lies in shared memory.
        if not all(g in self.bulk for g in step.sources):
            return False
        self.bulk.update(step.targets)
        return True

    def non_bulk_pass(self, step: GraphStep) -> bool:
        """What is made of other axes alone says which tile."""
        if not all(g in self.non_bulk for g in step.sources):
            return False
        self.non_bulk.update(step.targets)
        return True

    def striding(self, step: GraphStep) -> bool:
        """outer Bulk, inner not: a box cut into a tile and its element stride."""
        if (found := _joined(step)) is None:
            return False
        outer, inner, whole = found
        if outer not in self.bulk or inner not in self.non_bulk:
            return False
        self.boxed.append(BoxedAxis((whole,), (whole,), (outer,), inner))
        return True

    def boxing(self, step: GraphStep) -> bool:
        """outer not Bulk, inner Bulk or a box: an axis cut into a coordinate and a box."""
        if (found := _joined(step)) is None:
            return False
        outer, inner, whole = found
        if outer not in self.non_bulk:
            return False
        at = next((i for i, b in enumerate(self.boxed) if b.box == (inner,)), None)
        if at is not None:
            self.boxed[at] = replace(self.boxed[at], partitioned=(whole,))
        elif inner in self.bulk:
            self.boxed.append(BoxedAxis((whole,), (inner,), (inner,)))
        else:
            return False
        return True

    def rotate_up(self, step: GraphStep) -> bool:
        """outer not Bulk, inner partitioned, and the box divides it: the whole is partitioned by the same box, since
        splitting by the inner piece and that by the box is splitting by the box first (nvFuser, theory of IterDomains:
        Theorem 2.1)."""
        if (found := _joined(step)) is None:
            return False
        outer, inner, whole = found
        at = self._partitioned(inner)
        if outer not in self.non_bulk or at is None:
            return False
        if size_of(self.graph, (inner,)).quotient(size_of(self.graph, self.boxed[at].box)) is None:
            return False
        self.boxed[at] = replace(self.boxed[at], partitioned=(whole,))
        return True

    def rotate_in(self, step: GraphStep) -> bool:
        """outer partitioned by a dense box, inner Bulk: the whole is partitioned by the box merged with the inner piece
        (nvFuser, theory of IterDomains: Theorem 2.1, the other way).

        Where no box is as large as that and the cut leaves no holes, it stays a view: rows of the inner piece, and a
        box of whole rows (nvFuser, TMA: "Step 1: define TMA domain").
        """
        if (found := _joined(step)) is None:
            return False
        outer, inner, whole = found
        at = self._partitioned(outer)
        if at is None or inner not in self.bulk or not all(g in self.bulk for g in self.boxed[at].box):
            return False
        box = (*self.boxed[at].box, inner)
        if size_of(self.graph, box).coefficient > TENSOR_MAP_BOX and _divides(step):
            return False
        del self.boxed[at]
        self.boxed.append(BoxedAxis((whole,), box, box))
        return True

    def padding(self, step: GraphStep) -> bool:
        """A partitioned axis that pads another: that one is partitioned, by boxes that may start or end outside, where
        the copy engine fills with zero (nvFuser, TMA modelling: Definition 1; PTX ISA, cp.async.bulk.tensor)."""
        e = step.expr.example
        if not isinstance(e, Resize) or step.forward or min(e.left, e.right) < 0:
            return False
        at = self._partitioned(step.sources[0])
        if at is None:
            return False
        self.boxed[at] = replace(self.boxed[at], partitioned=(step.targets[0],))
        return True

    def _partitioned(self, group: Group) -> int | None:
        return next((i for i, b in enumerate(self.boxed) if b.partitioned == (group,)), None)


def _divides(step: GraphStep) -> bool:
    """Whether a split undone, or a merge, leaves no holes at the binding."""
    return not isinstance(step.expr.example, Split) or step.expr.example.divides


def _joined(step: GraphStep) -> tuple[Group, Group, Group] | None:
    """outer, inner and what they make together, where the step is a split undone or a merge."""
    if not isinstance(step.expr.example, Split | Merge) or len(step.sources) != 2:
        return None
    outer, inner = step.sources
    return outer, inner, step.targets[0]
