"""Allocation domains: which axes may stand in one, and what may be said of them (nvFuser, domains)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from compiler.ir.equivalence import Equivalence, compare_domains
from compiler.ir.iter_domain import IterDomain, MemoryType
from compiler.schedule import steps
from compiler.schedule.refusals.registry import Refusal, Site, step_rule


@dataclass(frozen=True, slots=True)
class MadeAllocation:
    """What is said of the axes of an allocation domain: how they compare with the logical ones, strides, flags."""

    compared: Equivalence
    strides: tuple[int | None, ...]
    contiguity: tuple[bool | None, ...] | bool


@dataclass(frozen=True, slots=True)
class DomainQuestion:
    """Whether axes of a tensor, loops of now or of before, form a domain equivalent to its logical one."""

    axes: tuple[IterDomain, ...]


@step_rule(DomainQuestion)
def listed_axes_are_equivalent_to_the_logical_domain(site: Site, step: DomainQuestion) -> Iterator[Refusal]:
    """A domain holds each part of the logical one once: none is missing, and no axis repeats others (nvFuser, domains).

    Broadcast axes may be left out.
    """
    yield from unequal(site.name, compare_domains(site.tensor.logical, step.axes, site.exprs))


@step_rule(steps.SetAllocationDomain)
def allocation_axes_are_loops(site: Site, step: steps.SetAllocationDomain) -> Iterator[Refusal]:
    """An allocation domain starts from loops of the tensor, each named once."""
    count = len(site.tensor.loop)
    if len(set(step.axes)) != len(step.axes) or any(not 0 <= a < count for a in step.axes):
        yield Refusal(
            site.name,
            str(step.axes),
            f"0 to {count - 1}, each once",
            f"Name each of 0 to {count - 1} once.",
            f"axes {step.axes} are not the loop axes",
        )


@step_rule(steps.SetAllocationDomain)
def allocation_transforms_are_of_the_tensor(site: Site, step: steps.SetAllocationDomain) -> Iterator[Refusal]:
    """The transforms of an allocation domain are of that tensor's axes."""
    for sub in step.transforms:
        if sub.tv != step.tv:
            yield Refusal(
                site.name,
                sub.tv,
                step.tv,
                f"Transforms of an allocation are of {step.tv} alone.",
                f"a transform names {sub.tv}",
            )


@step_rule(steps.TmemDimsep)
def only_tensor_memory_has_lanes_and_columns(site: Site, step: steps.TmemDimsep) -> Iterator[Refusal]:
    """The separator of lanes and columns is a place in a tensor-memory allocation (nvFuser, tensor memory)."""
    memory = site.tensor.memory
    if memory is not MemoryType.TENSOR:
        yield Refusal(
            site.name,
            str(memory),
            "tensor",
            "Put the tensor in tensor memory, or leave out the separator.",
            f"{site.name} is {memory}",
        )


@step_rule(steps.TmemDimsep)
def separators_lie_among_the_allocation_axes(site: Site, step: steps.TmemDimsep) -> Iterator[Refusal]:
    """The separator is one of the places before, between and after the allocation axes (nvFuser, tensor memory)."""
    t = site.tensor
    count = len(t.allocation.axes if t.allocation is not None else t.logical)
    if not -count - 1 <= step.position <= count:
        yield Refusal(
            site.name,
            step.position,
            f"0 to {count}",
            f"Positions are 0 to {count}.",
            f"position {step.position} of {count} allocation axes",
        )


@step_rule(MadeAllocation)
def allocations_are_equivalent_to_the_logical_domain(site: Site, step: MadeAllocation) -> Iterator[Refusal]:
    """Each part of the logical domain has one place in memory (nvFuser, domains). Broadcast axes need none."""
    yield from unequal(f"{site.name}: allocation domain", step.compared)


def unequal(where: str, compared: Equivalence) -> Iterator[Refusal]:
    """What keeps axes from standing for the logical domain."""
    for fault, which in (("lacks", compared.missing), ("repeats", compared.redundant)):
        if which:
            names = ", ".join(str(a) for a in which)
            yield Refusal(
                where,
                names,
                "each part of the logical domain once",
                "Name every axis that holds data once, itself or by its pieces.",
                f"the domain {fault} {names}",
            )


@step_rule(MadeAllocation)
def allocation_strides_are_positive_and_one_an_axis(site: Site, step: MadeAllocation) -> Iterator[Refusal]:
    """Strides are given for all axes or none; one that contiguity gives is null."""
    count = len(site.axes)
    if step.strides and len(step.strides) != count:
        given = len(step.strides)
        yield Refusal(site.name, given, count, "Give one for each axis, or none.", f"{given} strides for {count} axes")
    elif any(s is not None and s < 1 for s in step.strides):
        yield Refusal(
            site.name,
            str(step.strides),
            1,
            "A stride is at least 1; null takes it from contiguity.",
            f"strides {step.strides}",
        )


@step_rule(MadeAllocation)
def contiguity_has_one_flag_an_axis(site: Site, step: MadeAllocation) -> Iterator[Refusal]:
    """A flag is true or false where the axis holds data, null on broadcast and reduction axes (nvFuser, contiguity)."""
    flags = step.contiguity
    if isinstance(flags, bool) or not flags:
        return
    count = len(site.axes)
    if len(flags) != count:
        fix = "Give one for each axis, or none."
        yield Refusal(site.name, len(flags), count, fix, f"{len(flags)} contiguity flags for {count} axes")
        return
    for axis, flag in zip(site.axes, flags, strict=True):
        if (flag is None) != (axis.is_broadcast or axis.is_reduction):
            yield Refusal(
                f"{site.name}: {axis}",
                str(flag),
                "null" if flag is not None else "true or false",
                "Give null to broadcast and reduction axes, true or false to the others.",
                f"contiguity {flag} on the {axis.kind.value} axis {axis}",
            )
