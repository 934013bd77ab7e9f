"""Where the transforms of a tensor make holes, and whether its domains hold the same elements.

A hole is a position without an element: one that a split which does not divide, or padding, adds (nvFuser,
divisibility of split). Transforms are equal if extents and index maps are (nvFuser, theory of IterDomains:
Definition 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.analysis.id.conditions import settled, split_divides
from compiler.errors import Condition, Outcome
from compiler.ir.equivalence import Equivalence, compare_domains
from compiler.ir.form import Form, form_of
from compiler.ir.id_exprs import IdExpr, Resize, Shift, Split, Window
from compiler.ir.iter_domain import IterDomain
from compiler.ir.remembered import remembered
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
