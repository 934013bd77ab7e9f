"""What is counted as read of a kernel that goes over its input more than once."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.ir.fusion import Fusion
from compiler.pipeline import generate
from fusetune import FusionBuilder
from search.cost.predicting import features_of
from search.tuning.candidates.plan import Plan
from tests.bound import dense

CARD = card_or_default("H200")
SHAPE = (8, 2048, 1024)
BYTES = 8 * 2048 * 1024 * 2


def softmax_over_the_middle() -> Fusion:
    f = FusionBuilder()
    x = f.input("x", SHAPE, "bf16").cast("f32")
    e = f.exp(x - x.amax((1,), True).broadcast_to(SHAPE, (0, 1, 2)))
    f.output((e / e.sum((1,), True).broadcast_to(SHAPE, (0, 1, 2))).cast("bf16"))
    return dense(f)


@pytest.mark.parametrize(
    ("knobs", "passes"),
    [
        pytest.param({"reuse": "read_again", "stages": 2, "fold": "apart"}, 3, id="a-ring-for-each-pass"),
        pytest.param({"reuse": "read_again", "stages": 3, "fold": "online"}, 2, id="both-folds-in-one"),
        pytest.param({"reuse": "shared", "stages": 1, "fold": "apart"}, 1, id="kept"),
    ],
)
def test_each_pass_over_a_tensor_is_read_and_its_prologue_is_not(knobs: dict[str, Any], passes: int) -> None:
    fusion = softmax_over_the_middle()
    plan = Plan.of(fusion, CARD)
    wanted = {"load": "tma", **knobs}
    point = next(
        p for p in plan.spaces["column"].sample(20_000, 0) if all(p[name] == value for name, value in wanted.items())
    )
    features = features_of(generate(plan.schedulers["column"].trace(fusion, point), CARD.arch))
    assert features.l2_read_bytes == pytest.approx(passes * BYTES, rel=0.05)
    assert features.dram_read_bytes == BYTES


def rows_of_a_table(vocabulary: int, count: int, width: int) -> Fusion:
    f = FusionBuilder()
    f.output(f.take(f.input("t", (vocabulary, width), "f32"), f.input("i", (count,), "i64")) * 2.0)
    return dense(f)


@pytest.mark.parametrize(
    ("vocabulary", "count", "rows"),
    [
        pytest.param(128_000, 4096, 4096, id="few-of-many"),
        pytest.param(4096, 4096, 4096, id="as-many"),
        pytest.param(512, 4096, 512, id="each-again-and-again"),
    ],
)
def test_what_is_read_of_a_table_are_the_rows_that_are_taken(vocabulary: int, count: int, rows: int) -> None:
    fusion = rows_of_a_table(vocabulary, count, 1024)
    plan = Plan.of(fusion, CARD)
    point = next(p for p in plan.spaces["flat"].sample(2000, 0) if p["vector"] == 4 and p["view"] == "2d")
    features = features_of(generate(plan.schedulers["flat"].trace(fusion, point), CARD.arch))
    assert features.dram_read_bytes == rows * 1024 * 4 + count * 8
    assert features.l2_read_bytes == pytest.approx(count * 1024 * 4, rel=0.1)
