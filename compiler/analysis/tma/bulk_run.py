"""What a 1-D bulk copy moves: one run of neighbouring elements, without a tensor map and without a bounds check of its
own (nvFuser, 1-D bulk)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.analysis.id.conditions import split_divides
from compiler.analysis.id.graph import IdGraph
from compiler.analysis.tma.collapse import AxisKind
from compiler.analysis.tma.domain import TmaDomain, copy_name, infer_domain
from compiler.analysis.tma.fttc import Correctness, loop_correctness
from compiler.analysis.tma.roles import size_of
from compiler.errors import Kept, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView


@dataclass(frozen=True, slots=True)
class BulkRun:
    """A 1-D bulk copy. `elems`: its run, None without exactly one Bulk axis; `steps`: distances in elements, in the
    global tensor, from one run to the next along each axis that chooses a run."""

    op: TensorOp
    global_tensor: TensorView
    shared_tensor: TensorView
    is_load: bool
    elems: Size | None
    steps: tuple[Size, ...]
    correctness: Correctness | None
    breaches: tuple[Violation | Kept, ...]

    @property
    def where(self) -> str:
        """The copy, as messages name it."""
        return copy_name(self.op)


def infer_bulk_run(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> BulkRun:
    """What `op` (via bulk1d) moves."""
    consumer = sf.tensor(op.output)
    domain = infer_domain(sf, graph, op)
    breaches = [b for b in domain.view.breaches if b.rule != "tma_inner_dimension_is_dense"]
    bulk = consumer.bulk_axes
    elems = bulk[0].size if len(bulk) == 1 else None
    if len(bulk) != 1:
        breaches.append(_bulk_axes(copy_name(op), len(bulk)))
    for split in _splits_above(consumer, bulk):
        breaches += split_divides(split).require(_indivisible(copy_name(op), split))
    correctness: Correctness | None = None
    steps: tuple[Size, ...] = ()
    if domain.view.axes is not None and elems is not None:
        apart = tuple(_contiguity(graph, domain))
        breaches += apart
        steps = () if apart else tuple(_steps(graph, domain))
        correctness = loop_correctness(graph, consumer, (), (), ())
    run = (domain.global_tensor, domain.shared_tensor, domain.is_load, elems, steps, correctness, tuple(breaches))
    return BulkRun(op, *run)


def _splits_above(t: TensorView, axes: tuple[IterDomain, ...]) -> Iterator[Split]:
    """Splits between the logical axes of `t` and `axes`."""
    wanted = set(axes)
    for e in reversed(t.exprs):
        if any(a in wanted for a in e.outputs):
            wanted.update(e.inputs)
            if isinstance(e, Split):
                yield e


def _contiguity(graph: IdGraph, domain: TmaDomain) -> Iterator[Violation]:
    """From the innermost axis out: whole boxes while they are contiguous, then at most one axis cut by a dense box."""
    is_open = True  # Whether the axes so far are one run up to here.
    for axis in reversed(domain.view.axes or ()):
        if size_of(graph, axis.boxed.tile) == Size(1):
            is_open = is_open and size_of(graph, axis.partitioned) == Size(1)
            continue
        if not is_open or not axis.is_contiguous or axis.boxed.stride is not None:
            yield Violation(
                "bulk1d_run_is_contiguous",
                copy_name(domain.op),
                " x ".join(str(graph.axis(g)) for g in axis.boxed.tile),
                "neighbours of the elements further in",
                "Copy along the innermost axis in global memory.",
                "not recognised: the Bulk axis is no run of neighbours in global memory",
            )
            return
        is_open = axis.kind is AxisKind.DENSE_BOX


def _steps(graph: IdGraph, domain: TmaDomain) -> Iterator[Size]:
    for axis in domain.view.axes or ():
        if axis.kind is not AxisKind.DENSE_BOX and size_of(graph, axis.partitioned) != Size(1):
            yield axis.stride * size_of(graph, axis.boxed.box)


def _bulk_axes(where: str, count: int) -> Violation:
    return Violation("bulk1d_has_one_bulk_axis", where, count, 1, "Merge the axes to copy, and mark the result Bulk.")


def _indivisible(where: str, split: Split) -> Violation:
    return Violation(
        "bulk1d_splits_divide",
        where,
        str(split.source.size),
        f"a multiple of {split.inner.size}",
        "Choose a run that divides, or copy via tma.",
        f"{split.source} is split by {split.inner.size} above the Bulk axis: the run could pass the end",
    )
