"""Products whose stages the scheduler deals to blocks: which points there are, and that their kernels are right."""

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
from search.space.space import Space
from tests.compiler.products import product

HOPPER = arch_named("sm_90a")
FEW = Product(4)
"""A card of four multiprocessors."""

DEALT: Mapping[str, Any] = {
    "consumers": "single",
    "tile_rows": 64,
    "tile_columns": 64,
    "k_lines": 1,
    "stages": 3,
    "in_flight": 1,
    "paired": "none",
    "raster": "rows",
    "raster_group": 1,
    "blocks_per_sm": 1,
    "store": "tma",
    "store_columns": 64,
    "swap": False,
    "parts": 1,
    "dealt": True,
    "math": "exact",
}


def space(m: int = 384, n: int = 64, k: int = 512) -> Space:
    return FEW.space(product(m, n, k), HOPPER)


NEAREST: Mapping[str, tuple[Space, Mapping[str, Any], Space, Mapping[str, Any]]] = {
    "product_stages_are_dealt_to_blocks_that_stay": (space(), {}, space(), {"blocks_per_sm": 0}),
    "product_deals_are_of_several_stages": (space(k=1024), {"k_lines": 4}, space(m=64, n=64, k=1024), {}),
    "product_shares_are_long": (space(m=192, k=384), {}, space(m=192, k=256), {}),
    "product_shares_are_of_few_tiles": (space(m=64 * 23), {}, space(m=64 * 25), {}),
    "redundant_deal": (space(m=64 * 9), {}, space(m=64 * 8), {}),
    "mma_results_fit_the_registers_at_launch": (
        space(m=576, n=192, k=512),
        {"consumers": "cooperative", "tile_rows": 192, "tile_columns": 192, "stages": 2},
        space(m=576, n=208, k=512),
        {"consumers": "cooperative", "tile_rows": 192, "tile_columns": 208, "stages": 2},
    ),
}


def point(within: Space, changed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sums meet somewhere in spaces that have parts of them."""
    has_parts = any(knob.name == "sums_in" for knob in within.knobs)
    return {**DEALT, **({"sums_in": "memory"} if has_parts else {}), **changed}


@pytest.mark.parametrize("rule", NEAREST)
def test_the_nearest_points(rule: str) -> None:
    """In the space, and refused by this constraint, with its reason."""
    legal_in, legal, illegal_in, illegal = NEAREST[rule]
    assert legal_in.is_legal(point(legal_in, legal)), [v.rule for v in legal_in.violations(point(legal_in, legal))]
    assert rule in {v.rule for v in illegal_in.violations(point(illegal_in, illegal))}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="one group"),
        pytest.param(
            {"consumers": "cooperative", "tile_rows": 192, "stages": 2}, id="three groups", marks=pytest.mark.long
        ),
        pytest.param({"paired": "rows", "store": "vector", "store_columns": 32}, id="pairs", marks=pytest.mark.long),
    ],
)
def test_kernels_are_proven_as_they_are_served(changed: Mapping[str, Any], pool: CompilePool) -> None:
    """At small sizes of their class, and the first blocks of the code itself."""
    fusion = product(1152, 72, 512, out="f32" if changed.get("store") else "bf16")
    made = generate(FEW.trace(fusion, {**DEALT, **changed}), HOPPER)
    assert made.kernel.grid == (4, 1, 1)
    proof = verify(made, artifact(made, pool.submit(made.source, HOPPER.name).result()), pool)
    assert (proof.fault, proof.undone) == ("", "")


def test_idle_multiprocessors_are_predicted_to_work() -> None:
    """Of tiles that leave a quarter of them idle, where what is handed over is little beside a share."""
    card = card_named("H200")
    fusion = product(128 * 99, 256, 16384)
    ways = {"blocks_per_sm": 0, "dealt": False}, {"blocks_per_sm": 1, "dealt": True}
    large = {"consumers": "cooperative", "tile_rows": 128, "tile_columns": 256, "stages": 4}
    whole, dealt = (
        predict_launch(card, generate(Product(132).trace(fusion, {**DEALT, **large, **way}), HOPPER).only)
        for way in ways
    )
    assert 0.7 < dealt.terms["tensor"] / whole.terms["tensor"] < 0.8
    assert dealt.total_us < 0.9 * whole.total_us
    assert dealt.terms["handed_on"] > 0
