"""Products whose sums are cut over blocks of a cluster: which points there are, and that their kernels are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from compiler.arch import arch_named, card_named
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.cost.predicting import predict_launch
from search.proof.emulated.check import verify
from search.space.schedulers.product import Product
from tests.compiler.products import product
from tests.search.schedulers.test_product_lines import POINT

HOPPER = arch_named("sm_90a")
PRODUCT = Product(132)

SLICES: Mapping[str, Any] = {
    **POINT,
    "tile_columns": 64,
    "store": "vector",
    "parts": 2,
    "sums_in": "slice",
}

NEAREST: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "product_slices_are_alike": ({"tile_columns": 48, "parts": 3}, {"tile_columns": 48, "parts": 4}),
    "product_slices_are_alike ": (
        {"store": "tma", "store_columns": 32},
        {"store": "tma", "store_columns": 64},
    ),
    "product_clusters_have_one_use": ({}, {"paired": "columns"}),
    "redundant_sums_in": ({}, {"parts": 1}),
    "shared_memory_fits_the_block": (
        {"sums_in": "first", "parts": 8, "stages": 3},
        {"sums_in": "first", "parts": 16, "stages": 3},
    ),
    "product_parts_are_resident": ({"tile_columns": 32}, {"tile_columns": 32, "parts": 4, "sums_in": "memory"}),
}


@pytest.mark.parametrize("rule", NEAREST)
def test_the_nearest_points(rule: str) -> None:
    legal, illegal = NEAREST[rule]
    space = PRODUCT.space(product(64, 2048, 2048), HOPPER)
    assert space.is_legal({**SLICES, **legal}), [v.rule for v in space.violations({**SLICES, **legal})]
    assert rule.strip() in {v.rule for v in space.violations({**SLICES, **illegal})}


@pytest.mark.parametrize(
    ("changed", "cluster"),
    [
        pytest.param({"tile_columns": 48, "parts": 3}, 3, id="slices"),
        pytest.param({"store": "tma"}, 2, id="slices in boxes", marks=pytest.mark.long),
        pytest.param({"sums_in": "first", "swap": True, "tile_columns": 16}, 2, id="first", marks=pytest.mark.long),
        pytest.param(
            {"consumers": "cooperative", "tile_rows": 192, "parts": 4}, 4, id="three groups", marks=pytest.mark.long
        ),
    ],
)
def test_kernels_are_proven_as_they_are_served(changed: Mapping[str, Any], cluster: int, pool: CompilePool) -> None:
    made = generate(PRODUCT.trace(product(72, 48, 328), {**SLICES, **changed}), HOPPER)
    assert made.kernel.cluster == cluster
    proof = verify(made, artifact(made, pool.submit(made.source, HOPPER.name).result()), pool)
    assert (proof.fault, proof.undone) == ("", "")


def test_what_goes_through_a_cluster_is_predicted_to_take_less_than_through_memory() -> None:
    card, fusion = card_named("H200"), product(16, 4096, 4096)
    point = {**SLICES, "swap": True, "tile_columns": 16, "k_lines": 2, "stages": 6}
    us = {
        way: predict_launch(card, generate(PRODUCT.trace(fusion, {**point, "sums_in": way}), HOPPER).only)
        for way in ("memory", "first", "slice")
    }
    assert us["first"].terms["handed_on"] < 0.5 * us["memory"].terms["handed_on"]
    assert us["slice"].terms["handed_on"] < us["first"].terms["handed_on"]
    assert us["first"].total_us < us["memory"].total_us - 1.0
