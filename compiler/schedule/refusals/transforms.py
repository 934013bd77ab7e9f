"""Transforms of axes: what can be split, merged, swizzled, resized, moved and parallelized (nvFuser, transforms)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.ir.id_exprs import IdExpr
from compiler.ir.iter_domain import IterDomain, MemoryType, ParallelType
from compiler.schedule import steps
from compiler.schedule.axes import merge_partner, order_after, resized_extent
from compiler.schedule.inline import compute_position, producer_position
from compiler.schedule.refusals.names import touched
from compiler.schedule.refusals.registry import Refusal, Site, step_rule

_Loop = steps.Split | steps.Merge | steps.Swizzle | steps.Resize | steps.Shift | steps.Window
MAX_PLACES = 1 << 62
MOST_FORMULA = 1000
"""Characters of an extent's formula."""
_CONSTANT = (ParallelType.UNROLL, ParallelType.VECTORIZE)


@step_rule(steps.Split)
def split_factors_are_positive(site: Site, step: steps.Split) -> Iterator[Refusal]:
    """A split factor is at least one (nvFuser, IterDomains). It need not divide the extent: that makes holes."""
    factor = step.factor if isinstance(step.factor, int) else step.factor.value
    if factor < 1:
        where = f"{site.name}: axis {step.axis}"
        yield Refusal(
            where, factor, 1, "Give a factor of at least 1; 1 leaves the axis as it is.", f"the factor is {factor}"
        )


