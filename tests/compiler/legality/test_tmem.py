"""The rules of the lowering on tensor memory: for each the nearest schedule that it lets pass, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.explicit.generate import lowered_form
from compiler.legality import tmem
from compiler.legality.rules import RULES
from compiler.schedule.apply import apply
from compiler.schedule.explicit import read_case, read_step
from tests.compiler.analysis.tmem_cases import ALL, allocate, dimsep, document, on, split, types, vectorize

OF_TENSOR_MEMORY = [r for r in RULES if r.__module__ == tmem.__name__]


def broken(data: dict[str, Any]) -> list[tuple[str, object, object]]:
    case = read_case(data)
    sf = case.start
    for i, raw in enumerate(case.steps):
        sf = apply(sf, read_step(raw, sf, case.scalars, f"schedule[{i}]"))
    schedule = lowered_form(sf, arch_named("sm_100a"))
    return [(v.rule, v.found, v.limit) for rule in OF_TENSOR_MEMORY for v in rule(schedule)]


def columns_of(extent: int, factor: int, *, split_first: bool) -> dict[str, Any]:
    """A row of `extent` columns a thread, in words of `factor`; `split_first`: before the memory order is set."""
    cut = on(ALL, split(1, factor))
    placed = on("tv2", allocate(), dimsep(1))
    steps = [*on(ALL, *types("TIDx")), *(cut + placed if split_first else placed + cut)]
    return document((128, extent), [*steps, *on(("tv2", "tv3"), vectorize(2))])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        pytest.param(columns_of(12, 4, split_first=False), [], id="divides"),
        pytest.param(columns_of(9, 4, split_first=True), [], id="places-past-the-end-are-allocated"),
        pytest.param(columns_of(9, 4, split_first=False), [11, 11], id="past-the-end"),
    ],
)
def test_no_place_lies_in_the_columns_of_another_tensor(data: dict[str, Any], found: list[int]) -> None:
    assert broken(data) == [("tmem_access_stays_in_its_columns", last, 8) for last in found]


def in_clusters(columns: int, blocks: int, groups: int = 8) -> dict[str, Any]:
    """Blocks of so many groups of four warps in clusters, so many columns each."""
    types_ = types("BIDx", "Cluster" if blocks > 1 else None, "TIDx", "TIDy")
    return document((2, blocks, 128, groups, columns // groups), [*on(ALL, *types_), *on("tv2", dimsep(3))])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        pytest.param(in_clusters(512, 1), [], id="blocks-by-themselves"),
        pytest.param(in_clusters(256, 2), [], id="two-blocks-of-256-columns"),
        pytest.param(in_clusters(512, 2), [2 * 512], id="two-blocks-of-512"),
        pytest.param(in_clusters(32, 2, groups=1), [], id="sixteen-blocks-of-32"),
        pytest.param(in_clusters(64, 2, groups=1), [16 * 64], id="sixteen-blocks-of-64"),
    ],
)
def test_blocks_of_clusters_do_not_wait_for_columns(data: dict[str, Any], found: list[int]) -> None:
    rule = "blocks_that_wait_for_each_other_all_have_their_columns"
    assert broken(data) == [(rule, taken, 512) for taken in found]
