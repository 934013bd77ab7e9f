"""Mutants of order: barriers, fences, waits and announcements that lack or come for the wrong phase.

Their values may be right in any one run. The interpreter of kernel IR says which are wrong; the emulator has to find
them.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.lower.kernel_ir import Stmt
from compiler.lower.sync_ir import (
    CommitCopies,
    CommitStores,
    ExpectBytes,
    FenceAsync,
    InitBarriers,
    Sync,
    WaitBarrier,
    WaitCopies,
    WaitStores,
)
from tests.mutants.kinds.kind import changing

Made = tuple[Stmt, ...] | None


@changing
def barrier_left_out(s: Stmt) -> Made:
    """Threads do not wait for each other."""
    return () if isinstance(s, Sync) else None


@changing
def fence_left_out(s: Stmt) -> Made:
    """Bulk copies are not kept apart from what threads did."""
    return () if isinstance(s, FenceAsync) else None


@changing
def wait_left_out(s: Stmt) -> Made:
    """Nobody waits for a copy."""
    return () if isinstance(s, WaitBarrier) else None


@changing
def other_phase(s: Stmt) -> Made:
    """The phase before is waited for."""
    return (replace(s, parity=s.parity * -1 + 1),) if isinstance(s, WaitBarrier) else None


@changing
def copies_one_group_late(s: Stmt) -> Made:
    """The last group of a thread's copies is not waited for."""
    return (replace(s, pending=s.pending + 1),) if isinstance(s, WaitCopies) else None


@changing
def copies_not_committed(s: Stmt) -> Made:
    """Copies are not closed to a group."""
    return () if isinstance(s, CommitCopies) else None


@changing
def stores_not_waited_for(s: Stmt) -> Made:
    """What bulk stores read is overwritten, or the block ends, before they have read it."""
    return () if isinstance(s, WaitStores) else None


@changing
def stores_not_committed(s: Stmt) -> Made:
    """Bulk stores are not closed to a group."""
    return () if isinstance(s, CommitStores) else None


@changing
def too_few_bytes_announced(s: Stmt) -> Made:
    """A phase is complete before the last 16 bytes have come."""
    return (replace(s, nbytes=s.nbytes - 16),) if isinstance(s, ExpectBytes) else None


@changing
def barriers_not_set_up(s: Stmt) -> Made:
    """Barriers for copies are used as they are found."""
    return () if isinstance(s, InitBarriers) else None


KINDS = (
    barrier_left_out,
    fence_left_out,
    wait_left_out,
    other_phase,
    copies_one_group_late,
    copies_not_committed,
    stores_not_waited_for,
    stores_not_committed,
    too_few_bytes_announced,
    barriers_not_set_up,
)
