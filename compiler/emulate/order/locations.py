"""Synchronisation through memory: who released what to whoever reads a location strongly.

PTX ISA, "Memory Consistency Model", "Release and Acquire Patterns": a strong write releases what a fence of its thread
before it covers, or all that came before if it is a `.release`; a strong read acquires it if it is an `.acquire`, or
once a fence follows. An atomic does both, and hands on what it found ("Observation Order"). Two things are taken more
generously, as the hardware has them and much code relies on them: what other threads fenced, and a barrier made known
to the writer, is released as well; and a barrier of the reading thread counts as the fence after its strong read.

A fence of .cta scope, like an access of it, orders only threads of one block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt

from compiler.emulate.memory.region import MemoryRegion, Offsets
from compiler.emulate.order.events import Access, Layer, Token
from compiler.emulate.order.knowledge import Knowledge
from compiler.emulate.order.worlds import joined
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.threads import Lanes, Threads

_ACQUIRES = frozenset({"acquire", "acq_rel"})
_RELEASES = frozenset({"release", "acq_rel"})


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What one strong write released: to all, and to the threads of its own `block`; None for nothing."""

    to_all: Token | None
    to_block: Token | None
    block: int


Found = tuple[Released, ...]
"""What a strong read finds released at a location."""


@dataclass(slots=True, eq=False)
class Location:
    """What strong writes to a location released since one that was no atomic. Of each writer, (block, thread), the last
    counts: it released all that its earlier ones did."""

    released: dict[tuple[int, int], Released] = field(default_factory=dict)
    _found: Found | None = None

    def write(self, writer: tuple[int, int], released: Released | None, *, is_atomic: bool) -> None:
        """Notes a strong write."""
        if not is_atomic and self.released:
            self.released.clear()
            self._found = None
        if released is not None and self.released.get(writer) is not released:
            self.released[writer] = released
            self._found = None

    @property
    def found(self) -> Found:
        """What a strong read finds."""
        if self._found is None:
            self._found = tuple(self.released.values())
        return self._found


Locations = dict[int, Location]
"""By offset into a region's data."""


