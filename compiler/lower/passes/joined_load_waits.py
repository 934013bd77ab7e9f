"""Waits once for loads of several tensors from tensor memory whose registers are moved where they belong.

    load a; wait; move a; load b; wait; move b   ->   load a; load b; wait; move a; move b

A wait is for all loads of its warp (PTX ISA, tcgen05.wait::ld): the later one is for the earlier loads too, if nothing
between them uses what those bring, stores to the columns that they read, or tells others that they are over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from compiler.ir.ops import OpKind
from compiler.lower.kernel_ir import Compute, Declare, Loop, Opaque, Stmt
from compiler.lower.operands import Reg
from compiler.lower.tmem_ir import TmemLoad, TmemStore, Unpack, WaitTmemLoads, WaitTmemStores
from compiler.lower.traversal import walk, with_bodies


def join_load_waits(body: tuple[Stmt, ...], columns: Mapping[str, str]) -> tuple[Stmt, ...]:
    """The body with every such wait left out. `columns`: by tensor in tensor memory, what those that lie in columns of
    its own are called together (`analysis.tmem.placement`)."""
    out = [with_bodies(s, lambda inside: join_load_waits(inside, columns)) for s in body]
    at = len(out)
    while at:
        at -= 1
        if isinstance(out[at], WaitTmemLoads):
            out = _joined(out, at, columns)
    return tuple(out)


def _joined(body: list[Stmt], at: int, columns: Mapping[str, str]) -> list[Stmt]:
    """The body without the wait at this place, if the next one serves; as it is otherwise."""
    rest = body[at + 1 :]
    moves = _moves(rest)
    between = rest[len(moves) :]
    later = next((i for i, s in enumerate(between) if isinstance(s, WaitTmemLoads)), None)
    if not moves or later is None:
        return body
    read = {columns[s.source.tensor] for s in walk(tuple(body[:at])) if isinstance(s, TmemLoad)}
    moved = set(_registers(moves))
    for s in between[:later]:
        overwrites = {columns[x.target.tensor] for x in walk((s,)) if isinstance(x, TmemStore)} & read
        if overwrites or not moved.isdisjoint(_registers(s)) or not all(map(_may_come_first, walk((s,)))):
            return body
    return [*body[:at], *between[: later + 1], *moves, *between[later + 1 :]]


def _moves(rest: list[Stmt]) -> list[Stmt]:
    """What follows a wait and only moves the registers that have come."""
    count = 0
    while count < len(rest) and all(map(_is_move, walk((rest[count],)))):
        count += 1
    while count and isinstance(rest[count - 1], Declare):
        count -= 1  # of what comes next
    return rest[:count]


def _is_move(s: Stmt) -> bool:
    return isinstance(s, Opaque | Declare | Unpack | Loop) or (isinstance(s, Compute) and s.kind is OpKind.COPY)


def _may_come_first(s: Stmt) -> bool:
    """Of statements between two waits: what nobody else takes for a sign that the first one is over."""
    return isinstance(s, Declare | Loop | Compute | TmemStore | TmemLoad | WaitTmemStores)


def _registers(node: Any) -> Iterator[str]:
    """The register arrays in statements."""
    if isinstance(node, Reg | Declare | Opaque):
        yield node.name
    elif isinstance(node, tuple | list):
        for x in node:
            yield from _registers(x)
    elif is_dataclass(node) and not isinstance(node, type):
        for x in fields(node):
            yield from _registers(getattr(node, x.name))
