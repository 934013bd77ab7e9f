"""Tiles of products whose rows, or results, are no whole lines of 128 bytes: which there are, and that they work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.proof.emulated.check import verify
from search.space.schedulers.product import Product
from tests.compiler.products import product

HOPPER = arch_named("sm_90a")
PRODUCT = Product(132)

POINT: Mapping[str, Any] = {
    "consumers": "single",
    "tile_rows": 64,
    "tile_columns": 96,
    "k_lines": 1,
    "stages": 3,
    "in_flight": 1,
    "paired": "none",
    "raster": "rows",
    "raster_group": 1,
    "blocks_per_sm": 0,
    "store": "tma",
    "store_columns": 32,
    "swap": False,
    "parts": 1,
    "sums_in": "memory",
    "dealt": False,
    "math": "exact",
}


@pytest.mark.parametrize(
    ("rule", "legal", "illegal"),
    [
        ("product_tiles_are_whole_lines", {}, {"tile_columns": 112, "store": "vector"}),
        ("product_stores_whole_lines", {}, {"tile_columns": 80}),
        ("product_stores_whole_lines", {"tile_columns": 128, "store_columns": 64}, {"store_columns": 64}),
    ],
)
def test_the_nearest_points(rule: str, legal: Mapping[str, Any], illegal: Mapping[str, Any]) -> None:
    """Columns that lie side by side, of operand and result: lines of 64 bytes or more."""
    space = PRODUCT.space(product(128, 152, 264, right="mn"), HOPPER)
    assert space.is_legal({**POINT, **legal}), [v.rule for v in space.violations({**POINT, **legal})]
    assert rule in {v.rule for v in space.violations({**POINT, **illegal})}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="columns"),
        pytest.param({"tile_rows": 128, "tile_columns": 32, "swap": True}, id="turned", marks=pytest.mark.long),
        pytest.param(
            {"consumers": "cooperative", "tile_rows": 128, "tile_columns": 160}, id="groups", marks=pytest.mark.long
        ),
    ],
)
def test_kernels_of_short_lines_are_proven(changed: Mapping[str, Any], pool: CompilePool) -> None:
    point = {**POINT, **changed, **({"store": "vector"} if changed.get("swap") else {})}
    fusion = product(96, 152, 264, left="mn", right="mn")
    made = generate(PRODUCT.trace(fusion, point), HOPPER)
    assert {m.swizzle for m in made.kernel.tensor_maps} == {64, 128}
    proof = verify(made, artifact(made, pool.submit(made.source, HOPPER.name).result()), pool)
    assert (proof.fault, proof.undone) == ("", "")


@pytest.mark.parametrize("n", [40, 72])
def test_what_the_space_stores_in_boxes_of_few_columns_compiles(n: int) -> None:
    """Results whose rows are no whole lines, shorter than a tile: legal by the space, and by all rules."""
    fusion = product(384, n, 264, right="mn")
    space = PRODUCT.space(fusion, HOPPER).having({"store": "tma"})
    points = space.sample(6, n)
    assert len(points) == 6
    for point in points:
        assert generate(PRODUCT.trace(fusion, point), HOPPER).kernel.tensor_maps
