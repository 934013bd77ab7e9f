"""What steps name: tensors of the fusion, and axes that those have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from compiler.schedule import steps
from compiler.schedule.reference import logical_axes, reached
from compiler.schedule.refusals.registry import Refusal, Site, step_rule

_Transform = (
    steps.Split
    | steps.Merge
    | steps.Swizzle
    | steps.Resize
    | steps.Shift
    | steps.Window
    | steps.Parallelize
    | steps.ParallelizeLoops
)


@step_rule(
    steps.Split,
    steps.Merge,
    steps.Reorder,
    steps.Swizzle,
    steps.Resize,
    steps.Shift,
    steps.Window,
    steps.Parallelize,
    steps.ParallelizeLoops,
    steps.Propagate,
    steps.ParallelizeLike,
    steps.SetAllocationDomain,
    steps.TmemDimsep,
    steps.InlineAt,
    steps.InlineSelectedAt,
    steps.ComputeAt,
    steps.ComputeWith,
    steps.CircularBuffer,
    steps.CacheInput,
    steps.CacheOutput,
    steps.SetMemory,
    steps.Recompute,
    steps.Online,
    steps.SetCache,
    steps.Straddle,
    steps.Multicast,
)
def steps_name_tensors_of_the_fusion(site: Site, step: object) -> Iterator[Refusal]:
    """A step is taken on tensors that exist."""
    match step:
        case steps.Propagate() | steps.ParallelizeLike():
            named: tuple[str, ...] = (step.tv, *step.to)
        case steps.InlineSelectedAt():
            named = step.tensors
        case _:
            named = (site.name,)
    for name in named:
        if name not in site.sf.by_name:
            names = ", ".join(site.sf.by_name)
            yield Refusal(name, name, names, f"The tensors are {names}.", f"there is no tensor {name}")


@step_rule(steps.Propagate, steps.ParallelizeLike)
def references_have_every_axis_of_the_tensors(
    site: Site, step: steps.Propagate | steps.ParallelizeLike
) -> Iterator[Refusal]:
    """Loops come from a tensor that has an axis for each of theirs, through the operators between the two (nvFuser,
    propagation of transforms: the reference)."""
    found = reached(site.sf, step.tv, step.to)
    for name in step.to:
        if name not in found:
            own, shared = len(site.sf.tensor(name).logical), len(logical_axes(site.sf, step.tv).get(name, ()))
            yield Refusal(
                f"{step.tv} to {name}",
                f"{shared} axes",
                f"{own} axes",
                "Name a reference with every axis, or schedule the tensor by itself.",
                f"{shared} of the {own} axes of {name} are axes of {step.tv}",
            )


@step_rule(*get_args(_Transform))
def steps_name_axes_that_exist(site: Site, step: _Transform) -> Iterator[Refusal]:
    """Axes are counted in the tensor's loop domain at the moment of the step, from 0."""
    count = len(site.axes)
    for position in touched(step):
        if not 0 <= position < count:
            yield Refusal(
                f"{site.name}: axis {position}",
                position,
                f"0 to {count - 1}",
                f"Count loop axes at the moment of the step: 0 to {count - 1}." if count else "The tensor has no axes.",
                f"there is no axis {position}",
            )


@step_rule(steps.Reorder)
def reorders_are_permutations(site: Site, step: steps.Reorder) -> Iterator[Refusal]:
    """Each axis that a reorder names goes to one place, and no two go to the same (nvFuser, transforms)."""
    count = len(site.axes)
    old, new = [m[0] for m in step.moves], [m[1] for m in step.moves]
    if any(not 0 <= p < count for p in old + new) or len(set(old)) != len(old) or len(set(new)) != len(new):
        yield Refusal(
            site.name,
            str(step.moves),
            f"distinct positions from 0 to {count - 1}",
            f"Send each named axis to a place of its own, 0 to {count - 1}; the rest keep their order.",
            f"moves {step.moves} are not distinct positions",
        )


def touched(step: _Transform) -> tuple[int, ...]:
    """The positions of the axes that a step changes."""
    match step:
        case steps.Merge():
            return step.axis, step.axis + 1 if step.other is None else step.other
        case steps.Swizzle():
            return step.x, step.y
        case steps.Shift():
            return step.axis, *step.by
        case steps.ParallelizeLoops():
            return tuple(range(len(step.types)))
        case _:
            return (step.axis,)
