"""What is written at a time lies together or far apart; what is in flight crowds memory; and equal loads count once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import GlobalLoad
from search.cost.features import KernelFeatures
from search.cost.memory import CROWD_COST, CROWDED_BYTES, WRITE_SPREAD_COST, bandwidth_us
from search.cost.sites import sites_of
from search.cost.written import written_spread
from tests.search.schedulers.fusions import silu_of_sum
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

CARD = card_or_default("H200")
SLABS = silu_of_sum((32, 128, 4096), (1, 2), "bf16")
"""A matrix added to 32 slabs of a megabyte."""

LONG_ROWS = permuted((32768, 1024), (1, 0))
"""A transpose to rows of 128 KB."""

BATCH_INSIDE = permuted((4, 512, 16, 1024), (3, 0, 2, 1))
"""Of neighbours in a row of the input, rows of all 64 indices of the batch lie between in the output."""

BLOCKS: dict[str, Any] = {"view": "2d", "vector": 8, "threads_x": 128}
ACROSS: dict[str, Any] = {"tile_order": "rows_inner"}
TILES: dict[str, Any] = {"tile_in": 64, "tile_out": 64, "threads": 256, "lanes_out": 16, "layout": "pad"}


def spread(name: str, fusion: Fusion, resident: int, **point: Any) -> float:
    kernel = generated(name, fusion, **point).launches[0].kernel
    return written_spread(list(sites_of(kernel.body, 1, 1)), kernel, resident)


@pytest.mark.parametrize(
    ("name", "fusion", "point", "least", "most"),
    [
        pytest.param("flat", SLABS, {**BLOCKS}, 0, 2, id="slab after slab"),
        pytest.param("flat", SLABS, {**BLOCKS, **ACROSS}, 14, 17, id="across all slabs"),
        pytest.param("flat", SLABS, {**BLOCKS, **ACROSS, "store": "bulk"}, 14, 17, id="by bulk copies"),
        pytest.param("flat", SLABS, {**BLOCKS, **ACROSS, "store": "tma"}, 14, 17, id="by tensor maps"),
        pytest.param("tile2d", LONG_ROWS, {**TILES}, 3, 5, id="along a transpose's rows"),
        pytest.param("tile2d", LONG_ROWS, {**TILES, "tile_order": "grouped"}, 55, 65, id="groups in many rows"),
        pytest.param("tile2d", BATCH_INSIDE, {**TILES}, 55, 65, id="one index of the batch"),
        pytest.param("tile2d", BATCH_INSIDE, {**TILES, "tile_order": "as_stored"}, 1, 5, id="all of the batch"),
    ],
)
def test_pages_written_at_a_time(name: str, fusion: Fusion, point: dict[str, Any], least: float, most: float) -> None:
    """1056 blocks of 2 KB at a time, and 132 of 16 KB."""
    assert least < spread(name, fusion, 1 if name == "tile2d" else 8, **point) < most


COPY = KernelFeatures(1e8, 1e8, bytes_in_flight_per_sm=CROWDED_BYTES, blocks=10000, blocks_per_sm=8)


@pytest.mark.parametrize(
    ("change", "share"),
    [
        ({"write_spread": 2.0}, 0),
        ({"write_spread": 4.0}, WRITE_SPREAD_COST / 2),
        ({"write_spread": 8.0}, WRITE_SPREAD_COST),
        ({"write_spread": 99.0}, WRITE_SPREAD_COST),
        ({"write_spread": 8.0, "dram_write_bytes": 0.0}, 0),
        ({"bytes_in_flight_per_sm": CROWDED_BYTES / 2}, 0),
        ({"bytes_in_flight_per_sm": 2 * CROWDED_BYTES}, CROWD_COST),
        ({"bytes_in_flight_per_sm": 4 * CROWDED_BYTES}, 4 * CROWD_COST),
        ({"bytes_in_flight_per_sm": 4 * CROWDED_BYTES, "tiles": 20000}, 0),
        ({"bytes_in_flight_per_sm": 4 * CROWDED_BYTES, "dram_write_bytes": 0.0}, 0),
    ],
)
def test_what_it_costs(change: dict[str, Any], share: float) -> None:
    written = {name: value for name, value in change.items() if name == "dram_write_bytes"}
    plain = bandwidth_us(CARD, replace(COPY, **written))
    assert bandwidth_us(CARD, replace(COPY, **change)) == pytest.approx(plain * (1 + share))


def test_a_load_that_is_the_same_for_all_elements_of_a_vector_counts_once() -> None:
    fusion = silu_of_sum((64, 32, 56, 56), (1,), "bf16")
    kernel = generated("flat", fusion, view="1d", vector=8, threads_x=128).launches[0].kernel
    sites = [s for s in sites_of(kernel.body, 1, 1) if isinstance(s.statement, GlobalLoad)]
    assert [(s.statement.width, s.per_tile) for s in sites if isinstance(s.statement, GlobalLoad)] == [(8, 1), (1, 1)]