class Releases:
    """The releases through memory that concern a batch.

    `of_global`: those through global memory, by name and address of the region, which outlive the batch.
    """

    def __init__(self, threads: Threads, knowledge: Knowledge, of_global: dict[tuple[str, int], Locations]) -> None:
        self._threads, self._knowledge = threads, knowledge
        self._of_global = of_global
        self._of_region: dict[MemoryRegion, Locations] = {}
        self._to_settle: dict[int, list[Found]] = {}
        """What each lane's strong reads found since its last fence."""
        self._cache: dict[int, tuple[tuple[int, ...], Released]] = {}

    def access(
        self, region: MemoryRegion, access: Access, insn: PtxInstruction, lanes: Lanes, offsets: Offsets, semantics: str
    ) -> None:
        """A strong access of threads, one location a lane, in order of lanes where locations meet."""
        locations = self._locations(region)
        within_block = "cta" in insn.name
        releases = semantics in _RELEASES
        blocks = self._threads.blocks
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=True):
            location = locations.get(offset)
            if access is not Access.WRITE and location is not None and location.found:
                found = self._to_settle.setdefault(lane, [])
                if not found or found[-1] is not location.found:
                    found.append(location.found)
            if access is not Access.READ:
                released = self._release(lane, releases, within_block)
                if released is not None and location is None:
                    location = locations[offset] = Location()
                if location is not None:
                    writer = (blocks[self._threads.slot[lane]], int(self._threads.thread[lane]))
                    location.write(writer, released, is_atomic=access is Access.ATOMIC)
        if semantics in _ACQUIRES:
            self.settle(lanes, within_block=within_block)

    def settle(self, lanes: Lanes, *, within_block: bool = False) -> None:
        """Lets lanes acquire what their strong reads found; `within_block`: what their own block released."""
        if not self._to_settle:
            return
        alike: dict[tuple[int, ...], list[int]] = {}
        for lane in self._to_settle.keys() & set(lanes.tolist()):
            block = self._threads.blocks[self._threads.slot[lane]]
            alike.setdefault((block, *map(id, self._to_settle[lane])), []).append(lane)
        for (block, *_), some in alike.items():
            self._acquire(np.array(sorted(some)), block, self._to_settle[some[0]], within_block)
            if not within_block:
                for lane in some:
                    del self._to_settle[lane]

    def settle_together(self, lanes: Lanes, groups: npt.NDArray[np.intp]) -> None:
        """As `settle`, for lanes of which each is about to learn what any of its group knows (numbers, one a lane)."""
        if not self._to_settle:
            return
        together: dict[tuple[int, int], tuple[int, dict[int, Found]]] = {}
        for lane, group in zip(lanes.tolist(), groups.tolist(), strict=True):
            found = self._to_settle.pop(lane, None)
            if found is not None:
                block = self._threads.blocks[self._threads.slot[lane]]
                _, every = together.setdefault((group, block), (lane, {}))
                every.update((id(one), one) for one in found)
        for (_, block), (lane, every) in together.items():  # one lane is enough: it tells the others
            self._acquire(np.array([lane]), block, list(every.values()), within_block=False)

    def _acquire(self, lanes: Lanes, block: int, found: list[Found], within_block: bool) -> None:
        tokens: dict[int, Token] = {}
        for released in dict.fromkeys(chain.from_iterable(found)):
            if released.block == block and released.to_block is not None:
                tokens[id(released.to_block)] = released.to_block
            elif released.to_all is not None and (released.block == block or not within_block):
                tokens[id(released.to_all)] = released.to_all
        if tokens:
            self._knowledge.acquire(lanes, joined(list(tokens.values())))

    def _locations(self, region: MemoryRegion) -> Locations:
        if region.space is StateSpace.GLOBAL:
            return self._of_global.setdefault((region.name, region.base), {})
        return self._of_region.setdefault(region, {})

    def _release(self, lane: int, is_release: bool, within_block: bool) -> Released | None:
        """What a strong write of a lane releases."""
        knowledge = self._knowledge
        block = self._threads.blocks[self._threads.slot[lane]]
        if is_release and not within_block:
            released = Released(self._token(lane, Layer.SEEN), None, block)
        elif is_release:
            released = Released(self._covered(lane, Layer.DEVICE), self._token(lane, Layer.SEEN), block)
        else:
            view = knowledge.snapshot()
            layers = (Layer.PROXY, Layer.DEVICE, Layer.BLOCK)
            state = tuple(int(a[n, lane]) for n in layers for a in (view.rows, view.own, view.worlds))
            if not any(state[3:]):
                return None
            key = (knowledge.table.generation, *state)
            known = self._cache.get(lane)
            if known is not None and known[0] == key:
                return known[1]
            to_all = self._covered(lane, Layer.DEVICE)
            to_block = to_all if state[3:6] == state[6:9] else self._covered(lane, Layer.BLOCK)
            released = Released(to_all, to_block, block)
            self._cache[lane] = (key, released)
            return released
        knowledge.advance(np.array([lane]))
        return released

    def _covered(self, lane: int, layer: Layer) -> Token | None:
        """What a fence of a lane covers, None if there was none."""
        view = self._knowledge.snapshot()
        known = view.rows[layer, lane] or view.own[layer, lane] or view.worlds[layer, lane]
        return self._token(lane, layer) if known else None

    def _token(self, lane: int, layer: Layer) -> Token:
        """What a lane knows in a layer is seen by who acquires it; by the async proxy as far as it was so here."""
        knowledge = self._knowledge
        layers = {layer: Layer.SEEN}
        if knowledge.has_proxies:
            layers[Layer.PROXY] = Layer.PROXY
        token = knowledge.released(knowledge.snapshot(), np.array([lane]), layers)
        seen = token.layers[Layer.SEEN]
        proxy = token.layers.get(Layer.PROXY, {})
        for cluster, clocks in proxy.items():
            covered = seen.get(cluster, clocks[:0])
            width = min(len(clocks), len(covered))
            proxy[cluster] = np.minimum(clocks[:width], covered[:width])
        return token
