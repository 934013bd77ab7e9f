"""The scheduler of products in tensor memory: compiled for sm_100a, run in the emulator, on no card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.legality.rules import Schedule, check
from compiler.nvrtc import CompilePool
from compiler.pipeline import generate
from compiler.schedule import steps
from search.cost.product_features import product_features
from search.cost.products import predict_product
from search.space.schedulers import refusals, singles_for
from search.space.schedulers.tensor_product import ProductByOneThread
from tests.compiler.products import gated, product
from tests.search.random_fusions.cases import Case, random_case
from tests.search.random_fusions.proving import Kernel, outcome

CARD = replace(card_or_default("B200"), sm_count=4)
"""Persistent blocks have several tiles of a small result."""

ARCH = CARD.arch
SCHEDULER = ProductByOneThread(CARD.sm_count)

BY_ONE = {
    "tile_rows": 128, "tile_columns": 64, "k_lines": 1, "stages": 3, "accumulators": 2, "raster": "rows",
    "raster_group": 1, "blocks_per_sm": 1, "store": "tma", "store_columns": 64, "swap": False, "math": "exact",
}  # fmt: skip


def run_of(fusion: Fusion, point: dict[str, Any], pool: CompilePool, case: Case | None = None) -> str:
    """What the emulator finds wrong, with races, of inputs of the whole range."""
    made = generate(SCHEDULER.trace(fusion, point), ARCH)
    kernel = Kernel(case or Case("", {"ops": ()}, {}), 0, None, made, pool.submit(made.source, ARCH.name))
    found = outcome(kernel)
    return found.fault or found.unsupported


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"store": "vector", "store_columns": 32, "swap": True, "tile_columns": 128},
        {"tile_rows": 256, "accumulators": 1},
        {"tile_rows": 64, "blocks_per_sm": 2, "stages": 2},
    ],
    ids=["lanes of rows", "turned", "two instructions of rows", "half of the lanes"],
)
def test_two_products_of_one_operand_are_right(changed: dict[str, Any], pool: CompilePool) -> None:
    assert run_of(gated(), {**BY_ONE, **changed}, pool) == ""


def test_products_together_have_as_many_places() -> None:
    """The nearest illegal schedule: of two that share an operand one has another place."""
    trace = SCHEDULER.trace(gated(), BY_ONE)
    last = max(n for n, s in enumerate(trace.steps) if isinstance(s, steps.ProductsInFlight))
    other = replace(trace, steps=(*trace.steps[:last], *trace.steps[last + 1 :]))
    assert check(Schedule(trace.replay(), ARCH)) == ()
    (found,) = check(Schedule(other.replay(), ARCH))
    assert (found.rule, found.found) == (
        "tensor_products_together_have_places_alike",
        "0 under way inside 2 loops, 1 under way inside 2 loops",
    )


@pytest.mark.parametrize("fusion", [product(640, 128, 192), product(512, 64, 256, left="mn", right="mn"), gated()])
def test_points_that_the_space_has_are_legal(fusion: Fusion) -> None:
    for point in SCHEDULER.space(fusion, ARCH).sample(8, 3):
        assert check(Schedule(SCHEDULER.trace(fusion, point).replay(), ARCH)) == (), point


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("mma_shape_exists", {"tile_columns": 24, "store": "vector", "store_columns": 32}),
        ("tmem_columns_fit", {"tile_rows": 256, "tile_columns": 192}),
        ("shared_memory_fits_the_block", {"stages": 16, "k_lines": 4, "tile_rows": 256}),
    ],
)
def test_points_refused_by_the_name_of_a_rule_break_it(rule: str, changed: dict[str, Any]) -> None:
    fusion = product(1024, 384, 2048)
    space, point = SCHEDULER.space(fusion, ARCH), {**BY_ONE, **changed}
    assert space.is_legal(BY_ONE)
    assert rule in {v.rule for v in space.violations(point)}
    assert rule in {v.rule for v in check(Schedule(SCHEDULER.trace(fusion, point).replay(), ARCH))}


def test_cards_with_tensor_memory_have_the_scheduler_alone() -> None:
    fusion, hopper = product(256, 256, 256), card_or_default("H200")
    assert [s.name for s in singles_for(fusion, CARD)] == ["tensor_product", "warp_product"]
    assert "tensor_product" in refusals(fusion, hopper)
    assert SCHEDULER.space(fusion, ARCH).legal > 1000


def test_a_second_accumulator_is_predicted_to_hide_what_is_done_with_results() -> None:
    fusion, card = product(4096, 4096, 512), card_or_default("B200")
    scheduler = ProductByOneThread(card.sm_count)
    times = []
    for places in (1, 2):
        point = {**BY_ONE, "tile_columns": 256, "accumulators": places}
        made = generate(scheduler.trace(fusion, point), ARCH)
        times.append(predict_product(card, product_features(made, card)).total_us)
    assert times[1] < 0.95 * times[0]


def test_a_tile_of_an_operands_line_that_is_twice_the_result_is_stored_by_threads() -> None:
    """Boxes of the copy engine would lie beside the rows: 64 columns viewed as two parts of a tile of 128."""
    fusion = product(17, 64, 192, "f8e4m3", "f32", right="mn")
    wide = SCHEDULER.space(fusion, ARCH).having({"tile_columns": 128, "swap": False})
    points = wide.sample(20, 0)
    assert {point["store"] for point in points} == {"vector"}
    for point in points[:3]:
        assert generate(SCHEDULER.trace(fusion, point), ARCH).source
    less = SCHEDULER.space(product(17, 80, 192, "f8e4m3", "f32", right="mn"), ARCH)  # less than twice
    assert "tma" in {point["store"] for point in less.having({"tile_columns": 128, "swap": False}).sample(40, 0)}


def drawn(first: int, limits: str) -> Iterator[tuple[Case, Fusion]]:
    """Random products that the scheduler takes, from a seed on."""
    for seed in range(first, first + 1000):
        case = random_case(seed, limits)
        fusion = case.bound()
        if SCHEDULER.refusal(fusion, ARCH) is None:
            yield case, fusion


def random_products_are_right(first: int, count: int, pool: CompilePool, limits: str = "products") -> None:
    for case, fusion in islice(drawn(first, limits), count):
        for point in SCHEDULER.space(fusion, ARCH).sample(1, first):
            assert run_of(fusion, point, pool, case) == "", f"{point}\n{case}"


def test_random_products_are_right(pool: CompilePool) -> None:
    random_products_are_right(0, 4, pool)
    random_products_are_right(0, 1, pool, "products_in_tf32")


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11_000, 1000))
def test_a_hundred_random_products_are_right(first: int, pool: CompilePool) -> None:
    random_products_are_right(first, 10, pool)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4000, 1000))
def test_random_products_in_tf32_are_right(first: int, pool: CompilePool) -> None:
    random_products_are_right(first, 5, pool, "products_in_tf32")
