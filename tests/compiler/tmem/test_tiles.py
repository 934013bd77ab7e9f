"""Tiles that one thread copies from shared to tensor memory: shapes, types, turns of a loop, and what is no tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compiler.errors import IllegalSchedule
from compiler.explicit.generate import generate_explicit
from compiler.nvrtc import CompilePool
from tests.compiler.tmem.kernels import Document, right, tiles


@pytest.fixture(scope="module")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1, time_limit_s=120.0) as compilers:
        yield compilers


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


def changed(step: dict[str, Any], **fields: Any) -> Document:
    """The case of one tile with a step changed."""
    case = tiles(8)
    schedule = [{**s, **fields} if all(s.get(k) == v for k, v in step.items()) else s for s in case["schedule"]]
    assert schedule != case["schedule"]
    return {**case, "schedule": schedule}


ORDER = {"tv": "s", "do": "set_allocation_domain"}
BULK = {"tv": "t", "type": "Bulk", "axis": 2}


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        pytest.param(changed(ORDER, axes=[0, 1, 2, 3, 4, 5]), "tmem_tile_has_a_hardware_shape", id="lanes-by-rows"),
        pytest.param(tiles(16, row_bytes=64), "tmem_tile_has_a_hardware_shape", id="64-bytes-of-a-lane"),
        pytest.param(changed(BULK, type="TIDx"), "tmem_tiles_are_copied_by_one_thread", id="threads-ask-for-rows"),
    ],
)
def test_what_is_no_tile_is_refused(case: Document, rule: str) -> None:
    with pytest.raises(IllegalSchedule, match=rule):
        generate_explicit(case)
