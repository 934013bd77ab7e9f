"""Kernels of the search that use tensor memory: without any one wait, fence, barrier or deallocation they are wrong."""

from __future__ import annotations

import re
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
from tests.search.schedulers.fusions import add
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import rms_norm_of_sum, softmax

ARCH = "sm_100a"

SM_COUNT = 2
"""Of a card so small that persistent blocks of small tensors have several tiles."""

NEEDED = re.compile(r"tcgen05\.(wait|fence|dealloc)|bar\.sync")

LONG = pytest.mark.long

FLAT: dict[str, Any] = {"vector": 4, "threads_x": 64, "column_steps": 2, "tmem": "streams"}
FLAT |= {"tmem_store": 4, "tmem_load": 4}
ROW: dict[str, Any] = {"vector": 4, "threads": 128, "unroll": 4, "keep": "reload", "tmem": "streams"}
ROW |= {"tmem_store": 4, "tmem_load": 4}
TILES: dict[str, Any] = {"load": "direct", "vector_in": 4, "vector_out": 4, "threads": 128, "tmem": "transpose"}
TILES |= {"tmem_store": 4, "tmem_load": 4, "tile_in": 128, "tile_out": 64, "lanes_out": 16}
VALUES = {"tmem": "values", "keep_values": "all", "keep": "shared"}
BUFFERS = {"threads_x": 32, "blocks_per_sm": 1, "column_steps": 1, "tmem_buffers": 2}

CASES = [
    *(
        pytest.param("flat", add((2048,), "f32"), FLAT | {"tmem_pattern": pattern}, id=f"streams by {pattern}")
        for pattern in PATTERNS
    ),
    pytest.param("flat", add((2044,), "f32"), FLAT | BUFFERS, id="tiles loaded ahead"),
    pytest.param("row", softmax((2, 16384), (1,), "f32"), ROW, id="rows"),
    pytest.param("row", rms_norm_of_sum((2, 16384), "bf16"), ROW | VALUES, id="values", marks=LONG),
    pytest.param("tile2d", permuted((128, 256), (1, 0), "f32"), TILES | {"tmem_pattern": "16x128b"}, id="tiles"),
]


@pytest.mark.parametrize(("scheduler", "fusion", "point"), CASES)
def test_nothing_of_a_point_can_be_left_out(
    scheduler: str, fusion: Fusion, point: dict[str, Any], pool: CompilePool
) -> None:
    made = generated(scheduler, fusion, ARCH, SM_COUNT, **point)
    built = artifact(made, pool.submit(made.source, made.arch.name).result())

    def fault(lines: list[str]) -> str:
        program, orders = parse("\n".join(lines)), (Completion.EAGER, Completion.LAZY)
        return run_set(made.trace.fusion, built, program, RANDOM, orders, races=True).fault

    lines = built.ptx.splitlines()
    assert fault(lines) == ""
    needed = [i for i, line in enumerate(lines) if NEEDED.search(line)]
    assert {"tcgen05.dealloc", "tcgen05.wait"} <= {
        m.group() for i in needed if (m := re.search(r"tcgen05\.\w+", lines[i]))
    }
    for i in needed:
        assert fault([*lines[:i], *lines[i + 1 :]]), f"line {i} is not needed: {lines[i].strip()}"
