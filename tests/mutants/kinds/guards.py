"""Tails: guards that lack, are one off, or cut whole vectors; blocks that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.expr import Var, const, var
from compiler.lower.kernel_ir import Accumulate, AccumulateRun, CopyAsync, GlobalLoad, GlobalStore, If, Kernel, Stmt
from compiler.lower.operands import Less
from compiler.lower.sync_ir import Sync, WaitBarrier
from compiler.lower.traversal import walk
from tests.mutants.kinds.kind import changing, rewriting

Made = tuple[Stmt, ...] | None
_LOADS = (GlobalLoad, CopyAsync)


@changing
def store_unguarded(s: Stmt) -> Made:
    """Tails are stored unmasked."""
    if not isinstance(s, GlobalStore) or not (s.guards or s.tail):
        return None
    return (replace(s, guards=(), tail=None),)


@changing
def fold_unguarded(s: Stmt) -> Made:
    """Elements past the end are folded."""
    if isinstance(s, Accumulate) and s.guards:
        return (replace(s, guards=()),)
    folds = (Accumulate, AccumulateRun)
    if isinstance(s, If) and not s.orelse and any(isinstance(x, folds) for x in walk(s.then)) and not _waits(s):
        return s.then
    return None


def _waits(s: If) -> bool:
    return any(isinstance(x, Sync | WaitBarrier) for x in walk((*s.then, *s.orelse)))


@changing
def load_guard_one_off(s: Stmt) -> Made:
    """The last element within bounds counts as outside when it is loaded."""
    if not isinstance(s, _LOADS):
        return None
    if s.tail is not None:
        return (replace(s, tail=_tighter(s.tail)),)
    if s.guards:
        return (replace(s, guards=(_tighter(s.guards[0]), *s.guards[1:])),)
    return (replace(s, within=(_tighter(s.within[0]), *s.within[1:])),) if s.within else None


@changing
def store_guard_one_off(s: Stmt) -> Made:
    """The last element within bounds is not stored."""
    if not isinstance(s, GlobalStore):
        return None
    if s.tail is not None:
        return (replace(s, tail=_tighter(s.tail)),)
    return (replace(s, guards=(_tighter(s.guards[0]), *s.guards[1:])),) if s.guards else None


@changing
def fold_guard_one_off(s: Stmt) -> Made:
    """The last element within bounds is not folded, or the first one outside is."""
    if not isinstance(s, Accumulate) or not s.guards:
        return None
    return (replace(s, guards=(_tighter(s.guards[0]), *s.guards[1:])),)


@changing
def fold_guard_too_wide(s: Stmt) -> Made:
    """The first element past the end is folded."""
    if not isinstance(s, Accumulate) or not s.guards:
        return None
    first = s.guards[0]
    return (replace(s, guards=(Less(first.left, first.right + 1), *s.guards[1:])),)


def _tighter(c: Less) -> Less:
    return Less(c.left + 1, c.right)


@changing
def tail_of_whole_vectors(s: Stmt) -> Made:
    """Of a vector that a bound cuts nothing is loaded."""
    if not isinstance(s, _LOADS) or s.tail is None:
        return None
    return (replace(s, guards=(*s.guards, *s.ends), tail=None),)


@changing
def edge_taken_for_whole(s: Stmt) -> Made:
    """Tiles at an edge are done as whole ones are."""
    return s.then if isinstance(s, If) and s.orelse and not _waits(s) else None


@changing
def condition_one_off(s: Stmt) -> Made:
    """A condition around statements takes one more."""
    if not isinstance(s, If) or _waits(s):
        return None
    first = s.conditions[0]
    return (replace(s, conditions=(Less(first.left, first.right + 1), *s.conditions[1:])),)


@changing
def condition_one_less(s: Stmt) -> Made:
    """A condition around statements takes one less."""
    if not isinstance(s, If) or _waits(s):
        return None
    return (replace(s, conditions=(_tighter(s.conditions[0]), *s.conditions[1:])),)


@rewriting
def last_block_skipped(kernel: Kernel) -> Iterator[Kernel]:
    """The last block of a grid does nothing."""
    x = kernel.grid[0] // kernel.cluster
    if x > 1:
        yield replace(kernel, body=(If((Less(var(Var("bx", x)), const(x - 1)),), kernel.body),))


@changing
def last_row_not_stored(s: Stmt) -> Made:
    """The last turn of a loop is not stored."""
    if not isinstance(s, GlobalStore):
        return None
    taken = ("tx", "ty", "tz", "bx", "by", "bz", "cx", "lane")
    loops = sorted((v for v in s.offset.variables if v.name not in taken and v.extent > 1), key=lambda v: v.name)
    return (replace(s, guards=(*s.guards, Less(var(loops[0]), const(loops[0].extent - 1)))),) if loops else None


KINDS = (
    store_unguarded,
    fold_unguarded,
    load_guard_one_off,
    store_guard_one_off,
    fold_guard_one_off,
    fold_guard_too_wide,
    tail_of_whole_vectors,
    edge_taken_for_whole,
    condition_one_off,
    condition_one_less,
    last_block_skipped,
    last_row_not_stored,
)
