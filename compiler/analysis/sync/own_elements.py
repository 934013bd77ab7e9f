"""Which shared tensors each thread reads where it has written them itself, so that no barrier need stand between.

A thread has the same elements of two tensors where its index is the same function of an element's place in both: the
axes on its dimensions come from the logical axes by the same transforms. It is a proof by form, not by value: what is
written in another way counts as passed between threads.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from compiler.ir.domain import ScheduledFusion
from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import TensorView


def is_own(sf: ScheduledFusion, name: str) -> bool:
    """True if every element of a shared tensor is read by the thread alone that has written it."""
    t = sf.tensor(name)
    used = _used_dimensions(sf)
    written = {p: _thread_index(t, p) for p in used}
    readers = sf.consumers(name)
    return (
        t.memory is MemoryType.SHARED
        and None not in written.values()
        and all(op.kind is OpKind.COPY and not op.via.takes_tiles and not op.via.is_matrix for op in readers)
        and all(_thread_index(sf.tensor(op.output), p) == written[p] for op in readers for p in used)
    )


def _used_dimensions(sf: ScheduledFusion) -> frozenset[ParallelType]:
    """Thread dimensions of the kernel along which there is more than one thread."""
    pairs = (pair for t in sf.tensors for pair in zip(t.loop, t.types, strict=True))
    return frozenset(p for a, p in pairs if p.is_thread and a.extent > 1)


def _thread_index(t: TensorView, dimension: ParallelType) -> object | None:
    """The index of a thread along a dimension as a function of the logical indices; None for a tensor that lacks it."""
    axes = t.axes_of(dimension)
    if len(axes) != 1 or axes[0].is_broadcast:
        return None
    return _index(axes[0], t, {a: e for e in t.exprs for a in e.outputs})


def _index(axis: IterDomain, t: TensorView, made: dict[IterDomain, IdExpr]) -> tuple[object, ...]:
    if axis in t.logical:
        return ("logical", t.logical.index(axis), axis.extent)
    e = made[axis]
    numbers = tuple(n for f in fields(e) if not _has_axes(n := getattr(e, f.name)))
    extents = tuple(a.extent for a in e.outputs)
    inputs = tuple(_index(a, t, made) for a in e.inputs)
    return (type(e).__name__, e.outputs.index(axis), extents, numbers, inputs)


def _has_axes(value: Any) -> bool:
    return isinstance(value, IterDomain) or (isinstance(value, tuple) and any(map(_has_axes, value)))
