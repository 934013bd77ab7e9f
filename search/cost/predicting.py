"""What the cost model reads of a generated kernel, counted in its kernel IR; and the model as the search uses it."""

from __future__ import annotations

from math import prod

from compiler.arch import WARP_THREADS, Card
from compiler.ir.touched import read_bytes, written_bytes
from compiler.lower import kernel_ir as k
from compiler.lower import sync_ir
from compiler.pipeline import Generated, GeneratedLaunch
from fusetune.wire.artifact import Resources
from search.cost.accesses import first_warp, wavefronts_of
from search.cost.diverging import other_sides
from search.cost.features import KernelFeatures
from search.cost.instructions import mufu_ops_of
from search.cost.invariants import invariant_divisions
from search.cost.machine_code import counted_of
from search.cost.model import Prediction, in_a_row, predict
from search.cost.product_features import has_products, product_features
from search.cost.products import predict_product
from search.cost.sectors import partial_sector_bytes
from search.cost.sites import StatementSite, sites_of
from search.cost.spills import registers_of
from search.cost.streams import stream_cost
from search.cost.traffic import (
    COPIES,
    STAGED,
    bytes_in_flight,
    is_kept,
    l2_read_bytes,
    positions_read_again,
    reuse_distance,
    reuse_of,
    run_costs,
    share_past_l1,
    share_streaming,
)
from search.cost.written import written_spread
from search.tuning.candidates.draft import Predict
from search.tuning.candidates.finishing import Refine


def predictor(card: Card) -> Predict:
    """Predictions of one launch on `card`; those of several add up."""
    return lambda launch: predict_launch(card, launch)


def refiner(card: Card) -> Refine:
    """The same once the kernel is compiled: with the registers that it has, and what it spills.

    Of several launches the compiler's log has the most of any: they keep the estimates.
    """

    def refine(generated: Generated, resources: Resources) -> Prediction:
        known = resources if len(generated.launches) == 1 else None
        return in_a_row(predict_launch(card, launch, known) for launch in generated.launches)

    return refine


def predict_launch(card: Card, launch: Generated | GeneratedLaunch, resources: Resources | None = None) -> Prediction:
    """The time of one launch, of tensor cores by a model of their own. Raises ValueError for several launches."""
    if has_products(launch):
        return predict_product(card, product_features(launch, card, resources))
    return predict(card, features_of(launch, resources))


def features_of(generated: Generated | GeneratedLaunch, resources: Resources | None = None) -> KernelFeatures:
    """The features of one launch, by `resources` where they are known. Raises ValueError for a candidate of several."""
    kernel = generated.kernel
    sites = sites_of(kernel.body, 1, 1)
    blocks = prod(kernel.grid)
    registers = registers_of(kernel, generated.arch, sites, resources)
    resident, spilled = registers.resident_blocks, registers.spilled_bytes
    warps = blocks * -(-kernel.threads // WARP_THREADS)
    lanes = first_warp(kernel.block)
    fusion = generated.trace.fusion
    l2_bytes = l2_read_bytes(sites, kernel, lanes, blocks)
    again = positions_read_again(l2_bytes, fusion)
    reused, rereads = reuse_of(l2_bytes, fusion, again)
    runs = run_costs(sites, kernel, lanes, fusion, again)
    tiles = max(site.tiles for site in sites)
    invariant = invariant_divisions(kernel.body)
    counted = sum(counted_of(s.statement, invariant) * s.per_tile * s.tiles for s in sites)
    return KernelFeatures(
        dram_read_bytes=sum(read_bytes(fusion).values()),
        dram_write_bytes=sum(written_bytes(fusion).values()) + partial_sector_bytes(sites, kernel, fusion),
        l2_read_bytes=sum(l2_bytes.values()),
        l2_reused_bytes=reused,
        l2_reused_bytes_per_sm=resident * rereads / blocks,
        l2_reuse_distance_bytes=reuse_distance(sites, kernel, again),
        l2_reuse_is_kept=is_kept(sites, kernel, again),
        read_run_cost=runs.read + stream_cost(sites, kernel, again),
        write_run_cost=runs.write,
        write_spread=written_spread(sites, kernel, resident),
        bytes_in_flight_per_sm=max(1.0, resident * bytes_in_flight(sites, kernel)),
        warp_instructions=warps * (counted + other_sides(kernel)),
        mufu_ops=warps * WARP_THREADS * sum(mufu_ops_of(s.statement, invariant) * s.per_tile * s.tiles for s in sites),
        smem_wavefronts=warps * sum(wavefronts_of(s.statement, lanes) * s.per_tile * s.tiles for s in sites),
        blocks=blocks,
        blocks_per_sm=resident,
        tiles=blocks * tiles,
        syncs_per_tile=sum(
            s.per_tile for s in sites if isinstance(s.statement, sync_ir.Sync | sync_ir.SyncPart | sync_ir.WaitBarrier)
        ),
        exchanges=blocks * _exchanges(sites),
        warps_per_block=-(-kernel.threads // WARP_THREADS),
        cluster=kernel.cluster,
        copies=blocks * sum(s.per_tile * s.tiles for s in sites if isinstance(s.statement, COPIES)),
        is_multicast=any(isinstance(s.statement, k.TmaLoad | k.BulkLoad) and s.statement.blocks > 1 for s in sites),
        is_ring=any(s.tiles > 1 and isinstance(s.statement, STAGED) for s in sites),
        read_past_l1=share_past_l1(sites),
        read_streaming=share_streaming(sites),
        spilled_bytes=spilled * blocks * kernel.threads * tiles,
        spilled_bytes_per_sm=spilled / 2 * resident * kernel.threads,
    )


def _exchanges(sites: list[StatementSite]) -> int:
    """How often a block exchanges partials with the others of its cluster: once for each reduction, or tile of one."""
    sent = [(s.statement.target.tensor, s.tiles) for s in sites if isinstance(s.statement, k.RemoteStore)]
    return sum(dict(sent).values())
