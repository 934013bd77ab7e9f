"""Happens-before between threads and asynchronous operations, and the races that it leaves.

The memory model is the one of the PTX ISA, "Memory Consistency Model", in the form of vector clocks: every thread, and
every asynchronous operation, counts its synchronisations; who synchronises with another learns the other's counts. Two
accesses to one byte, one of them a write, race if neither learnt of the other.

Accesses are logged as they come and checked many at a time (`flush`), so that an access costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import MemoryRegion, Offsets
from compiler.emulate.order.check import checked
from compiler.emulate.order.events import Access, Actor, Conflict, Layer, OnRace, Token
from compiler.emulate.order.knowledge import Knowledge
from compiler.emulate.order.locations import Locations, Releases
from compiler.emulate.order.log import Entry, Kind
from compiler.emulate.order.races import Races
from compiler.emulate.order.shadow import Shadow
from compiler.emulate.order.worlds import joined
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import Report
from compiler.emulate.threads import Lanes, Threads

__all__ = ["Access", "Actor", "Conflict", "GlobalHistory", "OnRace", "Order", "Token"]

_LOG_BYTES = 2 << 20
"""Bytes of accesses that are logged before they are checked: many make a check cheap, few stay in caches."""

_LEAST_BYTES = 4
"""What a lane's access counts for at least, since its offset and lane are kept too."""

_KIND = {
    (Access.READ, False): Kind.READ,
    (Access.READ, True): Kind.STRONG_READ,
    (Access.WRITE, False): Kind.WRITE,
    (Access.WRITE, True): Kind.STRONG_WRITE,
    (Access.ATOMIC, False): Kind.STRONG_WRITE,
    (Access.ATOMIC, True): Kind.STRONG_WRITE,
}


class GlobalHistory:
    """What the batches of one run leave to the next: the accesses to global memory that can still race, and releases.

    One for a run; every batch's `Order` takes it. Regions are told apart by name and address.
    """

    def __init__(self) -> None:
        self.shadows: dict[tuple[str, int], Shadow] = {}
        self.locations: dict[tuple[str, int], Locations] = {}


