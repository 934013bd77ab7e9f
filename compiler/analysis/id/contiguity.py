"""Strides of a launch, carried from the logical axes of an input to its allocation axes (nvFuser, contiguity)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.analysis.id.conditions import split_divides
from compiler.errors import Condition
from compiler.ir.fusion import dense_strides
from compiler.ir.id_exprs import IdExpr, Merge, Split
from compiler.ir.iter_domain import IterDomain
from compiler.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class Placed:
    """An axis in memory at the launch at hand: its extent, and elements from one index to the next."""

    extent: int
    stride: int


@dataclass(frozen=True, slots=True)
class Apart:
    """A merge of axes that are not adjacent in memory, or a split, walked back, into such: the outer axis' stride and
    what it would have to be."""

    expr: Merge | Split
    found: int
    wanted: int


@dataclass(frozen=True, slots=True)
class AllocationStrides:
    """Where the allocation axes of a tensor lie, as far as its strides could be carried to them.

    `apart`: what is in the way.
    """

    placed: dict[IterDomain, Placed]
    apart: tuple[Apart, ...] = ()


def on_the_way(t: TensorView) -> tuple[tuple[IdExpr, bool], ...]:
    """The transforms from the logical axes to the allocation axes, in walking order, and whether each is walked from
    its inputs to its outputs."""
    if t.allocation is None:
        return ()
    if t.allocation.is_source:
        return tuple((e, False) for e in reversed(t.allocation.exprs))
    wanted = set(t.allocation.axes)
    needed: list[tuple[IdExpr, bool]] = []
    for e in reversed((*t.exprs, *t.allocation.exprs)):
        # What a swizzle goes by comes out of it as it was.
        if not wanted.isdisjoint(set(e.outputs) - set(e.inputs)):
            wanted.update(e.inputs)
            needed.append((e, True))
    return tuple(reversed(needed))


def allocation_splits(t: TensorView) -> tuple[tuple[Split, Condition], ...]:
    """The splits that a one-to-one way from logical to allocation axes must divide, each with that condition."""
    return tuple((e, split_divides(e)) for e, forward in on_the_way(t) if forward and isinstance(e, Split))


def bound_strides(t: TensorView) -> dict[IterDomain, int]:
    """Strides in elements of the logical axes at the launch at hand: those that it gives, else dense row-major ones, an
    expanded broadcast axis standing still. Empty where it gives them for another number of axes."""
    elements = [a for a in t.logical if not a.is_reduction]
    if t.runtime_strides:
        fits = len(t.runtime_strides) == len(elements)
        return dict(zip(elements, t.runtime_strides, strict=True)) if fits else {}
    steps = dense_strides(tuple(1 if a.is_broadcast else a.extent for a in elements))
    return {a: 0 if a.is_broadcast else step for a, step in zip(elements, steps, strict=True)}


def allocation_strides(t: TensorView) -> AllocationStrides:
    """Carries the strides of a launch to the allocation axes.

    Forward, a split cuts an axis into adjacent pieces, and merged axes must be adjacent; backward the two change roles
    (nvFuser, contiguity). What cannot be carried on is left out of `placed`.
    """
    if t.allocation is None:
        return AllocationStrides({})
    at, apart = _carried(bound_strides(t), on_the_way(t))
    return AllocationStrides({a: at[a] for a in t.allocation.axes if a in at}, tuple(apart))


def logical_strides(t: TensorView, allocated: Mapping[IterDomain, int]) -> dict[IterDomain, int]:
    """Carries strides of the allocation axes back to the logical axes; those that no one stride serves are left out."""
    at, _ = _carried(allocated, [(e, not forward) for e, forward in reversed(on_the_way(t))])
    return {a: at[a].stride for a in t.logical if a in at}


def _carried(
    strides: Mapping[IterDomain, int], way: Iterable[tuple[IdExpr, bool]]
) -> tuple[dict[IterDomain, Placed], list[Apart]]:
    """Strides carried along transforms, each walked from its inputs to its outputs or back, and what is in the way."""
    at = {a: Placed(a.extent, stride) for a, stride in strides.items()}
    apart: list[Apart] = []
    for e, forward in way:
        match e:
            case Split() if forward:
                _cut(at, e.source, e.outer, e.inner, e.divides)
            case Merge() if forward:
                _join(at, e, (e.outer, e.inner), e.out, apart)
            case Split():
                _join(at, e, (e.outer, e.inner), e.source, apart)
            case Merge():
                _cut(at, e.out, e.outer, e.inner)
            case _:
                for a in e.inputs if forward else e.outputs:
                    at.pop(a, None)
    return at, apart


def _cut(
    at: dict[IterDomain, Placed], source: IterDomain, outer: IterDomain, inner: IterDomain, divides: bool = True
) -> None:
    whole = at.pop(source, None)
    if whole is not None and divides:
        at[outer] = Placed(outer.extent, whole.stride * inner.extent)
        at[inner] = Placed(inner.extent, whole.stride)


def _join(
    at: dict[IterDomain, Placed],
    e: Merge | Split,
    pieces: tuple[IterDomain, IterDomain],
    whole: IterDomain,
    apart: list[Apart],
) -> None:
    outer, inner = (at.pop(a, None) for a in pieces)
    if outer is None or inner is None:
        return
    if outer.extent == 1:
        at[whole] = Placed(whole.extent, inner.stride)
    elif inner.extent == 1:
        at[whole] = Placed(whole.extent, outer.stride)
    elif outer.stride == inner.stride * inner.extent:
        at[whole] = Placed(whole.extent, inner.stride)
    else:
        apart.append(Apart(e, outer.stride, inner.stride * inner.extent))


@dataclass(frozen=True, slots=True)
class StrideClaim:
    """An allocation axis whose stride contiguity gives: the stride found and the one claimed."""

    axis: IterDomain
    found: int
    claimed: int


def broken_claims(t: TensorView, placed: dict[IterDomain, Placed]) -> tuple[StrideClaim, ...]:
    """The axes that are claimed contiguous and are not, from the innermost (nvFuser, contiguity).

    An axis of extent one may have any stride, and an expanded broadcast axis has stride 0. Nothing is claimed outside
    an axis to which no stride could be carried.
    """
    assert t.allocation is not None, "claims are of an allocation"
    flags: Sequence[bool | None] = t.allocation.contiguity or (True,) * len(t.allocation.axes)
    found = []
    expected = 1
    for a, flag in zip(reversed(t.allocation.axes), reversed(flags), strict=False):
        if a.is_reduction or a.extent == 1:
            continue
        here = placed.get(a)
        if here is None:
            break
        if a.is_broadcast:
            if here.stride != 0:
                found.append(StrideClaim(a, here.stride, 0))
            continue
        if flag and here.stride != expected:
            found.append(StrideClaim(a, here.stride, expected))
        expected = here.stride * here.extent
    return tuple(found)
