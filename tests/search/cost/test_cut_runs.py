"""Parts of sectors at the ends of runs: where tiles cut rows, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from search.cost.cut_runs import cut_sector_bytes
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

FLOATS: dict[str, Any] = {"tile_in": 64, "tile_out": 128, "lanes_out": 32, "threads": 512, "layout": "pad"}
BYTES: dict[str, Any] = {**FLOATS, "tile_in": 128, "vector_out": 4, "layout": "odd", "load_vector": 4}


@pytest.mark.parametrize(
    ("dtype", "point", "run"),
    [
        pytest.param("f32", {**FLOATS, "shift_store": True}, 128, id="runs of a tile"),
        pytest.param("i8", {**BYTES, "shift_store": True}, 128, id="by words"),
        pytest.param("f32", {**FLOATS, "shift_store": True, "halo": True}, None, id="with a halo"),
        pytest.param("i8", {**BYTES, "shift_store": True, "halo": True}, None, id="with a halo, by words"),
        pytest.param("f32", FLOATS, None, id="not shifted"),
    ],
)
def test_each_cut_run_costs_two_sectors(dtype: str, point: dict[str, Any], run: int | None) -> None:
    fusion = permuted((515, 1001), (1, 0), dtype)
    (launch,) = generated("tile2d", fusion, **point).launches
    expected = 515 * 1001 / run * 2 * 32 if run is not None else 0
    assert cut_sector_bytes(launch.kernel, fusion) == expected


def test_rows_that_are_stored_whole_are_not_cut() -> None:
    point = {**FLOATS, "tile_out": 64, "shift_store": True}
    fusion = permuted((64 * 5 + 1, 1001), (1, 0))
    (launch,) = generated("tile2d", fusion, **point).launches
    assert cut_sector_bytes(launch.kernel, fusion) == 321 * 1001 / 64 * 64
    short = permuted((61, 1001), (1, 0))
    (launch,) = generated("tile2d", short, **point).launches
    assert cut_sector_bytes(launch.kernel, short) == 0
