"""Asks a condition once where it was asked of neighbours, or in every turn of a loop.

    if (c) a; if (c) b           ->   if (c) { a; b }          and so for what the elected thread does
    unrolled loop { if (c) a }   ->   if (c) unrolled loop { a }

Conditions range over block, thread and loop variables: no statement changes what they say.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.lower.kernel_ir import Elected, If, Loop, Stmt
from compiler.lower.traversal import with_bodies


def join_guards(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such condition asked once."""
    out: list[Stmt] = []
    for s in map(_inside, body):
        last = out[-1] if out else None
        match s, last:
            case If(conditions=same, then=then, orelse=()), If(conditions=before, orelse=()) if same == before:
                out[-1] = If(same, join_guards((*last.then, *then)))
            case Elected(), Elected():
                out[-1] = Elected(join_guards((*last.body, *s.body)))
            case _:
                out.append(s)
    return tuple(out)


def _inside(s: Stmt) -> Stmt:
    inner = with_bodies(s, join_guards)
    return (_before(inner) if isinstance(inner, Loop) else None) or inner


def _before(loop: Loop) -> If | None:
    """The loop under its condition, if it is unrolled, has nothing else, and its variable is not asked about."""
    match loop.body:
        case (If(conditions=conditions, then=then, orelse=()),) if loop.unroll and not any(
            loop.var in c.left.variables | c.right.variables for c in conditions
        ):
            return If(conditions, (replace(loop, body=then),))
        case _:
            return None
