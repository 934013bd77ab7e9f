"""Waits once for all loads from tensor memory of an unrolled loop whose registers are moved where they belong.

    unroll k < 4: words = load; wait; r = words      ->   unroll k < 4: words[k] = load
                                                          wait
                                                          unroll k < 4: r = words[k]

A wait is for all loads of its warp (PTX ISA, tcgen05.wait::ld): one after each load would let none begin before the one
before it has come, and all but the last would be for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.expr import Expr, var
from compiler.lower.kernel_ir import Declare, Loop, Opaque, Stmt
from compiler.lower.operands import Reg
from compiler.lower.tmem_ir import TmemLoad, Unpack, WaitTmemLoads
from compiler.lower.traversal import with_bodies


def keep_loads_in_flight(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with every such loop cut in two."""
    out: list[Stmt] = []
    for s in body:
        cut = _cut(s) if isinstance(s, Loop) else None
        out += cut if cut is not None else (with_bodies(s, keep_loads_in_flight),)
    return tuple(out)


def _cut(loop: Loop) -> tuple[Stmt, ...] | None:
    """The loop as one that loads and one that moves, a wait between; None for any other."""
    loops: list[Loop] = []
    body: tuple[Stmt, ...] = (loop,)
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].unroll and body[0].trip.is_const:
        loops.append(body[0])
        body = body[0].body
    match body:
        case (
            Declare() as words,
            TmemLoad() as load,
            WaitTmemLoads() as wait,
            Opaque(),
            Declare() as elements,
            Unpack() as unpack,
            *moves,
        ):
            pass
        case _:
            return None
    turn, turns = Expr(), 1
    for each in loops:
        turn, turns = turn * each.trip.const + var(each.var), turns * each.trip.const
    own = Reg(words.name, words.dtype, turn * words.elems)
    loading: tuple[Stmt, ...] = (replace(load, target=own),)
    moving: tuple[Stmt, ...] = (elements, replace(unpack, source=own), *moves)
    for each in reversed(loops):
        loading, moving = (replace(each, body=loading),), (replace(each, body=moving),)
    count = turns * words.elems
    return (replace(words, elems=count), *loading, wait, Opaque(words.name, words.dtype, count), *moving)
