"""Wrong places in shared memory, stale stages of a ring, copies that bring too little or something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.expr import Expr, Mod, var
from compiler.lower.kernel_ir import (
    BulkLoad,
    CopyAsync,
    Kernel,
    Loop,
    MatrixLoad,
    MatrixStore,
    SharedLoad,
    SharedStore,
    Stmt,
    TmaLoad,
    TmaStore,
)
from compiler.lower.traversal import walk
from tests.compiler.lower.mutations import changed_at
from tests.mutants.kinds.kind import becoming, changing, rewriting

Made = tuple[Stmt, ...] | None
_THREADS = ("tx", "ty", "tz")
_AROUND = (*_THREADS, "bx", "by", "bz", "cx", "lane")


@changing
def shared_vector_further_on(s: Stmt) -> Made:
    """A load from shared memory begins one vector further on."""
    if not isinstance(s, SharedLoad | MatrixLoad):
        return None
    at = s.source.byte_offset + s.width * s.target.dtype.nbytes
    return (replace(s, source=replace(s.source, byte_offset=at)),)


@changing
def shared_store_further_on(s: Stmt) -> Made:
    """A store to shared memory begins one vector further on."""
    if not isinstance(s, SharedStore | MatrixStore):
        return None
    at = s.target.byte_offset + s.width * s.source.dtype.nbytes
    return (replace(s, target=replace(s.target, byte_offset=at)),)


@changing
def shared_row_before(s: Stmt) -> Made:
    """Every other thread loads what the thread before it has stored for itself."""
    if not isinstance(s, SharedLoad):
        return None
    known = sorted((v for v in s.source.byte_offset.variables if v.name in _THREADS), key=lambda v: v.name)
    if not known or known[-1].extent < 2:
        return None
    at = s.source.byte_offset.substitute({known[-1]: var(known[-1]) - var(known[-1]) % 2})
    return (replace(s, source=replace(s.source, byte_offset=at)),)


@changing
def partial_of_the_neighbour(s: Stmt) -> Made:
    """One partial result in shared memory is read twice and its neighbour not at all."""
    if not isinstance(s, SharedLoad):
        return None
    loops = sorted((v for v in s.source.byte_offset.variables if v.name not in _AROUND), key=lambda v: v.name)
    if not loops or loops[-1].extent < 2:
        return None
    here = loops[-1]
    at = s.source.byte_offset.substitute({here: var(here) - (var(here) + 1) // here.extent})
    return (replace(s, source=replace(s.source, byte_offset=at)),)


@rewriting
def stale_stage(kernel: Kernel) -> Iterator[Kernel]:
    """What is read of a ring is the stage that was filled before."""
    for number, s in enumerate(walk(kernel.body)):
        if isinstance(s, SharedLoad | MatrixLoad):
            for atom, c in s.source.byte_offset.terms:
                if isinstance(atom, Mod) and _is_turn(atom):
                    earlier = (atom.numerator + atom.divisor - 1) % atom.divisor
                    at = s.source.byte_offset + (earlier - Expr(((atom, 1),))) * c
                    place = replace(s.source, byte_offset=at)
                    yield changed_at(kernel, number, becoming(replace(s, source=place)))


def _is_turn(atom: Mod) -> bool:
    """Whether it counts the turns of a loop alone."""
    return all(v.name not in _AROUND for v in atom.numerator.variables)


@rewriting
def stage_of_the_turn_before(kernel: Kernel) -> Iterator[Kernel]:
    """Every other turn of a block's loop brings what the turn before has brought."""
    loops = {s.var.name for s in walk(kernel.body) if isinstance(s, Loop) and not s.unroll}
    for number, s in enumerate(walk(kernel.body)):
        match s:
            case TmaLoad():
                turns = [v for e in s.coordinates for v in e.variables if v.name in loops]
            case BulkLoad() | CopyAsync():
                turns = [v for v in s.offset.variables if v.name in loops]
            case _:
                continue
        if turns:
            change = {turns[0]: var(turns[0]) - var(turns[0]) % 2}
            if isinstance(s, TmaLoad):
                made: Stmt = replace(s, coordinates=tuple(e.substitute(change) for e in s.coordinates))
            else:
                made = replace(s, offset=s.offset.substitute(change))
            yield changed_at(kernel, number, becoming(made))


@changing
def tile_one_row_off(s: Stmt) -> Made:
    """A tile is loaded from one row further on."""
    if not isinstance(s, TmaLoad) or len(s.coordinates) < 2:
        return None
    return (replace(s, coordinates=(s.coordinates[0], s.coordinates[1] + 1, *s.coordinates[2:])),)


@changing
def tile_stored_one_row_off(s: Stmt) -> Made:
    """A tile is stored to one row further on."""
    if not isinstance(s, TmaStore) or len(s.coordinates) < 2:
        return None
    return (replace(s, coordinates=(s.coordinates[0], s.coordinates[1] + 1, *s.coordinates[2:])),)


@changing
def run_cut_short(s: Stmt) -> Made:
    """A bulk copy brings 16 bytes less than the run has."""
    return (replace(s, nbytes=s.nbytes - 16),) if isinstance(s, BulkLoad) and s.nbytes > 16 else None


@changing
def other_side_of_the_matrix(s: Stmt) -> Made:
    """Matrices are moved by their other side."""
    return (replace(s, is_transposed=not s.is_transposed),) if isinstance(s, MatrixLoad | MatrixStore) else None


@rewriting
def another_swizzle(kernel: Kernel) -> Iterator[Kernel]:
    """A tensor map has another swizzle than those who read its tiles take it for."""
    for number, one in enumerate(kernel.tensor_maps):
        if one.swizzle:
            maps = list(kernel.tensor_maps)
            maps[number] = replace(one, swizzle=0)
            yield replace(kernel, tensor_maps=tuple(maps))


KINDS = (
    shared_vector_further_on,
    shared_store_further_on,
    shared_row_before,
    partial_of_the_neighbour,
    stale_stage,
    stage_of_the_turn_before,
    tile_one_row_off,
    tile_stored_one_row_off,
    run_cut_short,
    other_side_of_the_matrix,
    another_swizzle,
)
