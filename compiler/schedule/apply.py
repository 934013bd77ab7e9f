"""Applies one schedule step to a scheduled fusion. Each refusal is an InvalidStep with the rules that refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from compiler.errors import InvalidStep, Violation
from compiler.ir.domain import ScheduledFusion
from compiler.ir.equivalence import compare_domains
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import Allocation, TensorOp, TensorView, changed, unscheduled_like
from compiler.schedule import inline, steps
from compiler.schedule.axes import AxisList, merge_partner, order_after, transform
from compiler.schedule.online import fold_online
from compiler.schedule.reference import parallelized, propagated, types_like
from compiler.schedule.refusals import Site, refusals
from compiler.schedule.refusals.allocation import MadeAllocation
from compiler.schedule.step_forms import step_text


def apply(sf: ScheduledFusion, step: steps.Step) -> ScheduledFusion:
    """The fusion after one step. Raises InvalidStep."""
    name = step_subject(step)
    _require(step, refusals(Site(sf, name), step))
    match step:
        case steps.Split() | steps.Merge() | steps.Swizzle() | steps.Resize() | steps.Shift() | steps.Window():
            return sf.with_tensor(_transform_loop(sf.tensor(name), step))
        case steps.Reorder():
            return sf.with_tensor(_reorder(sf.tensor(name), step))
        case steps.Parallelize():
            return sf.with_tensor(_parallelize(sf.tensor(name), step))
        case steps.ParallelizeLoops():
            return _parallelize_loops(sf, step)
        case steps.Propagate():
            return _propagate(sf, step)
        case steps.ParallelizeLike():
            return _parallelize_like(sf, step)
        case steps.SetAllocationDomain():
            return sf.with_tensor(_allocate(sf, step))
        case steps.TmemDimsep():
            return sf.with_tensor(_dimsep(sf.tensor(name), step))
        case steps.InlineAt():
            t = sf.tensor(name)
            return sf.with_tensor(inline.inlined(sf, t, inline.without_trailing_broadcasts(t, step.position)))
        case steps.InlineSelectedAt():
            return inline.inline_selected(sf, step.tensors, step.position)
        case steps.InlineMost():
            return inline.inline_most(sf)
        case steps.ComputeAt():
            return _compute_at(sf, step)
        case steps.ComputeWith():
            return sf.with_tensor(inline.compute_with(sf, sf.tensor(name), step.position))
        case steps.CircularBuffer():
            return sf.with_tensor(replace(sf.tensor(name), circular=step.options))
        case steps.CacheInput():
            return _cache_input(sf, step)
        case steps.CacheOutput():
            return _cache_output(sf, step)
        case steps.SetMemory():
            return _set_memory(sf, step)
        case steps.Recompute():
            return _recompute(sf, step)
        case steps.Online():
            return fold_online(sf, name, step.sums)
        case steps.SetCache():
            return sf.with_op(replace(_made_by(sf, name), cache=step.policy))
        case steps.Straddle():
            return sf.with_op(replace(_made_by(sf, name), straddles=True))
        case steps.Multicast():
            return sf.with_op(replace(_made_by(sf, name), multicasts=True))
        case steps.Park():
            return sf.with_tensor(replace(sf.tensor(name), parked=step.first))
        case steps.ProductsInFlight():
            return sf.with_tensor(replace(sf.tensor(name), in_flight=step.groups))
        case steps.Deal():
            return sf.with_tensor(replace(sf.tensor(name), dealt=step.blocks))
        case steps.CapRegisters():
            return replace(sf, max_registers=step.count)


def step_subject(step: steps.Step) -> str:
    """The tensor that a step is taken on, empty for a step on the whole fusion."""
    name: str = getattr(step, "tv", "") or getattr(step, "tensor", "")
    return name


def _require(step: steps.Step, broken: tuple[Violation, ...]) -> None:
    """Raises InvalidStep where a rule refuses the step."""
    if broken:
        raise InvalidStep(step_text(step), broken[0].message, broken[0].fix, broken)


def _made_by(sf: ScheduledFusion, name: str) -> TensorOp:
    return next(op for op in sf.ops if op.output == name)


def _names(t: TensorView) -> Iterator[str]:
    """Axis names that no axis of the tensor's loop and allocation trees has, in order.

    Axes are numbered as they are made, so the last transform of each tree made the one with the greatest number.
    """
    trees = [t.exprs]
    if t.allocation is not None and not t.allocation.is_source:
        trees.append(t.allocation.exprs)
    last = [int(exprs[-1].outputs[-1].name.rpartition(".")[2]) for exprs in trees if exprs]
    return (f"{t.name}.{n}" for n in count(1 + max(last, default=len(t.logical) - 1)))


def _transform_loop(
    t: TensorView, step: steps.Split | steps.Merge | steps.Swizzle | steps.Resize | steps.Shift | steps.Window
) -> TensorView:
    """Pieces of an axis keep its type, a merged axis has the outer one's (nvFuser, IterDomains)."""
    after = transform(AxisList(t.loop, t.exprs), step, _names(t))
    types = t.types
    match step:
        case steps.Split() | steps.Window():
            types = (*types[: step.axis], types[step.axis], *types[step.axis :])
        case steps.Merge():
            low, high = sorted((step.axis, merge_partner(step)))
            types = (*types[:low], types[step.axis], *types[low + 1 : high], *types[high + 1 :])
    return changed(t, loop=after.axes, exprs=after.exprs, types=types)


