"""Kernels of the column scheduler in the emulator: right for every kind of fold, and wrong without a barrier."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.lower.kernel_ir import TmaLoad
from compiler.lower.sync_ir import WaitBarrier
from compiler.lower.traversal import walk
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact, generate
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.inputs import RANDOM, input_sets
from search.space.schedulers.column import Column
from tests.search.proof.emulated.kernels import without
from tests.search.schedulers.column_fusions import COLUMNS, column_sum
from tests.search.schedulers.points import SM_COUNT, generated
from tests.shares import shared

HOPPER = arch_named("sm_90a")

MOST_BLOCKS = 2
"""Of a cluster: more of them exchange more messages, which take the emulator longer and show no more."""


def fault_of(fusion: Fusion, made: Generated, source: str, pool: CompilePool) -> str:
    """What is wrong with the outputs, on all input sets, in any order of completion; empty if nothing is."""
    built = artifact(made, pool.submit(source, made.arch.name).result())
    module = parse(built.ptx)
    for name in input_sets(fusion):
        verdict = run_set(fusion, built, module, name, ORDERS if name == RANDOM else ORDERS[:1])
        if verdict.fault:
            return verdict.fault
    return ""


@pytest.mark.parametrize("name", shared(COLUMNS, 4))
def test_drawn_points_are_right(name: str, pool: CompilePool) -> None:
    fusion, scheduler = COLUMNS[name], Column(SM_COUNT)
    drawn = scheduler.space(fusion, HOPPER).sample(40, seed=7)
    point = next(p for p in drawn if int(p["cluster"]) <= MOST_BLOCKS)
    made = generate(scheduler.trace(fusion, point), HOPPER)
    assert fault_of(fusion, made, made.source, pool) == "", point


SPLIT: dict[str, Any] = {"vector": 2, "threads_x": 16, "threads_y": 8, "rows": 2}
STAYING: dict[str, Any] = {"load": "tma", "reuse": "shared"}


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        pytest.param("column_sum", {**SPLIT, "cluster": 2}, id="sum-in-a-cluster"),
        pytest.param("softmax_of_columns", {**SPLIT, "reuse": "values", "rows": 4, "cluster": 2}, id="softmax-kept"),
        pytest.param("softmax_of_columns", {**SPLIT, "reuse": "read_again"}, id="softmax-read-again"),
        pytest.param("softmax_of_columns", {**SPLIT, **STAYING}, id="softmax-in-shared-memory"),
        pytest.param("softmax_of_columns", {**SPLIT, **STAYING, "cluster": 2}, id="softmax-in-those-of-a-cluster"),
        pytest.param("channels_last_norm", {**SPLIT, **STAYING, "fold": "apart"}, id="norm-in-shared-memory"),
        pytest.param("softmax_of_columns", {**SPLIT, "fold": "online"}, id="softmax-online"),
        pytest.param("softmax_of_columns", {**SPLIT, "fold": "online", "cluster": 2}, id="softmax-online-in-a-cluster"),
        pytest.param("weight_gradients", {**SPLIT, "threads_x": 8, "threads_y": 16}, id="two-sums-and-a-full-output"),
        pytest.param("middle_narrow", {"columns": "all", "threads_x": 30, "threads_y": 4}, id="columns-of-all-batches"),
    ],
)
def test_chosen_points_are_right(name: str, knobs: dict[str, Any], pool: CompilePool) -> None:
    made = generated("column", COLUMNS[name], **knobs)
    assert fault_of(COLUMNS[name], made, made.source, pool) == ""


def test_rows_that_stay_are_read_once_and_waited_for(pool: CompilePool) -> None:
    """All boxes of a block are asked for on one barrier; without the wait for it, what is folded is not there yet."""
    fusion = COLUMNS["softmax_of_columns"]
    made = generated("column", fusion, **SPLIT, **STAYING)
    loads = [s for s in walk(made.kernel.body) if isinstance(s, TmaLoad)]
    waits = [s for s in walk(made.kernel.body) if isinstance(s, WaitBarrier)]
    assert (len(loads), len(waits)) == (1, 1), "one copy of each box, in an unrolled loop"
    assert fault_of(fusion, made, without("ft_mbarrier_wait(smem")(made.source), pool) != ""


BARRIER = "__syncthreads();"


@pytest.mark.parametrize(
    ("knobs", "barriers"),
    [
        pytest.param({"vector": 2, "threads_x": 16, "threads_y": 8}, 1, id="partials-folded-by-their-readers"),
        pytest.param({"vector": 4, "threads_x": 16, "threads_y": 32}, 2, id="partials-folded-by-all-threads"),
    ],
)
def test_a_fold_without_one_of_its_barriers_is_found_wrong(
    knobs: dict[str, Any], barriers: int, pool: CompilePool
) -> None:
    fusion = column_sum((96, 64), "bf16")
    made = generated("column", fusion, **knobs)
    assert made.source.count(BARRIER) == barriers
    assert fault_of(fusion, made, made.source, pool) == ""
    for number in range(barriers):
        assert fault_of(fusion, made, without(BARRIER, number)(made.source), pool) != "", number
