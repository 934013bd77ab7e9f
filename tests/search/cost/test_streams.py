"""What blocks that stay read in one piece, what loads drop first, and what each turn of a loop does not do again."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.ir.fusion import Fusion
from compiler.ir.ops import OpKind
from compiler.lower import kernel_ir as k
from search.cost.accesses import first_warp, sector_bytes, share_of_l1
from search.cost.instructions import mufu_ops_of
from search.cost.invariants import invariant_divisions
from search.cost.predicting import features_of
from search.cost.sites import sites_of
from search.cost.streams import LINE_COST, PAGE_COST, stream_cost, streams
from tests.search.schedulers.column_fusions import column_sum
from tests.search.schedulers.fusions import add
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import layer_norm, log_sum_exp, softmax

COLUMN: dict[str, Any] = {"rows": 8, "vector": 4, "threads_y": 8}
ROW: dict[str, Any] = {"keep": "reload", "vector": 8, "rows": 1}


def kernel_of(scheduler: str, fusion: Fusion, **point: Any) -> k.Kernel:
    (launch,) = generated(scheduler, fusion, **point).launches
    kernel = launch.kernel
    assert isinstance(kernel, k.Kernel)
    return kernel


@pytest.mark.parametrize(
    ("scheduler", "fusion", "point", "run", "beside", "cost"),
    [
        pytest.param("column", column_sum((4096, 2048), "bf16"), {**COLUMN, "threads_x": 8}, 64, True, 0.15, id="half"),
        pytest.param("column", column_sum((4096, 2048), "bf16"), {**COLUMN, "threads_x": 16}, 128, True, 0, id="line"),
        pytest.param(
            "row", log_sum_exp((512, 32768), "bf16"), {**ROW, "threads": 256, "unroll": 4}, 16384, False, 0, id="16 KiB"
        ),
        pytest.param(
            "row",
            log_sum_exp((512, 32768), "bf16"),
            {**ROW, "threads": 256, "unroll": 1},
            4096,
            False,
            2 * PAGE_COST,
            id="4 KiB",
        ),
    ],
)
def test_pieces_that_a_block_reads_in_a_turn(
    scheduler: str, fusion: Fusion, point: dict[str, Any], run: float, beside: bool, cost: float
) -> None:
    kernel = kernel_of(scheduler, fusion, **point)
    sites = list(sites_of(kernel.body, 1, 1))
    found = streams(sites, kernel, set())
    assert {(one.run, one.is_beside) for one in found} == {(run, beside)}
    assert stream_cost(sites, kernel, set()) == pytest.approx(cost)
    assert not streams(sites, kernel, {0})


def test_blocks_that_come_and_go_have_no_streams() -> None:
    kernel = kernel_of("flat", add((4096, 4096), "f32"), vector=1)
    assert stream_cost(list(sites_of(kernel.body, 1, 1)), kernel, set()) == 0
    assert LINE_COST[-1] == (128, 0.0)


@pytest.mark.parametrize(
    ("cache_load", "share"),
    [pytest.param("default", 0, id="kept"), pytest.param("streaming", 1 / 3, id="dropped first")],
)
def test_rows_that_stream_beside_weights_that_stay(cache_load: str, share: float) -> None:
    fusion = layer_norm((2048, 4096), (1,), "bf16", weights="bf16")
    (launch,) = generated("row", fusion, keep="registers", threads=128, vector=8, cache_load=cache_load).launches
    assert features_of(launch).read_streaming == pytest.approx(share)


@pytest.mark.parametrize(
    ("math", "operations"),
    [
        pytest.param("approx", 0, id="one reciprocal serves all turns"),
        pytest.param("exact", 1, id="an exact quotient is worked out for each"),
    ],
)
@pytest.mark.parametrize(
    ("scheduler", "fusion", "point"),
    [
        pytest.param(
            "row",
            softmax((512, 4096), (1,), "bf16"),
            {"keep": "registers", "threads": 128, "vector": 8},
            id="a row's sum, of all elements of a vector",
        ),
        pytest.param(
            "column",
            softmax((4, 512, 256), (1,), "bf16"),
            {"threads_x": 8, "threads_y": 32, "vector": 4, "rows": 4},
            id="a column's, of one element in all rows",
        ),
    ],
)
def test_quotients_by_what_the_turns_of_a_loop_share(
    scheduler: str, fusion: Fusion, point: dict[str, Any], math: str, operations: int
) -> None:
    kernel = kernel_of(scheduler, fusion, **point, math=math)
    invariant = invariant_divisions(kernel.body)
    computed = [s.statement for s in sites_of(kernel.body, 1, 1)]
    divisions = [s for s in computed if isinstance(s, k.Compute) and s.kind is OpKind.DIV]
    assert divisions
    assert {mufu_ops_of(s, invariant) for s in divisions} == {operations}


@pytest.mark.parametrize(
    "strides", [pytest.param([8192, 2], id="every second element"), pytest.param([4096, 1], id="every element")]
)
def test_elements_that_share_sectors_are_fetched_once(strides: list[int]) -> None:
    kernel = kernel_of("flat", add((4096, 4096), "f16", strides=strides), vector=8, threads_x=128)
    lanes = first_warp(kernel.block)
    loads = [(s.statement, s.per_tile) for s in sites_of(kernel.body, 1, 1) if isinstance(s.statement, k.GlobalLoad)]
    for tensor, apart in ((loads[0][0].tensor, strides[1]), (loads[-1][0].tensor, 1)):
        own = [(s, times) for s, times in loads if s.tensor == tensor]
        sent = share_of_l1([s for s, _ in own], lanes) * sum(times * sector_bytes(s, lanes) for s, times in own)
        assert sent == pytest.approx(2 * 8 * 32 * apart, rel=0.1)
