"""Points of the two-dimensional tile scheduler that always lose are not legal; those beside them are."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.ir.fusion import Fusion
from search.space.schedulers.tile2d import Tile2d
from search.space.space import Space
from tests.compiler.emit.golden_fusions import transpose

ARCH = arch_named("sm_90a")
EVEN: dict[str, Any] = {
    "tile_in": 64,
    "tile_out": 64,
    "vector_in": 2,
    "vector_out": 1,
    "lanes_out": 16,
    "threads": 512,
    "load_vector": 4,
    "layout": "pad",
}
ODD: dict[str, Any] = {
    "tile_in": 32,
    "tile_out": 128,
    "lanes_out": 32,
    "threads": 512,
    "shift_store": True,
    "layout": "pad",
}


def space_of(fusion: Fusion) -> Space:
    return Tile2d(132).space(fusion, ARCH)


def is_legal(space: Space, knobs: dict[str, Any]) -> bool:
    """Values that no point of the space has are not among its knobs' at all."""
    if any(knob.name in knobs and knobs[knob.name] not in knob.values for knob in space.knobs):
        return False
    return space.is_legal({k.name: knobs.get(k.name, k.values[0]) for k in space.knobs})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tile_order": "rows_inner"}, id="blocks go across the stores"),
        pytest.param({"cache_load": "streaming"}, id="a hint on shared lines"),
        pytest.param({"cache_store": "evict_first"}, id="a hint on lines in parts"),
        pytest.param({"blocks_per_sm": 2}, id="a persistent block without stages"),
        pytest.param({"layout": "none"}, id="conflicts in the banks"),
        pytest.param({"tile_in": 32, "tile_out": 32, "threads": 256, "lanes_out": 8}, id="4 KB"),
        pytest.param({"tile_in": 256, "tile_out": 256}, id="256 KB"),
    ],
)
def test_what_loses_is_left_out(change: dict[str, Any]) -> None:
    space = space_of(transpose(8192, 8192, "f32"))
    assert is_legal(space, EVEN)
    assert not is_legal(space, {**EVEN, **change})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tile_in": 64, "tile_out": 64}, id="short runs"),
        pytest.param({"lanes_out": 16, "shift_store": False}, id="two runs a warp"),
        pytest.param({"threads": 128}, id="32 loads a thread"),
    ],
)
def test_runs_at_odd_addresses_are_long_and_loads_few(change: dict[str, Any]) -> None:
    space = space_of(transpose(4099, 8191, "f32"))
    assert is_legal(space, ODD)
    assert not is_legal(space, {**ODD, **change})


@pytest.mark.parametrize("shape", [(4099, 8191), (8200, 4104), (3, 65536), (65536, 5), (33, 40000), (1000, 1000)])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_every_transpose_has_points(shape: tuple[int, int], dtype: str) -> None:
    assert space_of(transpose(*shape, dtype)).sample(1, seed=0)


def test_small_problems_may_try_anything() -> None:
    assert is_legal(space_of(transpose(128, 256, "f32")), {**EVEN, "tile_order": "rows_inner", "layout": "none"})
    assert not is_legal(space_of(transpose(1024, 256, "f32")), {**EVEN, "tile_order": "rows_inner", "layout": "none"})
