"""An explicit schedule at one binding: strides of every global tensor in elements, and the fusion that a launch serves.

Documents give strides by contiguity and leave the rest to a launch (docs/contracts.md, "Explicit schedules"); kernels
are lowered for one binding.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.analysis.id.contiguity import allocation_strides, logical_strides
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Value, dense_strides
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import Allocation, TensorView


def bound(sf: ScheduledFusion) -> ScheduledFusion:
    """The scheduled fusion whose global tensors have a stride for each allocation axis, and whose fusion has the
    shapes, strides and alignments of the launch: the document's, else dense row-major, outputs in their memory order.

    Raises Unsupported for a memory order that no strides of the logical axes give.
    """
    tensors = tuple(_bound(t, is_input=t.name in sf.inputs) if t.memory is MemoryType.GLOBAL else t for t in sf.tensors)
    by_name = {t.name: t for t in tensors}
    values = tuple(_value(by_name[v.name]) if v.name in by_name else v for v in sf.fusion.values)
    fusion = Fusion(values, sf.inputs, sf.fusion.ops, sf.outputs, sf.fusion.fingerprint, sf.fusion.binding_hash)
    return replace(sf, fusion=fusion, tensors=tensors)


def _bound(t: TensorView, *, is_input: bool) -> TensorView:
    given = t.allocation or Allocation(t.logical, (None,) * len(t.logical))
    at: dict[IterDomain, int] = {}
    if (is_input or t.runtime_strides) and not (given.is_source and not t.runtime_shape):
        placed = allocation_strides(replace(t, allocation=given)).placed
        at = {axis: place.stride for axis, place in placed.items()}
    if any(a not in at and not _is_empty(a) for a in given.axes):
        held = [a for a in given.axes if not _is_empty(a)]
        at = dict(zip(held, dense_strides(tuple(a.extent for a in held)), strict=True))
    strides = tuple(
        stride if stride is not None else 0 if _is_empty(axis) else at[axis]
        for axis, stride in zip(given.axes, given.strides, strict=True)
    )
    return replace(t, allocation=replace(given, strides=strides))


def _is_empty(axis: IterDomain) -> bool:
    """True where memory has one place for all of the axis."""
    return axis.is_broadcast or axis.is_reduction


def _value(t: TensorView) -> Value:
    """What a launch passes for the tensor."""
    axes = [a for a in t.logical if not a.is_reduction]
    shape = tuple(a.extent for a in axes)
    if t.memory is not MemoryType.GLOBAL or t.allocation is None:
        return Value(t.name, shape, t.dtype, dense_strides(shape), 16)
    if t.allocation.is_source:
        return Value(t.name, shape, t.dtype, t.runtime_strides or dense_strides(shape), t.align)
    at = logical_strides(t, {a: s or 0 for a, s in zip(t.allocation.axes, t.allocation.strides, strict=True)})
    lost = [a for a in axes if a not in at and a.extent > 1 and not a.is_broadcast]
    if lost:
        raise Unsupported(
            f"{t.name}: an allocation domain in which {lost[0]} has no one stride", "Leave its memory order as it is."
        )
    return Value(t.name, shape, t.dtype, tuple(at.get(a, 0) for a in axes), t.align)
