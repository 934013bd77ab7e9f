"""Cuts an unrolled loop over steps where the ends of a shifted run lie: steps that no end can touch ask for none.

    unroll k < 5: load x[k] each lane if 0 <= f(k) < n   ->   load x[0] each lane if 0 <= f(0)
                                                             unroll k < 3: load x[k + 1]
                                                             load x[4] each lane if f(4) < n

The phase of a row moves a run by less than a vector, so that its head lies in the first step of a thread, and its tail
in the last one or two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from compiler.ir.expr import Expr, Mod, Var, const, var
from compiler.lower.kernel_ir import Accumulate, Declare, GlobalLoad, GlobalStore, If, Loop, Stmt
from compiler.lower.operands import Less
from compiler.lower.passes.settled_conditions import outcome
from compiler.lower.traversal import map_exprs, walk, with_bodies


def peel_steps(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such loop cut; loops inside one that was cut stay whole."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case Loop() if s.unroll and s.trip.is_const and (asked := _asked(s)):
                out += _peeled(s, asked)
            case _:
                out.append(with_bodies(s, peel_steps))
    return tuple(out)


def _asked(loop: Loop) -> tuple[Less, ...]:
    """The conditions inside that the step decides, if some of them ask whether a place is one of a shifted run."""
    found = [c for s in walk(loop.body) for c in conditions_of(s)]
    steps = tuple(dict.fromkeys(c for c in found if abs(_moved(c, loop.var)) > 1))
    return steps if any(_is_of_a_run(c) for c in steps) else ()


def conditions_of(s: Stmt) -> Iterator[Less]:
    """What a statement asks before it is carried out."""
    match s:
        case GlobalLoad() | GlobalStore():
            yield from (*s.guards, *s.ends)
        case Accumulate():
            yield from s.guards
        case If():
            yield from s.conditions
        case _:
            pass


def _is_of_a_run(c: Less) -> bool:
    """True for a condition on a place of a shifted run: a place less the phase of its row, which is a remainder."""
    return any(isinstance(atom, Mod) for atom, k in (c.left - c.right).terms if k < 0) or (
        c.left.is_const and not c.right.is_const
    )


def _moved(c: Less, v: Var) -> int:
    """How far one turn of a loop moves the two sides of a condition apart; 1 for the lanes of a vector."""
    return dict((c.right - c.left).terms).get(v, 0)


def _peeled(loop: Loop, asked: tuple[Less, ...]) -> list[Stmt]:
    def settled(turn: int) -> tuple[bool, ...]:
        return tuple(outcome(_at(c, {loop.var: const(turn)})) is True for c in asked)

    out: list[Stmt] = []
    runs = [list(turns) for _, turns in groupby(range(loop.trip.const), settled)]
    for turns in runs if len(runs) > 1 else ():
        v = Var(loop.var.name, len(turns))
        body = _body_at(loop, var(v) + turns[0])
        is_plain = len(turns) == 1 and not any(isinstance(s, Declare) for s in body)
        out += body if is_plain else [replace(loop, var=v, trip=const(len(turns)), body=body)]
    return out or [loop]


def _body_at(loop: Loop, turn: Expr) -> tuple[Stmt, ...]:
    return map_exprs(loop.body, lambda e: e.substitute({loop.var: turn}))


def _at(c: Less, values: dict[Var, Expr]) -> Less:
    return Less(c.left.substitute(values), c.right.substitute(values))
