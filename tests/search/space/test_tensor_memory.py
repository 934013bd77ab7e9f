"""The knob group of tensor memory: its constraints are what the compiler asks, by its names, and its points lower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from compiler.analysis.tmem.allocation import columns_allocated
from compiler.arch import card_or_default
from compiler.errors import IllegalSchedule
from compiler.ir.size import Size
from compiler.pipeline import Generated, generate
from search.space.groups import is_kept_there
from search.space.groups.tensor_memory import allocated_columns
from search.space.schedulers import schedulers_for
from tests.search.schedulers.column_fusions import softmax
from tests.search.schedulers.fusions import suite_fusions

B200, H200 = card_or_default("B200"), card_or_default("H200")
SUITE = suite_fusions()
CASES = {
    "flat": ("bias_gelu_bf16_8192x12288", "bcast_add4d_f32_discontig"),
    "row": ("softmax_bf16_4096x131072", "rmsnorm_residual_bf16_8192x8192"),
    "column": ("softmax of columns",),
}
FUSIONS = {**SUITE, "softmax of columns": softmax((96, 96), 0, "bf16")}


def points(scheduler: str, name: str, count: int) -> Sequence[Mapping[str, Any]]:
    """Random points with tensor memory."""
    (found,) = (s for s in schedulers_for(FUSIONS[name], B200) if s.name == scheduler)
    every = found.space(FUSIONS[name], B200.arch).sample(20 * count, seed=5)
    return [point for point in every if is_kept_there(point)][:count]


def made_at(scheduler: str, name: str, point: Mapping[str, Any]) -> Generated:
    """The kernel of a point, legal or not."""
    (found,) = (s for s in schedulers_for(FUSIONS[name], B200) if s.name == scheduler)
    return generate(found.trace(FUSIONS[name], point), B200.arch)


@pytest.mark.parametrize("needed", [1, 31, 32, 33, 64, 65, 256, 257, 511, 512])
def test_columns_are_rounded_as_the_compiler_does(needed: int) -> None:
    assert int(allocated_columns(np.array(needed))) == columns_allocated(Size(needed)).value


@pytest.mark.parametrize(("scheduler", "name"), [(s, name) for s, names in CASES.items() for name in names])
def test_points_with_tensor_memory_lower(scheduler: str, name: str) -> None:
    """The compiler refuses none of them for what it asks of tensor memory."""
    refused: Counter[str] = Counter()
    found = points(scheduler, name, 5)
    for point in found:
        try:
            kernel = made_at(scheduler, name, point).kernel
        except IllegalSchedule as error:
            refused.update(v.rule for v in error.violations)
        else:
            assert kernel.tmem_columns >= 32
    assert len(found) == 5
    assert not [rule for rule in refused if "tmem" in rule]
    assert sum(refused.values()) < 2


@pytest.mark.parametrize(
    ("knobs", "rule"),
    [
        ({"threads": 16}, "tmem_access_is_warp_collective"),
        ({"unroll": 8, "threads": 128, "rows": 8}, "tmem_columns_fit"),
    ],
)
def test_what_the_group_refuses_the_compiler_refuses_too(knobs: dict[str, Any], rule: str) -> None:
    """The nearest illegal points, by the names under which both refuse them."""
    name = "softmax_bf16_4096x131072"
    legal = points("row", name, 1)[0]
    point = {**legal, "cluster": 1, **knobs, "resident": 0, "tmem_store": 1, "tmem_load": 1}
    (found,) = (s for s in schedulers_for(FUSIONS[name], B200) if s.name == "row")
    assert rule in {v.rule for v in found.space(FUSIONS[name], B200.arch).violations(point)}
    with pytest.raises(IllegalSchedule) as refused:
        made_at("row", name, point)
    assert rule in {v.rule for v in refused.value.violations}


def test_cards_without_tensor_memory_have_no_such_knobs() -> None:
    for name in ("softmax_bf16_4096x131072", "bias_gelu_bf16_8192x12288"):
        for scheduler in schedulers_for(FUSIONS[name], H200):
            assert not [k for k in scheduler.space(FUSIONS[name], H200.arch).knobs if "tmem" in k.name]
