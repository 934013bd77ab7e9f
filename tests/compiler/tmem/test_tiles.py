"""Tiles that one thread copies from shared to tensor memory: shapes, types, turns of a loop."""

from __future__ import annotations

import pytest

from compiler.nvrtc import CompilePool
from tests.compiler.tmem.kernels import Document, right, tiles


@pytest.mark.parametrize(
    ("case", "shape"),
    [
        pytest.param(tiles(8), "128x256b", id="one-tile"),
        pytest.param(tiles(4, row_bytes=16), "128x128b", id="one-of-16-bytes"),
        pytest.param(tiles(32), "128x256b", id="a-loop-of-tiles"),
        pytest.param(tiles(16, turns=3), "128x256b", id="in-columns-used-again"),
        pytest.param(tiles(32, "float16"), "128x256b", id="halves"),
        pytest.param(tiles(64, "int8"), "128x256b", id="bytes"),
        pytest.param(tiles(8, "float64"), "128x256b", id="doubles"),
    ],
)
def test_tiles_come_from_shared_memory(case: Document, shape: str, pool: CompilePool) -> None:
    ptx = right(case, pool).ptx
    assert f"tcgen05.cp.cta_group::1.{shape} [" in ptx
    assert "fence.proxy.async.shared::cta" in ptx
