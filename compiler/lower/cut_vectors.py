"""Vectors of global memory that a bound may cut: one access where all lanes are inside, else each lane by itself.

if (the first and the last lane are inside) { access of `width` } else { for lane: if (lane is inside) access of 1 }
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.analysis.id.indexing import IndexBound, first_lane, lane_variable
from compiler.ir.expr import Expr, Var, const, var
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, If, Loop, Stmt
from compiler.lower.operands import Less, Reg
from compiler.lower.predicates import lane_guards


def cut_by_several(bounds: Iterable[IndexBound], width: int) -> bool:
    """Whether more than one bound may cut a vector, which no single condition on its lanes can say."""
    cut = [b for b in bounds if lane_variable(width) in b.index.variables]
    return sum(not _is_whole(b, width) for b in cut) > 1


def _is_whole(b: IndexBound, width: int) -> bool:
    return first_lane(b.index, width).divisible_by(width) and b.extent % width == 0


def cut_store(store: GlobalStore, offset: Expr, read: Expr, bounds: Iterable[IndexBound], where: str) -> If:
    """`store`, a vector without guards, where every lane is inside of all bounds; else those lanes that are.

    `offset`, `read`: places in memory and in registers, in the lane variable; `where` names the tensor.
    """
    own = tuple(bounds)
    last = {lane_variable(store.width): const(store.width - 1)}
    whole: list[Less] = []
    for b in own:
        start = first_lane(b.index, store.width)
        whole += [Less(const(-1), start)] * b.is_shifted
        whole.append(Less(b.index.substitute(last), const(b.extent)))
    lane = Var(f"{where}_lane", store.width)
    here = {lane_variable(store.width): var(lane)}
    inside = lane_guards([replace(b, index=b.index.substitute(here)) for b in own], 1, where).shared
    source = Reg(store.source.name, store.source.dtype, read.substitute(here))
    one = replace(store, source=source, offset=offset.substitute(here), width=1, guards=inside)
    return If(tuple(dict.fromkeys(whole)), (store,), (Loop(lane, const(store.width), True, (one,)),))


def cut_access(s: Stmt) -> GlobalLoad | GlobalStore | None:
    """The whole vector of such a statement; None of any other."""
    match s:
        case If(then=(GlobalLoad() | GlobalStore() as whole,), orelse=(Loop(unroll=True, body=(one,)),)) if (
            type(one) is type(whole) and one.width == 1
        ):
            return whole
        case _:
            return None
