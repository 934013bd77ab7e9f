"""Waits, fences and barriers before a piece of a body, so that every shared value is read after it was written.

Facts used (PTX ISA, memory consistency, async proxy, cp.async): a block barrier orders ordinary accesses; a bulk load
is visible once its mbarrier phase completes; cp.async is an ordinary write of its thread once that has waited for it;
ordinary writes need fence.proxy.async in every writer and a barrier before a bulk store reads them; ordinary accesses,
reads too, need a barrier and the fence before a bulk load overwrites what they touched, and after the barrier the fence
of the issuing threads is enough; shared memory that a bulk store reads may be overwritten once wait_group.read has
returned in the issuing thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compiler.lower import tmem_sync
from compiler.lower.tmem_sync import NO_EFFECTS, TmemEffects, TmemHazards, TmemNeeds

_NOTHING_OPEN = TmemHazards()


@dataclass(frozen=True, slots=True)
class Effects:
    """Shared tensors that a piece of a body touches: by threads (reads, writes, copies by cp.async) and by bulk copies
    (loads, stores)."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    bulk_loads: frozenset[str] = frozenset()
    bulk_stores: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    """What is written into the shared memory of other blocks of the cluster; an mbarrier tells them of it."""
    freed: frozenset[str] = frozenset()
    """Of those that bulk copies load: an mbarrier has told that they are read."""
    released: frozenset[str] = frozenset()
    """Of those that threads have read so far: whoever comes past the piece may write them."""
    copies: frozenset[str] = frozenset()
    """What cp.async writes; what other threads read of it is among `writes` too."""
    own: frozenset[str] = frozenset()
    """What each thread reads that it has written itself, so that no barrier stands between."""
    turned: frozenset[str] = frozenset()
    """Circular buffers that cp.async fills ahead: the piece goes on to the next stage, and fills a later one."""
    tiles: frozenset[str] = frozenset()
    """What tensor cores, or tcgen05.cp, read, and have read when the piece is done."""
    tmem: TmemEffects = NO_EFFECTS

    def __or__(self, other: Effects) -> Effects:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Effects(
            self.reads | other.reads,
            self.writes | other.writes,
            self.bulk_loads | other.bulk_loads,
            self.bulk_stores | other.bulk_stores,
            self.sent | other.sent,
            self.freed | other.freed,
            self.released | other.released,
            self.copies | other.copies,
            self.own | other.own,
            self.turned | other.turned,
            self.tiles | other.tiles,
            self.tmem | other.tmem,
        )

    @property
    def around(self) -> Effects:
        """What the loop around the piece does: it fills its circular buffers, and waits for what it fills."""
        if not self.turned:
            return self
        return replace(self, copies=self.copies | self.turned, turned=frozenset())


NOTHING = Effects()
"""What pieces do that work in registers alone: most of them."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must happen first, in this order: wait for stores to have read, wait for all copies of the thread, or for
    those of the next stage, fence, barrier, wait for the blocks of the cluster, wait for these loads, fence in the
    threads that issue the loads of the piece. What tensor memory needs has the same barrier. `met`: the shared tensors
    for which the barrier is; `apart`: it is of groups of threads, and for these tensors alone."""

    wait_stores: bool = False
    wait_copies: bool = False
    wait_stage: bool = False
    fence: bool = False
    sync: bool = False
    blocks: bool = False
    wait_loads: frozenset[str] = frozenset()
    fence_loads: bool = False
    tmem: TmemNeeds = tmem_sync.NO_NEEDS
    met: frozenset[str] = field(default=frozenset(), compare=False)
    apart: bool = False


NO_NEEDS = Needs()


@dataclass(frozen=True, slots=True)
class Hazards:
    """What is still open at a point of a body: since the last block barrier, fence, wait for loads, wait for stores."""

    written: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    unfenced: frozenset[str] = frozenset()
    """Written by threads, and not fenced since; a block barrier alone does not make that visible to bulk stores."""
    looked_at: frozenset[str] = frozenset()
    """Read by threads, and not fenced since: a bulk load may overwrite what is still on its way to registers."""
    loading: frozenset[str] = frozenset()
    storing: frozenset[str] = frozenset()
    copying: frozenset[str] = frozenset()
    """Of those written: by cp.async, which its thread has not waited for."""
    starting: bool = False
    """Blocks of the cluster may not have started: their shared memory is not theirs yet (CUDA guide, distributed shared
    memory)."""
    tmem: TmemHazards = _NOTHING_OPEN

    def __or__(self, other: Hazards) -> Hazards:
        return Hazards(
            self.written | other.written,
            self.read | other.read,
            self.unfenced | other.unfenced,
            self.looked_at | other.looked_at,
            self.loading | other.loading,
            self.storing | other.storing,
            self.copying | other.copying,
            self.starting or other.starting,
            self.tmem | other.tmem,
        )

    def before(self, e: Effects) -> Needs:
        """What a piece with effects `e` needs first."""
        if e is NOTHING:
            return NO_NEEDS
        overwrites = e.writes | e.sent | (e.bulk_loads - e.freed)
        used = e.reads | e.own | e.tiles | e.bulk_loads | e.bulk_stores | (e.writes - e.copies)
        wait_copies = bool(used & self.copying)
        wait_stores = bool(overwrites & self.storing)
        unfenced = (e.bulk_stores | e.tiles) & self.unfenced
        fence = bool(unfenced)
        met = unfenced | (overwrites & self.storing) | (e.reads & self.written) | (overwrites & self.read)
        # One barrier shows all threads the stage that they go on to, and that all have read the one filled next.
        met = met | ((e.bulk_loads | e.tiles) & self.written) | (e.turned & e.writes)
        sync = bool(met)
        blocks = bool(e.sent) and self.starting
        waited = (e.reads | e.bulk_stores | e.tiles) & self.loading - e.bulk_loads
        fence_loads = not fence and bool((e.bulk_loads - e.freed) & (self.looked_at | self.unfenced))
        tmem = self.tmem.before(e.tmem)
        sync = sync or tmem.sync
        return Needs(wait_stores, wait_copies, bool(e.turned), fence, sync, blocks, waited, fence_loads, tmem, met)

    def after(self, e: Effects, needs: Needs) -> Hazards:
        """The state after those needs were met and the piece ran."""
        if e is NOTHING and needs is NO_NEEDS:
            return self
        # A barrier or fence before the wait for a copy says nothing of what it writes.
        under_way = frozenset[str]() if needs.wait_copies else self.copying
        met = replace(self, copying=under_way)
        if needs.sync:
            shown = needs.met if needs.apart else met.written | met.read
            met = replace(met, written=met.written - shown | met.written & under_way, read=met.read - shown)
        if needs.blocks:
            met = replace(met, starting=False)
        if needs.fence:
            seen = needs.met if needs.apart else met.unfenced | met.looked_at
            met = replace(met, unfenced=met.unfenced - seen | met.unfenced & under_way, looked_at=met.looked_at - seen)
        if needs.wait_stores:
            met = replace(met, storing=frozenset())
        return Hazards(
            written=met.written | (e.writes - e.turned),
            read=(met.read | e.reads) - e.released,
            unfenced=met.unfenced | e.writes,
            looked_at=met.looked_at - e.bulk_loads | e.reads | e.own,
            # What a piece both loads and reads it waits for itself.
            copying=met.copying | (e.copies - e.reads - e.own - e.bulk_stores),
            loading=(met.loading - needs.wait_loads) | (e.bulk_loads - e.reads - e.bulk_stores),
            storing=met.storing | e.bulk_stores,
            starting=met.starting,
            tmem=met.tmem.after(e.tmem, needs.tmem),
        )
