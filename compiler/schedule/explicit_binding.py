"""An explicit schedule at one binding: strides of every global tensor in elements, and the fusion that a launch serves.

Documents give strides by contiguity and leave the rest to a launch (docs/contracts.md, "Explicit schedules"); kernels
are lowered for one binding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.ir.domain import ScheduledFusion
from compiler.ir.fusion import Fusion, Value, dense_strides
from compiler.ir.id_exprs import Merge, Split
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.ir.tensor import Allocation, TensorView


def bound(sf: ScheduledFusion) -> ScheduledFusion:
    """The scheduled fusion whose global tensors have a stride for each allocation axis, and whose fusion has the
    shapes, strides and alignments of the launch: the document's, else dense row-major."""
    tensors = tuple(_bound(t) if t.memory is MemoryType.GLOBAL else t for t in sf.tensors)
    by_name = {t.name: t for t in tensors}
    values = tuple(_value(by_name[v.name]) if v.name in by_name else v for v in sf.fusion.values)
    fusion = Fusion(values, sf.inputs, sf.fusion.ops, sf.outputs, sf.fusion.fingerprint, sf.fusion.binding_hash)
    return replace(sf, fusion=fusion, tensors=tensors)


def _bound(t: TensorView) -> TensorView:
    given = t.allocation or Allocation(t.logical, (None,) * len(t.logical))
    at: dict[IterDomain, int] = {}
    if t.runtime_strides and not (given.is_source and not t.runtime_shape):
        held = [a for a in t.logical if not a.is_reduction]
        axes = t.logical if len(t.runtime_strides) == len(t.logical) else held
        at = _followed(given, dict(zip(axes, t.runtime_strides, strict=True)))
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


def _followed(given: Allocation, logical: Mapping[IterDomain, int]) -> dict[IterDomain, int]:
    """Strides of all axes between the logical ones and the allocation's, of views that keep elements in order."""
    at = dict(logical)
    for e in reversed(given.exprs) if given.is_source else given.exprs:
        match e:
            case Split(source=whole, outer=outer, inner=inner):
                is_cut = not given.is_source
            case Merge(out=whole, outer=outer, inner=inner):
                is_cut = given.is_source
            case _:
                continue
        if is_cut and whole in at:
            at[outer], at[inner] = at[whole] * inner.extent, at[whole]
        elif not is_cut and inner in at:
            at[whole] = at[inner]
    return at


def _value(t: TensorView) -> Value:
    """What a launch passes for the tensor."""
    axes = [a for a in t.logical if not a.is_reduction]
    shape = tuple(a.extent for a in axes)
    if t.memory is not MemoryType.GLOBAL or t.allocation is None:
        return Value(t.name, shape, t.dtype, dense_strides(shape), 16)
    if t.allocation.is_source:
        return Value(t.name, shape, t.dtype, t.runtime_strides or dense_strides(shape), t.align)
    at = dict(zip(t.allocation.axes, t.allocation.strides, strict=True))
    return Value(t.name, shape, t.dtype, tuple(at.get(a) or 0 for a in axes), t.align)
