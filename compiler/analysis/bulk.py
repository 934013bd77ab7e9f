"""What a 1-D bulk copy moves: one contiguous run, no tensor map, no bounds check of its own (nvFuser, 1-D bulk)."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.analysis.allocation import layout_of
from compiler.analysis.indexing import Indexing
from compiler.errors import Violation
from compiler.ir.algebra import backward, forward
from compiler.ir.domain import extents, producer_indices
from compiler.ir.expr import Expr, Var, var
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import TensorOp, TensorView

RUN = "run"
"""Name of the variable that runs over the copied elements."""


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """A 1-D bulk copy of `elems` elements; offsets in elements of the global and the shared tensor."""

    global_tensor: TensorView
    shared_tensor: TensorView
    elems: int
    global_offset: Expr
    shared_offset: Expr

    @property
    def nbytes(self) -> int:
        return self.elems * self.shared_tensor.dtype.nbytes


def infer_bulk(indexing: Indexing, op: TensorOp) -> BulkCopy | Violation:
    """The copy that `op` (via bulk1d) stands for, or why its schedule is none."""
    sf = indexing.sf
    consumer, producer = sf.tensor(op.output), sf.tensor(op.tensor_inputs[0])
    where = f"{consumer.name} <- {producer.name}"
    if len(consumer.bulk_axes) != 1:
        found = len(consumer.bulk_axes)
        return Violation("bulk1d_has_one_bulk_axis", where, found, 1, "Mark exactly one loop axis Bulk.")
    axis = consumer.bulk_axes[0]
    step = var(Var(RUN, axis.extent))
    own, read = _indices(op, consumer, producer, {**indexing.nest.loop_index(consumer), axis: step})
    offsets = {consumer.name: layout_of(consumer).offset(own), producer.name: layout_of(producer).offset(read)}
    for name, offset in offsets.items():
        if offset - _at_start(offset, axis.extent) != step:
            return Violation(
                "bulk1d_run_is_contiguous",
                f"{where}: {name}",
                str(offset),
                f"... + {RUN}",
                "Copy along the dense axis.",
            )
    load = consumer.memory is MemoryType.SHARED
    global_tensor, shared = (producer, consumer) if load else (consumer, producer)
    start = {name: _at_start(o, axis.extent) for name, o in offsets.items()}
    return BulkCopy(global_tensor, shared, axis.extent, start[global_tensor.name], start[shared.name])


def _indices(
    op: TensorOp, consumer: TensorView, producer: TensorView, loop: dict[IterDomain, Expr]
) -> tuple[dict[IterDomain, Expr], dict[IterDomain, Expr]]:
    """Every axis of both tensors at the copied element, given the consumer's loop axes."""
    own = backward(loop, consumer.exprs)
    if consumer.allocation is not None:
        own = forward(own, consumer.allocation.exprs)
    at = producer_indices(op, producer, tuple(own[a] for a in consumer.logical), extents(consumer.logical))
    exprs = producer.exprs + (producer.allocation.exprs if producer.allocation is not None else ())
    return own, forward(dict(zip(producer.logical, at, strict=True)), exprs)


def _at_start(e: Expr, extent: int) -> Expr:
    return e.substitute({Var(RUN, extent): Expr()})
