"""What the cost model reads of a generated kernel, counted in its kernel IR; and the model as the search uses it.

A kernel is counted along its usual path: full tiles (the first branch of a condition), loops at their longest.
Addresses are worked out for one warp, at the origin of everything that is not a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.bank_conflicts import wavefronts
from compiler.analysis.resources import blocks_per_sm
from compiler.arch import Arch, Card
from compiler.ir.expr import Expr
from compiler.ir.fusion import Fusion
from compiler.ir.ops import MOVES, OpKind
from compiler.ir.tensor import CachePolicy, MathGrade
from compiler.lower import kernel_ir as k
from compiler.pipeline import Generated, GeneratedLaunch
from search.build import Predict
from search.cost.model import KernelFeatures, predict
from search.cost.pressure import REGISTER_BYTES, array_registers
from search.roofline import distinct_bytes

_WARP = 32
_SECTOR = 32
"""Bytes of a sector, the least that L2 sends (CUDA guide, device memory accesses)."""

_ROWS_AT_ONCE = 4
"""Rows of a box of the copy engine that cost what one warp's access of as many bytes does: boxes of 64 bytes a row are
as fast as of 256, those of 32 take 1.03 times as long to store and 1.15 times to load (transposes on an H200)."""

_EXACT_ISSUES = {
    OpKind.EXP: 8,
    OpKind.LOG: 16,
    OpKind.TANH: 24,
    OpKind.SIGMOID: 18,
    OpKind.GELU: 30,
    OpKind.SILU: 19,
    OpKind.SQRT: 8,
    OpKind.RSQRT: 4,
    OpKind.RECIPROCAL: 8,
    OpKind.DIV: 10,
}
"""Rough instructions of one element of a function in its exact form (range reduction, polynomial, fix-ups); anything
else takes one. Estimates: they order grades and functions, they do not time them."""

_APPROXIMATE_ISSUES = {
    OpKind.EXP: 2,
    OpKind.LOG: 2,
    OpKind.TANH: 1,
    OpKind.SIGMOID: 4,
    OpKind.GELU: 7,
    OpKind.SILU: 5,
    OpKind.SQRT: 1,
    OpKind.RSQRT: 1,
    OpKind.RECIPROCAL: 1,
    OpKind.DIV: 2,
}
"""The same of the approximate instructions, counted in the machine code of sm_90a."""

_MUFU_OPS = {OpKind.SIGMOID: 2, OpKind.SILU: 2, OpKind.GELU: 2}
"""Special-function operations of one element; other functions of `_EXACT_ISSUES` take one."""

_PAST_L1 = (CachePolicy.NO_ALLOCATE, CachePolicy.EVICT_FIRST)
_ADDRESS_ISSUES = 1
_LOOP_ISSUES = 3
_BASE_REGISTERS = 24
"""Registers of addresses, loop counters and temporaries beside the arrays that the kernel declares."""

_IN_PLACE_REGISTERS = 8
"""Registers of arrays that ptxas overlaps with others, or never keeps, where it is pressed for room: what is spilled of
200 capped kernels of the suite begins about there."""


def predictor(card: Card) -> Predict:
    """Predicted microseconds of a generated kernel on `card`: of several launches, the sum of theirs."""
    return lambda generated: sum(predict(card, features_of(launch)).total_us for launch in generated.launches)


@dataclass(frozen=True, slots=True)
class _Site:
    """A statement and how often one thread runs it: per tile, and over all tiles of a block."""

    statement: k.Stmt
    per_tile: int
    tiles: int


def features_of(generated: Generated | GeneratedLaunch) -> KernelFeatures:
    """The features of one launch. Raises ValueError for a candidate of several."""
    kernel = generated.kernel
    sites = list(_sites(kernel.body, 1, 1))
    blocks = prod(kernel.grid)
    resident = resident_blocks(kernel, generated.arch)
    warps = blocks * -(-kernel.threads // _WARP)
    lanes = _lanes(kernel.block)
    fusion = generated.trace.fusion
    l2_bytes = _l2_read_bytes(sites, kernel, lanes, blocks)
    again = _read_again(l2_bytes, fusion)
    reused, rereads = _reused(l2_bytes, fusion, again)
    read_runs, write_runs = _runs(sites, kernel, lanes)
    tiles = max(site.tiles for site in sites)
    return KernelFeatures(
        dram_read_bytes=sum(distinct_bytes(fusion.value(name)) for name in fusion.inputs),
        dram_write_bytes=sum(distinct_bytes(fusion.value(name)) for name in fusion.outputs),
        l2_read_bytes=sum(l2_bytes.values()),
        l2_reused_bytes=reused,
        l2_reused_bytes_per_sm=resident * rereads / blocks,
        l2_reuse_distance_bytes=_reuse_distance(sites, kernel, again),
        read_run_bytes=min(read_runs, default=512.0),
        write_run_bytes=min(write_runs, default=512.0),
        bytes_in_flight_per_sm=max(1.0, resident * _bytes_in_flight(sites, kernel)),
        warp_instructions=warps * sum(_issues(s.statement) * s.per_tile * s.tiles for s in sites),
        mufu_ops=warps * _WARP * sum(_mufu(s.statement) * s.per_tile * s.tiles for s in sites),
        smem_wavefronts=warps * sum(_wavefronts(s.statement, lanes) * s.per_tile * s.tiles for s in sites),
        blocks=blocks,
        blocks_per_sm=resident,
        tiles=blocks * tiles,
        syncs_per_tile=sum(s.per_tile for s in sites if isinstance(s.statement, k.Sync | k.WaitBarrier)),
        cluster_syncs_per_tile=len(_exchanged(sites)),
        warps_per_block=-(-kernel.threads // _WARP),
        cluster=kernel.cluster,
        spilled_bytes=_spilled_bytes(kernel) * blocks * kernel.threads,
    )


def _exchanged(sites: list[_Site]) -> set[str]:
    """The reductions of which blocks of a cluster exchange partials."""
    return {site.statement.target.tensor for site in sites if isinstance(site.statement, k.RemoteStore)}


def resident_blocks(kernel: k.Kernel, arch: Arch) -> int:
    """Blocks of one SM at a time, from an estimate of registers; at least 1."""
    wanted = _BASE_REGISTERS + array_registers(kernel.body)
    registers = min(wanted, kernel.max_registers or arch.max_registers_per_thread)
    return max(1, blocks_per_sm(arch, kernel.threads, registers, kernel.smem_bytes).blocks)


def _spilled_bytes(kernel: k.Kernel) -> int:
    """Bytes of a thread that do not fit under the kernel's cap on registers."""
    if kernel.max_registers is None:
        return 0
    return REGISTER_BYTES * max(0, array_registers(kernel.body) - _IN_PLACE_REGISTERS - kernel.max_registers)


