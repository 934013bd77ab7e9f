"""Spaces that are counted for a request: how large, how many at a time, and what no card holds."""

from __future__ import annotations

from typing import Any

from fusetune.wire.fusion import FORMAT
from tests.service.api.test_malformed import check
from tests.service.api.world import REQUEST, World


def test_a_space_is_counted(service: World) -> None:
    body = {**REQUEST, "samples": 2, "card": "H200"}
    view = service.client.post("/v1/spaces", json=body).json()
    (space,) = view["schedulers"]
    assert (space["scheduler"], list(view["not_applicable"])) == (
        "flat",
        [
            "tile2d",
            "row",
            "column",
            "inner_outer",
            "chunks",
            "scan",
            "product",
            "tensor_product",
            "warp_product",
            "thread_product",
            "launches",
        ],
    )
    assert 0 < space["legal"] < space["points"]
    assert len(space["samples"]) == 2
    assert set(space["reasons"]) == set(space["refused"])
    assert all(space["reasons"].values())
    assert set(space["samples"][0]) == set(space["knobs"])
    assert service.client.post("/v1/spaces", json=body).json() == view


def nested_cats(count: int) -> dict[str, Any]:
    ops = [{"op": "cat", "in": [f"t{n - 1}" if n else "x"] * 2, "dim": 0, "out": f"t{n}"} for n in range(count)]
    inputs = [{"name": "x", "shape": [4], "dtype": "f32"}]
    return {"format": FORMAT, "inputs": inputs, "ops": ops, "outputs": [{"name": f"t{count - 1}"}]}


def test_the_space_of_nested_concatenations_is_answered(service: World) -> None:
    view = service.client.post("/v1/spaces", json={"fusion": nested_cats(20), "binding": {}, "card": "H200"}).json()
    assert view["schedulers"][0]["legal"]
    assert "of 1048576 pieces" in view["not_applicable"]["flat"]


def test_tensors_beyond_the_memory_of_the_card_are_refused(service: World) -> None:
    body: dict[str, Any] = {"fusion": nested_cats(1), "binding": {}, "card": "A100"}
    body["fusion"]["inputs"][0]["shape"] = [1 << 31, 8]
    for path in ("/v1/spaces", "/v1/tunings"):
        problem = check(service.client.post(path, json=body), 422, "unsupported-fusion")
        assert f"{3 << 36} bytes of inputs and outputs" in problem["detail"]


def test_only_so_many_spaces_are_counted_at_once(service: World) -> None:
    app: Any = service.client.app
    counting = app.state.context.counting
    while counting.acquire(blocking=False):
        pass
    response = service.client.post("/v1/spaces", json=REQUEST)
    check(response, 429, "queue-full")
    assert response.headers["retry-after"] == "2"
    counting.release()
    assert service.client.post("/v1/spaces", json=REQUEST).status_code == 200
