"""What the holes of a tile hold: the fundamental theorem of TMA correctness, decided exactly.

A hole is a place of the tile that stands for no element of the schedule. A load fills what lies outside the tensor map
with zero; a hole that the map takes for an element of another tile is filled with that (nvFuser, TMA modelling:
Definitions 1 and 2, Theorems 4 to 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from compiler.analysis.id.graph import GraphStep, Group, IdGraph
from compiler.ir.id_exprs import Resize, Split
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import TensorView


class Correctness(StrEnum):
    """What the holes of a tile hold (nvFuser, TMA modelling: Definitions 1 and 2, Theorem 6)."""

    STRONG = "strong"
    STRONG_WITH_PREDICATE = "strong_with_predicate"
    WEAK = "weak"


_ORDER = (Correctness.STRONG, Correctness.STRONG_WITH_PREDICATE, Correctness.WEAK)


def weakest(found: Iterable[Correctness]) -> Correctness:
    """What all together are; strong if there are none."""
    return max(found, key=_ORDER.index, default=Correctness.STRONG)


def box_correctness(size: int, box: int, element_stride: int) -> Correctness:
    """One dimension of `size` elements, cut into boxes of `box`, every `element_stride`-th element of one a tile.

    Tile place t of stride index s is a hole where t * element_stride + s >= box. None exists where the stride divides
    the box. With one box they all lie past the end. A tile of one element is a hole as a whole or not at all, so a
    predicate can turn the copy away. Otherwise one tile has an element and a hole that both lie in the tensor (nvFuser,
    TMA modelling: Theorem 6).
    """
    if box % element_stride == 0 or box >= size:
        return Correctness.STRONG
    return Correctness.STRONG_WITH_PREDICATE if element_stride >= box else Correctness.WEAK


def loop_correctness(
    graph: IdGraph,
    consumer: TensorView,
    path: Sequence[GraphStep],
    partitioned: Iterable[Group],
    strided: Iterable[Group],
) -> Correctness:
    """What the loops that choose the tile add: the hardware guards `partitioned` and what it protects, so a split of
    anything else that leaves holes needs a predicate (nvFuser, TMA modelling: Definition 1, Theorem 5).

    `path` leads from the consumer's loop to the global tensor. Splits of the `strided` boxes are Theorem 6's.
    """
    settled = set(strided)
    protected = set(partitioned)
    for step in reversed(path):
        e = step.expr.example
        # A split protects its outer piece, a merge with a protected outer one what it makes, a swizzle its x.
        if step.targets[0] in protected and not (isinstance(e, Resize) and min(e.left, e.right) < 0):
            protected.add(step.sources[0])
    uneven = (graph.group(e.source) for e in _uneven_splits(consumer))
    is_guarded = all(g in protected or g in settled for g in uneven)
    return Correctness.STRONG if is_guarded else Correctness.STRONG_WITH_PREDICATE


def _uneven_splits(consumer: TensorView) -> Iterator[Split]:
    """Splits that leave holes among the loops that choose the tile. Those inside the tile leave theirs behind it in
    shared memory, where no copy reaches."""
    types = zip(consumer.loop, consumer.types, strict=True)
    chooses = {a for a, type_ in types if type_ is not ParallelType.BULK and not a.is_trivial}
    for e in reversed(consumer.exprs):
        if chooses.intersection(e.outputs):
            chooses.update(e.inputs)
            if isinstance(e, Split) and not e.divides:
                yield e
