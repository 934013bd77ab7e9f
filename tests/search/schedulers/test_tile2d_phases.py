"""Tiles whose rows lie in shared memory as they do in global memory, and are loaded by aligned vectors."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import CopyAsync, GlobalLoad, If
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.test_tile2d_worthwhile import is_legal, space_of

HALVES: dict[str, Any] = {
    "load": "cp_async",
    "tile_in": 128,
    "tile_out": 64,
    "vector_out": 2,
    "lanes_out": 32,
    "threads": 256,
    "load_vector": 8,
    "shift_load": True,
    "shift_store": True,
    "halo": True,
    "layout": "phases",
}
BYTES: dict[str, Any] = {**HALVES, "tile_in": 256, "tile_out": 128, "vector_out": 4, "load_vector": 16}
WORDS: dict[str, Any] = {**HALVES, "vector_out": 1, "load_vector": 4}


@pytest.mark.parametrize(
    ("dtype", "point", "change"),
    [
        pytest.param("bf16", HALVES, {"shift_load": False}, id="rows that lie as in memory are shifted"),
        pytest.param("bf16", HALVES, {"layout": "pad"}, id="no other layout has a place for what comes before a row"),
        pytest.param("bf16", HALVES, {"load_vector": 1}, id="single elements need no such place"),
        pytest.param("i8", BYTES, {"load_vector": 2}, id="less than a register is not copied"),
        pytest.param("f32", WORDS, {"load_vector": 8}, id="no thread loads 32 bytes"),
        pytest.param("bf16", HALVES, {"load": "tma"}, id="the copy engine needs rows of 16 bytes"),
        pytest.param("bf16", HALVES, {"vector_in": 2}, id="neighbours of a row are aligned in no two rows alike"),
        pytest.param("f32", WORDS, {"tile_in": 32}, id="half of a row of 32 places is before its run"),
        pytest.param("f32", WORDS, {"layout": "pad", "shift_load": False, "row_span": "line"}, id="in no other layout"),
        pytest.param("i8", BYTES, {"tile_in": 128}, id="rows of 128 bytes"),
        pytest.param("bf16", HALVES, {"load": "vector"}, id="through registers"),
    ],
)
def test_rows_as_they_lie_in_memory(dtype: str, point: dict[str, Any], change: dict[str, Any]) -> None:
    space = space_of(permuted((4099, 8191), (1, 0), dtype))
    assert is_legal(space, point)
    assert not is_legal(space, {**point, **change})


@pytest.mark.parametrize(
    ("fusion", "point"),
    [
        pytest.param(permuted((4099, 8191), (1, 0), "i8"), BYTES, id="bytes"),
        pytest.param(permuted((33, 251, 411), (2, 1, 0), "bf16"), HALVES, id="rows at two distances"),
        pytest.param(permuted((4099, 8191), (1, 0), "f32"), WORDS, id="words"),
    ],
)
def test_a_full_tile_is_copied_by_whole_vectors(fusion: Fusion, point: dict[str, Any]) -> None:
    """What is left to ask is whether a vector holds some of the tile's run: of rows that begin early the last one does
    not, and of those that begin a vector late the first."""
    made = generated("tile2d", fusion, **point)
    (tile,) = made.launches[0].kernel.body[-1:]
    assert isinstance(tile, If)
    copies = [s for s in walk(tile.then) if isinstance(s, CopyAsync)]
    places = max(point["load_vector"], point["threads"] // point["lanes_out"]) // point["load_vector"]
    assert {(s.width, len(s.guards), s.tail) for s in copies} == {(point["load_vector"], min(places, 2), None)}
    assert not any(isinstance(s, GlobalLoad) for s in walk(tile.then))


SMALL: dict[str, tuple[Fusion, dict[str, Any]]] = {
    # 67 x 145 elements: no whole number of vectors, so that the last one is cut.
    "bytes": (permuted((67, 145), (1, 0), "i8"), BYTES | {"load": "vector"}),
    "bytes past the registers": (permuted((131, 67), (1, 0), "i8"), BYTES | {"tile_in": 64, "threads": 128}),
    "rows at two distances": (permuted((5, 9, 77), (2, 1, 0), "bf16"), HALVES | {"tile_out": 32, "halo": False}),
    "a batch, rows padded": (
        added_across((3, 70, 45), (0, 2, 1), "f32", pad=1),
        WORDS | {"tile_in": 64, "threads": 128, "tile_out": 32, "halo": False, "shift_store": False},
    ),
    "in a ring": (
        permuted((67, 145), (1, 0), "f32"),
        WORDS | {"tile_in": 64, "threads": 128, "blocks_per_sm": 1, "stages": 2, "sm_count": 2},
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_kernel_is_right(name: str, pool: CompilePool) -> None:
    fusion, point = SMALL[name]
    made = generated("tile2d", fusion, **point)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())
    verdict = run_set(made.trace.fusion, built, parse(built.ptx), RANDOM, ORDERS[-1:], races=True)
    assert not verdict.fault
