"""Where an access of shared memory needs the bounds of its element: outside the allocation, or in another's place.

A split may round up; the places past the end are allocated like others (nvFuser, allocation rules). So an element past
the end has a place of its own if memory is laid out by the loops that made it. It has none where the producer has other
loops, nor where an allocated axis was itself split with holes, or shifted.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.analysis.facts import Facts
from compiler.analysis.id.indexing import IndexBound
from compiler.analysis.memory.allocation import layout_of, loop_axis_is_allocated
from compiler.ir.expr import const
from compiler.ir.iter_domain import MemoryType, ParallelType
from compiler.ir.tensor import CopyVia, TensorOp
from compiler.lower.kernel_ir import CopyAsync, If, Index, SharedLoad, SharedStore, Stmt
from compiler.lower.predicates import split_guards
from compiler.lower.thread_predicates import under


def inside_shared(facts: Facts, op: TensorOp, access: Stmt, bounds: tuple[IndexBound, ...]) -> Stmt:
    """The access of `op`, under the bounds of its element where it needs them."""
    width = 1
    match access:
        case SharedStore() | CopyAsync():
            width = access.width
            beside = frozenset(facts.indexing.bounds_inside(facts.sf.tensor(op.output)))
            bounds = tuple(b for b in bounds if b in beside)
        case SharedLoad():
            width = access.width
            source = op.tensor_inputs[0]
            offset = facts.indexing.read_offset(op, source)
            is_inside = offset.lo >= 0 and offset.hi < layout_of(facts.sf.tensor(source)).elems
            if is_inside and not _has_unfilled_places(facts, source):
                return access
            guards, _ = split_guards(bounds, width, op.output)
            return If(guards, (access,), _zeros(access)) if guards else access
        case _:
            return access
    guards, _ = split_guards(bounds, width, op.output)
    return under(guards, access)


def _zeros(load: SharedLoad) -> tuple[Stmt, ...]:
    """What registers hold where nothing is loaded: a value of some kind, since what is computed of it is only not used
    (C++, reads of indeterminate values)."""
    target = load.target
    return tuple(Index(replace(target, offset=target.offset + lane), const(0)) for lane in range(load.width))


def inside_registers(facts: Facts, op: TensorOp, statement: Stmt, bounds: tuple[IndexBound, ...]) -> Stmt:
    """An operator on registers, under the bounds of its element where an operand has none there."""
    for name in op.tensor_inputs:
        t = facts.sf.tensor(name)
        if t.memory is MemoryType.LOCAL:
            offset = facts.indexing.read_offset(op, name)
            if offset.lo < 0 or offset.hi >= layout_of(t).elems:
                guards, _ = split_guards(bounds, 1, op.output)
                return under(guards, statement)
    return statement


def _has_unfilled_places(facts: Facts, name: str) -> bool:
    """Whether bulk copies leave places of a shared tensor as they were: holes at the end of a tile, of its loops or of
    its memory order alone, or runs of a split that do not exist."""
    copy, t = facts.tensor_maps.get(name), facts.sf.tensor(name)
    if copy is not None:
        kept = (i for i, type_ in enumerate(t.types) if type_ is not ParallelType.BULK and loop_axis_is_allocated(t, i))
        tiles = prod(t.loop[i].extent for i in kept)
        return tiles * copy.tile_elems < prod(a.extent for a in layout_of(t).axes)
    made = facts.sf.producer(name)
    return made is not None and made.via is CopyVia.BULK1D and bool(facts.indexing.bounds(t))
