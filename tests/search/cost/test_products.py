"""The model of products against one H100 that ran them: microseconds of a launch, medians of seven, with a cold L2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import pytest

from compiler.arch import arch_named, card_named
from compiler.dtypes import DType
from compiler.ir.fusion import Fusion
from compiler.lower.operands import TensorMap
from compiler.pipeline import GeneratedLaunch, generate
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cost.panels import lines_of_rows
from search.cost.predicting import predict_launch
from search.cost.product_features import has_products, product_features
from search.cost.products import predict_product
from search.space.schedulers import schedulers_for
from search.space.schedulers.product import Product
from tests.compiler.products import gated, product
from tests.search.schedulers.fusions import SUITE

CARD = card_named("H100 SXM")
COOPERATIVE: Mapping[str, Any] = {
    "consumers": "cooperative",
    "tile_rows": 128,
    "tile_columns": 256,
    "k_lines": 1,
    "stages": 4,
    "in_flight": 1,
    "paired": "none",
    "raster": "rows",
    "raster_group": 16,
    "blocks_per_sm": 1,
    "store": "tma",
    "store_columns": 64,
    "parts": 1,
    "swap": False,
    "math": "coarse",
}
PING_PONG = {**COOPERATIVE, "consumers": "ping_pong", "tile_columns": 192, "stages": 3}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "steps of 128": {**COOPERATIVE, "store_columns": 128},
    "steps of 64": COOPERATIVE,
    "three stages": {**COOPERATIVE, "store_columns": 128, "stages": 3},
    "two long stages": {**COOPERATIVE, "k_lines": 2, "stages": 2},
    "pairs along rows": {**COOPERATIVE, "paired": "rows", "raster_group": 8},
    "pairs along columns": {**COOPERATIVE, "paired": "columns", "raster_group": 8},
    "tall tiles": {**COOPERATIVE, "tile_rows": 256, "tile_columns": 128},
    "turns": PING_PONG,
}
SQUARE, SHORT, GELU = "mm_bf16_4096", "mm_bf16_8192x8192x1024", "mm_bias_gelu_bf16_8192x16384x4096"
MEASURED = {
    SQUARE: (178.2, 181.0, 186.6, 278.0, 181.9, 190.8, 186.6, 232.3),
    SHORT: (191.3, 196.1, 201.6, 259.0, 198.0, 206.1, 199.7, 216.8),
    GELU: (1428.3, 1434.3, 1470.8, 2179.5, 1435.5, 1501.3, 1488.5, 1642.5),
}


@cache
def fusion_of(name: str) -> Fusion:
    return bind(parse_fusion(json.loads((SUITE / f"{name}.json").read_text())), parse_binding({"sizes": {}}))


@cache
def launch(name: str, way: str) -> GeneratedLaunch:
    trace = Product(CARD.sm_count).trace(fusion_of(name), WAYS[way])
    return generate(trace, arch_named("sm_90a")).launches[0]


@pytest.mark.parametrize(
    "name", [SHORT, pytest.param(SQUARE, marks=pytest.mark.long), pytest.param(GELU, marks=pytest.mark.long)]
)
def test_predictions_are_near_what_was_measured(name: str) -> None:
    found = [predict_launch(CARD, launch(name, way)).total_us for way in WAYS]
    assert found == pytest.approx(MEASURED[name], rel=0.12)
    assert MEASURED[name][found.index(min(found))] == min(MEASURED[name]), "the one that is predicted fastest is"


def test_what_is_counted_is_what_the_schedule_says() -> None:
    made = launch(SHORT, "steps of 128")
    assert has_products(made)
    f = product_features(made, CARD)
    assert (f.groups, f.stages, f.in_flight, f.in_turns) == (2, 4, 1, False)
    assert (f.blocks, f.tiles, f.chunks) == (132, 16, 16 * 16)
    assert f.tensor_clocks == 16 * 16 * 2 * 4 * 129, "two groups, four instructions of 256 columns a stage"


def test_turns_are_found() -> None:
    f = product_features(launch(SHORT, "turns"), CARD)
    assert (f.groups, f.in_turns) == (2, True)


def test_products_take_no_less_than_memory_and_the_tensor_cores_do() -> None:
    terms = predict_launch(CARD, launch(SHORT, "steps of 128")).terms
    assert terms["memory"] >= 1e6 * 2 * (2 * 8192 * 1024 + 8192 * 8192) / CARD.dram.best_read
    assert terms["tensor"] > 2 * 8192 * 8192 * 1024 / 1e9


ROWS = (
    # bytes of a row, strides: lines that it touches over those that its bytes would fill
    pytest.param(128, (256,), 1.0, id="whole lines"),
    pytest.param(128, (192,), 1.5, id="every other one begins on a line"),
    pytest.param(128, (160,), 1.75, id="one in four does"),
    pytest.param(128, (144,), 1.875, id="one in eight does"),
    pytest.param(128, (256, 256 * 9 + 64), 1.5, id="whole lines of matrices that begin inside one"),
    pytest.param(64, (192,), 2.0, id="halves of lines"),
    pytest.param(64, (144,), 2.75, id="as long, and across lines"),
)


@pytest.mark.parametrize(("nbytes", "strides", "lines"), ROWS)
def test_rows_lie_in_the_lines_that_they_touch(nbytes: int, strides: tuple[int, ...], lines: float) -> None:
    one = (1,) * len(strides)
    box = TensorMap("x", DType.BF16, 0, (4096, *one), strides, (nbytes // 2, *one), (1, *one), 128)
    assert lines_of_rows(box) == lines


def test_lines_are_counted_where_rows_are_no_whole_lines() -> None:
    whole, odd = (product_features(made_of(product(256, 256, columns), "product"), CARD) for columns in (512, 504))
    assert whole.line_bytes == whole.l2_bytes == odd.l2_bytes
    assert odd.line_bytes == 1.875 * odd.l2_bytes


@pytest.mark.parametrize(
    ("columns", "store", "name", "lines"),
    [
        pytest.param(256, "tma", "product", 1.0, id="boxes of whole lines"),
        pytest.param(264, "tma", "product", 1.875, id="boxes of rows that begin inside a line"),
        pytest.param(256, "vector", "product", 1.0, id="by threads"),
        pytest.param(256, "vector", "launches-sums2-product+column", 2.0, id="sums in f32"),
    ],
)
def test_what_is_stored_is_counted(columns: int, store: str, name: str, lines: float) -> None:
    boxes = {"store_columns": 64} if store == "tma" else {}
    f = product_features(made_of(product(256, columns, 1024), name, store=store, **boxes), CARD)
    tiles = 4 * -(-columns // 64)
    assert (f.storing, f.blocks) == (f.blocks, tiles * (2 if "sums2" in name else 1))
    assert f.stored_bytes == 2 * 64 * 64 * lines


def test_of_a_sum_in_parts_the_last_blocks_store() -> None:
    f = product_features(made_of(product(256, 256, 1024), "product", parts=2, store_columns=64), CARD)
    assert (f.parts, f.blocks, f.storing) == (2, 32, 16)
    assert f.storing * f.stored_bytes == 2 * 256 * 256


def test_groups_that_share_a_tile_store_it_together() -> None:
    f = product_features(launch(SHORT, "steps of 128"), CARD)
    assert f.blocks * f.stored_bytes == pytest.approx(2 * 8192 * 8192, rel=0.04)  # the last turn is not full


def test_what_goes_on_side_by_side_takes_as_long_as_the_slowest_or_longer() -> None:
    alone, equal = (
        predict_product(CARD, replace(product_features(launch(SHORT, "steps of 128"), CARD), dram_bytes=nbytes))
        for nbytes in (1.0, 0.9 * 8192 * 8192 * 8)
    )
    work = alone.total_us - alone.terms["fixed"]
    memory = equal.terms["memory"]
    assert memory < equal.total_us - equal.terms["fixed"] < 1.1 * max(work, memory + 10)
    assert alone.total_us < equal.total_us


def test_a_copy_for_several_blocks_comes_later() -> None:
    terms = {way: predict_launch(CARD, launch(SHORT, way)).terms for way in ("steps of 64", "pairs along rows")}
    assert terms["pairs along rows"]["ring"] == pytest.approx(1.2 * terms["steps of 64"]["ring"])


def test_parts_go_to_l2_and_come_from_there() -> None:
    f = replace(product_features(launch(SHORT, "steps of 128"), CARD), parts=2)
    handed = [predict_product(CARD, replace(f, handed_bytes=n)).terms["handed_on"] for n in (0.0, 1e6, 2e6)]
    assert handed[2] - handed[1] == pytest.approx(handed[1] - handed[0])
    rate = 54.0 * CARD.max_sm_clock_mhz  # bytes a microsecond, at the highest clock
    assert handed[1] - handed[0] >= 2 * 2 * 1e6 / rate


def test_operands_that_are_read_in_parts_are_counted() -> None:
    f = product_features(made_of(product(64, 128, 1024), "launches-sums2-product+column"), CARD)
    assert f.l2_bytes == f.blocks * f.chunks * f.stage_bytes
    assert f.stage_bytes == (64 + 64) * 128, "a line of each row of both operands"


def test_operands_of_all_products_of_a_kernel_are_counted() -> None:
    """silu(x @ g) * (x @ u): three tiles a stage, of which one is read by both."""
    f = product_features(made_of(gated(512, 128, 1024), "product"), CARD)
    assert f.stage_bytes == (64 + 64 + 64) * 128, "a line of each row of x, g and u"
    assert f.l2_bytes == f.blocks * f.chunks * f.stage_bytes
    assert f.tensor_clocks == f.chunks * 2 * 4 * 33, "two products, four instructions of 64 columns a stage"
    assert f.operand_clocks == f.chunks * (2 * 4 * 32 + 3 * 64), "tiles that are read, and those that arrive"


def made_of(fusion: Fusion, name: str, **more: Any) -> GeneratedLaunch:
    """The first launch, in tiles of 64 x 64 that one group makes."""
    scheduler = next(one for one in schedulers_for(fusion, CARD) if one.name == name)
    tile = {"consumers": "single", "tile_rows": 64, "tile_columns": 64, "k_lines": 1, "paired": "none", "parts": 1}
    wanted = {**tile, "swap": False, **more}
    space = scheduler.space(fusion, CARD.arch)
    for point in chain.from_iterable(space.sample(1_000, seed) for seed in range(20)):
        if wanted.items() <= {knob.removeprefix("0."): value for knob, value in point.items()}.items():
            return generate(scheduler.trace(fusion, point), CARD.arch).launches[0]
    raise AssertionError(f"{name} has no such point")
