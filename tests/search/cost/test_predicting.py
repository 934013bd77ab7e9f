"""What is counted in a kernel for the cost model, by hand for small ones and by order for real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.arch import card_named
from compiler.dtypes import DType
from compiler.ir.expr import Expr, Var, const, var
from compiler.lower.kernel_ir import SharedLoad
from compiler.lower.operands import Reg, Shared
from compiler.pipeline import Generated, generate
from search.cli.load import load_one
from search.cost.accesses import first_warp, runs_of, wavefronts_of
from search.cost.predicting import features_of, predictor
from search.cost.roofline import floor_us
from search.cost.runs import READ_RUN_COST, run_cost
from search.tuning.candidates.plan import Plan
from tests.search.schedulers.permute_fusions import permuted
from tests.search.schedulers.points import generated

H200 = card_named("H200")
FUSIONS = Path(__file__).parents[3] / "benchmarks" / "suite" / "fusions"
TX = var(Var("tx", 32))
WARP = first_warp((32, 1, 1))


@pytest.mark.parametrize(
    ("byte_offset", "width", "wavefronts"),
    [
        pytest.param(TX * 4, 1, 1, id="one-word-a-lane"),
        pytest.param(TX * 16, 4, 4, id="sixteen-bytes-a-lane-in-four-phases"),
        pytest.param(TX * 128, 1, 32, id="a-column-of-128-byte-rows"),
        pytest.param(TX * 132, 1, 1, id="a-padded-column"),
        pytest.param(TX * 8, 1, 2, id="every-second-word"),
        pytest.param(const(0), 1, 1, id="one-word-for-all"),
    ],
)
def test_wavefronts_of_a_shared_load(byte_offset: Expr, width: int, wavefronts: int) -> None:
    load = SharedLoad(Reg("r", DType.F32, const(0)), Shared("s", DType.F32, byte_offset), width)
    assert wavefronts_of(load, WARP) == wavefronts


@pytest.mark.parametrize(
    ("starts", "size", "distinct", "run"),
    [
        pytest.param(range(0, 128, 4), 4, 128, 128, id="one-run"),
        pytest.param(range(0, 32 * 64, 64), 16, 512, 16, id="strided"),
        pytest.param([0] * 32, 4, 4, 4, id="broadcast"),
        pytest.param([*range(0, 64, 4), *range(256, 320, 4)], 4, 128, 64, id="two-rows"),
    ],
)
def test_runs_of_a_warp_access(starts: list[int], size: int, distinct: int, run: float) -> None:
    assert runs_of(np.array(list(starts)), size) == (distinct, run)


def kernel(plan: Plan, **changes: object) -> Generated:
    """A plain kernel of the flat scheduler with some knobs changed."""
    plain = {
        **{knob.name: knob.values[0] for knob in plan.spaces["flat"].knobs},
        "vector": 8,
        "threads_x": 256,
        "column_steps": 4,
    }
    return generate(plan.schedulers["flat"].trace(plan.fusion, {**plain, **changes}), plan.arch)


def test_features_and_order_of_real_kernels() -> None:
    plan = Plan.of(load_one(FUSIONS / "silu_mul_bf16_8192x14336.json", None, {}).bound(), H200)
    wide, narrow = kernel(plan), kernel(plan, vector=1)
    elems = 8192 * 14336
    features = features_of(wide)
    assert (features.dram_read_bytes, features.dram_write_bytes) == (4 * elems, 2 * elems)
    assert features.l2_read_bytes == 4 * elems
    assert (features.read_run_cost, features.write_run_cost) == (1, 1)
    assert features.blocks == elems // (8 * 256 * 4)
    assert features_of(narrow).read_run_cost == run_cost(READ_RUN_COST, 64)
    predict = predictor(H200)
    fast, slow = predict(wide.only).total_us, predict(narrow.only).total_us
    assert 0.9 * floor_us(plan.fusion, H200) < fast < slow


def test_staged_loads_count_once_and_are_in_flight_by_stages() -> None:
    plan = Plan.of(load_one(FUSIONS / "silu_mul_bf16_8192x14336.json", None, {}).bound(), H200)
    staged = {"load": "bulk", "blocks_per_sm": 1}
    one, three = (features_of(kernel(plan, **staged, stages=stages)) for stages in (1, 3))
    assert one.l2_read_bytes == pytest.approx(4 * 8192 * 14336, rel=0.02)
    assert one.l2_read_bytes == three.l2_read_bytes
    assert three.bytes_in_flight_per_sm > one.bytes_in_flight_per_sm


@pytest.mark.parametrize(
    ("load", "stages", "filled"),
    [
        pytest.param("cp_async", 2, 1, id="all-but-the-one-in-use"),
        pytest.param("cp_async", 3, 2, id="two-of-three"),
        pytest.param("tma", 3, 3, id="by-the-copy-engine"),
    ],
)
def test_a_ring_has_on_its_way_what_is_filled_ahead(load: str, stages: int, filled: int) -> None:
    """A tile is 64 x 64 elements of 4 bytes."""
    point: dict[str, Any] = {
        "tile_in": 64,
        "tile_out": 64,
        "threads": 256,
        "layout": "pad",
        "blocks_per_sm": 1,
        "load": load,
    }
    if load == "tma":
        point["layout"] = "128B"
    (launch,) = generated("tile2d", permuted((4096, 8192), (1, 0), "f32"), **point, stages=stages).launches
    features = features_of(launch)
    assert features.bytes_in_flight_per_sm / features.blocks_per_sm == pytest.approx(filled * 64 * 64 * 4, rel=0.1)
