"""The rules of tiles of tensor memory: for each the nearest legal copy and the nearest one that it alone refuses."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.verdict import judge_document
from tests.compiler.tmem.kernels import Document, tiles

SHAPE, THREAD = "tmem_tile_has_a_hardware_shape", "tmem_tiles_are_copied_by_one_thread"


def broken(case: Document) -> set[str]:
    return {v.rule for v in judge_document(case).violations}


def changed(step: dict[str, Any], **fields: Any) -> Document:
    """The case of one tile with a step changed."""
    case = tiles(8)
    schedule = [{**s, **fields} if all(s.get(k) == v for k, v in step.items()) else s for s in case["schedule"]]
    assert schedule != case["schedule"]
    return {**case, "schedule": schedule}


ORDER = {"tv": "s", "do": "set_allocation_domain"}
"""[turns, rows, lanes / 8, 16 bytes, 8 lanes, elements] of the shared tensor."""


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        pytest.param(tiles(8), set(), id="32-bytes-of-a-lane"),
        pytest.param(tiles(4, row_bytes=16), set(), id="16-bytes-of-a-lane"),
        pytest.param(tiles(16, row_bytes=64), {SHAPE}, id="64-bytes-of-a-lane"),
        pytest.param(changed(ORDER, axes=[0, 3, 4, 1, 2, 5]), set(), id="halves-far-apart"),
        pytest.param(changed(ORDER, axes=[0, 3, 1, 2, 4, 5]), {SHAPE}, id="halves-beside-each-other"),
        pytest.param(changed(ORDER, axes=[0, 3, 2, 4, 1, 5]), {SHAPE}, id="lanes-out-of-order"),
        pytest.param(tiles(16, "float16"), set(), id="halves"),
        pytest.param(tiles(2, "float64", row_bytes=16), set(), id="doubles"),
    ],
)
def test_a_tile_has_a_hardware_shape(case: Document, rules: set[str]) -> None:
    assert broken(case) == rules


@pytest.mark.parametrize("type_", ["TIDx", "Vectorize"])
def test_one_thread_asks_for_a_tile(type_: str) -> None:
    """The loop over tiles, of which there is one."""
    case = tiles(8)
    on_threads = {"tv": "t", "do": "parallelize", "axis": 1, "type": type_}
    assert broken({**case, "schedule": [*case["schedule"], on_threads]}) == {THREAD}
