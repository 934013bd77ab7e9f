"""Applies one schedule step to a scheduled fusion. Each refusal is an InvalidStep with the reason and the fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import Allocation, CircularBuffer, TensorOp, TensorView
from compiler.schedule import steps
from compiler.schedule.axes import AxisList, BadTransform, order_after, transform


def apply(sf: ScheduledFusion, step: steps.Step) -> ScheduledFusion:
    """The fusion after one step. Raises InvalidStep."""
    try:
        return _apply(sf, step)
    except BadTransform as bad:
        reason, fix = bad.args
        raise InvalidStep(steps.step_text(step), reason, fix) from None


def _apply(sf: ScheduledFusion, step: steps.Step) -> ScheduledFusion:
    match step:
        case steps.Split() | steps.Merge() | steps.Swizzle():
            return sf.with_tensor(_transform_loop(_tensor(sf, step.tv), step))
        case steps.Reorder():
            return sf.with_tensor(_reorder(_tensor(sf, step.tv), step))
        case steps.Parallelize():
            return sf.with_tensor(_parallelize(_tensor(sf, step.tv), step))
        case steps.SetAllocationDomain():
            return sf.with_tensor(_allocate(_tensor(sf, step.tv), step))
        case steps.TmemDimsep():
            return sf.with_tensor(_dimsep(_tensor(sf, step.tv), step))
        case steps.InlineAt():
            return sf.with_tensor(_inline(_tensor(sf, step.tv), step))
        case steps.InlineMost() | steps.ComputeAt() | steps.ComputeWith():
            raise BadTransform(f"{steps.step_text(step)} is not built yet", "Inline tensor by tensor (inline_at).")
        case steps.CircularBuffer():
            return sf.with_tensor(_circular(_tensor(sf, step.tv), step))
        case steps.CacheInput():
            return _cache_input(sf, step)
        case steps.CacheOutput():
            return _cache_output(sf, step)
        case steps.SetMemory():
            return _set_memory(sf, step)
        case steps.SetCache():
            return sf.with_op(replace(_op(sf, step.tv), cache=step.policy))
        case steps.Approximate():
            return sf.with_op(replace(_op(sf, step.tv), grade=step.grade))
        case steps.CapRegisters():
            if step.count % 8 or not 16 <= step.count <= 248:
                raise BadTransform(f"{step.count} registers", "A cap is a multiple of 8 from 16 to 248.")
            return replace(sf, max_registers=step.count)


def _tensor(sf: ScheduledFusion, name: str) -> TensorView:
    if name not in sf.by_name:
        raise BadTransform(f"there is no tensor {name}", f"The tensors are {', '.join(sf.by_name)}.")
    return sf.tensor(name)


def _op(sf: ScheduledFusion, name: str) -> TensorOp:
    _tensor(sf, name)
    op = sf.producer(name)
    if op is None:
        raise BadTransform(f"{name} is an input of the fusion", "Name the tensor that the access writes or defines.")
    return op


def _names(t: TensorView) -> Iterator[str]:
    """Axis names that no axis of the tensor's loop and allocation trees has, in order."""
    exprs = t.exprs + (t.allocation.exprs if t.allocation is not None else ())
    taken = {a.name for e in exprs for a in e.outputs}
    return (name for i in count(len(t.logical)) if (name := f"{t.name}.{i}") not in taken)


def _movable(t: TensorView, position: int) -> None:
    """Axes shared with consumers are fixed (nvFuser, transforms)."""
    if position < t.compute_at:
        raise BadTransform(
            f"axis {position} of {t.name} lies left of its compute-at position {t.compute_at}",
            "Transform before inlining.",
        )


