"""What a kernel moves through L2 and device memory: bytes, runs, what is read again and when, bytes in flight."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from compiler.arch import WARP_THREADS
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import CachePolicy
from compiler.ir.touched import read_bytes, written_bytes
from compiler.lower import kernel_ir as k
from compiler.lower import sync_ir
from search.cost.accesses import (
    PAST_L1,
    addresses,
    global_access,
    read_run,
    sector_bytes,
    share_of_l1,
)
from search.cost.runs import READ_RUN_COST, WRITE_RUN_COST, Table, mean_cost
from search.cost.sites import Load, StatementSite, own_side, positions_of

_ROWS_AT_ONCE = 4
"""Rows of a box of the copy engine that cost what one warp's access of as many bytes does: boxes of 64 bytes a row are
as fast as of 256, those of 32 take 1.03 times as long to store and 1.15 times to load (transposes on an H200)."""

COPIES = k.TmaLoad | k.TmaStore | k.BulkLoad | k.BulkStore
"""What the copy engine moves."""

STAGED = k.TmaLoad | k.BulkLoad | k.CopyAsync
"""Loads past registers, which stages are filled by."""


def share_past_l1(sites: list[StatementSite]) -> float:
    """Of the loads of threads, those that ask L1 to keep nothing."""
    return _share(sites, PAST_L1)


def share_streaming(sites: list[StatementSite]) -> float:
    """Of the loads of threads, those that ask the caches to drop first what they bring."""
    return _share(sites, (CachePolicy.STREAMING,))


def _share(sites: list[StatementSite], policies: tuple[CachePolicy, ...]) -> float:
    loads = [(s.statement, s.per_tile * s.tiles) for s in sites if isinstance(s.statement, k.GlobalLoad)]
    asked = sum(n * s.width * s.target.dtype.nbytes for s, n in loads if s.cache in policies)
    return asked / max(1, sum(n * s.width * s.target.dtype.nbytes for s, n in loads))


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Time per byte over that of long runs, of what is read and of what is written."""

    read: float
    write: float


def run_costs(
    sites: list[StatementSite], kernel: k.Kernel, lanes: dict[str, NDArray[np.int64]], fusion: Fusion, again: set[int]
) -> RunCosts:
    """What the lengths of runs cost, the mean over tensors by their bytes. One address for all lanes is no run; what is
    read again, a weight of every row, comes from the caches, to which the length of a run means little."""
    read, written = read_bytes(fusion), written_bytes(fusion)
    sizes = [*(read[name] for name in fusion.inputs), *(written[name] for name in fusion.outputs)]
    position = positions_of(kernel)
    rows = {m.name: float(m.box[0] * m.dtype.nbytes) for m in kernel.tensor_maps}
    reads: dict[int, list[tuple[float, float]]] = {}
    writes: dict[int, list[tuple[float, float]]] = {}
    for site in sites:
        times = float(site.per_tile * site.tiles)
        match site.statement:
            case (k.GlobalLoad() | k.CopyAsync()) as s if global_access(s, lanes)[0] > s.width * s.target.dtype.nbytes:
                reads.setdefault(position[s.tensor], []).append((times * s.width, read_run(s, lanes)))
            case k.GlobalStore() as s:
                writes.setdefault(position[s.tensor], []).append((times * s.width, global_access(s, lanes)[1]))
            case k.TmaLoad() as s:
                reads.setdefault(position[s.tensor_map], []).append((times, _ROWS_AT_ONCE * rows[s.tensor_map]))
            case k.TmaStore() as s:
                writes.setdefault(position[s.tensor_map], []).append((times, _ROWS_AT_ONCE * rows[s.tensor_map]))
            case k.BulkLoad() as s:
                reads.setdefault(position[s.tensor], []).append((times, float(s.nbytes)))
            case k.BulkStore() as s:
                writes.setdefault(position[s.tensor], []).append((times, float(s.nbytes)))
            case _:
                pass

    def mean(table: Table, found: dict[int, list[tuple[float, float]]]) -> float:
        total = sum(sizes[p] for p in found)
        return sum(sizes[p] * mean_cost(table, runs) for p, runs in found.items()) / total if total else 1.0

    return RunCosts(
        mean(READ_RUN_COST, {p: runs for p, runs in reads.items() if p not in again}),
        mean(WRITE_RUN_COST, writes),
    )


