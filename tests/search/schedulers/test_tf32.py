"""Which schedulers take products of f32: those of tensor cores where tf32 is allowed, threads where it is not."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from search.cost.product_features import product_features
from search.space.schedulers import refusals, schedulers_for
from tests.compiler.products import TF32, product
from tests.compiler.schedules import from_wire
from tests.search.schedulers.points import generated

HOPPER, BLACKWELL, AMPERE = (card_or_default(name) for name in ("H200", "B200", "A100"))


def names(fusion: Fusion, card: Any) -> set[str]:
    return {s.name for s in schedulers_for(fusion, card) if not s.name.startswith("launches")}


@pytest.mark.parametrize(
    ("card", "right", "found"),
    [
        pytest.param(HOPPER, "k", {"product", "warp_product"}, id="Hopper"),
        pytest.param(HOPPER, "mn", {"warp_product"}, id="Hopper, the other way"),
        pytest.param(BLACKWELL, "k", {"tensor_product", "warp_product"}, id="Blackwell"),
        pytest.param(BLACKWELL, "mn", {"warp_product"}, id="Blackwell, the other way"),
        pytest.param(AMPERE, "k", {"warp_product"}, id="Ampere"),
    ],
)
def test_tensor_cores_take_what_is_allowed(card: Any, right: str, found: set[str]) -> None:
    fusion = product(256, 256, 256, TF32, "f32", right=right)
    assert names(fusion, card) == found
    assert refusals(fusion, card)["thread_product"] == "products of tf32, which tensor cores make"
    assert names(product(256, 256, 256, "f32", "f32", right=right), card) == {"thread_product"}


def test_what_lies_the_other_way_is_refused_by_name() -> None:
    told = refusals(product(256, 256, 256, TF32, "f32", right="mn"), HOPPER)
    assert told["product"].startswith("an operand of tf32 whose rows lie apart along what is summed")


def test_exact_products_beside_others_are_launches_of_their_own() -> None:
    inputs = [{"name": name, "shape": [64, 64], "dtype": "f32"} for name in ("x", "u", "v")]
    ops: list[dict[str, Any]] = [
        {"op": "matmul", "in": ["x", "u"], "out": "a"},
        {"op": "matmul", "in": ["x", "v"], "out": "b", "precision": "tf32"},
        {"op": "add", "in": ["a", "b"], "out": "y"},
    ]
    fusion = from_wire(inputs, ops, "y")
    assert names(fusion, HOPPER) == set()
    assert "one is in tf32 and another is exact" in refusals(fusion, HOPPER)["warp_product"]
    assert schedulers_for(fusion, HOPPER), "cut into launches"


POINTS: dict[str, dict[str, Any]] = {
    "product": {"store": "tma", "tile_rows": 128, "tile_columns": 64},
    "warp_product": {"load": "tma"},
    "thread_product": {"load": "tma", "tile_rows": 32, "tile_columns": 32, "threads_down": 8, "threads_across": 8},
}


def with_relu(precision: dict[str, str]) -> Fusion:
    """relu(x) @ w: what is computed of x no copy rounds."""
    inputs = [{"name": name, "shape": [64, 64], "dtype": "f32"} for name in ("x", "w")]
    ops: list[dict[str, Any]] = [
        {"op": "relu", "in": ["x"], "out": "r"},
        {"op": "permute", "in": ["w"], "out": "t", "dims": [1, 0]},
        {"op": "matmul", "in": ["r", "t"], "out": "y", **precision},
    ]
    return from_wire(inputs, ops, "y")


@pytest.mark.parametrize(
    ("fusion", "scheduler", "found"),
    [
        pytest.param(product(128, 64, 64, TF32, "f32"), "product", ["tf32", "tf32", "f32"], id="both"),
        pytest.param(product(64, 64, 64, TF32, "f32", right="mn"), "warp_product", ["tf32", "tf32"], id="either way"),
        pytest.param(with_relu({"precision": TF32}), "warp_product", ["f32", "tf32"], id="not what is computed of"),
        pytest.param(product(64, 64, 64, "f32", "f32"), "thread_product", ["f32", "f32"], id="not exact ones"),
        pytest.param(product(128, 64, 64, out="f32"), "product", ["bf16", "bf16", "f32"], id="not other types"),
    ],
)
def test_the_copy_engine_rounds_what_is_multiplied_as_it_comes(
    fusion: Fusion, scheduler: str, found: list[str]
) -> None:
    made = generated(scheduler, fusion, "sm_90a", **POINTS[scheduler])
    assert [m.element for m in made.kernel.tensor_maps] == found


def test_what_threads_multiply_is_stored_before_where_it_is_computed() -> None:
    fusion = with_relu({})
    assert "which a launch before stores" in refusals(fusion, HOPPER)["thread_product"]
    (found,) = (s for s in schedulers_for(fusion, HOPPER) if s.name.endswith("+thread_product"))
    for point in found.space(fusion, HOPPER.arch).sample(4, 0):
        assert len(generate(found.trace(fusion, point), HOPPER.arch).launches) == 2


def test_an_instruction_takes_as_long_as_one_of_16_bits() -> None:
    """And makes half of the products: 8 along k in place of 16."""
    point = {"tile_rows": 128, "tile_columns": 128, "k_lines": 1, "stages": 4}
    halves, words = (
        product_features(generated("product", fusion, "sm_90a", **point), HOPPER).tensor_clocks
        for fusion in (product(256, 256, 512), product(256, 256, 512, TF32, "f32"))
    )
    assert words == 2 * halves
