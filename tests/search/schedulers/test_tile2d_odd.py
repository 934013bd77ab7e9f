"""Tiles of rows that begin at any address: words of several elements on both sides, and what they need."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.id_exprs import Window
from compiler.lower.kernel_ir import GlobalLoad, GlobalStore, If
from compiler.lower.traversal import walk
from compiler.schedule.steps import Shift, Straddle
from search.space.schedulers.tile2d import Tile2d
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.test_tile2d_worthwhile import ARCH, is_legal, space_of

BYTES: dict[str, Any] = {
    "tile_in": 128,
    "tile_out": 256,
    "vector_out": 4,
    "lanes_out": 32,
    "threads": 512,
    "load_vector": 4,
    "shift_store": True,
    "layout": "odd",
}
HALVES: dict[str, Any] = {**BYTES, "tile_in": 64, "tile_out": 128, "vector_out": 2, "load_vector": 2}
WORDS: dict[str, Any] = {**HALVES, "tile_in": 32, "vector_out": 1, "load_vector": 1, "layout": "pad"}


@pytest.mark.parametrize(
    ("dtype", "point", "change"),
    [
        pytest.param("i8", BYTES, {"vector_out": 8}, id="a shifted row is stored by one register a thread"),
        pytest.param("bf16", HALVES, {"vector_out": 4}, id="of halves as well"),
        pytest.param("f32", WORDS, {"vector_out": 2}, id="a register is an element of f32"),
        pytest.param("i8", BYTES, {"shift_store": False}, id="unshifted rows hold no whole words"),
        pytest.param("i8", BYTES, {"load_vector": 2}, id="less than a register is not put together"),
        pytest.param("f32", WORDS, {"load_vector": 2}, id="nor are words put together of several"),
        pytest.param("f32", WORDS, {"layout": "odd"}, id="words of f32 lie in banks of their own padded"),
        pytest.param("i8", BYTES, {"shift_load": True}, id="a shifted row is loaded element by element"),
        pytest.param("i8", BYTES, {"vector_in": 2}, id="elements of rows an odd number apart are read alone"),
        pytest.param("i8", BYTES, {"tile_out": 64}, id="a warp along one run"),
    ],
)
def test_words_of_odd_rows(dtype: str, point: dict[str, Any], change: dict[str, Any]) -> None:
    space = space_of(permuted((4099, 8191), (1, 0), dtype))
    assert is_legal(space, point)
    assert not is_legal(space, {**point, **change})


@pytest.mark.parametrize(
    ("dtype", "point", "change"),
    [
        pytest.param("f32", WORDS, {"shift_store": False}, id="what is not shifted needs no halo"),
        pytest.param("f32", WORDS, {"shift_load": True}, id="tiles of whole rows are not shifted in themselves"),
        pytest.param("i8", BYTES, {"load": "direct"}, id="of registers"),
        pytest.param("f32", WORDS, {"tile_out": 32}, id="a run of 128 bytes"),
        pytest.param("f32", WORDS, {"cache_store": "streaming"}, id="a hint on lines of two blocks"),
        pytest.param("f32", WORDS, {"tile_in": 32, "threads": 512}, id="136 rows are no whole loads of 512 threads"),
    ],
)
def test_halos_of_odd_rows(dtype: str, point: dict[str, Any], change: dict[str, Any]) -> None:
    space = space_of(permuted((4099, 8191), (1, 0), dtype))
    halo = {**point, "load_vector": 4 if dtype == "i8" else 1, "halo": True, "tile_in": max(64, point["tile_in"])}
    assert is_legal(space, halo)
    assert not is_legal(space, {**halo, **change})


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_a_full_tile_with_a_halo_stores_whole_words_without_guards(dtype: str) -> None:
    point = {"f32": {**WORDS, "tile_in": 64, "load_vector": 1}, "bf16": HALVES, "i8": BYTES}[dtype]
    made = generated("tile2d", permuted((4099, 8191), (1, 0), dtype), **point, halo=True)
    tensors = made.launches[0].trace.scheduled.tensors
    assert sum(isinstance(e, Window) for t in tensors for e in t.exprs) == 2
    (tile,) = made.launches[0].kernel.body[-1:]
    assert isinstance(tile, If)
    accesses = [s for s in walk(tile.then) if isinstance(s, GlobalLoad | GlobalStore)]
    assert {type(s) for s in accesses} == {GlobalLoad, GlobalStore}
    assert all(not (s.guards or s.head or s.tail) for s in accesses)
    assert {s.width for s in accesses if isinstance(s, GlobalStore)} == {point["vector_out"]}


@pytest.mark.parametrize(
    ("fusion", "widths"),
    [
        pytest.param(permuted((4099, 8191), (1, 0), "i8"), (1, 4, 8, 16), id="bytes"),
        pytest.param(permuted((4099, 8190), (1, 0), "bf16"), (1, 2, 4, 8), id="halves, aligned to two"),
        pytest.param(permuted((4099, 8192), (1, 0), "bf16"), (4, 8), id="halves, aligned"),
        pytest.param(permuted((4099, 8191), (1, 0), "f32"), (1, 2, 4), id="elements as wide as a register, shifted"),
        pytest.param(permuted((4099, 31), (1, 0), "f32"), (1,), id="rows shorter than a tile"),
    ],
)
def test_words_that_rows_can_be_loaded_by(fusion: Fusion, widths: tuple[int, ...]) -> None:
    (knob,) = (k for k in space_of(fusion).knobs if k.name == "load_vector")
    assert knob.values == widths


def test_only_words_that_are_not_aligned_straddle() -> None:
    def steps_of(columns: int, **knobs: Any) -> list[type]:
        fusion = permuted((4099, columns), (1, 0), "i8")
        point = {k.name: knobs.get(k.name, k.values[0]) for k in space_of(fusion).knobs}
        return [type(step) for step in Tile2d(132).trace(fusion, point).steps]

    assert steps_of(8191, **BYTES).count(Straddle) == 1
    assert Straddle not in steps_of(8191, **{**BYTES, "load_vector": 1})
    assert Straddle not in steps_of(8192, **{**BYTES, "load_vector": 8})
    assert Shift in steps_of(8192, **BYTES)


def test_operands_are_loaded_ahead_where_there_are_any() -> None:
    for fusion, values in (
        (added_across((8192, 4096), (1, 0)), ("late", "early")),
        (permuted((8192, 4096), (1, 0)), ("late",)),
    ):
        (knob,) = (k for k in space_of(fusion).knobs if k.name == "operands")
        assert knob.values == values


def test_a_tile_of_fewer_elements_than_threads_is_refused() -> None:
    refused = Tile2d(132).refusal(permuted((9, 7, 8), (0, 2, 1)), ARCH)
    assert refused is not None
    assert "fewer than a block has threads" in refused
    assert Tile2d(132).refusal(permuted((9, 16, 17), (0, 2, 1)), ARCH) is None
