"""Drops the block barrier after the set-up of mbarriers where another one follows before any thread waits on one.

    init; sync; load…; loop { sync; load; wait; … }   ->   init; load…; loop { sync; load; wait; … }

The barrier is there so that no thread waits on an mbarrier that is not set up yet. The elected thread, which sets up,
expects and loads, needs none of its own.
"""

from __future__ import annotations

from itertools import pairwise

from compiler.lower.kernel_ir import If, Loop, Stmt
from compiler.lower.sync_ir import ClusterWait, ExpectBytes, InitBarriers, Sync, WaitBarrier


def drop_redundant_setup_sync(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body without the `Sync` right after `InitBarriers`, if every path to a `WaitBarrier` has another."""
    for index, (first, second) in enumerate(pairwise(body)):
        if isinstance(first, InitBarriers) and isinstance(second, Sync):
            rest = body[index + 2 :]
            if _others_load(rest):
                return body
            return body if _may_wait_first(rest) else (*body[: index + 1], *rest)
    return body


def _others_load(body: tuple[Stmt, ...]) -> bool:
    """Whether threads besides the elected one expect bytes."""
    for s in body:
        match s:
            case ExpectBytes():
                return True
            case If():
                if _others_load(s.then) or _others_load(s.orelse):
                    return True
            case Loop():
                if _others_load(s.body):
                    return True
            case _:
                pass
    return False


def _may_wait_first(body: tuple[Stmt, ...]) -> bool:
    """Whether some path through `body` comes to a `WaitBarrier` before any `Sync`."""
    for s in body:
        match s:
            case WaitBarrier():
                return True
            case Sync() | ClusterWait():
                return False
            case If():
                if _may_wait_first(s.then) or _may_wait_first(s.orelse):
                    return True
                if _always_syncs(s.then) and _always_syncs(s.orelse):
                    return False
            case Loop():
                if _may_wait_first(s.body):
                    return True
                if s.trip.lo > 0 and _always_syncs(s.body):
                    return False
            case _:
                pass
    return False


def _always_syncs(body: tuple[Stmt, ...]) -> bool:
    """Whether every path through `body` comes to a `Sync`."""
    for s in body:
        match s:
            case Sync() | ClusterWait():
                return True
            case If():
                if _always_syncs(s.then) and _always_syncs(s.orelse):
                    return True
            case Loop():
                if s.trip.lo > 0 and _always_syncs(s.body):
                    return True
            case _:
                pass
    return False
