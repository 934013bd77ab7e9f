"""Kernels of the search that use tensor memory, of every kind and by every pattern: without any one wait, fence,
barrier or deallocation they are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact
from search.proof.emulated.running import run_set
from search.proof.verify.inputs import RANDOM
from search.space.groups import PATTERNS
from search.space.groups.tmem_layout import DIMSEPS
from tests.compiler.tmem.left_out import not_needed
from tests.search.schedulers.column_fusions import softmax as column_softmax
from tests.search.schedulers.fusions import add
from tests.search.schedulers.permute_fusions import added_across, permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import rms_norm_of_sum, softmax

ARCH = "sm_100a"

SM_COUNT = 2
"""Of a card so small that persistent blocks of small tensors have several tiles."""

LONG = pytest.mark.long

BY_4 = {"tmem_store": 4, "tmem_load": 4}
STREAMS, VALUES = {"tmem": "streams"} | BY_4, {"tmem": "values"} | BY_4
FLAT: dict[str, Any] = {"vector": 4, "threads_x": 64, "column_steps": 2} | STREAMS
ROW: dict[str, Any] = {"vector": 4, "threads": 128, "unroll": 4, "keep": "reload"} | STREAMS
COLUMN: dict[str, Any] = {"vector": 4, "threads_x": 32, "threads_y": 4, "rows": 2} | STREAMS
TILES: dict[str, Any] = {"load": "direct", "vector_in": 4, "vector_out": 4, "threads": 128, "tmem": "transpose"} | BY_4
KEPT = {"keep_values": "all", "keep": "shared"}
BUFFERS = {"threads_x": 32, "blocks_per_sm": 1, "column_steps": 1, "tmem_buffers": 2}
SENT = {"vector": 8, "view": "2d", "threads_x": 64, "threads_y": 2, "store": "tma", "blocks_per_sm": 1}
FROM_RINGS = {"vector": 8, "threads_x": 16, "threads_y": 8, "load": "tma", "stages": 2}
OVER_CLUSTER = {"cluster": 2, "threads_y": 32, "rows": 1}
BY_PATTERN: dict[str, dict[str, Any]] = {
    "16x64b": TILES | {"lanes_out": 16, "tile_in": 64, "tile_out": 64},
    "16x128b": TILES | {"lanes_out": 16, "tile_in": 128, "tile_out": 64},
    "16x256b": TILES | {"lanes_out": 8, "tile_in": 256, "tile_out": 32},
    "16x32bx2": TILES | {"lanes_out": 32, "tile_in": 32, "tile_out": 128},
}
WHOLE = {"vector_in": 1, "vector_out": 1, "lanes_out": 32, "tile_in": 128, "tile_out": 32, "tmem_rounds": 3}
COLUMNS, HALVES = column_softmax((30, 128), 0, "f32"), column_softmax((70, 96), 0, "bf16")


def by_patterns() -> Iterator[Any]:
    """What threads find where they have put it down, by each pattern, on both sides of dimsep; what each exchanges."""
    kinds = {
        "flat": (add((2048,), "f32"), FLAT, ("16x64b", "halves")),
        "row": (softmax((1, 4096), (1,), "f32"), ROW, ("32x32b", "threads")),
        "column": (COLUMNS, COLUMN, ("16x256b", "threads")),
    }
    for kind, (fusion, point, ordinary) in kinds.items():
        for pattern in PATTERNS:
            for dimsep in DIMSEPS if pattern != PATTERNS[0] else DIMSEPS[:1]:
                marks = () if (pattern, dimsep) == ordinary else LONG
                chosen = point | {"tmem_pattern": pattern, "tmem_dimsep": dimsep}
                yield pytest.param(kind, fusion, chosen, id=f"{kind} by {pattern}, {dimsep}", marks=marks)
    for pattern, point in BY_PATTERN.items():
        marks = () if pattern == "16x128b" else LONG
        chosen = point | {"tmem_pattern": pattern}
        yield pytest.param("tile2d", permuted((128, 256), (1, 0)), chosen, id=f"tiles by {pattern}", marks=marks)


OTHERS = [
    pytest.param("flat", add((2044,), "f32"), FLAT | BUFFERS, id="tiles loaded ahead"),
    pytest.param(
        "flat", add((37, 1032), "bf16", strides=[1040, 1]), FLAT | SENT | {"tmem_buffers": 2},
        id="stored by tensor map", marks=LONG,
    ),
    pytest.param("row", rms_norm_of_sum((2, 16384), "bf16"), ROW | VALUES | KEPT, id="values of rows", marks=LONG),
    pytest.param(
        "row", softmax((1, 32768), (1,), "f32"), ROW | {"threads": 1024, "unroll": 2, "cluster": 2},
        id="rows over a cluster", marks=LONG,
    ),
    pytest.param("column", COLUMNS, COLUMN | VALUES, id="values of columns", marks=LONG),
    pytest.param("column", HALVES, COLUMN | FROM_RINGS, id="columns from a ring", marks=LONG),
    pytest.param("column", HALVES, COLUMN | FROM_RINGS | {"fill": "warp"}, id="from a warp's ring", marks=LONG),
    pytest.param(
        "column", HALVES, COLUMN | FROM_RINGS | VALUES | {"stages": 1, "reuse": "shared"},
        id="values beside columns in shared memory", marks=LONG,
    ),
    pytest.param(
        "column", column_softmax((100, 128), 0, "f32"), COLUMN | OVER_CLUSTER, id="columns over a cluster", marks=LONG
    ),
    pytest.param(
        "tile2d", permuted((132, 260), (1, 0)), BY_PATTERN["16x128b"] | {"tmem_pattern": "16x128b", "store": "tma"},
        id="tiles stored by tensor map", marks=LONG,
    ),
    pytest.param(
        "tile2d", permuted((160, 192), (1, 0)), BY_PATTERN["16x64b"] | {"tmem_pattern": "16x64b", "blocks_per_sm": 1},
        id="tile after tile", marks=LONG,
    ),
    pytest.param(
        "tile2d", added_across((64, 256), (1, 0), also="permute"), BY_PATTERN["16x64b"] | {"tmem_pattern": "16x64b"},
        id="tiles of two sources", marks=LONG,
    ),
    pytest.param(
        "tile2d", permuted((96, 131), (1, 0)),
        BY_PATTERN["16x128b"] | WHOLE | {"tmem_pattern": "16x128b"}, id="tiles in rounds", marks=LONG,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scheduler", "fusion", "point"), [*by_patterns(), *OTHERS])
def test_nothing_of_a_point_can_be_left_out(
    scheduler: str, fusion: Fusion, point: dict[str, Any], pool: CompilePool
) -> None:
    made = generated(scheduler, fusion, ARCH, SM_COUNT, **point)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())

    def is_faulty(text: str) -> bool:
        program, orders = parse(text), (Completion.EAGER, Completion.LAZY)
        return bool(run_set(made.trace.fusion, built, program, RANDOM, orders, races=True).fault)

    assert not is_faulty(built.ptx)
    assert not_needed(built.ptx, is_faulty) == []
    assert re.findall(r"tcgen05\.(alloc|relinquish_alloc_permit|dealloc)\.", built.ptx) == [
        "alloc",
        "relinquish_alloc_permit",
        "dealloc",
    ]