def _reorder(t: TensorView, step: steps.Reorder) -> TensorView:
    order = order_after(step, len(t.loop))
    return changed(t, loop=tuple([t.loop[i] for i in order]), types=tuple([t.types[i] for i in order]))


def _parallelize(t: TensorView, step: steps.Parallelize) -> TensorView:
    return changed(t, types=(*t.types[: step.axis], step.type, *t.types[step.axis + 1 :]))


def _propagate(sf: ScheduledFusion, step: steps.Propagate) -> ScheduledFusion:
    try:
        return propagated(sf, step.tv, step.to, apply)
    except InvalidStep as error:
        raise InvalidStep(step_text(step), error.reason, error.fix, error.violations) from None


def _parallelize_loops(sf: ScheduledFusion, step: steps.ParallelizeLoops) -> ScheduledFusion:
    """As a `Parallelize` of each loop; the rules of that say what cannot be."""
    said = ((i, type_) for i, type_ in enumerate(step.types) if type_ is not ParallelType.SERIAL)
    single = [steps.Parallelize(step.tv, i, type_) for i, type_ in said]
    for one in single:
        _require(step, refusals(Site(sf, step.tv), one))
    return parallelized(sf, single)


def _parallelize_like(sf: ScheduledFusion, step: steps.ParallelizeLike) -> ScheduledFusion:
    taken = types_like(sf, step.tv, step.to)
    for one in taken:
        _require(step, refusals(Site(sf, one.tv), one))
    return parallelized(sf, taken)


def _allocate(sf: ScheduledFusion, step: steps.SetAllocationDomain) -> TensorView:
    t = sf.tensor(step.tv)
    listed = AxisList(tuple(t.loop[i] for i in step.axes))
    names = _names(t)
    for sub in step.transforms:
        _require(step, refusals(Site(sf, t.name, listed), sub))
        listed = transform(listed, sub, names)
    site = Site(sf, t.name, listed)
    compared = compare_domains(t.logical, site.axes, site.exprs)
    _require(step, refusals(site, MadeAllocation(compared, step.strides, step.contiguity)))
    strides = step.strides or (None,) * len(listed.axes)
    flags = step.contiguity
    if isinstance(flags, bool):
        hold = [not (a.is_broadcast or a.is_reduction) for a in listed.axes]
        flags = () if flags else tuple(False if h else None for h in hold)
    return replace(t, allocation=Allocation(listed.axes, strides, listed.exprs, flags))


def _dimsep(t: TensorView, step: steps.TmemDimsep) -> TensorView:
    count_ = len(t.allocation.axes if t.allocation is not None else t.logical)
    return replace(t, dimsep=step.position + count_ + 1 if step.position < 0 else step.position)


def _compute_at(sf: ScheduledFusion, step: steps.ComputeAt) -> ScheduledFusion:
    """First the loops, then the positions, each as deep as the consumer's position stands for."""
    try:
        alike = inline.with_loops_of(sf, step, apply)
    except InvalidStep as error:
        raise InvalidStep(step_text(step), error.reason, error.fix, error.violations) from None
    for name, position in inline.compute_positions(alike, step).items():
        _require(step, refusals(Site(alike, name), steps.InlineAt(name, position)))
    return inline.compute_at(alike, step)


def _cache_input(sf: ScheduledFusion, step: steps.CacheInput) -> ScheduledFusion:
    t = sf.tensor(step.tensor)
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
    made = unscheduled_like(t, step.out, step.memory, is_copy=True)
    return replace(sf, tensors=(*sf.tensors, made), ops=tuple(ops))


def _cache_output(sf: ScheduledFusion, step: steps.CacheOutput) -> ScheduledFusion:
    t = sf.tensor(step.tensor)
    made = _made_by(sf, step.tensor)
    cached = unscheduled_like(t, step.out, step.memory)
    ops: list[TensorOp] = []
    for op in sf.ops:
        if op == made:
            ops += [replace(op, output=step.out), TensorOp(OpKind.COPY, (step.out,), t.name, via=step.via)]
        else:
            ops.append(replace(op, inputs=tuple(step.out if x == t.name else x for x in op.inputs)))
    return replace(sf, tensors=(*sf.tensors, cached), ops=tuple(ops))


def _recompute(sf: ScheduledFusion, step: steps.Recompute) -> ScheduledFusion:
    """The copy of the tensor is as unscheduled as a new one."""
    t = sf.tensor(step.tensor)
    ops: list[TensorOp] = []
    for op in sf.ops:
        if op.output in (step.consumer, *step.others):
            op = replace(op, inputs=tuple(step.out if x == t.name else x for x in op.inputs))
        ops.append(op)
        if op.output == t.name:
            ops.append(replace(op, output=step.out))
    return replace(sf, tensors=(*sf.tensors, unscheduled_like(t, step.out, t.memory)), ops=tuple(ops))


def _set_memory(sf: ScheduledFusion, step: steps.SetMemory) -> ScheduledFusion:
    moved = replace(sf.tensor(step.tensor), memory=step.memory)
    return sf.with_tensor(moved).with_op(replace(_made_by(sf, step.tensor), via=step.via))
