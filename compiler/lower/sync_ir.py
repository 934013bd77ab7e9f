"""Statements of kernel IR by which threads and copies wait for one another: barriers, groups of copies, fences."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.ir.expr import Expr
from compiler.lower.operands import (
    Barrier,
)


@dataclass(frozen=True, slots=True)
class CommitCopies:
    """Closes the group of the copies that this thread has issued since the last one; there may be none."""


@dataclass(frozen=True, slots=True)
class WaitCopies:
    """Waits until at most the last `pending` groups of this thread's copies are under way; 0: until no copy is, in a
    group or not (PTX ISA, cp.async.wait_group, cp.async.wait_all). Other threads see them after a block barrier."""

    pending: int


@dataclass(frozen=True, slots=True)
class ClusterArrive:
    """This thread has come to the barrier of the cluster, and goes on. `releases`: with all that it did to the memory
    of other blocks."""

    releases: bool = False


@dataclass(frozen=True, slots=True)
class ClusterWait:
    """Waits until all threads of the cluster have arrived: its blocks run, and their barriers are set up."""


@dataclass(frozen=True, slots=True)
class InitBarriers:
    """The elected thread sets them up, for one arrival each, or as many as `arrivals` says of each. Other threads see
    them after the next block barrier; `fenced`: and so does what copies, without a fence of its own."""

    byte_offset: int
    count: int
    tensor_maps: tuple[str, ...]
    arrivals: tuple[int, ...] = ()
    fenced: bool = True


@dataclass(frozen=True, slots=True)
class ExpectBytes:
    """The elected thread arrives on the barrier and announces the bytes of the copies that follow."""

    barrier: Barrier
    nbytes: int


@dataclass(frozen=True, slots=True)
class AddBytes:
    """The phase also waits for the bytes of the copy that follows; no arrival."""

    barrier: Barrier
    nbytes: int


@dataclass(frozen=True, slots=True)
class Arrive:
    """The thread arrives on the barrier: what it has read of shared memory, bulk copies may write. `of_warp`: its warp
    does, once all of its lanes have come here. `by_mma`: tensor cores alone have read, and no thread. `blocks`: of the
    cluster, in each of which it arrives at the barrier in that place."""

    barrier: Barrier
    of_warp: bool = False
    by_mma: bool = False
    blocks: int = 1


@dataclass(frozen=True, slots=True)
class WaitBarrier:
    """Every thread waits for the phase of this parity."""

    barrier: Barrier
    parity: Expr


@dataclass(frozen=True, slots=True)
class Sync:
    """Block barrier."""


@dataclass(frozen=True, slots=True)
class SyncPart:
    """Barrier `number` of `threads` threads of the block: those that compute, where others only load. `group`: of
    groups that each have one, counted from there."""

    number: int
    threads: int
    group: Expr = field(default_factory=Expr)


@dataclass(frozen=True, slots=True)
class SetRegisters:
    """Each thread of the warp group has `count` registers from here on: more or fewer than `before`, at its start."""

    count: int
    more: bool
    before: int


@dataclass(frozen=True, slots=True)
class FenceAsync:
    """Ordinary accesses to shared memory come before bulk copies (PTX ISA, fence.proxy.async): those of the thread, and
    those that came before a barrier that it has passed."""


@dataclass(frozen=True, slots=True)
class CommitStores:
    """Closes the bulk group of the stores issued so far by this thread."""


@dataclass(frozen=True, slots=True)
class WaitStores:
    """Waits until bulk stores have read their shared memory."""
