"""Rules on reductions and clusters: what can fold together, and where each step of a fold happens."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.loops.grid_fold import PARTS, is_over_grid
from compiler.errors import Violation
from compiler.ir.domain import computed_from
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.ops import CONTRACTIONS, REDUCTIONS
from compiler.legality.rules import Schedule, structure_rule

_BLOCKS = (ParallelType.BIDX, ParallelType.BIDY, ParallelType.BIDZ)
_WHOLE = (ParallelType.VECTORIZE, ParallelType.BULK)


@structure_rule
def folded_axes_stay_in_a_cluster(s: Schedule) -> Iterator[Violation]:
    """Blocks of different clusters have no memory of their own in common: a sum over the grid needs a second launch
    (CUDA guide, thread hierarchy), but for products, whose blocks along y hand over what they have summed to the last,
    in scratch memory."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if op.kind in CONTRACTIONS and t.memory is MemoryType.LOCAL and is_over_grid(t):
            continue
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
def what_is_summed_over_the_grid_ends_the_kernel(s: Schedule) -> Iterator[Violation]:
    """Blocks that hand their sum over end there: the last one's alone makes what comes of it. Every output comes of the
    sum, of which a kernel has one, nothing behind it is on the blocks of its parts, and the copy engine brings nothing
    beside it, which blocks that end early would not wait for."""
    names = [op.output for op in s.sf.ops if op.kind in CONTRACTIONS and is_over_grid(s.sf.tensor(op.output))]
    if not names:
        return
    name, *others = names
    how = f"dealt to {s.sf.tensor(name).dealt} blocks" if s.sf.tensor(name).dealt else f"summed over {PARTS}"
    after = computed_from(s.sf.ops, name) - {name}
    before = {x for op in s.sf.ops if name in computed_from(s.sf.ops, op.output) for x in (op.output,)}
    found = [
        *((x, "a second sum") for x in others),
        *((x, "an output beside it") for x in s.sf.outputs if x not in after),
        *((x, f"behind it on {PARTS}") for x in sorted(after) if PARTS in s.sf.tensor(x).types),
        *(
            (op.output, f"by {op.via}, beside it")
            for op in s.sf.ops
            if op.via.is_bulk and op.output not in before | after
        ),
    ]
    for where, what in found:
        yield Violation(
            "what_is_summed_over_the_grid_ends_the_kernel",
            f"{where}, {name} {how}",
            what,
            "one sum, and all else made of it",
            "Split the sum in two launches, or leave the other out of this kernel.",
        )


@structure_rule
def parts_of_a_sum_are_taken_by_whole_blocks(s: Schedule) -> Iterator[Violation]:
    """All threads that compute hand a tile's sum on together, and meet once: groups with tiles of their own would wait
    for each other's turns (PTX ISA, barrier)."""
    for op in s.sf.ops:
        t = s.sf.tensor(op.output)
        if op.kind not in CONTRACTIONS or not is_over_grid(t) or t.dealt:
            continue
        outside = zip(t.loop[: t.types.index(PARTS)], t.types, strict=False)
        for i, (axis, type_) in enumerate(outside):
            if type_.is_thread and axis.extent > 1:
                yield Violation(
                    "parts_of_a_sum_are_taken_by_whole_blocks",
                    f"{t.name}: axis {i}",
                    f"{type_} around the sum",
                    "threads that have parts of one tile",
                    "Inline less deeply, or do not cut the sum over blocks.",
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