def _transform_loop(t: TensorView, step: steps.Split | steps.Merge | steps.Swizzle) -> TensorView:
    match step:
        case steps.Split():
            touched = [step.axis]
        case steps.Merge():
            touched = [step.axis, step.axis + 1 if step.other is None else step.other]
        case steps.Swizzle():
            touched = [step.x, step.y]
    listed = AxisList(t.loop, t.exprs)
    types = dict(zip(t.loop, t.types, strict=True))
    for position in touched:
        axis = listed.at(position)
        _movable(t, position)
        if types[axis] is not ParallelType.SERIAL:
            raise BadTransform(
                f"axis {position} of {t.name} is already {types[axis]}", "Transform before parallelizing."
            )
    after = transform(listed, step, _names(t))
    kept = tuple(types.get(a, ParallelType.SERIAL) for a in after.axes)
    return replace(t, loop=after.axes, exprs=after.exprs, types=kept)


def _reorder(t: TensorView, step: steps.Reorder) -> TensorView:
    order = order_after(step, len(t.loop))
    for new, old in enumerate(order):
        if new != old:
            _movable(t, min(new, old))
    return replace(t, loop=tuple(t.loop[i] for i in order), types=tuple(t.types[i] for i in order))


def _parallelize(t: TensorView, step: steps.Parallelize) -> TensorView:
    axis = AxisList(t.loop).at(step.axis)
    if (step.type.is_block or step.type.is_thread or step.type is ParallelType.VECTORIZE) and step.type in t.types:
        raise BadTransform(f"{t.name} already has an axis on {step.type}", "Each parallel type is used once.")
    types = tuple(step.type if a == axis else old for a, old in zip(t.loop, t.types, strict=True))
    return replace(t, types=types)


def _allocate(t: TensorView, step: steps.SetAllocationDomain) -> TensorView:
    if t.memory is MemoryType.GLOBAL:
        raise BadTransform(f"{t.name} is global", "The memory order of an input or output is given by its strides.")
    if sorted(step.axes) != list(range(len(t.loop))):
        raise BadTransform(f"axes {step.axes} are not the loop axes", f"Name each of 0 to {len(t.loop) - 1} once.")
    listed = AxisList(tuple(t.loop[i] for i in step.axes))
    names = _names(t)
    for sub in step.transforms:
        if sub.tv != step.tv:
            raise BadTransform(f"a transform names {sub.tv}", f"Transforms of an allocation are of {step.tv} alone.")
        listed = transform(listed, sub, names)
    strides = step.strides or (None,) * len(listed.axes)
    if len(strides) != len(listed.axes):
        raise BadTransform(f"{len(strides)} strides for {len(listed.axes)} axes", "Give one for each axis, or none.")
    if any(s is not None and s < 1 for s in strides):
        raise BadTransform(f"strides {strides}", "A stride is at least 1; null takes it from contiguity.")
    if step.contiguity and len(step.contiguity) != len(listed.axes):
        raise BadTransform(
            f"{len(step.contiguity)} contiguity flags for {len(listed.axes)} axes", "Give one for each axis, or none."
        )
    return replace(t, allocation=Allocation(listed.axes, strides, listed.exprs, step.contiguity))


def _inline(t: TensorView, step: steps.InlineAt) -> TensorView:
    """A tensor's own limits (nvFuser, inlining): not past Vectorize or Bulk, not an output, not beyond the loops."""
    stop = next((i for i, ty in enumerate(t.types) if ty in (ParallelType.VECTORIZE, ParallelType.BULK)), len(t.loop))
    if t.memory is MemoryType.GLOBAL:
        raise BadTransform(f"{t.name} is global", "Only tensors with consumers inside the kernel are inlined.")
    if not 0 <= step.position <= stop:
        raise BadTransform(
            f"position {step.position} of {t.name} is past {stop}",
            "Inline left of Vectorize and Bulk axes.",
        )
    return replace(t, compute_at=step.position)


def _dimsep(t: TensorView, step: steps.TmemDimsep) -> TensorView:
    if t.memory is not MemoryType.TENSOR:
        raise BadTransform(f"{t.name} is {t.memory}", "Only tensor memory has lanes and columns.")
    count = len(t.allocation.axes if t.allocation is not None else t.logical)
    position = step.position + count if step.position < 0 else step.position
    if not 0 <= position <= count:
        raise BadTransform(f"position {step.position} of {count} allocation axes", f"Positions are 0 to {count}.")
    return replace(t, dimsep=position)


