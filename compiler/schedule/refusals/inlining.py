"""Inlining: how deep in its consumers' loops a tensor is computed (nvFuser, inlining)."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.domain import downstream
from compiler.ir.iter_domain import IterDomain
from compiler.schedule import steps
from compiler.schedule.inline import max_position, without_trailing_broadcasts
from compiler.schedule.refusals.registry import Refusal, Site, step_rule


@step_rule(steps.InlineAt, steps.InlineSelectedAt, steps.ComputeWith)
def inline_positions_lie_among_the_loops(
    site: Site, step: steps.InlineAt | steps.InlineSelectedAt | steps.ComputeWith
) -> Iterator[Refusal]:
    """A position is one of the places before, between and after the tensor's loops."""
    for name in step.tensors if isinstance(step, steps.InlineSelectedAt) else (site.name,):
        yield from _among_loops(name, step.position, len(site.sf.tensor(name).loop))


@step_rule(steps.ComputeAt)
def tensors_are_computed_at_what_is_computed_from_them(site: Site, step: steps.ComputeAt) -> Iterator[Refusal]:
    """computeAt names a tensor that is computed from the other one (nvFuser, inlining)."""
    if step.consumer not in downstream(site.sf, site.name):
        yield Refusal(
            f"{site.name} at {step.consumer}",
            step.consumer,
            f"a tensor computed from {site.name}",
            "Name a consumer, or a consumer's consumer.",
            f"{step.consumer} is not computed from {site.name}",
        )


@step_rule(steps.ComputeAt)
def compute_positions_lie_among_the_consumers_loops(site: Site, step: steps.ComputeAt) -> Iterator[Refusal]:
    """The position is one of the places before, between and after the consumer's loops."""
    yield from _among_loops(step.consumer, step.position, len(site.sf.tensor(step.consumer).loop))


def _among_loops(name: str, position: int, count: int) -> Iterator[Refusal]:
    if not 0 <= position <= count:
        yield Refusal(
            f"{name}: position {position}",
            position,
            f"0 to {count}",
            "Inline left of Vectorize and Bulk axes, at most past the last loop.",
            f"position {position} of {name} is past {count}" if position > 0 else f"position {position} of {name}",
        )


@step_rule(steps.InlineAt)
def tensors_are_inlined_at_most_at_their_maximum_position(site: Site, step: steps.InlineAt) -> Iterator[Refusal]:
    """The loops left of the position are the consumers' (nvFuser, inlining).

    So it lies left of every reduction, Vectorize and Bulk axis of the tensor, and left of the first that some consumer
    does not have in that place, or has as Vectorize or Bulk.
    """
    yield from _past(site, step.position)


@step_rule(steps.ComputeWith)
def tensors_that_are_computed_with_others_have_consumers(site: Site, step: steps.ComputeWith) -> Iterator[Refusal]:
    """There is a loop to be computed in (nvFuser, inlining)."""
    if not site.sf.consumers(site.name):
        yield Refusal(
            site.name, "no consumer", "a consumer", "Name a tensor that others read.", f"{site.name} has no consumer"
        )


@step_rule(steps.ComputeWith)
def tensors_are_computed_with_consumers_at_most_at_their_maximum_position(
    site: Site, step: steps.ComputeWith
) -> Iterator[Refusal]:
    """As for inlining, except that a sum and a use of it may meet in a loop: the tensor is not allocated there, so each
    finds it whole (nvFuser, inlining)."""
    yield from _past(site, step.position, frozenset())


def _past(site: Site, position: int, unmappable: frozenset[IterDomain] | None = None) -> Iterator[Refusal]:
    t = site.tensor
    wanted = without_trailing_broadcasts(t, position)
    limit = max_position(site.sf, t, wanted, unmappable) if wanted else 0
    if wanted > limit:
        yield Refusal(
            f"{site.name}: position {position}",
            wanted,
            limit,
            "Inline left of Vectorize and Bulk axes and of axes that a consumer does not have in that place.",
            f"position {wanted} of {site.name} is past {limit}",
        )


@step_rule(steps.ComputeWith)
def tensors_are_computed_no_shallower_than_allocated(site: Site, step: steps.ComputeWith) -> Iterator[Refusal]:
    """A tensor that computeWith names is computed right of the position where it is allocated (nvFuser, inlining)."""
    t = site.tensor
    position = without_trailing_broadcasts(t, step.position)
    if position < t.compute_at:
        yield Refusal(
            f"{site.name}: position {step.position}",
            position,
            t.compute_at,
            "Compute it at a greater position, or inline it less.",
            f"position {position} of {site.name} lies left of its compute-at position {t.compute_at}",
        )
