"""What is said of a race: who, where, what was before, and what would order the two."""

from __future__ import annotations

import numpy as np

from compiler.emulate.order.events import Conflict, OnRace
from compiler.emulate.order.log import Items, Kind, Origin, Who
from compiler.emulate.order.pairs import Flags, Positions
from compiler.emulate.order.shadow import Shadow
from compiler.emulate.ptx.module import PtxInstruction, StateSpace
from compiler.emulate.report import FaultKind, Report
from compiler.emulate.threads import WARP

_DOES = {
    Kind.READ: "reads",
    Kind.WRITE: "writes",
    Kind.STRONG_READ: "reads (strongly)",
    Kind.STRONG_WRITE: "updates (strongly)",
}
_DID = {
    Kind.READ: "read",
    Kind.WRITE: "wrote",
    Kind.STRONG_READ: "read (strongly)",
    Kind.STRONG_WRITE: "updated (strongly)",
}

_UNFENCED = (
    "It is issued after the read, but through the async proxy, and no proxy fence lies between: the read may still be "
    "under way when the operation writes",
    "It comes after, but the async proxy need not see it",
)
"""What is wrong with an operation of the async proxy that no proxy fence orders after a read, and after a write."""


class Races:
    """Reports races, one fault a kind and a pair of instructions, counted."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def found(
        self,
        shadow: Shadow,
        items: Items,
        earlier: Positions,
        later: Positions,
        is_proxy: Flags,
        on_race: OnRace | None,
    ) -> None:
        """Takes pairs of accesses that race, or lack a proxy fence, as positions in `items`."""
        earlier, later = _by_issue(shadow, items, earlier, later)
        if on_race is not None:
            keep = ~_taken_over(shadow, items, earlier, later, is_proxy, on_race)
            earlier, later, is_proxy = earlier[keep], later[keep], is_proxy[keep]
        first: dict[tuple[PtxInstruction, PtxInstruction, bool], int] = {}
        counts: dict[tuple[PtxInstruction, PtxInstruction, bool], int] = {}
        for pair, count in _distinct(items, earlier, later, is_proxy):
            before, after = (shadow.origins[items.origin[p[pair]]] for p in (earlier, later))
            key = (before.insn, after.insn, bool(is_proxy[pair]))
            first.setdefault(key, pair)
            counts[key] = counts.get(key, 0) + count
        for key, pair in first.items():
            self._add(shadow, items, int(earlier[pair]), int(later[pair]), key[2], counts[key])

    def _add(self, shadow: Shadow, items: Items, earlier: int, later: int, is_proxy: bool, count: int) -> None:
        region = shadow.region
        before, after = shadow.origins[items.origin[earlier]], shadow.origins[items.origin[later]]
        lanes = int(items.lane[earlier]), int(items.lane[later])
        offset = int(items.granule[later]) * shadow.granule
        place = offset % region.pitch if region.pitch else offset - region.lead
        name = f"tensor {region.name}" if region.space is StateSpace.GLOBAL else region.name
        problem = (
            _UNFENCED[before.kind & 1]
            if is_proxy
            else "Both are by one instruction, and the values differ"
            if before is after and before.who is Who.THREAD
            else "Nothing orders the two"
        )
        self._report.add(
            FaultKind.PROXY_RACE if is_proxy else FaultKind.RACE,
            after.insn,
            f"{_subject(after, lanes[1])} {_DOES[after.kind]} byte {place} of {name}, which "
            f"{_subject(before, lanes[0]).lower()} {_DID[before.kind]} at {_quoted(before.insn)}. {problem}. "
            + _remedy(before, after, lanes, is_proxy),
            block=after.threads.block_index(int(after.threads.slot[lanes[1]])),
            thread=after.threads.thread_index(lanes[1]),
            address=region.address(offset),
            tensor=region.name,
            count=count,
        )


def _by_issue(shadow: Shadow, items: Items, earlier: Positions, later: Positions) -> tuple[Positions, Positions]:
    """Turns pairs round where the later access is of an operation that was issued before the earlier one was made.

    When an operation moves its bytes is up to the scheduler, its issue is not: so the fault is at the same instruction
    in every order of completion.
    """
    times = np.array([o.time for o in shadow.origins])
    before, after = items.origin[earlier], items.origin[later]
    turned = times[before] > times[after]
    return np.where(turned, later, earlier), np.where(turned, earlier, later)


def _distinct(items: Items, earlier: Positions, later: Positions, is_proxy: Flags) -> list[tuple[int, int]]:
    """The first pair of each two logged accesses, in the order of the later one, and how many there are."""
    keys = items.origin[later].astype(np.int64) << 32 | items.origin[earlier].astype(np.int64) << 1 | is_proxy
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return list(zip(first.tolist(), counts.tolist(), strict=True))


def _taken_over(
    shadow: Shadow, items: Items, earlier: Positions, later: Positions, is_proxy: Flags, on_race: OnRace
) -> Flags:
    """The pairs of an operation and a thread that `on_race` reports by itself."""
    taken = np.zeros(len(earlier), np.bool_)
    keys = items.origin[later].astype(np.int64) << 32 | items.origin[earlier]
    for pair, _ in _distinct(items, earlier, later, is_proxy):
        ends = [(shadow.origins[items.origin[p]], int(items.lane[p])) for p in (earlier[pair], later[pair])]
        if sum(o.who is Who.THREAD for o, _ in ends) != 1:
            continue
        (thread, lane), (operation, _) = sorted(ends, key=lambda end: end[0].who)
        assert operation.actor is not None
        conflict = Conflict(
            operation.actor,
            operation.insn,
            lane,
            thread.insn,
            thread.time,
            shadow.region,
            int(items.granule[later[pair]]) * shadow.granule,
        )
        if on_race(conflict):
            taken |= (keys == keys[pair]) & (is_proxy == is_proxy[pair])
    return taken


def _subject(origin: Origin, lane: int) -> str:
    threads = origin.threads
    thread = f"hread {threads.thread_index(lane)} of block {threads.block_index(int(threads.slot[lane]))}"
    return f"T{thread}" if origin.who is Who.THREAD else f"The operation that t{thread} issued"


def _quoted(insn: PtxInstruction) -> str:
    return f"`{insn.text}`" + (f" (line {insn.source.line})" if insn.source else f" (PTX line {insn.ptx_line})")


def _remedy(before: Origin, after: Origin, lanes: tuple[int, int], is_proxy: bool) -> str:
    """What would order the two, as advice."""
    if is_proxy:
        did = "write" if before.kind & 1 else "read"
        return (
            f"Execute fence.proxy.async (for shared memory, .shared::cta) in the thread of the {did}, after it and "
            "before the barrier, or the arrival on an mbarrier, that the operation is issued after; or in the thread "
            "that issues the operation, after its wait for that and before the issue."
        )
    if before.who is not Who.THREAD:
        return "Wait for the operation (its mbarrier, or its group) before that, and pass a barrier if others waited."
    if after.who is not Who.THREAD:
        return "Issue the operation only after a barrier that the other thread has passed after its access."
    return _barrier(before, after, lanes)


def _barrier(before: Origin, after: Origin, lanes: tuple[int, int]) -> str:
    threads = after.threads
    if before is after:
        return "Let one thread write it, or give each thread a place of its own."
    if before.threads is threads:
        one, two = (int(threads.slot[lane]) for lane in lanes)
        if lanes[0] // WARP == lanes[1] // WARP:
            return "Put __syncwarp() or __syncthreads() between them."
        if one == two:
            return "Put __syncthreads() between them."
        if one // threads.cluster_blocks == two // threads.cluster_blocks:
            return "Put a cluster barrier (cluster.sync()) between them."
    return (
        "No barrier spans blocks: let each block access bytes of its own, use atomics, or publish by __threadfence() "
        "and an atomic that the other block reads, followed by __threadfence() there."
    )