class Order:
    """The vector clocks of a batch, and the log of its accesses. Offsets are into `Region.data`.

    Arrays given to it are kept and must not change afterwards. `memory_sync`: the kernel has fences, or release or
    acquire operations, so that threads may synchronise through memory. `async_proxy`: it may have operations of the
    async proxy; without, less of the past is kept. `on_race` is told of races of an asynchronous
    operation with a thread first.
    """

    def __init__(
        self,
        threads: Threads,
        report: Report,
        *,
        history: GlobalHistory | None = None,
        memory_sync: bool = False,
        async_proxy: bool = True,
        on_race: OnRace | None = None,
    ) -> None:
        self.on_race = on_race
        self.time = 0
        """The accesses so far, and the operations issued: which came first in the run."""
        self._threads = threads
        self._knowledge = Knowledge(threads, memory_sync, async_proxy)
        self._history = history or GlobalHistory()
        self._races = Races(report)
        self._shadows: dict[MemoryRegion, Shadow] = {}
        self._bytes = 0
        self._releases = Releases(threads, self._knowledge, self._history.locations) if memory_sync else None
        self._started = 0

    # Accesses.

    def access(
        self,
        region: MemoryRegion,
        access: Access,
        insn: PtxInstruction,
        lanes: Lanes,
        offsets: Offsets,
        nbytes: int,
        *,
        strong: bool = False,
        values: npt.NDArray[Any] | None = None,
        semantics: str = "relaxed",
    ) -> None:
        """Threads `lanes` access `nbytes` bytes at `offsets` (one a lane), by one instruction.

        `strong` (volatile, relaxed, acquire, release) and atomic accesses do not race with one another. `semantics` is
        "relaxed", "acquire", "release" or "acq_rel"; its scope is read off the instruction. `values`: what is written,
        one row a lane; lanes of one instruction that write equal bytes do not race.
        """
        kind = _KIND[access, strong]
        self._log(
            region, Entry(kind, insn, lanes, offsets, nbytes, self._knowledge.snapshot(), values, None, self.time)
        )
        if self._releases is not None and kind >= Kind.STRONG_READ:
            self._releases.access(region, access, insn, lanes, offsets, semantics)

    def actor_access(
        self,
        actor: Actor,
        region: MemoryRegion,
        access: Access,
        insn: PtxInstruction,
        offsets: Offsets,
        nbytes: int,
        lanes: Lanes | None = None,
    ) -> None:
        """An operation accesses `nbytes` bytes at each of `offsets`. A reduction's access to its target is ATOMIC.

        Of an operation of many lanes, offsets are one for each of `lanes`: all of its lanes unless given.
        """
        if actor.lanes is None:
            lanes = np.full(len(offsets), actor.lane)
        elif lanes is None:
            lanes = actor.lanes
        kind = _KIND[access, False]
        self._log(region, Entry(kind, insn, lanes, offsets, nbytes, actor.view, None, actor, self.time))

    def _log(self, region: MemoryRegion, entry: Entry) -> None:
        shadow = self._shadows.get(region)
        if shadow is None:
            shadow = self._shadows[region] = self._shadow(region)
        shadow.add(entry)
        self.time += 1
        self._bytes += len(entry.offsets) * max(entry.nbytes, _LEAST_BYTES)
        if self._bytes > _LOG_BYTES:
            self.flush()

    def _shadow(self, region: MemoryRegion) -> Shadow:
        if region.space is not StateSpace.GLOBAL:
            return Shadow(region)
        shadow = self._history.shadows.setdefault((region.name, region.base), Shadow(region))
        shadow.region = region
        return shadow

    # Synchronisation of threads.

    def barrier(self, lanes: Lanes, groups: npt.NDArray[np.intp]) -> None:
        """All lanes of a group (numbers, one a lane; a group is of one cluster) learn what each of them knows."""
        if self._releases is not None:
            self._releases.settle_together(lanes, groups)
        self._knowledge.barrier(lanes, groups)
        self._bound_table()

    def release(self, lanes: Lanes) -> Token:
        """What these lanes did and saw up to now."""
        return self._knowledge.release(lanes)

    def acquire(self, lanes: Lanes, token: Token) -> None:
        """What these lanes do from now on comes after what the token stands for."""
        self._knowledge.acquire(lanes, token)
        self._bound_table()

    def has_seen(self, lanes: Lanes, token: Token) -> bool:
        """Whether all of these lanes, of one cluster, know what a token of that cluster stands for."""
        return self._knowledge.has_seen(lanes, token)

    @staticmethod
    def join(tokens: list[Token]) -> Token:
        """One token for all of these."""
        return joined(tokens)

    def proxy_fence(self, lanes: Lanes) -> None:
        """`fence.proxy.async`: whoever learns of it may ask the async proxy for operations, and those come after all
        that these lanes did and saw up to now, reads included."""
        self._knowledge.fence(lanes, (Layer.PROXY,))

    def fence(self, lanes: Lanes, scope: str = "gpu") -> None:
        """`fence.acq_rel`, `fence.sc`, `membar`: orders what was before it for those who see a strong write after it.

        `scope` is cta, cluster, gpu or sys; cluster counts as gpu. Needs `memory_sync`.
        """
        if self._releases is None:
            raise ValueError("Order.fence: the order was made without memory_sync. Make it with memory_sync=True.")
        within_block = scope == "cta"
        self._releases.settle(lanes, within_block=within_block)
        self._knowledge.fence(lanes, (Layer.BLOCK,) if within_block else (Layer.BLOCK, Layer.DEVICE))
        self._bound_table()

    # Asynchronous operations.

    def start(self, lane: int, *, uses_async_proxy: bool = True, after: Sequence[Actor] = ()) -> Actor:
        """An operation issued now by a lane. It is forgotten when nobody holds the Actor any more.

        `after`: operations of one lane each that it comes after though nobody waited for them, as in a pipeline.
        """
        self._started += 1
        self.time += 1
        slot = int(self._threads.slot[lane])
        return self._knowledge.start(lane, slot, self._started, self.time - 1, uses_async_proxy, after)

    def start_together(self, lanes: Lanes) -> Actor:
        """An operation of the async proxy that lanes of one block issue together, such as a warpgroup's product: it
        comes after what is known to all of them."""
        self._started += 1
        self.time += 1
        slot = int(self._threads.slot[lanes[0]])
        return self._knowledge.start_together(lanes, slot, self._started, self.time - 1)

    def start_copies(self, lanes: Lanes) -> Actor:
        """`cp.async` of several lanes, issued now: an operation of each lane, through the generic proxy (PTX ISA,
        "cp.async": the operations are performed in the generic proxy)."""
        self._started += 1
        self.time += 1
        slot = int(self._threads.slot[lanes[0]])
        return self._knowledge.start_copies(lanes, slot, self._started, self.time - 1)

    def finish(self, actor: Actor, *, source_only: bool = False) -> Token:
        """What an observer of an operation's completion acquires; `source_only`: of its reads (`wait_group.read`)."""
        return self._knowledge.finish(actor, source_only)

    def finish_alone(self, actor: Actor) -> Token:
        """What an observer of an operation's completion acquires who learns nothing else of its issuer, as of
        `mbarrier.init` by `fence.mbarrier_init`."""
        return self._knowledge.alone(actor)

    def finish_copies(self, actor: Actor, lanes: Lanes) -> None:
        """Each of these lanes waited for its own part of an operation of many lanes (`cp.async.wait_group`)."""
        self._knowledge.finish_copies(actor, lanes)

    # Checks.

    def flush(self) -> None:
        """Checks all that is logged, and reports the races."""
        floor = None
        for shadow in self._shadows.values():
            if shadow.log:
                if floor is None:
                    floor = self._knowledge.floor()
                checked(shadow, self._knowledge, self._races, floor, self.on_race)
        self._bytes = 0
        self._knowledge.compact()

    def _bound_table(self) -> None:
        if self._knowledge.is_large:
            self.flush()