@step_rule(steps.Split, steps.Resize)
def padded_tensors_have_places_that_an_index_can_count(
    site: Site, step: steps.Split | steps.Resize
) -> Iterator[Refusal]:
    """Indices are signed 64-bit numbers: no step more than doubles an axis so that all together, holes included, have
    more than 2**62 places.
    """
    source = site.axes[step.axis]
    if isinstance(step, steps.Split):
        factor = step.factor if isinstance(step.factor, int) else step.factor.value
        extent = -(-source.extent // factor) * factor
    else:
        extent = resized_extent(source, step)
    places = prod(a.extent for a in site.axes) // source.extent * extent
    if extent > 2 * source.extent and places > MAX_PLACES:
        yield Refusal(
            f"{site.name}: axis {step.axis}",
            f"2**{places.bit_length() - 1} places",
            "2**62 places",
            "Split by a factor of the order of the extent.",
            f"axis {step.axis} would have {extent.bit_length()} bits",
        )


@step_rule(steps.Split, steps.Merge, steps.Resize)
def unknown_extents_have_formulas_of_a_page(
    site: Site, step: steps.Split | steps.Merge | steps.Resize
) -> Iterator[Refusal]:
    """A guard spells an extent that is not known out: what is derived from derived extents for ever has no guard."""
    for position in touched(step):
        size = site.axes[position].symbolic
        if size is not None and len(str(size)) > MOST_FORMULA:
            yield Refusal(
                f"{site.name}: axis {position}",
                f"{len(str(size))} characters",
                f"{MOST_FORMULA} characters",
                "Derive the axis by fewer transforms.",
                f"the extent of axis {position} is a formula of {len(str(size))} characters",
            )


@step_rule(steps.Merge)
def merged_axes_are_two(site: Site, step: steps.Merge) -> Iterator[Refusal]:
    """An axis is merged with another one (nvFuser, IterDomains)."""
    if step.axis == merge_partner(step):
        where = f"{site.name}: axis {step.axis}"
        yield Refusal(
            where, step.axis, "another axis", "Name two different axes.", "an axis cannot be merged with itself"
        )


@step_rule(steps.Merge)
def merged_axes_are_both_reductions_or_neither(site: Site, step: steps.Merge) -> Iterator[Refusal]:
    """What is summed over stays apart from what is not (nvFuser, IterDomains)."""
    outer, inner = site.axes[step.axis], site.axes[merge_partner(step)]
    if outer.is_reduction != inner.is_reduction:
        yield Refusal(
            f"{site.name}: axes {step.axis} and {merge_partner(step)}",
            f"{outer.kind.value} and {inner.kind.value}",
            "both reductions or neither",
            "Merge axes of one kind.",
            "a reduction axis cannot be merged with another kind",
        )


@step_rule(steps.Swizzle)
def swizzled_extents_are_equal_powers_of_two(site: Site, step: steps.Swizzle) -> Iterator[Refusal]:
    """XOR permutes an axis only if both extents are one power of two, two or more, and known (nvFuser, IterDomains)."""
    x, y = site.axes[step.x], site.axes[step.y]
    n = x.extent
    known = x.symbolic is None and y.symbolic is None
    if step.x == step.y or not known or n != y.extent or n < 2 or n & (n - 1):
        yield Refusal(
            f"{site.name}: axes {step.x} and {step.y}",
            f"{x.size} and {y.size}",
            "equal known powers of two above 1",
            "XOR takes two axes of equal power-of-two extent, known when the kernel is compiled.",
            f"extents {x.size} and {y.size} cannot be swizzled",
        )


@step_rule(steps.Swizzle)
def swizzled_axes_carry_data(site: Site, step: steps.Swizzle) -> Iterator[Refusal]:
    """Neither axis is summed over, and no part of it is broadcast (nvFuser, IterDomains)."""
    for position in touched(step):
        axis = site.axes[position]
        sources = _sources(axis, site.exprs)
        kind = "reduction" if axis.is_reduction else "broadcast" if any(a.is_broadcast for a in sources) else None
        if kind is not None:
            yield Refusal(
                f"{site.name}: axis {position}",
                kind,
                "iteration",
                "Swizzle axes that carry data.",
                f"a {kind} axis cannot be swizzled",
            )


def _sources(axis: IterDomain, exprs: tuple[IdExpr, ...]) -> set[IterDomain]:
    """The axes that an axis was made from and that nothing was made before; the axis itself if it is one."""
    found = {axis}
    for e in reversed(exprs):
        made = found.intersection(e.outputs)
        if made:
            found = (found - made) | set(e.inputs)
    return found


@step_rule(steps.Resize)
def resized_axes_hold_something(site: Site, step: steps.Resize) -> Iterator[Refusal]:
    """An axis that is cut keeps at least one place (nvFuser, IterDomains)."""
    axis = site.axes[step.axis]
    if resized_extent(axis, step) < 1:
        yield Refusal(
            f"{site.name}: axis {step.axis}",
            f"{axis.extent} + {step.left} + {step.right}",
            "1 or more",
            "Cut less.",
            f"nothing is left of extent {axis.extent}",
        )


@step_rule(steps.Resize)
def resized_axes_are_not_summed_over(site: Site, step: steps.Resize) -> Iterator[Refusal]:
    """Only iteration and broadcast axes are padded or cut (nvFuser, IterDomains)."""
    if site.axes[step.axis].is_reduction:
        where = f"{site.name}: axis {step.axis}"
        yield Refusal(where, "reduction", "iteration", "Resize before the sum.", "a reduction axis cannot be resized")


@step_rule(steps.Shift)
def shifted_rows_have_a_phase(site: Site, step: steps.Shift) -> Iterator[Refusal]:
    """A run of known length is moved by less than a modulus of two or more, which other axes, one factor each, decide;
    those are not summed over."""
    where = f"{site.name}: axis {step.axis}"
    axes = [site.axes[i] for i in (step.axis, *step.by)]
    if (
        step.modulus < 2
        or len(step.by) != len(step.factors)
        or step.axis in step.by
        or min((step.start, *step.factors)) < 0
    ):
        fix = "Give one factor from 0 for each of the other axes that say which row, and a modulus of 2 or more."
        yield Refusal(where, str(step.by), f"{len(step.factors)} other axes", fix, "that is no phase of a row")
    elif any(a.symbolic is not None for a in axes) or any(a.is_reduction for a in axes[1:]):
        fix = "Shift runs of known length, by axes that are not summed over."
        yield Refusal(where, "unknown or reduction", "known axes", fix, "that axis cannot be shifted")


@step_rule(steps.Window)
def windows_cover_their_axis(site: Site, step: steps.Window) -> Iterator[Refusal]:
    """Windows stand close enough that every element lies in one, on an axis of known length that is neither summed over
    (an element of two tiles would count twice) nor broadcast, of a tensor that is not stored: each block has its own
    copy of what tiles share."""
    where, axis = f"{site.name}: axis {step.axis}", site.axes[step.axis]
    if step.step < 1 or step.before < 0 or step.size < step.step:
        found = f"windows of {step.size} every {step.step}, {step.before} before"
        fix = "Give a step of 1 or more, windows at least as long, and 0 or more elements before."
        yield Refusal(where, found, "windows that touch", fix, "elements would lie in no window")
    elif axis.symbolic is not None or axis.is_reduction or axis.is_broadcast:
        kind = "unknown" if axis.symbolic is not None else axis.kind.value
        yield Refusal(where, kind, "iteration", "Cut axes of elements.", f"a {kind} axis has no windows")
    elif site.tensor.memory is MemoryType.GLOBAL:
        fix = "Cut a copy of it in shared memory or registers (cache_input, cache_output)."
        yield Refusal(where, "global", "shared or local", fix, "a stored element lies in one tile")


def _moved(site: Site, step: _Loop | steps.Reorder) -> tuple[int, ...]:
    """Positions of the loops that a step changes or moves."""
    if not site.is_loop:
        return ()
    if isinstance(step, steps.Reorder):
        pairs = enumerate(order_after(step, len(site.axes)))
        return tuple(min(new, old) for new, old in pairs if new != old)
    return touched(step)


@step_rule(steps.Split, steps.Merge, steps.Swizzle, steps.Resize, steps.Shift, steps.Window, steps.Reorder)
def transforms_stay_right_of_the_compute_position(site: Site, step: _Loop | steps.Reorder) -> Iterator[Refusal]:
    """Loops left of the compute-at position are the consumers' too, and fixed (nvFuser, transforms)."""
    limit = compute_position(site.tensor)
    for position in _moved(site, step) if limit else ():
        if position < limit:
            yield Refusal(
                f"{site.name}: axis {position}",
                position,
                limit,
                "Transform before inlining.",
                f"axis {position} of {site.name} lies left of its compute-at position {limit}",
            )
            return


@step_rule(steps.Split, steps.Merge, steps.Swizzle, steps.Resize, steps.Shift, steps.Window, steps.Reorder)
def transforms_stay_right_of_inlined_producers(site: Site, step: _Loop | steps.Reorder) -> Iterator[Refusal]:
    """Loops in which something that the tensor reads is computed are fixed (nvFuser, transforms)."""
    moved = _moved(site, step)
    limit = producer_position(site.sf, site.tensor) if moved else 0
    for position in moved:
        if position < limit:
            yield Refusal(
                f"{site.name}: axis {position}",
                position,
                limit,
                "Transform before inlining what the tensor reads.",
                f"axis {position} of {site.name} lies left of {limit}, up to where what it reads is inlined",
            )
            return


@step_rule(steps.Split, steps.Resize, steps.Shift, steps.Window)
def split_axes_are_serial(
    site: Site, step: steps.Split | steps.Resize | steps.Shift | steps.Window
) -> Iterator[Refusal]:
    """Parallel types are given after splitting, so that no type is on two axes unasked (nvFuser, transforms)."""
    if site.is_loop and site.tensor.types[step.axis] is not ParallelType.SERIAL:
        type_ = site.tensor.types[step.axis]
        yield Refusal(
            f"{site.name}: axis {step.axis}",
            str(type_),
            "Serial",
            "Transform before parallelizing.",
            f"axis {step.axis} of {site.name} is already {type_}",
        )


@step_rule(steps.Merge)
def a_merged_axis_is_serial(site: Site, step: steps.Merge) -> Iterator[Refusal]:
    """Of two merged axes at most one is parallel; the result takes the outer one's type (nvFuser, transforms)."""
    if not site.is_loop:
        return
    types = [site.tensor.types[p] for p in touched(step)]
    if ParallelType.SERIAL not in types:
        yield Refusal(
            f"{site.name}: axes {step.axis} and {merge_partner(step)}",
            f"{types[0]} and {types[1]}",
            "one of them Serial",
            "Transform before parallelizing.",
            f"axes {step.axis} and {merge_partner(step)} of {site.name} are already {types[0]} and {types[1]}",
        )


@step_rule(steps.Parallelize)
def unrolled_and_vectorized_extents_are_known(site: Site, step: steps.Parallelize) -> Iterator[Refusal]:
    """An axis is unrolled or vectorized if its extent is known when the kernel is compiled (nvFuser, IterDomains)."""
    axis = site.axes[step.axis]
    if step.type in _CONSTANT and axis.symbolic is not None:
        yield Refusal(
            f"{site.name}: axis {step.axis}",
            str(axis.size),
            "a known extent",
            "Split a known number of places off and use that axis.",
            f"the extent {axis.size} of axis {step.axis} is not known when the kernel is compiled",
        )
