"""Domains of a tensor: loops and allocation stand for the logical domain, and memory is as the allocation says.

Whether memory is so shows at launch: strides and shapes are a launch's (nvFuser, contiguity).
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.analysis.id.contiguity import allocation_splits, allocation_strides, broken_claims
from compiler.analysis.id.domains import allocation_equivalence, loop_equivalence
from compiler.errors import Kept, Stage, Violation
from compiler.ir.id_exprs import Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView
from compiler.legality.rules import Schedule, asked_again, model_rule
from compiler.schedule.axes import AxisList
from compiler.schedule.refusals import Site
from compiler.schedule.refusals.allocation import (
    MadeAllocation,
    allocations_are_equivalent_to_the_logical_domain,
    contiguity_has_one_flag_an_axis,
    unequal,
)


@model_rule
def loops_are_equivalent_to_the_logical_domain(s: Schedule) -> Iterator[Violation]:
    """Each part of the logical domain is in one loop (nvFuser, domains). Broadcast axes may be left out."""
    for t in s.sf.tensors:
        for one in unequal(f"{t.name}: loop domain", loop_equivalence(t)):
            yield one.by(loops_are_equivalent_to_the_logical_domain, Stage.COMPILE)


def _allocated(s: Schedule) -> Iterator[tuple[Site, MadeAllocation]]:
    for t in s.sf.tensors:
        if t.allocation is not None:
            site = Site(s.sf, t.name, AxisList(t.allocation.axes, t.allocation.exprs), is_settled=True)
            made = MadeAllocation(allocation_equivalence(t), t.allocation.strides, t.allocation.contiguity)
            yield site, made


asked_again(allocations_are_equivalent_to_the_logical_domain, _allocated)
asked_again(contiguity_has_one_flag_an_axis, _allocated)


@model_rule
def no_two_axes_of_a_tensor_are_one(s: Schedule) -> Iterator[Violation]:
    """Operators do not make two axes of a tensor the same one, as a square one plus its transpose does: loops over the
    two could not be told apart (nvFuser, exact graph)."""
    for t in s.sf.tensors:
        seen: dict[int, IterDomain] = {}
        for a in t.logical:
            first = seen.setdefault(s.graph.group(a), a)
            if first is not a and not a.is_broadcast:
                yield Violation(
                    "no_two_axes_of_a_tensor_are_one",
                    f"{t.name}: {first} and {a}",
                    "one axis",
                    "two axes",
                    "Write one of the results to memory and read it in another kernel.",
                )


@model_rule
def bound_shapes_are_the_declared_ones(s: Schedule) -> Iterator[Violation]:
    """A launch binds a tensor to the extents that it is declared with, where those are known (nvFuser, contiguity)."""
    for t in _bound(s):
        elements = [a.extent for a in t.logical if not a.is_reduction]
        if t.runtime_shape and list(t.runtime_shape) != elements:
            yield Violation(
                "bound_shapes_are_the_declared_ones",
                t.name,
                str(list(t.runtime_shape)),
                str(elements),
                "Bind a tensor of the declared shape, or declare the extent symbolic.",
                stage=Stage.RUNTIME,
            )


@model_rule
def allocation_splits_divide(s: Schedule) -> Iterator[Violation | Kept]:
    """The allocation of an input or output has a place for each element and no more: splits on the way to it divide
    (nvFuser, contiguity)."""
    for t in s.sf.tensors:
        if t.name not in (*s.sf.inputs, *s.sf.outputs):
            continue
        for e, divides in allocation_splits(t):
            yield from divides.require(
                Violation(
                    "allocation_splits_divide",
                    f"{t.name}: {e.source}",
                    str(e.source.size),
                    f"a multiple of {e.inner.size}",
                    "Split by a factor that divides the extent, or pad the tensor.",
                    stage=Stage.RUNTIME,
                )
            )


@model_rule
def merged_allocation_axes_are_adjacent(s: Schedule) -> Iterator[Violation]:
    """An allocation axis has one stride: axes merged into it are adjacent in memory (nvFuser, contiguity)."""
    yield from _apart(s, "merged_allocation_axes_are_adjacent", splits=False)


@model_rule
def split_allocation_axes_have_adjacent_pieces(s: Schedule) -> Iterator[Violation]:
    """Where logical axes are pieces of an allocation axis, they are adjacent in memory (nvFuser, contiguity)."""
    yield from _apart(s, "split_allocation_axes_have_adjacent_pieces", splits=True)


def _apart(s: Schedule, rule: str, splits: bool) -> Iterator[Violation]:
    for t in _bound(s):
        for a in allocation_strides(t).apart:
            if isinstance(a.expr, Split) == splits:
                yield Violation(
                    rule,
                    f"{t.name}: {a.expr.outer} and {a.expr.inner}",
                    f"stride {a.found}",
                    f"stride {a.wanted}",
                    "Bind a tensor whose axes are adjacent there, or allocate the axes apart.",
                    stage=Stage.RUNTIME,
                )


@model_rule
def strides_are_as_contiguity_says(s: Schedule) -> Iterator[Violation]:
    """An axis claimed contiguous has the next one's extent times its stride, the last one 1, an expanded broadcast one
    0; extent one goes with any stride (nvFuser, contiguity).
    """
    for t in _bound(s):
        for claim in broken_claims(t, allocation_strides(t).placed):
            yield Violation(
                "strides_are_as_contiguity_says",
                f"{t.name}: {claim.axis}",
                f"stride {claim.found}",
                f"stride {claim.claimed}",
                "Bind a tensor of those strides, or declare the axis not contiguous.",
                stage=Stage.RUNTIME,
            )


def _bound(s: Schedule) -> Iterator[TensorView]:
    """The tensors whose memory is there before the launch: inputs, and outputs for which a launch gives it."""
    for name in (*s.sf.inputs, *s.sf.outputs):
        t = s.sf.tensor(name)
        if t.allocation is not None and (name in s.sf.inputs or t.runtime_strides or t.runtime_shape):
            yield t
