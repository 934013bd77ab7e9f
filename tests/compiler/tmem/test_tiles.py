"""What one thread asks for: tiles from shared to tensor memory, and rows shifted inside it. Shapes, types, turns."""

from __future__ import annotations

import pytest

from compiler.nvrtc import CompilePool
from tests.compiler.tmem.kernels import Document, right, shifted, tiles


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


@pytest.mark.parametrize(
    ("case", "shifts"),
    [
        pytest.param(shifted(8), 1, id="a-loop-over-subpartitions"),
        pytest.param(shifted(16, subpartitions=1), 1, id="two-times-32-bytes-of-one"),
        pytest.param(shifted(8, turns=3, subpartitions=2), 1, id="in-columns-used-again"),
        pytest.param(shifted(16, "float16"), 1, id="halves"),
        pytest.param(shifted(32, "int8"), 1, id="bytes"),
        pytest.param(shifted(4, "float64"), 1, id="doubles"),
    ],
)
def test_rows_move_to_the_next_lane(case: Document, shifts: int, pool: CompilePool) -> None:
    ran = right(case, pool)
    assert ran.ptx.count("tcgen05.shift.cta_group::1.down [") == shifts
    assert ran.generated.kernel.tmem_columns == 32, "in the columns that they lie in"
