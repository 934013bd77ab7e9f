"""What a 1-D bulk copy moves: one run of neighbouring elements, without a tensor map and without a bounds check of its
own (nvFuser, 1-D bulk)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from compiler.analysis.id.graph import IdGraph
from compiler.analysis.tma.collapse import AxisKind
from compiler.analysis.tma.domain import TmaDomain, TmaGlobalView, copy_name, infer_domain
from compiler.analysis.tma.fttc import Correctness, loop_correctness
from compiler.analysis.tma.roles import size_of
from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.size import Size
from compiler.ir.tensor import TensorOp, TensorView


@dataclass(frozen=True, slots=True)
class BulkRun:
    """A 1-D bulk copy. `elems`: its run, None without exactly one Bulk axis; `steps`: distances in elements, in the
    global tensor, from one run to the next along each axis that chooses a run.

    `bulk`: the Bulk axes; `splits`: those above them; `apart`: axes of the run that do not go on from the elements
    further in, none where it is one run of neighbours. `view`: how the copy sees the global tensor.
    """

    op: TensorOp
    global_tensor: TensorView
    shared_tensor: TensorView
    is_load: bool
    elems: Size | None
    steps: tuple[Size, ...]
    correctness: Correctness | None
    bulk: tuple[IterDomain, ...]
    splits: tuple[Split, ...]
    apart: tuple[IterDomain, ...]
    view: TmaGlobalView = field(compare=False, repr=False)

    @property
    def where(self) -> str:
        """The copy, as messages name it."""
        return copy_name(self.op)


def infer_bulk_run(sf: ScheduledFusion, graph: IdGraph, op: TensorOp) -> BulkRun:
    """What `op` (via bulk1d) moves."""
    consumer = sf.tensor(op.output)
    domain = infer_domain(sf, graph, op)
    bulk = consumer.bulk_axes
    elems = bulk[0].size if len(bulk) == 1 else None
    correctness: Correctness | None = None
    steps: tuple[Size, ...] = ()
    apart: tuple[IterDomain, ...] = ()
    if domain.view.axes is not None and elems is not None:
        apart = _apart(graph, domain)
        steps = () if apart else tuple(_steps(graph, domain))
        correctness = loop_correctness(graph, consumer, (), (), ())
    run = (domain.global_tensor, domain.shared_tensor, domain.is_load, elems, steps, correctness)
    return BulkRun(op, *run, bulk, tuple(_splits_above(consumer, bulk)), apart, domain.view)


def _splits_above(t: TensorView, axes: tuple[IterDomain, ...]) -> Iterator[Split]:
    """Splits between the logical axes of `t` and `axes`."""
    wanted = set(axes)
    for e in reversed(t.exprs):
        if any(a in wanted for a in e.outputs):
            wanted.update(e.inputs)
            if isinstance(e, Split):
                yield e


def _apart(graph: IdGraph, domain: TmaDomain) -> tuple[IterDomain, ...]:
    """From the innermost axis out: whole boxes while they are contiguous, then at most one axis cut by a dense box."""
    is_open = True  # Whether the axes so far are one run up to here.
    for axis in reversed(domain.view.axes or ()):
        if size_of(graph, axis.boxed.tile) == Size(1):
            is_open = is_open and size_of(graph, axis.partitioned) == Size(1)
            continue
        if not is_open or not axis.is_contiguous or axis.boxed.stride is not None:
            return tuple(graph.axis(g) for g in axis.boxed.tile)
        is_open = axis.kind is AxisKind.DENSE_BOX
    return ()


def _steps(graph: IdGraph, domain: TmaDomain) -> Iterator[Size]:
    for axis in domain.view.axes or ():
        if axis.kind is not AxisKind.DENSE_BOX and size_of(graph, axis.partitioned) != Size(1):
            yield axis.stride * size_of(graph, axis.boxed.box)
