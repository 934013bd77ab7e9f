"""Sectors that warps fill in part: where rows of an output begin at any address, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from search.cost.sectors import PARTIAL_BYTES, partial_sector_bytes
from search.cost.sites import sites_of
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

FLOATS: dict[str, Any] = {"tile_in": 64, "tile_out": 128, "lanes_out": 32, "threads": 512, "layout": "pad"}
BYTES: dict[str, Any] = {**FLOATS, "tile_in": 128, "vector_out": 4, "layout": "odd", "load_vector": 4}


def partial_of(shape: tuple[int, int], dtype: str, point: dict[str, Any]) -> float:
    """Sectors filled in part, for each byte that is stored."""
    fusion = permuted(shape, (1, 0), dtype)
    (launch,) = generated("tile2d", fusion, **point).launches
    nbytes = fusion.value(fusion.outputs[0]).dtype.nbytes * shape[0] * shape[1]
    return (
        partial_sector_bytes(list(sites_of(launch.kernel.body, 1, 1)), launch.kernel, fusion) / PARTIAL_BYTES / nbytes
    )


@pytest.mark.parametrize(
    ("shape", "dtype", "point", "runs", "within"),
    [
        pytest.param((512, 1024), "f32", FLOATS, 0, 0, id="whole sectors"),
        pytest.param((4099, 8191), "f32", FLOATS, 2 / 128 * 7 / 8, 0.1, id="each warp's run has two ends"),
        pytest.param((4099, 8191), "f32", {**FLOATS, "shift_store": True}, 2 / 512 * 7 / 8, 0.2, id="each tile's run"),
        pytest.param((4099, 8191), "f32", {**FLOATS, "shift_store": True, "halo": True}, 0, 0, id="with a halo"),
        pytest.param(
            (4095, 8001), "i8", {**BYTES, "shift_store": True, "halo": True}, 0, 0, id="with a halo, by words"
        ),
        pytest.param((4095, 8001), "i8", {**BYTES, "shift_store": True}, 2 / 128, 0.15, id="each tile's run, by words"),
    ],
)
def test_ends_of_runs_fill_sectors_in_part(
    shape: tuple[int, int], dtype: str, point: dict[str, Any], runs: float, within: float
) -> None:
    assert partial_of(shape, dtype, point) == pytest.approx(runs, rel=within, abs=1e-12)


def test_runs_shorter_than_a_sector_count_as_short_runs() -> None:
    point = {**FLOATS, "lanes_out": 4, "threads": 256}
    assert partial_of((512, 1024), "f32", point) == 0
