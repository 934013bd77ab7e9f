"""Drops conditions that the ranges of their variables settle, and those that follow from another one.

    if (0 < 4) a            ->   a
    if (k + 3 < 3) a        ->   nothing
    if (c) { if (c) a }     ->   if (c) a
    if (i + 3 < 8, i < 8) a ->   if (i + 3 < 8) a

A loop's first loads ahead of it ask whether it has that many turns, and a part of a joined tensor asks for its extent
where a split has done so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from compiler.ir.expr import relies_on_bounds
from compiler.lower.kernel_ir import Accumulate, CopyAsync, Declare, GlobalLoad, GlobalStore, If, Stmt
from compiler.lower.operands import Less
from compiler.lower.traversal import with_bodies

Known = frozenset[Less]
_Access = TypeVar("_Access", GlobalLoad, GlobalStore)


def settle_conditions(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body without such conditions."""
    return _settled(body, frozenset())


def outcome(c: Less) -> bool | None:
    """What a condition always is; None where its variables decide."""
    difference = c.left - c.right
    if difference.hi < 0:
        return True
    return False if difference.lo >= 0 else None


def follows(c: Less, other: Less) -> bool:
    """Whether `c` holds wherever `other` does: its two sides are further apart."""
    return ((c.left - c.right) - (other.left - other.right)).hi <= 0


def _settled(body: tuple[Stmt, ...], known: Known) -> tuple[Stmt, ...]:
    """`known`: what has been asked around the body, and holds."""
    out: list[Stmt] = []
    for s in body:
        match s:
            case If():
                out += _branch(s, known)
            case GlobalLoad() | CopyAsync():
                left = _open((*s.guards, *s.within), known)
                guards = tuple(c for c in left if c in s.guards)
                is_open = isinstance(s, CopyAsync) and not all(map(outcome, s.ends))
                s = _with_open_ends(s) if isinstance(s, GlobalLoad) else replace(s, tail=s.tail if is_open else None)
                out.append(replace(s, guards=guards, within=tuple(c for c in left if c not in s.guards)))
            case GlobalStore():
                out.append(replace(_with_open_ends(s), guards=_open(s.guards, known)))
            case Accumulate():
                out.append(replace(s, guards=_open(s.guards, known)))
            case _:
                out.append(with_bodies(s, lambda inside: _settled(inside, known)))
    return tuple(out)


def _with_open_ends(s: _Access) -> _Access:
    """The access without a condition on its lanes that all of them meet."""
    is_open = {"head": s.head is not None, "tail": s.tail is not None}
    ends = dict(zip((name for name, asked in is_open.items() if asked), map(outcome, s.ends), strict=True))
    head, tail = (None if ends.get(name) else getattr(s, name) for name in ("head", "tail"))
    return replace(s, head=head, tail=tail)


def _branch(s: If, known: Known) -> tuple[Stmt, ...]:
    if any(outcome(c) is False for c in s.conditions):
        return _settled(s.orelse, known) if _moves(s.orelse) else (s,)
    conditions = _open(s.conditions, known)
    then = _settled(s.then, known | set(conditions))
    if not conditions and _moves(then):
        return then
    return (replace(s, conditions=conditions or s.conditions, then=then, orelse=_settled(s.orelse, known)),)


def _moves(body: tuple[Stmt, ...]) -> bool:
    """Whether a body can stand outside its braces: it declares nothing that others may declare too."""
    return not any(isinstance(s, Declare) for s in body)


def _open(conditions: Iterable[Less], known: Known) -> tuple[Less, ...]:
    """Those that neither their ranges, nor what is known, nor one of the others settles."""
    left = list(dict.fromkeys(c for c in conditions if outcome(c) is not True))
    for c in tuple(left):
        beside = (d for d in left if d != c and not _is_asked_for(c, d))
        if any(follows(c, d) for d in (*known, *beside)):
            left.remove(c)
    return tuple(left)


def _is_asked_for(c: Less, other: Less) -> bool:
    """Whether `c` may be what makes a part of the other condition what it is taken for: an index inside its bounds.
    Below them it wraps, and the other may hold where `c` does not."""
    return any(map(relies_on_bounds, (other.left, other.right))) and not any(map(relies_on_bounds, (c.left, c.right)))
