"""The rules of what one thread asks for in tensor memory: for each the nearest legal copy, and the nearest one that it
alone refuses."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.verdict import judge_document
from tests.compiler.tmem.kernels import Document, resize, shifted, tiles

SHIFT, READ = "tmem_shift_has_the_hardware_shape", "tmem_shift_is_all_that_reads_its_source"
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


def shift(*more: dict[str, Any], rows: int = 31, columns: int = 8, lanes: int = 1) -> Document:
    """Rows shifted in all subpartitions by so many lanes, further steps taken."""
    case = shifted(columns)
    tensors = {n: {**t, "shape": [1, 4, rows, columns]} for n, t in case["tensors"].items()}
    spare = 32 - rows
    schedule = []
    for step in case["schedule"]:
        if step["do"] == "resize":
            left = lanes * step["left"]
            step = {**step, "left": left, "right": spare - left}
        if "transforms" in step:
            step = {**step, "transforms": [resize(2, lanes, spare - lanes)]}
        schedule.append(step)
    return {**case, "tensors": tensors, "schedule": [*schedule, *more]}


def read_twice() -> Document:
    """What is shifted is read before, too."""
    case = shift()
    tensors = {**case["tensors"], "p": case["tensors"]["q"], "z": case["tensors"]["y"]}
    ops = [*case["ops"][:2], {"op": "set", "in": ["t"], "out": "p", "via": "ld_tmem"}, *case["ops"][2:]]
    ops.append({"op": "set", "in": ["p"], "out": "z"})
    like = {"q": "p", "y": "z"}
    others = [{**s, "tv": like[s["tv"]]} for s in case["schedule"] if s["tv"] in like and s["do"] != "inline_at"]
    others = [resize(2, 0, 1) | {"tv": s["tv"]} if s["do"] == "resize" else s for s in others]
    return {**case, "tensors": tensors, "ops": ops, "outputs": ["y", "z"], "schedule": [*case["schedule"], *others]}


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        pytest.param(shift(), set(), id="31-rows-of-32-bytes"),
        pytest.param(shift(columns=16), set(), id="twice-32-bytes"),
        pytest.param(shift(rows=30), {SHIFT}, id="30-rows"),
        pytest.param(shift(columns=4), {SHIFT}, id="16-bytes"),
        pytest.param(shift(columns=12), {SHIFT}, id="16-bytes-of-the-last"),
        pytest.param(shift(lanes=0), {SHIFT}, id="to-where-they-are"),
        pytest.param({**shift(), "managed": {"tmem_regions": [["t"]]}}, set(), id="its-source-in-a-region"),
        pytest.param({**shift(), "managed": {"tmem_regions": [["t", "u"]]}}, {READ}, id="in-a-region"),
        pytest.param(read_twice(), {READ}, id="read-by-a-load-too"),
        pytest.param(shift({"tv": "u", "do": "parallelize", "axis": 2, "type": "TIDx"}), {THREAD}, id="by-threads"),
    ],
)
def test_rows_are_shifted_by_one(case: Document, rules: set[str]) -> None:
    assert broken(case) == rules
