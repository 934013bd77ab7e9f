"""Branches on which lanes differ: at the ends of rows that begin at any address, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import card_named
from compiler.pipeline import GeneratedLaunch
from search.cost.diverging import OTHER_SIDE, other_sides
from search.cost.predicting import predict_launch
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

RING: dict[str, Any] = {
    "load": "cp_async", "load_vector": 16, "stages": 2, "blocks_per_sm": 1, "tile_in": 512, "tile_out": 128,
    "lanes_out": 32, "layout": "phases", "shift_load": True, "shift_store": True,
}  # fmt: skip
BYTES: dict[str, Any] = {**RING, "threads": 512, "vector_out": 1, "shift_store": False, "row_span": "line"}
WORDS: dict[str, Any] = {**RING, "threads": 128, "vector_out": 4}


def launch_of(rows: int, columns: int, **point: Any) -> GeneratedLaunch:
    (launch,) = generated("tile2d", permuted((rows, columns), (1, 0), "i8"), **point).launches
    return launch


@pytest.mark.parametrize(
    ("point", "diverges"),
    [
        pytest.param(WORDS, True, id="words-of-a-window"),
        pytest.param({**WORDS, "halo": True, "row_span": "sector"}, False, id="whole-windows"),
    ],
)
def test_lanes_differ_where_words_end_with_a_window(point: dict[str, Any], diverges: bool) -> None:
    assert (other_sides(launch_of(4095, 16001, **point).kernel) > 0) is diverges


def test_a_warp_goes_through_both_sides() -> None:
    """Each of 248 words of a thread is stored as such or byte by byte; warps at a window's end do both, nine in ten."""
    words = launch_of(4095, 16001, **WORDS)
    tiles = 8
    a_word = other_sides(words.kernel) / OTHER_SIDE / (248 * tiles)
    assert 10 < a_word < 60


def test_what_was_measured_on_an_h200() -> None:
    """320 us with words, where the rows of bytes begin anywhere; 59 us with bytes."""
    h200 = card_named("H200")
    words, single = (predict_launch(h200, launch_of(4095, 16001, **point)).total_us for point in (WORDS, BYTES))
    assert words > 1.5 * single
