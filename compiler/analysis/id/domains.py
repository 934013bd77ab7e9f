"""Laws of IterDomain transforms: which chains of them are the same, and where they make holes.

A hole is a position without an element: one that a split which does not divide, or padding, adds (nvFuser,
divisibility of split). Transforms are equal if extents and index maps are (nvFuser, theory of IterDomains:
Definition 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.analysis.id.conditions import is_multiple, settled, split_divides
from compiler.errors import Condition, Outcome
from compiler.ir.equivalence import Equivalence, compare_domains
from compiler.ir.form import Form, form_of
from compiler.ir.id_exprs import IdExpr, Merge, Resize, Shift, Split, Swizzle, Window
from compiler.ir.iter_domain import IterDomain, axis
from compiler.ir.remembered import remembered
from compiler.ir.size import Size
from compiler.ir.tensor import TensorView


@dataclass(frozen=True, slots=True)
class Hole:
    """A transform that may make holes: the elements are where the index of `tested` lies in its extent. `none` says
    whether there are no holes."""

    expr: IdExpr
    tested: IterDomain
    none: Condition


def loop_equivalence(t: TensorView) -> Equivalence:
    """Whether the loops are each part of the logical domain once."""
    return _loop_equivalence(form_of(t))


@remembered(256)
def _loop_equivalence(t: Form) -> Equivalence:
    return compare_domains(t.logical, t.loop, t.exprs)


def allocation_equivalence(t: TensorView) -> Equivalence:
    """Whether the allocation axes are each part of the logical domain once."""
    return _allocation_equivalence(form_of(t))


@remembered(256)
def _allocation_equivalence(t: Form) -> Equivalence:
    if t.allocation is None:
        return Equivalence((), ())
    if t.allocation.is_source:
        return compare_domains(t.allocation.axes, t.logical, t.allocation.exprs)
    return compare_domains(t.logical, t.allocation.axes, (*t.exprs, *t.allocation.exprs))


def holes(exprs: Iterable[IdExpr]) -> tuple[Hole, ...]:
    """The places where an index must be tested; everywhere else it is in bounds if those are.

    In a split that divides, in a merge and in a swizzle the inputs are in bounds if and only if the outputs are
    (nvFuser, divisibility of split: Theorems 1, 2 and 4); padding keeps what was in bounds there (Theorem 3).
    """
    found = []
    for e in exprs:
        match e:
            case Split():
                none = split_divides(e)
            case Resize():
                none = settled(e.left <= 0 and e.right <= 0, f"{e.left} <= 0 and {e.right} <= 0")
            case Shift():
                none = settled(False, f"{e.modulus} <= 0")
            case Window():
                reached = e.tile.extent * e.step - e.step - e.before + e.size
                sides = f"{e.before} == 0 and {reached} <= {e.source.extent}"
                none = settled(e.before == 0 and reached <= e.source.extent, sides)
            case _:
                continue
        if none.outcome is not Outcome.PROVED:
            found.append(Hole(e, e.source, none))
    return tuple(found)


def split_commutes_with_merge(m: Merge, factor: Size) -> Condition:
    """Whether splitting a merged axis by an inner factor equals merging with the outer piece of the split inner axis.

    True if and only if the factor divides the inner extent, or there is but one outer index (nvFuser, divisibility of
    split: Theorem 5).
    """
    return settled(True, "1 == 1") if m.outer.is_trivial else is_multiple(m.inner.size, factor)


def rotated(first: Split, second: Split) -> tuple[Split, Split]:
    """The other way to make the same three axes: split by n and the outer piece by m equals split by m n and the inner
    piece by n (nvFuser, theory of IterDomains: Theorem 2.1).

    `second` splits the outer piece of `first`, both by inner factors. The axis between the two splits is a new one;
    nothing needs to divide.
    """
    assert second.source == first.outer, "the second split is of the outer piece"
    both = axis(f"{first.source.name}/{second.outer.name}", second.inner.size * first.inner.size, first.source.kind)
    return Split(first.source, second.outer, both), Split(both, second.inner, first.inner)


def rotated_back(first: Split, second: Split) -> tuple[Condition, tuple[Split, Split]]:
    """Theorem 2.1 read backwards: split by f and the inner piece by n equals split by n and the outer piece by f / n,
    if n divides f. `second` splits the inner piece of `first`."""
    assert second.source == first.inner, "the second split is of the inner piece"
    merged = first.source.size.ceil_div(second.inner.size)
    between = axis(f"{first.source.name}/{second.inner.name}", merged, first.source.kind)
    splits = Split(first.source, between, second.inner), Split(between, first.outer, second.outer)
    return is_multiple(first.inner.size, second.inner.size), splits


def undoes(first: IdExpr, second: IdExpr) -> bool:
    """True where the second transform gives back what the first was given: a merge of the pieces of a split that
    divides, a split of a merged axis by its inner extent, a second swizzle by the same axis."""
    match first, second:
        case Split(), Merge():
            pieces = (second.outer, second.inner) == (first.outer, first.inner)
            return pieces and split_divides(first).outcome is Outcome.PROVED
        case Merge(), Split():
            return second.source == first.out and second.inner.size == first.inner.size
        case Swizzle(), Swizzle():
            return second.x == first.x and second.y == first.out
        case Resize(), Resize():
            kept = first.left >= 0 and first.right >= 0
            return second.source == first.out and kept and (second.left, second.right) == (-first.left, -first.right)
        case _:
            return False
