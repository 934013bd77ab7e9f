"""Waits, fences and barriers before a piece of a body, so that every shared value is read after it was written.

Facts used (PTX ISA, memory consistency and async proxy): a block barrier orders ordinary accesses; a bulk load is
visible once its mbarrier phase completes; ordinary writes need fence.proxy.async in every writer and a barrier before a
bulk store reads them; shared memory that a bulk store reads may be overwritten once wait_group.read has returned in the
issuing thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Effects:
    """Shared tensors that a piece of a body touches: by threads (reads, writes) and by bulk copies (loads, stores)."""

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

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.reads | other.reads,
            self.writes | other.writes,
            self.bulk_loads | other.bulk_loads,
            self.bulk_stores | other.bulk_stores,
            self.sent | other.sent,
            self.freed | other.freed,
            self.released | other.released,
        )


@dataclass(frozen=True, slots=True)
class Needs:
    """What must happen first, in this order: wait for stores to have read, fence, barrier, wait for the blocks
    of the cluster, wait for these loads."""

    wait_stores: bool = False
    fence: bool = False
    sync: bool = False
    blocks: bool = False
    wait_loads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Hazards:
    """What is still open at a point of a body: since the last block barrier, fence, wait for loads, wait for stores."""

    written: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    unfenced: frozenset[str] = frozenset()
    """Written by threads, and not fenced since; a block barrier alone does not make that visible to bulk stores."""
    loading: frozenset[str] = frozenset()
    storing: frozenset[str] = frozenset()
    starting: bool = False
    """Blocks of the cluster may not have started: their shared memory is not theirs yet (CUDA guide, distributed shared
    memory)."""

    def before(self, e: Effects) -> Needs:
        """What a piece with effects `e` needs first."""
        overwrites = e.writes | e.sent | (e.bulk_loads - e.freed)
        wait_stores = bool(overwrites & self.storing)
        fence = bool(e.bulk_stores & self.unfenced)
        sync = fence or wait_stores or bool(e.reads & self.written) or bool(overwrites & self.read)
        sync = sync or bool(e.bulk_loads & self.written)
        blocks = bool(e.sent) and self.starting
        return Needs(wait_stores, fence, sync, blocks, (e.reads | e.bulk_stores) & self.loading - e.bulk_loads)

    def after(self, e: Effects, needs: Needs) -> Hazards:
        """The state after those needs were met and the piece ran."""
        met = self
        if needs.sync:
            met = replace(met, written=frozenset(), read=frozenset())
        if needs.blocks:
            met = replace(met, starting=False)
        if needs.fence:
            met = replace(met, unfenced=frozenset())
        if needs.wait_stores:
            met = replace(met, storing=frozenset())
        return Hazards(
            written=met.written | e.writes,
            read=(met.read | e.reads) - e.released,
            unfenced=met.unfenced | e.writes,
            # What a piece both loads and reads it waits for itself.
            loading=(met.loading - needs.wait_loads) | (e.bulk_loads - e.reads - e.bulk_stores),
            storing=met.storing | e.bulk_stores,
            starting=met.starting,
        )
