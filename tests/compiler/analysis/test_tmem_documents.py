"""The tensor-memory rows of the document cases: outcome, lanes, columns, and words of each access."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.analysis.tmem.tmem import plan_tensor_memory
from compiler.arch import arch_named
from compiler.legality.rules import Schedule, check_model
from compiler.verdict import judge_document
from tests.compiler.analysis.tmem_cases import (
    allocate,
    breaches_of,
    dimsep,
    document,
    fusion_of,
    judged,
    merge,
    on,
    plan_of,
    reorder,
    split,
    types,
    vectorize,
)

CASES = json.loads((Path(__file__).parents[2] / "data" / "document_cases.json").read_text())
ROWS = [c for c in CASES if any(t["memory"] == "tensor" for t in c["tensors"].values())]

REFUSED_BY = {
    "TMEM_LANES_EXCEEDED": "tmem_lanes_fit",
    "TMEM_COLUMNS_EXCEEDED": "tmem_columns_fit",
    "TMEM_NOT_WARP_COLLECTIVE": "tmem_access_is_warp_collective",
    "TMEM_LANE_STRIDE_NOT_ONE": "tmem_lane_stride_is_one",
    "TMEM_ACCESS_PATTERN_UNSUPPORTED": "tmem_access_has_a_hardware_pattern",
    "TMEM_WRONG_SUBPARTITION": "tmem_warps_stay_in_their_subpartition",
    "TMEM_VECTOR_NOT_4B_MULTIPLE": "tmem_access_moves_whole_words",
}


def test_every_row_is_here() -> None:
    assert len(ROWS) == 38
    assert {c["expect"]["code"] for c in ROWS} - {None} == set(REFUSED_BY)


@pytest.mark.parametrize("case", ROWS, ids=lambda c: str(c["name"]))
def test_row_has_its_outcome_and_numbers(case: dict[str, Any]) -> None:
    found, expected = judge_document(case), case["expect"]
    assert (found.legal, found.stage) == (expected["legal"], expected["stage"])
    report = found.tmem[0]
    assert {
        "lanes": report.lanes,
        "columns": report.columns,
        "allocated_columns": report.allocated_columns,
    } == expected["tmem"]
    if expected["legal"]:
        assert report.pattern == "32x32b"
    else:
        assert REFUSED_BY[expected["code"]] in {v.rule for v in found.violations}


@pytest.mark.parametrize(
    "case", [c for c in ROWS if "tmem_words_per_access" in c["expect"]], ids=lambda c: str(c["name"])
)
def test_row_moves_its_words(case: dict[str, Any]) -> None:
    store, load = plan_of(case).accesses
    assert {"store": store.words, "load": load.words} == case["expect"]["tmem_words_per_access"]


@pytest.mark.parametrize("case", [c for c in ROWS if not c["expect"]["legal"]], ids=lambda c: str(c["name"]))
def test_a_refusal_names_the_copies_that_it_is_about(case: dict[str, Any]) -> None:
    """Every message says what was found and what to do; access rules speak of both copies."""
    for v in judge_document(case).violations:
        if v.rule.startswith("tmem_"):
            assert v.message
            assert v.fix
    memory = plan_of(case)
    places = {v.where.partition(":")[0] for v in judged(memory)}
    assert places <= {t.tensor for t in memory.tensors} or places == {a.output for a in memory.accesses}


def test_store_and_load_of_a_transpose_take_different_columns() -> None:
    case = next(c for c in ROWS if c["name"] == "TMemTutorialR.Transpose")
    store, load = plan_of(case).accesses
    groups = [{"w0": 4 * n} | dict.fromkeys(("t0", "t1", "t2", "t3", "t4"), 0) for n in range(4)]
    assert store.column is not None
    assert load.column is not None
    assert [store.column.evaluate(g) for g in groups] == [0, 2, 1, 3]
    assert [load.column.evaluate(g) for g in groups] == [0, 1, 2, 3]


def strided(lane_strides: tuple[int, int]) -> dict[str, Any]:
    """The tutorial's strided allocation: [BIDx 3, 4, 16 | BIDy 5, 8], the four rows of 16 lanes on one warp each, the
    8 columns of a warp's lanes by pairs in 16x64b."""
    cut = [split(2, 8), split(5, 2), reorder({0: 0, 1: 1, 4: 2, 5: 3, 3: 4, 6: 5, 2: 6}), merge(4), merge(4)]
    chain = ("tv1", "tv2", "tv3", "tv4")
    return document(
        (3, 4, 16, 5, 8),
        [
            *on("tv2", allocate("loop", [None, *lane_strides, None, 1]), dimsep(3)),
            *on(chain, *cut, *types("BIDx", "TIDy", "BIDy", None, "TIDx")),
            *on(("tv2", "tv3"), reorder({3: 4, 4: 3}), vectorize(4)),
        ],
    )


def test_strided_lanes_of_the_tutorial() -> None:
    memory = plan_of(strided((32, 1)))
    assert breaches_of(memory) == set()
    (tensor,) = memory.tensors
    assert (tensor.lanes, tensor.lane_span) == (4 * 16, 3 * 32 + 16)
    assert (tensor.columns, tensor.allocated_columns) == (8, 32)
    assert [(a.pattern, a.words) for a in memory.accesses] == [("16x64b", 4)] * 2
    sf = fusion_of(strided((32, 1)))
    schedule = Schedule(sf, arch_named("sm_100a"))
    assert check_model(schedule)[0] == ()
    assert plan_tensor_memory(sf, schedule.graph) == schedule.tensor_memory


def test_lanes_packed_densely_leave_the_subpartitions() -> None:
    memory = plan_of(strided((16, 1)))
    assert breaches_of(memory) == {"tmem_warps_stay_in_their_subpartition"}
    assert memory.tensors[0].lanes == 64
