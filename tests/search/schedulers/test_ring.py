"""Rings: knobs that mean something, registers that fit the file, kernels of every scheduler that compute with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.arch import SETMAXNREG_LEAST, WARPGROUP_THREADS, arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import BufferKind
from compiler.lower.sync_ir import Arrive, SetRegisters, Sync
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, generate
from compiler.schedule import steps
from compiler.schedule.trace import ScheduleTrace
from search.proof.emulated.running import ORDERS, run_set
from search.space.constraints import Constraint
from search.space.groups.ring import Rings, compute_registers, ring_constraints, ring_knobs
from search.space.knobs import Knob
from search.space.space import Space
from tests.search.schedulers.column_fusions import COLUMNS
from tests.search.schedulers.fusions import permute, silu_of_sum
from tests.search.schedulers.points import point_of, scheduler_named
from tests.search.schedulers.row_fusions import layer_norm, rms_norm_of_sum, softmax
from tests.shares import shared

HOPPER = arch_named("sm_90a")


# Knobs ---------------------------------------------------------------------------------------------------------------


def space_of(most: int = 3) -> Space:
    """A scheduler whose blocks are persistent or not, and have threads in two dimensions."""
    rings = Rings(HOPPER, ("blocks",), lambda blocks: blocks > 0, ("x", "y"), "blocks")
    knobs = (Knob("blocks", (0, 1, 2)), Knob("x", (32, 128, 192, 256, 512, 1024)), Knob("y", (1, 2, 4)))
    fits = Constraint("fits", ("x", "y"), lambda x, y: x * y <= 1024, "A block has at most 1024 threads.")
    return Space("rings", (*knobs, *ring_knobs(most)), (*ring_constraints(rings), fits))


LEGAL: Mapping[str, Any] = {"blocks": 1, "x": 128, "y": 2, "stages": 3, "prefetch": -1, "fill": "elected"}


@pytest.mark.parametrize(
    ("legal", "change", "rule"),
    [
        ({}, {"blocks": 0}, "redundant_stages"),
        ({"fill": "warp"}, {"stages": 1}, "redundant_fill"),
        ({"prefetch": -2}, {"stages": 2}, "redundant_prefetch"),
        ({"prefetch": -2}, {"fill": "warp"}, "redundant_prefetch"),
        ({"fill": "warp"}, {"x": 192}, "warp_specialized_block_is_whole_warp_groups"),
        ({"fill": "warp"}, {"x": 256}, "warp_specialized_block_is_whole_warp_groups"),
        ({"fill": "warp", "y": 1, "x": 512}, {"x": 1024}, "block_fits_the_architecture"),
        ({"fill": "warp_registers", "y": 1, "x": 512}, {"x": 1024}, "block_fits_the_architecture"),
    ],
)
def test_the_nearest_illegal_ring_breaks_one_rule(legal: dict[str, Any], change: dict[str, Any], rule: str) -> None:
    space = space_of()
    point = {**LEGAL, **legal}
    assert space.is_legal(point)
    assert rule in {v.rule for v in space.violations({**point, **change})}


def test_knobs_that_a_fusion_has_no_ring_for_have_one_value() -> None:
    assert [len(k.values) for k in ring_knobs(1)] == [1, 1, 1]
    assert [len(k.values) for k in ring_knobs(2)] == [2, 1, 3]
    assert [len(k.values) for k in ring_knobs(3, persistent=False)] == [3, 2, 2]


@given(st.integers(1, 4), st.integers(1, 7).map(lambda groups: WARPGROUP_THREADS * groups))
def test_registers_that_parts_share_fit_the_file(blocks: int, threads: int) -> None:
    """As ptxas counts them at the start, when all threads have as many (PTX ISA, setmaxnreg)."""
    computing = int(compute_registers(blocks, threads))
    every = threads + WARPGROUP_THREADS
    mean = -(-(computing * threads + SETMAXNREG_LEAST * WARPGROUP_THREADS) // every // 8) * 8
    assert computing % 8 == 0
    assert computing <= 248
    assert blocks * every * mean <= HOPPER.registers_per_sm


# Kernels -------------------------------------------------------------------------------------------------------------

ROW = {"keep": "shared", "vector": 8, "blocks_per_sm": 1}
FLAT = {"view": "2d", "vector": 8, "threads_x": 32, "threads_y": 4, "rows": 2, "blocks_per_sm": 1}
TILE = {"load": "tma", "tile_in": 32, "tile_out": 64, "vector_in": 1, "vector_out": 4, "lanes_out": 16, "threads": 128}
KERNELS: dict[str, tuple[str, Fusion, dict[str, Any]]] = {
    "rows side by side, registers shared": (
        "row",
        layer_norm((28, 512), (1,), "bf16"),
        {**ROW, "threads": 32, "rows": 4, "unroll": 2, "stages": 2, "fill": "warp_registers"},
    ),
    "two inputs in one ring": (
        "row",
        rms_norm_of_sum((9, 2048), "bf16"),
        {**ROW, "threads": 128, "unroll": 1, "stages": 3, "fill": "warp"},
    ),
    "a row over a cluster": (
        "row",
        softmax((7, 8192), (1,), "bf16"),
        {**ROW, "threads": 256, "cluster": 2, "unroll": 2, "stages": 2, "fill": "warp"},
    ),
    "a stage to spare": (
        "row",
        softmax((12, 512), (1,), "bf16"),
        {**ROW, "threads": 64, "unroll": 1, "stages": 3, "prefetch": -2},
    ),
    "tiles stored by tensor map": (
        "flat",
        silu_of_sum((100, 512), (1,), "bf16"),
        {**FLAT, "load": "tma", "store": "tma", "stages": 2, "fill": "warp"},
    ),
    "runs, registers shared": (
        "flat",
        silu_of_sum((96, 512), (1,), "bf16"),
        {**FLAT, "load": "bulk", "stages": 3, "fill": "warp_registers"},
    ),
    "a transposed tile": (
        "tile2d",
        permute((200, 96), (1, 0), "f32"),
        {**TILE, "layout": "128B", "blocks_per_sm": 1, "stages": 2, "fill": "warp"},
    ),
    "columns of a cluster": (
        "column",
        COLUMNS["column_sum"],
        {"load": "tma", "vector": 4, "threads_x": 16, "threads_y": 8, "rows": 2, "cluster": 2, "stages": 2}
        | {"fill": "warp"},
    ),
    "a ring for each pass over the columns": (
        "column",
        COLUMNS["softmax_of_columns"],
        {"load": "tma", "vector": 4, "threads_x": 16, "threads_y": 8, "rows": 1, "stages": 2, "fill": "warp"},
    ),
}


@pytest.mark.parametrize("name", shared(KERNELS, 2))
def test_kernels_with_rings_compute_their_fusion(name: str, pool: CompilePool) -> None:
    """In every order in which copies may complete, with an eye on races; threads that load stay out of barriers."""
    scheduler_name, fusion, knobs = KERNELS[name]
    scheduler = scheduler_named(scheduler_name, fusion, sm_count=2)
    trace = scheduler.trace(fusion, point_of(scheduler, fusion, **knobs))
    assert isinstance(trace, ScheduleTrace)
    made = generate(trace, HOPPER)
    (first, *_) = [s for s in trace.steps if isinstance(s, steps.CircularBuffer)]
    is_apart = first.kind is BufferKind.WARP_SPECIALIZED
    assert is_apart == knobs.get("fill", "elected").startswith("warp")
    body = list(walk(made.kernel.body))
    assert any(isinstance(s, Arrive) for s in body)
    if is_apart:
        assert sum(isinstance(s, Sync) for s in body) == 1  # the one after the set-up, which all threads come to

        assert any(isinstance(s, SetRegisters) for s in body) == (knobs["fill"] == "warp_registers")
        assert first.on is (
            ParallelType.TIDY if knobs.get("rows", 1) > 1 or "threads_y" in knobs else ParallelType.TIDX
        )
    built = artifact(made, pool.submit(made.source, "sm_90a").result())
    assert run_set(fusion, built, parse(built.ptx), "random", ORDERS).fault == ""
