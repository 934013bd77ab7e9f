"""What the model of products reads of a kernel, counted in its kernel IR."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compiler.analysis.loops.deal import dealt_turns, most_others, usual_turns
from compiler.analysis.mma.instructions import Instruction, MmaUnit
from compiler.arch import MMA_K_BYTES, SMEM_LINE_BYTES, WARP_THREADS, WARPGROUP_THREADS, Card
from compiler.ir.iter_domain import ParallelType
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import BufferKind, TensorView
from compiler.lower import kernel_ir as k
from compiler.lower import mma_ir, sync_ir
from compiler.lower.traversal import walk
from compiler.pipeline import Generated, GeneratedLaunch
from fusetune.wire.artifact import Resources
from search.cost.accesses import first_warp, wavefronts_of
from search.cost.instructions import issues_of, mufu_ops_of
from search.cost.multiprocessors import ISSUES_PER_CLOCK_PER_SM, MUFU_LANES_PER_CLOCK_PER_SM
from search.cost.panels import brought, dram_bytes, lines_of_rows, operand_positions, outer_axes
from search.cost.products import ProductFeatures
from search.cost.sites import StatementSite, sites_of
from search.cost.spills import registers_of

_PRODUCTS = (mma_ir.Mma, mma_ir.MmaAsync, mma_ir.TensorMma)
_ASIDE = (k.TmaLoad, k.BulkLoad, *_PRODUCTS, mma_ir.MmaFence, mma_ir.CommitMma, mma_ir.WaitMma)

WARP_CLOCKS = 1.6
"""Of the four tensor cores of a multiprocessor, for an instruction of a warp, 16 x 8 x 32 bytes (H100, of 16 bits: 62 %
of what warp groups get)."""


TENSOR_COLUMNS_PER_CLOCK = 2
"""Of a result in tensor memory: 8192 operations a clock of 16-bit operands with 128 rows (DeepGEMM,
sm100_bf16_gemm.cuh); 64 rows are taken to last as long. Nobody here has measured it."""


def has_products(launch: Generated | GeneratedLaunch) -> bool:
    """Whether tensor cores work in the kernel."""
    return any(isinstance(s, _PRODUCTS) for s in walk(launch.kernel.body))


def product_features(
    launch: Generated | GeneratedLaunch, card: Card, resources: Resources | None = None
) -> ProductFeatures:
    """The features of a launch whose products tensor cores make."""
    kernel, sf = launch.kernel, launch.scheduled
    sites = list(sites_of(kernel.body, 1, 1))
    products = [(s, s.statement) for s in sites if isinstance(s.statement, _PRODUCTS)]
    made_of = [op for op in sf.ops if op.kind in CONTRACTIONS]
    made, operands = (
        sf.tensor(made_of[0].output),
        frozenset[int]().union(*(operand_positions(sf, op) for op in made_of)),
    )
    copies = brought(kernel, sites, operands)
    rings = [t.circular for t in sf.tensors if t.circular is not None]
    loaders = any(ring.kind is BufferKind.WARP_SPECIALIZED for ring in rings)
    threads = kernel.threads - WARPGROUP_THREADS * loaders
    by_groups = any(isinstance(p, mma_ir.MmaAsync) for _, p in products)
    by_one = any(isinstance(p, mma_ir.TensorMma) for _, p in products)
    askers = 1 if by_one else max(1, threads // (WARPGROUP_THREADS if by_groups else WARP_THREADS))
    summed = len(outer_axes(made))
    in_turns = any(p.is_thread for p in made.types[:summed])
    inside = _inside(kernel.body) if made.loop[summed].extent > 1 else frozenset()
    after = [s for s in sites if id(s.statement) not in inside and not isinstance(s.statement, _ASIDE)]
    lanes = first_warp(kernel.block)
    fragments = sum(
        wavefronts_of(s.statement, lanes) * s.per_tile * s.tiles
        for s in sites
        if isinstance(s.statement, k.MatrixLoad | k.SharedLoad) and id(s.statement) in inside
    )
    pending = [s.statement.pending for s in sites if isinstance(s.statement, mma_ir.WaitMma)]
    chunks = float(max(s.tiles for s, _ in products) * (askers if in_turns else 1))
    resident = registers_of(kernel, launch.arch, sites, resources).resident_blocks
    return ProductFeatures(
        tensor_clocks=float(askers * sum(_clocks(p.instruction) * s.per_tile * s.tiles for s, p in products)),
        operand_clocks=askers * sum(_read_clocks(p.instruction) * s.per_tile * s.tiles for s, p in products)
        + (0 if by_groups or by_one else fragments * askers)
        + sum(c.nbytes * c.times for c in copies) / SMEM_LINE_BYTES,
        chunks=chunks,
        tiles=float(max((s.tiles for s in after), default=1)),
        beside_clocks=_beside_clocks(after, lanes, threads // WARP_THREADS // (askers if in_turns else 1)),
        steps=float(sum(s.per_tile for s in after if isinstance(s.statement, sync_ir.WaitStores))),
        blocks=prod(kernel.grid),
        resident=resident,
        cluster=kernel.cluster,
        groups=askers if by_groups else 0,
        warps=0 if by_groups or by_one else askers,
        stages=min((ring.stages for ring in rings), default=1),
        stage_bytes=sum(c.nbytes * c.times for c in copies) / chunks,
        in_turns=in_turns,
        in_flight=max(pending, default=0),
        places=1 + made.in_flight if by_one else 0,
        l2_bytes=float(prod(kernel.grid) * sum(c.nbytes / c.blocks * c.times for c in copies)),
        line_bytes=float(prod(kernel.grid) * sum(c.nbytes / c.blocks * c.times * c.lines for c in copies)),
        dram_bytes=dram_bytes(launch, made, copies, card, resident),
        stored_bytes=_stored_bytes(kernel, sites, askers if by_groups else 1, threads),
        storing=_storing(kernel, made),
        is_multicast=any(c.blocks > 1 for c in copies),
        **_handed_on(kernel, made, sites),
    )


def _stored_bytes(kernel: k.Kernel, sites: list[StatementSite], groups: int, threads: int) -> float:
    """Bytes of the lines that a block stores to in its life: a thread of each group by the copy engine, or all threads
    that compute."""
    lines, found = {m.name: lines_of_rows(m) for m in kernel.tensor_maps}, 0.0
    for site in sites:
        times = site.per_tile * site.tiles
        match site.statement:
            case k.TmaStore() as s:
                found += groups * s.nbytes * lines[s.tensor_map] * times
            case k.GlobalStore() as s:
                found += threads * s.width * s.source.dtype.nbytes * times
    return found


def _storing(kernel: k.Kernel, made: TensorView) -> float:
    """Blocks that store: of a sum in parts one of them, of dealt steps as many as have the tiles together."""
    if (turns := dealt_turns(made)) is not None:
        return kernel.cluster * turns[0] / usual_turns(*turns, made.dealt)[0]
    if any(axis.is_reduction and p is ParallelType.CLUSTER for axis, p in zip(made.loop, made.types, strict=True)):
        return prod(kernel.grid) / kernel.cluster
    return prod(kernel.grid) / (kernel.grid[1] if kernel.scratch else 1)


def _handed_on(kernel: k.Kernel, made: TensorView, sites: list[StatementSite]) -> dict[str, Any]:
    """Parts of a sum that blocks make, and the bytes of one."""
    if sent := _sent_bytes(sites):
        return {"parts": kernel.cluster, "sent_bytes": sent}
    sums = sum(p.nbytes for p in kernel.scratch if not p.is_zeroed)
    if not sums:
        return {}
    if (turns := dealt_turns(made)) is not None:
        return {"parts": 1 + most_others(*turns, made.dealt), "handed_bytes": sums / kernel.grid[0]}
    tiles, parts = kernel.grid[0] * kernel.grid[2], kernel.grid[1]
    return {"parts": parts, "handed_bytes": sums / (tiles * (parts - 1))}


def _sent_bytes(sites: list[StatementSite]) -> float:
    """Of all parts of a sum that a block is sent by others of its cluster."""
    made = [s.statement for s in sites]
    counted = {s.barrier for s in made if isinstance(s, k.RemoteStore)}
    return float(sum(s.nbytes for s in made if isinstance(s, sync_ir.ExpectBytes) and s.barrier in counted))


def _beside_clocks(sites: list[StatementSite], lanes: dict[str, NDArray[np.int64]], warps: int) -> float:
    """What warps take for the elements of a tile: instructions, special functions or shared memory."""
    issued = sum(issues_of(s.statement) * s.per_tile for s in sites)
    mufu = sum(mufu_ops_of(s.statement) * s.per_tile for s in sites)
    wavefronts = sum(wavefronts_of(s.statement, lanes) * s.per_tile * _cost(s.statement) for s in sites)
    by_clock = (issued / ISSUES_PER_CLOCK_PER_SM, mufu * WARP_THREADS / MUFU_LANES_PER_CLOCK_PER_SM, wavefronts)
    return warps * max(map(float, by_clock))


def _cost(s: k.Stmt) -> int:
    """Clocks of a wavefront: lines of which an instruction stores parts take two. Tiles of 128 x 256 that each thread
    stores in pairs took 7,600 clocks longer than those that the copy engine does, of 4,096 wavefronts."""
    return 2 if isinstance(s, k.GlobalStore) else 1


def _inside(body: tuple[k.Stmt, ...]) -> frozenset[int]:
    """The statements of the loop over stages."""
    return frozenset(id(s) for loop in _innermost(body) for s in walk(loop.body))


def _innermost(body: tuple[k.Stmt, ...]) -> Iterator[k.Loop]:
    """The innermost loops that are not unrolled and have products in them."""
    for s in walk(body):
        if isinstance(s, k.Loop) and not s.unroll:
            within = list(walk(s.body))
            if any(isinstance(i, _PRODUCTS) for i in within) and not list(_innermost(s.body)):
                yield s


def _clocks(i: Instruction) -> float:
    """Of the four tensor cores of a multiprocessor: half the columns, where the operands come in time (measurements of
    wgmma on an H100: arXiv 2402.13499, tables 9 to 11)."""
    if i.unit is MmaUnit.MMA_SYNC:
        return WARP_CLOCKS
    if i.unit is MmaUnit.TCGEN05:
        return i.n / TENSOR_COLUMNS_PER_CLOCK
    return max(i.n / 2, 16 + i.n / 4) + 1


def _read_clocks(i: Instruction) -> float:
    """In which shared memory gives the operands of an instruction that reads them there."""
    if i.unit is MmaUnit.MMA_SYNC:
        return 0.0
    return ((0 if i.holds_rows else i.m) + i.n) * MMA_K_BYTES / SMEM_LINE_BYTES