def _sites(body: tuple[k.Stmt, ...], per_tile: int, tiles: int) -> Iterator[_Site]:
    """Statements of the usual path. Unrolled loops are work of a tile; the others go over tiles."""
    for s in body:
        yield _Site(s, per_tile, tiles)
        match s:
            case k.Loop(trip=trip, unroll=True):
                yield from _sites(s.body, per_tile * max(1, trip.hi), tiles)
            case k.Loop(trip=trip):
                yield from _sites(s.body, per_tile, tiles * max(1, trip.hi))
            case k.If():
                yield from _sites(s.then, per_tile, tiles)
            case k.Elected():
                yield from _sites(s.body, per_tile, tiles)
            case _:
                pass


def _usual(body: tuple[k.Stmt, ...]) -> tuple[k.Stmt, ...]:
    return tuple(
        site.statement for site in _sites(body, 1, 1) if not isinstance(site.statement, k.Loop | k.If | k.Elected)
    )


# Memory --------------------------------------------------------------------------------------------------------------


def _lanes(block: tuple[int, int, int]) -> dict[str, NDArray[np.int64]]:
    """The thread variables of the first warp."""
    lane = np.arange(min(_WARP, prod(block)), dtype=np.int64)
    return {"tx": lane % block[0], "ty": lane // block[0] % block[1], "tz": lane // (block[0] * block[1])}


def _at(expr: Expr, lanes: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    values: dict[str, Any] = {variable.name: 0 for variable in expr.variables}
    return np.broadcast_to(np.asarray(expr.evaluate({**values, **lanes}), dtype=np.int64), lanes["tx"].shape)


def _runs_of(starts: NDArray[np.int64], size: int) -> tuple[int, float]:
    """Distinct bytes that lanes touch, each `size` from its start, and the mean length of the runs they form."""
    ordered = np.unique(starts)
    steps = np.diff(ordered)
    distinct = int(np.minimum(steps, size).sum()) + size
    return distinct, distinct / (1 + int(np.count_nonzero(steps > size)))


def _global_access(s: k.GlobalLoad | k.GlobalStore, lanes: dict[str, NDArray[np.int64]]) -> tuple[int, float]:
    """Distinct bytes of one warp's access and the mean length of its runs."""
    item = (s.target if isinstance(s, k.GlobalLoad) else s.source).dtype.nbytes
    return _runs_of(_at(s.offset, lanes) * item, s.width * item)


def _sectors(s: k.GlobalLoad, lanes: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sectors that the lanes inside of what the source covers touch, each once."""
    item = s.target.dtype.nbytes
    inside = np.ones(lanes["tx"].shape, dtype=np.bool_)
    for bound in s.within:
        inside &= _at(bound.left, lanes) < _at(bound.right, lanes)
    first = _at(s.offset, lanes)[inside] * item
    step = min(_SECTOR, s.width * item)
    return np.unique(np.concatenate([(first + at) // _SECTOR for at in range(0, s.width * item, step)]))


def _sector_bytes(s: k.GlobalLoad, lanes: dict[str, NDArray[np.int64]]) -> int:
    """Bytes that L2 sends for one warp's load: whole sectors, unless a neighbouring load may find the rest in L1."""
    distinct, _ = _global_access(s, lanes)
    sent = _SECTOR * len(_sectors(s, lanes))
    return min(distinct, sent) if s.within or sent <= 2 * distinct else sent


def _share_of_l1(loads: list[k.GlobalLoad], lanes: dict[str, NDArray[np.int64]]) -> float:
    """Sectors that a warp's loads of one tensor touch over the sum of each load's: they find the others' in L1."""
    if len(loads) < 2 or any(s.cache in _PAST_L1 for s in loads):
        return 1.0
    sectors = [_sectors(s, lanes) for s in loads]
    return len(np.unique(np.concatenate(sectors))) / max(1, sum(map(len, sectors)))


def _share_of_sectors(s: k.GlobalStore, kernel: k.Kernel) -> float:
    """Bytes that the warps of a block store over those of the sectors that they touch: less than 1 where rows begin at
    any address, and a run's ends are parts of sectors, which cost more than whole ones."""
    size = s.width * s.source.dtype.nbytes
    stored = touched = 0
    thread = np.arange(prod(kernel.block), dtype=np.int64)
    for first in range(0, len(thread), _WARP):
        at = thread[first : first + _WARP]
        x, y = kernel.block[:2]
        lanes = {"tx": at % x, "ty": at // x % y, "tz": at // (x * y)}
        starts = _at(s.offset, lanes) * s.source.dtype.nbytes
        stored += _runs_of(starts, size)[0]
        touched += len(np.unique(np.concatenate([starts // _SECTOR, (starts + size - 1) // _SECTOR])))
    return min(1.0, stored / (_SECTOR * touched))


def _runs(sites: list[_Site], kernel: k.Kernel, lanes: dict[str, NDArray[np.int64]]) -> tuple[list[float], list[float]]:
    """Contiguous bytes of each kind of access: reads, writes."""
    rows = {m.name: float(m.box[0] * m.dtype.nbytes) for m in kernel.tensor_maps}
    reads: list[float] = []
    writes: list[float] = []
    for site in sites:
        match site.statement:
            case k.GlobalLoad() as s if _global_access(s, lanes)[0] > s.width * s.target.dtype.nbytes:
                reads.append(_global_access(s, lanes)[1])  # one address for all lanes is a broadcast, not a short run
            case k.GlobalStore() as s:
                writes.append(_global_access(s, lanes)[1] * _share_of_sectors(s, kernel))
            case k.TmaLoad() as s:
                reads.append(_ROWS_AT_ONCE * rows[s.tensor_map])
            case k.TmaStore() as s:
                writes.append(_ROWS_AT_ONCE * rows[s.tensor_map])
            case k.BulkLoad() as s:
                reads.append(float(s.nbytes))
            case k.BulkStore() as s:
                writes.append(float(s.nbytes))
            case _:
                pass
    return reads, writes


def _l2_read_bytes(
    sites: list[_Site], kernel: k.Kernel, lanes: dict[str, NDArray[np.int64]], blocks: int
) -> dict[int, float]:
    """Bytes that SMs read, by tensor position. Copies in a prologue fetch what the loop no longer does.

    Loads of one tensor find in L1 what their neighbours fetched, but not what was fetched before threads met: by then a
    whole row has gone through it.
    """
    position = {p.name: p.position for p in kernel.pointers} | {m.name: m.position for m in kernel.tensor_maps}
    warps = blocks * -(-kernel.threads // _WARP)
    total: dict[int, float] = {}
    loads: dict[tuple[str, int], list[k.GlobalLoad]] = {}
    threaded: dict[tuple[str, int], float] = {}
    part = 0
    for site in sites:
        times = site.per_tile * site.tiles
        match site.statement:
            case k.GlobalLoad() as s:
                at = s.tensor, part
                loads.setdefault(at, []).append(s)
                threaded[at] = threaded.get(at, 0.0) + warps * times * _sector_bytes(s, lanes)
            case k.Sync() | k.Shuffle() | k.ClusterWait():
                part += 1
            case k.TmaLoad() as s:
                total[position[s.tensor_map]] = max(
                    total.get(position[s.tensor_map], 0.0), blocks * times * float(s.nbytes)
                )
            case k.BulkLoad() as s:
                total[position[s.tensor]] = max(total.get(position[s.tensor], 0.0), blocks * times * float(s.nbytes))
            case _:
                pass
    for at, found in loads.items():
        place = position[at[0]]
        total[place] = total.get(place, 0.0) + threaded[at] * _share_of_l1(found, lanes)
    return total


def _read_again(l2_bytes: dict[int, float], fusion: Fusion) -> set[int]:
    """Positions of the inputs that are read more than about once."""
    sizes = {position: distinct_bytes(fusion.value(name)) for position, name in enumerate(fusion.inputs)}
    return {p for p, read in l2_bytes.items() if p in sizes and read > 1.5 * sizes[p]}


def _reused(l2_bytes: dict[int, float], fusion: Fusion, again: set[int]) -> tuple[float, float]:
    """Size of the inputs that are read again, and what is read of them."""
    sizes = {position: distinct_bytes(fusion.value(name)) for position, name in enumerate(fusion.inputs)}
    return float(sum(sizes[p] for p in again)), float(sum(l2_bytes[p] for p in again))


_FAR_BLOCKS = 1 << 16
"""How far a block is looked for that reads the same again."""

_LEAVES_EARLY = (CachePolicy.STREAMING, CachePolicy.EVICT_FIRST)


def _reuse_distance(sites: list[_Site], kernel: k.Kernel, again: set[int]) -> float:
    """Bytes that pass through L2 and stay until a block reads what the first one has read, of the farthest operand.

    Blocks start in the order of their numbers. What leaves the cache early does not count.
    """
    blocks, _, _ = kernel.grid
    if prod(kernel.grid) != blocks or kernel.cluster > 1:
        return 0.0
    position = {p.name: p.position for p in kernel.pointers}
    accesses = [s for s in sites if isinstance(s.statement, k.GlobalLoad | k.GlobalStore)]
    loads = [s.statement for s in accesses if isinstance(s.statement, k.GlobalLoad)]
    number = np.arange(min(blocks, _FAR_BLOCKS), dtype=np.int64)
    farthest = 0
    for offset in {s.offset for s in loads if position.get(s.tensor) in again}:
        at = np.broadcast_to(_at(offset, {"tx": np.zeros_like(number), "bx": number}), number.shape)
        same = np.flatnonzero(at[1:] == at[0])
        farthest = max(farthest, int(same[0]) + 1 if len(same) else 0)
    stays = sum(
        s.statement.width * _register(s.statement).dtype.nbytes * s.per_tile * s.tiles * kernel.threads
        for s in accesses
        if isinstance(s.statement, k.GlobalLoad | k.GlobalStore) and s.statement.cache not in _LEAVES_EARLY
    )
    stays += sum(
        s.statement.nbytes * s.per_tile * s.tiles
        for s in sites
        if isinstance(s.statement, k.TmaLoad | k.TmaStore | k.BulkLoad | k.BulkStore)
    )
    return float(farthest * stays)


def _register(s: k.GlobalLoad | k.GlobalStore) -> k.Reg:
    return s.target if isinstance(s, k.GlobalLoad) else s.source


def _bytes_in_flight(sites: list[_Site], kernel: k.Kernel) -> float:
    """Bytes that a block asks for before it waits: all loads of a tile, all stages of staged ones."""
    threaded = sum(
        s.statement.width * s.statement.target.dtype.nbytes * s.per_tile * kernel.threads
        for s in sites
        if isinstance(s.statement, k.GlobalLoad)
    )
    stored = sum(s.statement.nbytes * s.per_tile for s in sites if isinstance(s.statement, k.TmaStore | k.BulkStore))
    is_staged = any(isinstance(s.statement, k.TmaLoad | k.BulkLoad) for s in sites)
    return float(threaded + (max(0, kernel.smem_bytes - stored) if is_staged else 0))


# Instructions --------------------------------------------------------------------------------------------------------


def _issues(s: k.Stmt) -> float:
    """Instructions that a warp issues for one run of a statement."""
    match s:
        case k.Compute():
            if s.kind in MOVES:
                return 0
            exact = _EXACT_ISSUES.get(s.kind, 1)
            return exact if s.grade is MathGrade.EXACT else _APPROXIMATE_ISSUES.get(s.kind, exact)
        case k.Accumulate():
            return 1
        case k.AccumulateRun():
            return s.width / 2 + 2
        case k.Shuffle():
            return 2 * len(s.masks) * s.elems
        case k.Index():
            return 1
        case k.RemoteStore() | k.ClusterArrive() | k.ClusterWait():
            return 2
        case k.Fill():
            return s.elems
        case k.Convert():
            return max(1, s.width / 2)
        case k.GlobalLoad() | k.GlobalStore() | k.SharedLoad() | k.SharedStore():
            return 1 + _ADDRESS_ISSUES
        case k.Loop():
            return 0 if s.unroll else _LOOP_ISSUES
        case k.If():
            return len(s.conditions)
        case k.Sync() | k.SyncPart() | k.WaitBarrier() | k.Arrive() | k.FenceAsync() | k.SetRegisters():
            return 1
        case (
            k.Declare()
            | k.Opaque()
            | k.Elected()
            | k.TmaLoad()
            | k.TmaStore()
            | k.BulkLoad()
            | k.BulkStore()
            | k.InitBarriers()
            | k.ExpectBytes()
            | k.AddBytes()
            | k.CommitStores()
            | k.WaitStores()
        ):
            return 0  # of one thread, or none
        case _:
            assert_never(s)


def _mufu(s: k.Stmt) -> int:
    if not isinstance(s, k.Compute) or s.kind not in _EXACT_ISSUES:
        return 0
    return 1 if s.grade is MathGrade.COARSE else _MUFU_OPS.get(s.kind, 1)


def _wavefronts(s: k.Stmt, lanes: dict[str, NDArray[np.int64]]) -> int:
    """Shared-memory wavefronts of one warp's access."""
    match s:
        case k.SharedLoad(source=place, width=width):
            size = width * s.target.dtype.nbytes
        case k.SharedStore(target=place, width=width):
            size = width * s.source.dtype.nbytes
        case _:
            return 0
    return wavefronts(_at(place.byte_offset, lanes).tolist(), size)