def _circular(t: TensorView, step: steps.CircularBuffer) -> TensorView:
    prefetch = step.prefetch + step.stages if step.prefetch < 0 else step.prefetch
    if step.stages < 2 or not 0 <= prefetch < step.stages:
        raise BadTransform(
            f"stages {step.stages} with prefetch {step.prefetch}", "Stages exceed 1 and prefetch lies in [0, stages)."
        )
    if t.memory is not MemoryType.SHARED:
        raise BadTransform(f"{t.name} is {t.memory}", "Circular-buffer a shared tensor.")
    options = (step.kind, step.on, step.registers, step.slice_position, step.war_mbarrier)
    return replace(t, circular=CircularBuffer(step.stages, prefetch, *options))


def _cacheable(sf: ScheduledFusion, step: steps.CacheInput | steps.CacheOutput) -> None:
    """A cache is a new tensor inside the kernel: its name is free, and nobody gives it global memory."""
    if step.out in sf.by_name:
        raise BadTransform(f"{step.out} exists already", "Choose a name that no tensor has.")
    if step.memory is MemoryType.GLOBAL:
        raise BadTransform(f"{step.out} cannot be global", "Cache in shared memory or in registers.")


def _like(t: TensorView, name: str, memory: MemoryType) -> TensorView:
    logical = tuple(IterDomain(f"{name}.{d}", a.extent, a.kind) for d, a in enumerate(t.logical))
    return TensorView(name, t.dtype, memory, logical, logical, (ParallelType.SERIAL,) * len(logical))


def _cache_input(sf: ScheduledFusion, step: steps.CacheInput) -> ScheduledFusion:
    t = _tensor(sf, step.tensor)
    _cacheable(sf, step)
    if t.compute_at or not sf.consumers(t.name):
        raise BadTransform(f"{t.name} is inlined or has no consumer", "Cache before inlining.")
    copy = TensorOp(OpKind.COPY, (t.name,), step.out, via=step.via)
    ops: list[TensorOp] = []
    placed = False
    for op in sf.ops:
        if t.name in op.inputs:
            if not placed:
                ops.append(copy)
                placed = True
            op = replace(op, inputs=tuple(step.out if x == t.name else x for x in op.inputs))
        ops.append(op)
    return replace(sf, tensors=(*sf.tensors, _like(t, step.out, step.memory)), ops=tuple(ops))


def _cache_output(sf: ScheduledFusion, step: steps.CacheOutput) -> ScheduledFusion:
    t = _tensor(sf, step.tensor)
    _cacheable(sf, step)
    made = _op(sf, step.tensor)
    if t.name not in sf.outputs:
        raise BadTransform(f"{t.name} is no output", "Cache it for its consumers (cache_input).")
    if t.compute_at or t.exprs:
        raise BadTransform(f"{t.name} is scheduled already", "Cache before transforming and inlining.")
    cached = _like(t, step.out, step.memory)
    ops: list[TensorOp] = []
    for op in sf.ops:
        if op == made:
            ops += [replace(op, output=step.out), TensorOp(OpKind.COPY, (step.out,), t.name, via=step.via)]
        else:
            ops.append(replace(op, inputs=tuple(step.out if x == t.name else x for x in op.inputs)))
    return replace(sf, tensors=(*sf.tensors, cached), ops=tuple(ops))


def _set_memory(sf: ScheduledFusion, step: steps.SetMemory) -> ScheduledFusion:
    t = _tensor(sf, step.tensor)
    op = _op(sf, step.tensor)
    if t.memory is MemoryType.GLOBAL or step.memory is MemoryType.GLOBAL:
        raise BadTransform(f"{t.name} cannot move to {step.memory}", "Inputs and outputs stay global, the rest off it.")
    if op.kind not in MOVES and step.memory is MemoryType.SHARED:
        raise BadTransform(f"{t.name} is computed by {op.kind}", "Cache its output in shared memory instead.")
    return sf.with_tensor(replace(t, memory=step.memory)).with_op(replace(op, via=step.via))
