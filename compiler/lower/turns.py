"""How often a stage has turned: the number of a use of a circular buffer, in the loops that its users stand in."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.analysis.facts import Facts
from compiler.ir.expr import Expr, Var, var
from compiler.ir.tensor import TensorView

Loops = tuple[tuple[Var, bool], ...]


def counted(indices: Sequence[Expr], extents: Sequence[int]) -> Expr:
    """Position in loops of those extents, outermost first."""
    total = Expr()
    for index, extent in zip(indices, extents, strict=True):
        total = total * extent + index
    return total


def turns_of(facts: Facts, t: TensorView, loops: Loops) -> Expr:
    """The number of the use of bulk-loaded tensor `t` inside `loops`.

    A loop that who reads it has on threads, each group of them with stages of its own, counts by their index.
    """
    nest = facts.indexing.nest
    around = {v.name: v for v, _ in loops}
    indices, extents = [], []
    for number in nest.path(t)[: nest.depth(t)]:
        v = around.get(f"k{number}")
        index = var(v) if v is not None else nest.beside[number]
        extents.append(max(x.extent for x in index.variables) if v is None else v.extent)
        indices.append(index)
    turns = counted(indices, extents)
    if facts.deal is None:
        return turns
    names = (f"k{number}" for number in nest.path(t)[: nest.depth(t)])
    return facts.deal.own_turns(list(zip(names, extents, strict=True)), turns)
