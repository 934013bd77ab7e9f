"""Splits into an axis and extent one, and merges with extent one: they change nothing, and what they make is the axis
that they are applied to (nvFuser, almost-exact graph)."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.id_exprs import IdExpr, Merge, Resize, Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView


def unchanged(e: IdExpr) -> tuple[IterDomain, IterDomain] | None:
    """The axis before and after a transform that changes nothing, None for any other."""
    match e:
        case Split() if e.inner.is_trivial and e.outer.size == e.source.size:
            return e.source, e.outer
        case Split() if e.outer.is_trivial and e.inner.size == e.source.size:
            return e.source, e.inner
        case Merge() if e.inner.is_trivial:
            return e.outer, e.out
        case Merge() if e.outer.is_trivial:
            return e.inner, e.out
        case Resize() if e.left == e.right == 0:
            return e.source, e.out
        case _:
            return None


def before_trivial(axis: IterDomain, made: Mapping[IterDomain, IdExpr]) -> IterDomain:
    """The axis before all transforms that changed nothing; `made` has the transform that each axis comes from."""
    while (e := made.get(axis)) is not None:
        pair = unchanged(e)
        if pair is None or pair[1] != axis:
            break
        axis = pair[0]
    return axis


def loop_of(t: TensorView, axis: IterDomain) -> int | None:
    """The position of the loop of a tensor that an axis of it is, as it stands or after transforms that change nothing;
    None for an axis that is no loop."""
    for e in t.exprs:
        if axis in e.inputs and (pair := unchanged(e)) is not None and pair[0] == axis:
            axis = pair[1]
    return t.loop.index(axis) if axis in t.loop else None
