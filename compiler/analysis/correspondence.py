"""Which axes of two tensors are the same: equal transforms of equal axes correspond (nvFuser, exact graph)."""

from __future__ import annotations

from compiler.ir.domain import logical_correspondence
from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorOp, TensorView


def corresponding_axes(op: TensorOp, producer: TensorView, consumer: TensorView) -> dict[IterDomain, IterDomain]:
    """Consumer axis -> producer axis, for every axis of both trees that is provably the same."""
    same = {c: p for p, c in logical_correspondence(op, producer, consumer).items()}
    theirs = _by_inputs(producer)
    for e in consumer.exprs:
        if not all(a in same for a in e.inputs):
            continue
        for other in theirs.get(tuple(same[a] for a in e.inputs), ()):
            if type(other) is type(e) and _extents(other) == _extents(e):
                same.update(zip(e.outputs, other.outputs, strict=True))
    return same


def _extents(e: IdExpr) -> tuple[int, ...]:
    return tuple(a.extent for a in e.outputs)


def _by_inputs(t: TensorView) -> dict[tuple[IterDomain, ...], list[IdExpr]]:
    found: dict[tuple[IterDomain, ...], list[IdExpr]] = {}
    for e in t.exprs:
        found.setdefault(e.inputs, []).append(e)
    return found
