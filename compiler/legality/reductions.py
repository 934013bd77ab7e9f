"""Rules on reductions and clusters: what can fold together, and where each step of a fold happens."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import Violation
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import REDUCTIONS
from compiler.legality.rules import Schedule, structure_rule

_BLOCKS = (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ)
_WHOLE = (ParallelType.VECTORIZE, ParallelType.BULK)


@structure_rule
def folded_axes_stay_in_a_cluster(s: Schedule) -> Iterator[Violation]:
    """Blocks of different clusters have no memory that one kernel may hand a partial result over in: a sum over the
    grid needs a second launch (CUDA guide, thread hierarchy)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if axis.is_reduction and axis.extent > 1 and type_ in _BLOCKS:
                yield Violation(
                    "folded_axes_stay_in_a_cluster",
                    f"{t.name}: axis {i}",
                    type_.value,
                    "a loop, a thread dimension or Cluster",
                    "Fold over threads or a cluster, or split the reduction into two launches.",
                )


@structure_rule
def folded_axes_are_walked_element_by_element(s: Schedule) -> Iterator[Violation]:
    """A word or a tile is folded element by element: the copies are vectorized, the reduction is not."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for i, (axis, type_) in enumerate(zip(t.loop, t.types, strict=True)):
            if op.kind in REDUCTIONS and type_ in _WHOLE:
                yield Violation(
                    "folded_axes_are_walked_element_by_element",
                    f"{t.name}: axis {i} ({axis})",
                    type_.value,
                    "Unroll or Serial",
                    "Unroll the axis; vectorize it in the copy that loads.",
                )


@structure_rule
def clusters_fit_the_architecture(s: Schedule) -> Iterator[Violation]:
    """A cluster has at most 8 blocks on every device that has clusters, and at most 16 on Hopper and data-centre
    Blackwell, where a function attribute asks for more than 8 (CUDA guide, thread block clusters; their tuning guides).
    Whether one is ever resident is the card's to say, when the kernel is loaded (cuOccupancyMaxActiveClusters)."""
    limit = s.arch.max_cluster
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        for axis, type_ in zip(t.loop, t.types, strict=True):
            if type_ is ParallelType.CLUSTER and axis.extent > limit:
                yield Violation(
                    "clusters_fit_the_architecture",
                    f"{t.name}: {axis}",
                    axis.extent,
                    f"{limit} on {s.arch.name}",
                    "Use a smaller cluster, or none." if limit > 1 else "Use blocks without a cluster.",
                )
