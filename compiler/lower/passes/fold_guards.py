"""Asks once for a whole vector whether its lanes are there to be folded, not lane by lane.

    for lane { y = f(x[lane]); if (in) s = sum with y }   ->   if (in) for lane { y = f(x[lane]); s = sum with y }

A branch for each lane keeps the lanes apart: no instruction of one starts before the branch of the one before.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.lower.kernel_ir import Accumulate, Compute, Convert, Declare, If, Index, Loop, Stmt
from compiler.lower.operands import Less
from compiler.lower.traversal import with_bodies


def hoist_fold_guards(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with the guards of folds before the innermost loop that they do not depend on."""
    return tuple(_hoisted(s) for s in body)


def _hoisted(s: Stmt) -> Stmt:
    inner = with_bodies(s, hoist_fold_guards)
    if isinstance(inner, Loop) and (guards := _shared_guards(inner)):
        return If(guards, (replace(inner, body=_unguarded(inner.body)),))
    return inner


def _shared_guards(loop: Loop) -> tuple[Less, ...]:
    """The guards of every fold in the loop, if all have the same, and nothing else outlives a turn."""
    if not (loop.unroll and loop.trip.is_const):
        return ()
    own = {s.name for s in loop.body if isinstance(s, Declare)}
    found: set[tuple[Less, ...]] = set()
    for s in loop.body:
        match s:
            case Accumulate():
                found.add(s.guards)
            case Compute() | Convert() | Index() if s.target.name in own:
                pass
            case Declare():
                pass
            case _:
                return ()
    if len(found) != 1:
        return ()
    (guards,) = found
    return () if any(loop.var in g.left.variables | g.right.variables for g in guards) else guards


def _unguarded(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(replace(s, guards=()) if isinstance(s, Accumulate) else s for s in body)
