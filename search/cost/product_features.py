"""What the model of products reads of a kernel, counted in its kernel IR."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from compiler.analysis.mma.instructions import Instruction
from compiler.arch import MMA_K_BYTES, SMEM_LINE_BYTES, WARP_THREADS, WARPGROUP_THREADS, WGMMA_ROWS, Card
from compiler.ir.ops import CONTRACTIONS
from compiler.ir.tensor import BufferKind
from compiler.lower import kernel_ir as k
from compiler.lower import mma_ir, sync_ir
from compiler.lower.traversal import walk
from compiler.pipeline import Generated, GeneratedLaunch
from fusetune.wire.artifact import Resources
from search.cost.accesses import first_warp, wavefronts_of
from search.cost.instructions import issues_of, mufu_ops_of
from search.cost.multiprocessors import ISSUES_PER_CLOCK_PER_SM, MUFU_LANES_PER_CLOCK_PER_SM
from search.cost.panels import dram_bytes, outer_axes
from search.cost.products import ProductFeatures
from search.cost.sites import StatementSite, sites_of
from search.cost.spills import resident_blocks

_ASIDE = (k.TmaLoad, k.BulkLoad, mma_ir.MmaAsync, mma_ir.MmaFence, mma_ir.CommitMma, mma_ir.WaitMma)


def has_products(launch: Generated | GeneratedLaunch) -> bool:
    """Whether tensor cores work in the kernel."""
    return any(isinstance(s, mma_ir.MmaAsync) for s in walk(launch.kernel.body))


def product_features(
    launch: Generated | GeneratedLaunch, card: Card, resources: Resources | None = None
) -> ProductFeatures:
    """The features of a launch whose products tensor cores make."""
    kernel, sf = launch.kernel, launch.scheduled
    sites = list(sites_of(kernel.body, 1, 1))
    products = [(s, s.statement) for s in sites if isinstance(s.statement, mma_ir.MmaAsync)]
    copies = [(s, s.statement) for s in sites if isinstance(s.statement, k.TmaLoad)]
    made = next(sf.tensor(op.output) for op in sf.ops if op.kind in CONTRACTIONS)
    rings = [t.circular for t in sf.tensors if t.circular is not None]
    loaders = any(ring.kind is BufferKind.WARP_SPECIALIZED for ring in rings)
    groups = max(1, kernel.threads // WARPGROUP_THREADS - loaders)
    summed = len(outer_axes(made))
    in_turns = any(p.is_thread for p in made.types[:summed])
    after = _beside(kernel.body, sites, turns=made.loop[summed].extent > 1)
    warps = (1 if in_turns else groups) * WARPGROUP_THREADS // WARP_THREADS
    issued = sum(issues_of(s.statement) * s.per_tile for s in after)
    mufu = sum(mufu_ops_of(s.statement) * s.per_tile for s in after)
    lanes = first_warp(kernel.block)
    wavefronts = sum(wavefronts_of(s.statement, lanes) * s.per_tile * _cost(s.statement) for s in after)
    pending = [s.statement.pending for s in sites if isinstance(s.statement, mma_ir.WaitMma)]
    resident = resident_blocks(kernel, launch.arch, resources)
    return ProductFeatures(
        tensor_clocks=float(groups * sum(_clocks(p.instruction) * s.per_tile * s.tiles for s, p in products)),
        operand_clocks=groups * sum(_read_clocks(p.instruction) * s.per_tile * s.tiles for s, p in products)
        + sum(c.nbytes * s.per_tile * s.tiles for s, c in copies) / SMEM_LINE_BYTES,
        chunks=float(max(s.tiles for s, _ in products) * (groups if in_turns else 1)),
        tiles=float(max((s.tiles for s in after), default=1)),
        beside_clocks=warps
        * max(issued / ISSUES_PER_CLOCK_PER_SM, mufu * WARP_THREADS / MUFU_LANES_PER_CLOCK_PER_SM, float(wavefronts)),
        steps=float(sum(s.per_tile for s in after if isinstance(s.statement, sync_ir.WaitStores))),
        blocks=prod(kernel.grid),
        resident=resident,
        cluster=kernel.cluster,
        groups=groups,
        stages=min((ring.stages for ring in rings), default=1),
        in_turns=in_turns,
        in_flight=max(pending, default=0),
        l2_bytes=float(prod(kernel.grid) * sum(c.nbytes / c.blocks * s.per_tile * s.tiles for s, c in copies)),
        dram_bytes=dram_bytes(launch, made, sites, card, resident),
    )


def _cost(s: k.Stmt) -> int:
    """Clocks of a wavefront: lines of which an instruction stores parts take two. Tiles of 128 x 256 that each thread
    stores in pairs took 7,600 clocks longer than those that the copy engine does, of 4,096 wavefronts."""
    return 2 if isinstance(s, k.GlobalStore) else 1


def _beside(body: tuple[k.Stmt, ...], sites: list[StatementSite], *, turns: bool) -> list[StatementSite]:
    """What is done of a tile beside its products: not in the loop over stages, and not by the copy engine."""
    inside = {id(s) for loop in _innermost(body) for s in walk(loop.body)} if turns else set()
    return [s for s in sites if id(s.statement) not in inside and not isinstance(s.statement, _ASIDE)]


def _innermost(body: tuple[k.Stmt, ...]) -> Iterator[k.Loop]:
    """The innermost loops that are not unrolled and have products in them."""
    for s in walk(body):
        if isinstance(s, k.Loop) and not s.unroll:
            within = list(walk(s.body))
            if any(isinstance(i, mma_ir.MmaAsync) for i in within) and not list(_innermost(s.body)):
                yield s


def _clocks(i: Instruction) -> float:
    """Of the four tensor cores of a multiprocessor: half the columns, where the operands come in time (measurements of
    wgmma on an H100: arXiv 2402.13499, tables 9 to 11)."""
    return max(i.n / 2, 16 + i.n / 4) + 1


def _read_clocks(i: Instruction) -> float:
    """In which shared memory gives the operands of an instruction."""
    return (WGMMA_ROWS + i.n) * MMA_K_BYTES / SMEM_LINE_BYTES