def l2_read_bytes(
    sites: list[StatementSite], kernel: k.Kernel, lanes: dict[str, NDArray[np.int64]], blocks: int
) -> dict[int, float]:
    """Bytes that SMs read, by tensor position. Copies of a prologue and of its loop fetch different parts, and so do
    those of full and of cut tiles, if they fill one place; copies to another place are another pass over the tensor.

    Loads of one tensor find in L1 what their neighbours fetched, but not what was fetched before threads met: by then a
    whole row has gone through it.
    """
    position = positions_of(kernel)
    warps = blocks * -(-kernel.threads // WARP_THREADS)
    total: dict[int, float] = {}
    copied: dict[tuple[int, str], float] = {}
    loads: dict[tuple[str, int], list[Load]] = {}
    threaded: dict[tuple[str, int], float] = {}
    part = 0
    for site in sites:
        times = site.per_tile * site.tiles
        match site.statement:
            case (k.GlobalLoad() | k.CopyAsync()) as s:
                at = s.tensor, part
                loads.setdefault(at, []).append(s)
                threaded[at] = threaded.get(at, 0.0) + warps * times * sector_bytes(s, lanes)
            case sync_ir.Sync() | sync_ir.SyncPart() | k.Shuffle() | k.ScanLanes() | sync_ir.ClusterWait():
                part += 1
            case (k.TmaLoad() | k.BulkLoad()) as s:
                to = position[_source(s)[0]], s.target.tensor
                copied[to] = max(copied.get(to, 0.0), blocks * times * s.nbytes / s.blocks)
            case _:
                pass
    for (place, _), read in copied.items():
        total[place] = total.get(place, 0.0) + read
    for at, found in loads.items():
        place = position[at[0]]
        total[place] = total.get(place, 0.0) + threaded[at] * share_of_l1(found, lanes)
    return total


_TWICE = 1.9
"""Sizes of a tensor that are read, from which on it is read again. Less is the edges of tiles, which the blocks beside
them read at the same time: tiles of 64 elements with a line more on either side read 1.5 to 2 times what there is."""


def positions_read_again(l2_bytes: dict[int, float], fusion: Fusion) -> set[int]:
    """Positions of the inputs that are read again, by the same blocks or by others."""
    sizes = dict(enumerate(read_bytes(fusion).values()))
    return {p for p, read in l2_bytes.items() if p in sizes and read > _TWICE * sizes[p]}


def reuse_of(l2_bytes: dict[int, float], fusion: Fusion, again: set[int]) -> tuple[float, float]:
    """Size of the inputs that are read again, and what is read of them."""
    sizes = dict(enumerate(read_bytes(fusion).values()))
    return float(sum(sizes[p] for p in again)), float(sum(l2_bytes[p] for p in again))


_FAR_BLOCKS = 1 << 16
"""How far a block is looked for that reads the same again."""


_LEAVES_EARLY = (CachePolicy.STREAMING, CachePolicy.EVICT_FIRST)


def reuse_distance(sites: list[StatementSite], kernel: k.Kernel, again: set[int]) -> float:
    """Bytes that pass through L2 and stay until a block reads what the first one has read, of the farthest operand.

    Blocks start in the order of their numbers, those of a cluster that a multicast serves as one. What leaves the cache
    early does not count.
    """
    blocks, _, _ = kernel.grid
    sent = [s.statement for s in sites if isinstance(s.statement, k.TmaLoad | k.BulkLoad) and s.statement.blocks > 1]
    if prod(kernel.grid) != blocks or (kernel.cluster > 1 and not sent):
        return 0.0
    position = positions_of(kernel)
    accesses = [s for s in sites if isinstance(s.statement, Load | k.GlobalStore)]
    loads = [s.statement for s in accesses if isinstance(s.statement, Load)]
    number = np.arange(min(blocks // kernel.cluster, _FAR_BLOCKS), dtype=np.int64)
    lanes = {"tx": np.zeros_like(number), "bx": number}
    farthest = 0
    places = {(s.offset,) for s in loads if position.get(s.tensor) in again}
    for place in places | {at for name, at in map(_source, sent) if position[name] in again}:
        at = np.stack([np.broadcast_to(addresses(e, lanes), number.shape) for e in place])
        same = np.flatnonzero((at[:, 1:] == at[:, :1]).all(axis=0))
        farthest = max(farthest, int(same[0]) + 1 if len(same) else 0)
    stays: float = sum(
        s.statement.width * own_side(s.statement).dtype.nbytes * s.per_tile * s.tiles * kernel.threads
        for s in accesses
        if isinstance(s.statement, Load | k.GlobalStore) and s.statement.cache not in _LEAVES_EARLY
    )
    stays += sum(
        s.statement.nbytes / getattr(s.statement, "blocks", 1) * s.per_tile * s.tiles
        for s in sites
        if isinstance(s.statement, COPIES)
    )
    return float(farthest * kernel.cluster * stays)


def _source(s: k.TmaLoad | k.BulkLoad) -> tuple[str, tuple[Expr, ...]]:
    """What a copy reads, and where of it."""
    return (s.tensor_map, s.coordinates) if isinstance(s, k.TmaLoad) else (s.tensor, (s.offset,))


def is_kept(sites: list[StatementSite], kernel: k.Kernel, again: set[int]) -> bool:
    """True if every load of what is read again asks L2 to keep it."""
    position = positions_of(kernel)
    loads = [s.statement for s in sites if isinstance(s.statement, Load)]
    hints = {s.cache for s in loads if position.get(s.tensor) in again}
    return hints == {CachePolicy.EVICT_LAST}


def bytes_in_flight(sites: list[StatementSite], kernel: k.Kernel) -> float:
    """Bytes that a block asks for before it waits: all loads of a tile, all stages of staged ones; of a ring that its
    own threads fill by cp.async, as many as are filled ahead."""
    threaded = sum(
        s.statement.width * s.statement.target.dtype.nbytes * s.per_tile * kernel.threads
        for s in sites
        if isinstance(s.statement, k.GlobalLoad)
    )
    stored = sum(s.statement.nbytes * s.per_tile for s in sites if isinstance(s.statement, k.TmaStore | k.BulkStore))
    if not any(isinstance(s.statement, k.TmaLoad | k.BulkLoad | k.CopyAsync) for s in sites):
        return float(threaded)
    staged = max(0, kernel.smem_bytes - stored)
    ahead = _filled_ahead(sites, kernel)
    return float(threaded + (staged if ahead is None else min(staged, ahead)))


def _filled_ahead(sites: list[StatementSite], kernel: k.Kernel) -> int | None:
    """Bytes that a ring of cp.async has on their way while a thread waits for the oldest; None where there is no such
    ring, which waits in the loop in which it is filled.

    The stage that threads work on is on its way again only when they have done with it. H200, rings of two stages with
    16 KB on an SM, transposes of 12288 x 4096: 97 us where threads fill them, 73 where the copy engine does; 73 and 61
    us with 32 KB, 62 and 57 with 64.
    """
    waits = {s.tiles: s.statement.pending + 1 for s in sites if isinstance(s.statement, sync_ir.WaitCopies)}
    copies = [(s.statement, s) for s in sites if isinstance(s.statement, k.CopyAsync) and s.tiles > 1]
    each = [
        copy.width * copy.target.dtype.nbytes * site.per_tile * kernel.threads * waits[site.tiles]
        for copy, site in copies
        if site.tiles in waits
    ]
    return sum(each) if each else None
