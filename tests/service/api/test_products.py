"""Matrix products through REST: spaces are counted, tunings queued, what no kernel multiplies is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.suite.export import FUSIONS
from tests.service.api.world import World

GELU = json.loads((FUSIONS / "mm_bias_gelu_bf16_8192x16384x4096.json").read_text())


def doubles() -> dict[str, Any]:
    inputs = [{"name": name, "shape": [64, 64], "dtype": "f64"} for name in ("x", "w")]
    ops = [{"op": "matmul", "in": ["x", "w"], "out": "y"}]
    return {"format": GELU["format"], "inputs": inputs, "ops": ops, "outputs": [{"name": "y"}]}


def test_the_space_of_a_product_has_thousands_of_points(shared: World) -> None:
    view = shared.client.post("/v1/spaces", json={"fusion": GELU, "binding": {}, "card": "H100 SXM"}).json()
    legal = {one["scheduler"]: one["legal"] for one in view["schedulers"]}
    assert legal.keys() == {"product", "warp_product"}
    assert all(count > 1000 for count in legal.values()), legal


@pytest.mark.parametrize("path", ["/v1/spaces", "/v1/tunings"])
def test_products_that_no_kernel_has_are_refused_by_name(shared: World, path: str) -> None:
    answer = shared.client.post(path, json={"fusion": doubles(), "binding": {}, "card": "H100 SXM"})
    assert answer.status_code == 422
    assert "matmul of f64 into f64" in answer.json()["detail"]


def in_tf32(dtype: str) -> dict[str, Any]:
    inputs = [{"name": name, "shape": [4096, 4096], "dtype": dtype} for name in ("x", "w")]
    ops = [
        {"op": "permute", "in": ["w"], "out": "t", "dims": [1, 0]},
        {"op": "matmul", "in": ["x", "t"], "out": "y", "precision": "tf32"},
    ]
    return {"format": GELU["format"], "inputs": inputs, "ops": ops, "outputs": [{"name": "y"}]}


def test_tf32_is_of_f32_alone(shared: World) -> None:
    def posted(fusion: dict[str, Any]) -> Any:
        return shared.client.post("/v1/spaces", json={"fusion": fusion, "binding": {}, "card": "H100 SXM"})

    legal = {one["scheduler"]: one["legal"] for one in posted(in_tf32("f32")).json()["schedulers"]}
    assert legal.keys() == {"product", "warp_product"}
    assert all(count > 1000 for count in legal.values()), legal
    refused = posted(in_tf32("bf16"))
    assert refused.status_code == 422
    assert "ops[1].precision" in refused.text
    assert "cast both operands to f32" in refused.text


def test_a_product_is_tuned_like_every_other_fusion(shared: World) -> None:
    body = {"fusion": GELU, "binding": {}, "card": "H100 SXM", "budget_s": 30}
    answer = shared.client.post("/v1/tunings", json=body)
    assert answer.status_code == 202, answer.text
