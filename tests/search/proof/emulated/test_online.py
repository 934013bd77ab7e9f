"""Sums folded along with their maximum, in the emulator: right on rows of every kind, and wrong without what they need.

Beside the ordinary input sets there are rows whose maximum rises from element to element, or falls, so that each chunk
is scaled; rows of nothing but -inf, with one number among them, with +inf, with NaN, and far below zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.dtypes import DType
from compiler.emulate.ptx.parser import parse
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import Generated, artifact
from search.proof.emulated import running
from search.proof.emulated.running import ORDERS, run_set
from search.proof.verify.arrays import Array, Arrays
from search.proof.verify.inputs import RANDOM, make_inputs
from tests.compiler.schedule.online_fusions import Made, along, exponentials
from tests.compiler.schedules import from_wire
from tests.search.proof.emulated.kernels import body, without
from tests.search.schedulers.points import generated
from tests.search.schedulers.row_fusions import log_sum_exp, masked_softmax, softmax
from tests.shares import shared

RISING, SPECIAL = "rising", "special"
LOWEST = {DType.F16: -65000.0, DType.F64: -1e308}


def rows_of(fusion: Fusion, name: str, arrays: Arrays) -> list[Array]:
    """The inputs of an ordinary set, or rows that try the scaling of sums."""
    made = make_inputs(fusion, RANDOM if name in (RISING, SPECIAL) else name, arrays)
    x = fusion.value(fusion.inputs[0])
    if name in (RISING, SPECIAL):
        columns = x.shape[-1]
        count = -(-x.storage_elems // columns)
        rows = np.random.default_rng(7).normal(size=(count, columns))
        for number, row in enumerate(rows):
            (_rising if name == RISING else _special)(row, number, x.dtype)
        made[0] = arrays.store(rows.reshape(-1)[: len(made[0])].copy(), x.dtype)
    return made


def _rising(row: Array, number: int, dtype: DType) -> None:
    row += np.linspace(-60, 20, len(row)) * (-1 if number % 2 else 1)


def _special(row: Array, number: int, dtype: DType) -> None:
    place = 5 * number % len(row)
    match number % 8:
        case 0:
            row[:] = -np.inf
        case 1:
            row[:] = -np.inf
            row[place] = -700.0
        case 2:
            row[place] = np.inf
        case 3:
            row[place] = np.nan
        case 4:
            row[:] = LOWEST.get(dtype, -3.3e38)
        case 5:
            row[::2] = -np.inf
        case 6:
            row -= 1000.0
        case _:
            row[: len(row) // 2] = -np.inf


@pytest.fixture
def special_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "make_inputs", rows_of)


def fault_of(fusion: Fusion, made: Generated, pool: CompilePool, sets: Sequence[str], source: str = "") -> str:
    """What is wrong with the outputs; empty if nothing is."""
    built = artifact(made, pool.submit(source or made.source, made.arch.name).result())
    module = parse(built.ptx)
    for name in sets:
        if fault := run_set(fusion, built, module, name, ORDERS[-1:], races=name == RANDOM).fault:
            return fault
    return ""


WEIGHTED: list[Made] = [
    ("sub", ("x", "mb"), "d"),
    ("mul", ("d", 0.125), "c"),
    ("exp", ("c",), "f"),
    ("mul", ("f", "y"), "e"),
]
TWO_SUMS = exponentials(WEIGHTED, (5, 404), "f32", outputs=("s", "t"))
COMPUTED = exponentials(
    [("mul", ("x", 3.0), "z"), ("sub", ("z", "mb"), "d"), ("exp", ("d",), "e")], (9, 333), of="z", outputs=("m", "s")
)
LONG_ROWS = softmax((9, 8192), (1,), "f32")
BY_ANOTHER_SUM = from_wire(
    [{"name": "x", "shape": [5, 512], "dtype": "f32"}],
    [
        {"op": "abs", "in": ["x"], "out": "a"},
        {"op": "sum", "in": ["a"], "out": "t", "dims": [1], "keepdim": True},
        {"op": "rsqrt", "in": ["t"], "out": "r"},
        along("r", "g", (5, 512)),
        {"op": "amax", "in": ["x"], "out": "m", "dims": [1], "keepdim": True},
        along("m", "mb", (5, 512)),
        {"op": "sub", "in": ["x", "mb"], "out": "d"},
        {"op": "exp", "in": ["d"], "out": "f"},
        {"op": "mul", "in": ["f", "g"], "out": "e"},
        {"op": "sum", "in": ["e"], "out": "s", "dims": [1], "keepdim": True},
    ],
    "s",
)
"""The sum waits for another one, and the maximum for the sum."""
MANY_ROWS = softmax((32, 256), (1,), "bf16")
LONG_ROWS_16 = softmax((5, 8192), (1,), "bf16")
"""Of steps enough that each block of a cluster folds its part in a loop."""

POINTS: dict[str, tuple[Fusion, dict[str, Any]]] = {
    "read-once": (log_sum_exp((9, 1280), "bf16"), {"keep": "reload", "vector": 8, "threads": 32, "unroll": 2}),
    "read-twice-not-three-times": (LONG_ROWS, {"keep": "reload", "vector": 4, "threads": 128, "unroll": 4}),
    "odd-rows": (log_sum_exp((9, 1111), "f16"), {"keep": "reload", "vector": 1, "threads": 64, "unroll": 4}),
    "several-rows-of-a-thread-each": (log_sum_exp((70, 3), "f32"), {"vector": 1, "threads": 1, "rows": 64}),
    "in-registers-of-many-warps": (log_sum_exp((9, 1280), "bf16"), {"vector": 8, "threads": 160, "math": "approx"}),
    "in-registers-in-f64": (log_sum_exp((9, 160), "f64"), {"vector": 2, "threads": 16, "rows": 4}),
    "of-two-warps": (softmax((9, 512), (1,), "bf16"), {"vector": 8, "threads": 64}),
    "over-a-cluster": (softmax((9, 8192), (1,), "bf16"), {"vector": 8, "threads": 256, "cluster": 4}),
    "two-sums-of-weights": (TWO_SUMS, {"vector": 4, "threads": 16, "rows": 4, "math": "approx"}),
    "weighted-by-another-sum": (BY_ANOTHER_SUM, {"vector": 4, "threads": 128}),
    "of-what-is-computed": (COMPUTED, {"keep": "reload", "vector": 1, "threads": 128}),
    "masked": (masked_softmax(2, 40), {"vector": 4, "threads": 8, "rows": 8}),
}


@pytest.mark.parametrize("name", shared(POINTS, 2))
def test_chosen_points_are_right(name: str, pool: CompilePool, special_rows: None) -> None:
    fusion, knobs = POINTS[name]
    made = generated("row", fusion, fold="online", **knobs)
    assert fault_of(fusion, made, pool, (RANDOM, "inf_nan", RISING, SPECIAL)) == ""


STAYING: dict[str, Any] = {"keep": "shared", "vector": 8, "unroll": 1, "blocks_per_sm": 1, "stages": 2}


@pytest.mark.parametrize(
    ("fusion", "knobs"),
    [
        pytest.param(MANY_ROWS, {"threads": 32}, id="a-row-to-a-block"),
        pytest.param(LONG_ROWS_16, {"threads": 128, "cluster": 2}, id="a-row-over-a-cluster"),
        pytest.param(LONG_ROWS_16, {"threads": 128, "cluster": 4, "fill": "warp"}, id="loaded-by-a-warp-of-its-own"),
        pytest.param(LONG_ROWS_16, {"threads": 128, "cluster": 2, "load": "cp_async"}, id="copied-by-threads"),
    ],
)
def test_blocks_that_stay_fold_row_after_row(
    fusion: Fusion, knobs: dict[str, Any], pool: CompilePool, special_rows: None
) -> None:
    made = generated("row", fusion, sm_count=4, fold="online", **STAYING, **knobs)
    assert fault_of(fusion, made, pool, (RANDOM, SPECIAL)) == ""


@settings(max_examples=6, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(2, 600)),
    dtype=st.sampled_from(["f16", "bf16", "f32", "f64"]),
    knobs=st.fixed_dictionaries(
        {
            "keep": st.sampled_from(["registers", "reload"]),
            "threads": st.sampled_from([8, 32, 128]),
            "unroll": st.sampled_from([1, 4]),
        }
    ),
)
def test_rows_of_any_length_are_right(
    pool: CompilePool, shape: tuple[int, int], dtype: str, knobs: dict[str, Any]
) -> None:
    fusion = log_sum_exp(shape, dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "make_inputs", rows_of)
        assert fault_of(fusion, generated("row", fusion, fold="online", **knobs), pool, (RANDOM, RISING, SPECIAL)) == ""


LONG = log_sum_exp((8, 2048), "f32")
IN_A_LOOP: dict[str, Any] = {"keep": "reload", "vector": 4, "threads": 128, "unroll": 1}


SCALED = "v4_sum[0u] = ft_mul(v4_sum[0u], v4_sum_scale"
"""In the loop, and once more in the warp."""

FINITE = re.compile(r"ft_maximum\((\w+\[0u\]), -3\.\d+e\+38f\)")


@pytest.mark.parametrize(
    ("spoil", "sets"),
    [
        pytest.param(without("__syncthreads();"), (RANDOM,), id="no-barrier-before-partials-are-read"),
        pytest.param(without(SCALED), (RISING,), id="not-scaled-in-the-loop"),
        pytest.param(without(SCALED, 1), (RISING,), id="not-scaled-in-a-warp"),
        pytest.param(without("v4_sum[0u] = ft_mul(v4_sum[0u], v4_sum_share"), (RISING,), id="not-scaled-in-a-block"),
        pytest.param(without("v4_sum_check[0u])"), (SPECIAL,), id="rows-of-minus-infinity-not-settled"),
        pytest.param(body(lambda s: FINITE.sub(r"\1", s, count=1)), (SPECIAL,), id="not-kept-finite"),
    ],
)
def test_each_step_is_needed(
    spoil: Callable[[str], str], sets: tuple[str, ...], pool: CompilePool, special_rows: None
) -> None:
    made = generated("row", LONG, fold="online", **IN_A_LOOP)
    assert fault_of(LONG, made, pool, sets, spoil(made.source)) != ""
