"""Waits, fences and barriers before a piece of a body, so that tensor memory is read after it was written.

Facts used (PTX ISA, tcgen05 memory consistency model): loads and stores are asynchronous, also to each other; a store
is done once wait::st of its warp has returned, and a load has come to its registers once wait::ld has. Other threads
see what was stored after fence::before_thread_sync, a barrier and fence::after_thread_sync. A load that was waited for
is over, and needs no fence before the barrier; what is stored after one needs the fence after it, so as not to begin
earlier. A warp that reads where it alone has written needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TmemEffects:
    """What a piece of a body does to tensor memory.

    `stores`, `loads`: columns, by a name that tensors in the same columns share. `exchanged`: columns through which
    warps pass something on. `watched`: columns that the tensor cores fill. `landing`: register tensors that loads fill.
    `touched`: register tensors that anything else reads or writes.
    """

    stores: frozenset[str] = frozenset()
    loads: frozenset[str] = frozenset()
    exchanged: frozenset[str] = frozenset()
    landing: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    """Columns that tcgen05.cp fills, and has filled when the piece is done; all threads see it."""
    moved: frozenset[str] = frozenset()
    """Columns whose rows tcgen05.shift moves, and has moved when the piece is done; all threads see it."""

    def __or__(self, other: TmemEffects) -> TmemEffects:
        if self is NO_EFFECTS or other is NO_EFFECTS:
            return other if self is NO_EFFECTS else self
        return TmemEffects(
            self.stores | other.stores,
            self.loads | other.loads,
            self.exchanged | other.exchanged,
            self.landing | other.landing,
            self.touched | other.touched,
            self.watched | other.watched,
            self.filled | other.filled,
            self.moved | other.moved,
        )


NO_EFFECTS = TmemEffects()


@dataclass(frozen=True, slots=True)
class TmemNeeds:
    """What must happen first, in this order: wait for stores, wait for loads (of the register tensors `landed`), fence,
    barrier, fence."""

    wait_stores: bool = False
    wait_loads: bool = False
    landed: frozenset[str] = frozenset()
    fence_before: bool = False
    sync: bool = False
    fence_after: bool = False


NO_NEEDS = TmemNeeds()


@dataclass(frozen=True, slots=True)
class TmemHazards:
    """What is still open at a point of a body."""

    storing: frozenset[str] = frozenset()
    """Stored to, and not waited for."""
    landing: frozenset[str] = frozenset()
    """Register tensors that loads fill, and that were not waited for."""
    loading: frozenset[str] = frozenset()
    """The tensors that these loads read."""
    unseen: frozenset[str] = frozenset()
    """Of those that warps exchange, or the tensor cores fill: stored to since the last barrier with fences."""
    read: frozenset[str] = frozenset()
    """Of the same: read since the last barrier."""

    def __or__(self, other: TmemHazards) -> TmemHazards:
        return TmemHazards(
            self.storing | other.storing,
            self.landing | other.landing,
            self.loading | other.loading,
            self.unseen | other.unseen,
            self.read | other.read,
        )

    def before(self, e: TmemEffects) -> TmemNeeds:
        """What a piece with effects `e` needs first."""
        if e is NO_EFFECTS:
            return NO_NEEDS
        overwrites = e.stores | e.filled | e.moved
        passes = (e.loads & e.exchanged | e.moved) & self.unseen
        reused = (e.stores & e.exchanged | e.filled | e.moved) & self.read
        wait_loads = bool(e.touched & self.landing) or bool(overwrites & self.loading)
        return TmemNeeds(
            wait_stores=bool((e.loads | e.moved) & self.storing),
            wait_loads=wait_loads,
            landed=self.landing if wait_loads else frozenset(),
            fence_before=bool(passes),
            sync=bool(passes or reused),
            fence_after=bool(passes or reused),
        )

    def at_end(self) -> TmemNeeds:
        """What must happen before the allocation is freed; that all warps have come there is not said here."""
        return TmemNeeds(wait_stores=bool(self.storing), wait_loads=bool(self.landing), landed=self.landing)

    def after(self, e: TmemEffects, needs: TmemNeeds) -> TmemHazards:
        """The state after those needs were met and the piece ran. What a piece both loads and uses it waits for."""
        if e is NO_EFFECTS and needs is NO_NEEDS:
            return self
        nothing, shared = frozenset[str](), e.exchanged | e.watched
        in_flight = e.landing - e.touched
        return TmemHazards(
            storing=(nothing if needs.wait_stores else self.storing) | (e.stores - e.loads),
            landing=(nothing if needs.wait_loads else self.landing) | in_flight,
            loading=(nothing if needs.wait_loads else self.loading) | (e.loads if in_flight else nothing),
            unseen=(nothing if needs.fence_before else self.unseen) | ((e.stores & shared) - e.loads),
            read=(nothing if needs.sync else self.read) | (e.loads & shared),
        )
