"""Asks first whether a vector is whole, where what it is made of is guarded lane by lane.

    a turn { for lane: if (lane is inside) a; ..; if (all lanes are inside) store else lanes }
    ->   if (all lanes are inside) { for lane: a; ..; store } else { as before }

Along a shifted run only the vectors at its ends are cut: all others then ask two conditions in place of two a lane.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.lower.cut_vectors import cut_access
from compiler.lower.kernel_ir import GlobalStore, If, Loop, MatrixLoad, MatrixStore, SharedLoad, Stmt
from compiler.lower.operands import Less
from compiler.lower.passes.settled_conditions import follows
from compiler.lower.tmem_ir import TmemStmt
from compiler.lower.traversal import walk, with_bodies


def ask_for_whole_vectors(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such turn asking once; the conditions that follow are dropped by `settle_conditions`."""
    return tuple(_inside(s) for s in body)


def _inside(s: Stmt) -> Stmt:
    match s:
        case Loop() if s.unroll and (found := _asked_once(s.body)) is not None:
            return replace(s, body=(found,))
        case If() if cut_access(s) is not None:
            return s
        case _:
            return with_bodies(s, ask_for_whole_vectors)


def _asked_once(turn: tuple[Stmt, ...]) -> If | None:
    """A turn that ends in one store that may be cut, and reads under conditions that hold for whole vectors."""
    *before, last = turn
    if not isinstance(last, If) or not isinstance(cut_access(last), GlobalStore):
        return None
    # Matrices and tensor memory are moved by whole warps, which a condition on vectors would part.
    if any(isinstance(s, GlobalStore | MatrixLoad | MatrixStore | TmemStmt) for s in walk(tuple(before))):
        return None
    if not any(_is_settled(s, last.conditions) for s in walk(tuple(before))):
        return None
    return If(last.conditions, (*before, *last.then), (*before, *last.orelse))


def _is_settled(s: Stmt, known: tuple[Less, ...]) -> bool:
    """Whether a guarded read of shared memory needs no guard where `known` holds."""
    match s:
        case If(conditions=asked, then=(SharedLoad(),)):
            return any(follows(c, k) for c in asked for k in known)
        case _:
            return False
