"""What swizzles and padding are for, counted: a transpose through them meets no bank twice, one without does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.launch import Completion, Options
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import input_tensor, launch_of, output_tensor
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from search.proof.emulated.running import ARRAYS
from search.proof.small.binding import small_binding
from search.proof.verify.inputs import make_inputs
from tests.search.schedulers.fusions import permute, suite_fusions
from tests.search.schedulers.points import point_of, scheduler_named

TRANSPOSE = "transpose_f32_8192x8192"
LINE_BYTES = 128
"""Tensors start on a line, as what a caller allocates does."""


def conflicts(pool: CompilePool, **knobs: Any) -> int:
    """Bank conflicts of all loads and stores of a transpose."""
    return conflicts_in(counted(pool, suite_fusions()[TRANSPOSE], **knobs))


def conflicts_in(counters: Any) -> int:
    shared = counters["shared"]
    assert shared["load"]["requests"] > 0
    return int(shared["load"]["bank_conflicts"] + shared["store"]["bank_conflicts"])


def counted(pool: CompilePool, whole: Fusion, **knobs: Any) -> Any:
    """The emulator's counters of a transpose at a small binding."""
    scheduler = scheduler_named("tile2d", whole)
    trace = scheduler.trace(whole, point_of(scheduler, whole, **knobs))
    made = small_binding(generate(trace, arch_named("sm_90a"))).generated
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    fusion = made.trace.fusion
    storages = make_inputs(fusion, "random", ARRAYS)
    inputs = [input_tensor(fusion.value(n), ARRAYS.bytes_of(s)) for n, s in zip(fusion.inputs, storages, strict=True)]
    tensors = [*inputs, *(output_tensor(fusion.value(n)) for n in fusion.outputs)]
    launch = launch_of(compiled, [replace(t, align=LINE_BYTES) for t in tensors])
    outcome = emulate(parse(compiled.ptx), launch, Options(Completion.EAGER))
    assert outcome.faults == ()
    return outcome.counters


def of_matrices(pool: CompilePool, dtype: str, **knobs: Any) -> int:
    """Bank conflicts of a transpose whose warps move matrices."""
    fusion, pairs = permute((208, 272), (1, 0), dtype), {"bf16": 1, "i8": 2}[dtype]
    return conflicts_in(counted(pool, fusion, move="matrix", vector_in=pairs, lanes_out=4, threads=128, **knobs))


STAGED = {"load": "vector", "load_vector": 4, "tile_in": 64, "tile_out": 128, "vector_in": 1, "vector_out": 4}
ELEMENTS = {"load": "vector", "tile_in": 64, "tile_out": 128, "vector_in": 1, "vector_out": 1, "lanes_out": 32}
COPIED = STAGED | {"load": "cp_async"}
SWIZZLED = {"load": "tma", "tile_in": 64, "tile_out": 128, "vector_in": 4, "vector_out": 1}


@pytest.mark.parametrize(
    ("knobs", "layout", "has_conflicts"),
    [
        (STAGED, "block", False),
        (STAGED, "none", True),
        (COPIED, "block", False),
        (COPIED, "none", True),
        (SWIZZLED, "32B", False),
        (SWIZZLED, "none", True),
    ],
)
def test_conflicts_of_a_transpose(knobs: dict[str, Any], layout: str, has_conflicts: bool, pool: CompilePool) -> None:
    found = conflicts(pool, **{"lanes_out": 8, **knobs}, store="vector", layout=layout, stages=1, blocks_per_sm=0)
    assert (found > 0) == has_conflicts


THREADS = {"load_vector": 8, "tile_in": 64, "tile_out": 64}
ENGINE = {"load": "tma", "tile_in": 64, "tile_out": 64, "layout": "128B"}


@pytest.mark.parametrize(
    ("dtype", "knobs", "has_conflicts"),
    [
        ("bf16", {**THREADS, "vector_out": 8, "layout": "matrices"}, False),
        ("bf16", {**THREADS, "vector_out": 8, "layout": "matrices", "store": "tma", "store_layout": "64B"}, False),
        ("bf16", {**THREADS, "vector_out": 2, "layout": "128B", "store": "tma", "store_layout": "128B"}, False),
        ("bf16", {**ENGINE, "vector_out": 2, "store": "tma", "store_layout": "64B"}, False),
        ("bf16", {**ENGINE, "vector_out": 8}, True),
        ("i8", {**THREADS, "tile_in": 128, "vector_out": 16, "layout": "matrices"}, False),
        ("i8", {**ENGINE, "tile_in": 128, "vector_out": 16}, True),
    ],
)
def test_conflicts_of_matrices(dtype: str, knobs: dict[str, Any], has_conflicts: bool, pool: CompilePool) -> None:
    """Rows 8 apart have one phase in the copy engine's swizzle; neighbours, and rows laid out by threads, differ."""
    assert (of_matrices(pool, dtype, **knobs) > 0) == has_conflicts


AT_PHASES: dict[str, Any] = {
    "load": "cp_async",
    "layout": "phases",
    "tile_in": 128,
    "lanes_out": 32,
    "threads": 256,
    "shift_load": True,
    "shift_store": True,
    "halo": True,
}


@pytest.mark.parametrize(
    ("dtype", "knobs"),
    [
        pytest.param("i8", {"tile_out": 128, "vector_out": 4, "load_vector": 16}, id="bytes"),
        pytest.param("bf16", {"tile_out": 64, "vector_out": 2, "load_vector": 8}, id="halves"),
        pytest.param("f32", {"tile_out": 64, "vector_out": 1, "load_vector": 4}, id="words"),
    ],
)
def test_no_conflicts_of_rows_as_they_lie_in_memory(dtype: str, knobs: dict[str, Any], pool: CompilePool) -> None:
    """Rows of an odd pitch begin at every bank of a vector in turn; groups of them begin a vector further each."""
    counters = counted(pool, permute((131, 259), (1, 0), dtype), **AT_PHASES, **knobs)
    assert conflicts_in(counters) == 0
    loads = counters["global"]["i0"]["load"]
    assert loads["sectors"] <= 1.2 * loads["bytes"] / 32  # rows of 128 bytes that begin at any 16


ODD = permute((195, 387), (1, 0), "f32")


@pytest.mark.parametrize("side", ["load", "store"])
def test_a_shifted_run_is_accessed_by_whole_sectors(side: str, pool: CompilePool) -> None:
    """A warp that begins anywhere touches five sectors for four; shifted to its own length, four, but at the ends."""
    tensor, knob = {"load": "i0", "store": "v0"}[side], {f"shift_{side}": True}
    found = [counted(pool, ODD, **ELEMENTS, **knobs, layout="pad") for knobs in ({}, knob)]
    assert [conflicts_in(c) for c in found] == [0, 0]
    plain, shifted = (c["global"][tensor][side] for c in found)
    assert plain["bytes"] == shifted["bytes"]
    assert shifted["sectors"] < 0.93 * plain["sectors"]
