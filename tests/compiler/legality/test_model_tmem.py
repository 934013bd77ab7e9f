"""The rules of tensor memory: for each the nearest legal copy and the nearest one that it alone refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.errors import Kept, Violation
from compiler.legality import tmem
from compiler.legality.rules import MODEL, Schedule
from compiler.verdict import judge_document
from tests.compiler.analysis.tmem_cases import (
    ALL,
    Step,
    allocate,
    dimsep,
    document,
    fusion_of,
    merge,
    on,
    reorder,
    split,
    types,
    vectorize,
)

RULES = {r.__name__: r for r in MODEL if r.__module__ == tmem.__name__}


def found_by_rules(data: dict[str, Any]) -> list[Violation | Kept]:
    schedule = Schedule(fusion_of(data), arch_named("sm_100a"))
    return [v for rule in RULES.values() for v in rule(schedule)]


def broken(data: dict[str, Any]) -> set[str]:
    return {v.rule for v in found_by_rules(data) if isinstance(v, Violation)}


def copy(
    shape: Sequence[int],
    *steps: Step,
    at: int = 1,
    tmem: Sequence[Step] = (),
    dtype: str = "float32",
    **more: Any,
) -> dict[str, Any]:
    """A copy with the same steps on every tensor; those of `tmem` on the tensor-memory tensor alone."""
    return document(shape, [*on(ALL, *steps), *on("tv2", *tmem, dimsep(at))], dtype, **more)


def vector(columns: Sequence[int], *steps: Step, dtype: str = "float32") -> dict[str, Any]:
    """One warp by columns that become one vector after the steps."""
    vectorized = on(("tv2", "tv3"), vectorize(len(columns) - sum(s["do"] == "merge" for s in steps)))
    data = copy((32, *columns), *types("TIDx"), tmem=[allocate()], dtype=dtype)
    return {**data, "schedule": [*data["schedule"], *on(ALL, *steps), *vectorized]}


def of_two_types(stored: str) -> dict[str, Any]:
    data = copy((32, 4), *types("TIDx"))
    for name in ("tv0", "tv1"):
        data["tensors"][name]["dtype"] = stored
    return data


def unreached(shape: Sequence[int], *steps: Step) -> dict[str, Any]:
    """A tensor that no store or load reaches: lanes that are none would lie outside every warp's own."""
    data = document(shape, on("tv2", *steps))
    return {**data, "ops": [{"op": "set", "in": ["tv0"], "out": "tv2"}, {"op": "set", "in": ["tv2"], "out": "tv4"}]}


def staged(*first: Step) -> dict[str, Any]:
    """A copy of 2 by 33 behind a shared tensor with a thread a place; the others take 32 lanes at a time."""
    data = document((2, 33), [])
    shared = {**data["tensors"]["tv1"], "memory": "shared"}
    ops = [{"op": "set", "in": ["tv0"], "out": "ts"}, {**data["ops"][0], "in": ["ts"]}, *data["ops"][1:]]
    schedule = [*on("ts", *types("TIDy", "TIDx")), *on(ALL, split(1, 32), *first), *on("tv2", allocate(), dimsep(-1))]
    return {
        **data,
        "tensors": data["tensors"] | {"ts": shared},
        "ops": ops,
        "schedule": [*schedule, {"do": "inline_most"}],
    }


ROWS = {
    "tmem_copies_keep_the_element_type": (of_two_types("float32"), of_two_types("int32")),
    "tmem_tensors_have_a_separator": (
        copy((32, 1), *types("TIDx"), at=2),
        unreached((8, 2)),
    ),
    "tmem_lanes_fit": (
        copy((4, 32, 2), *types("TIDy", "TIDx"), at=2),
        unreached((129, 2), dimsep(1)),
    ),
    "tmem_columns_fit": (copy((32, 512), *types("TIDx")), copy((32, 513), *types("TIDx"))),
    "tmem_regions_are_disjoint": (
        copy((32, 4), *types("TIDx"), managed={"tmem_regions": [["tv2"]]}),
        copy((32, 4), *types("TIDx"), managed={"tmem_regions": [["tv2"], ["tv2"]]}),
    ),
    "tmem_elements_have_places_of_their_own": (
        copy((32, 4, 2), *types("TIDx"), tmem=[allocate("loop", [1, 2, 1])]),
        copy((32, 4, 2), *types("TIDx"), tmem=[allocate("loop", [1, 1, 1])]),
    ),
    "tmem_access_is_warp_collective": (copy((32, 4), *types("TIDx")), copy((16, 4), *types("TIDx"))),
    "tmem_outer_threads_start_at_a_warp": (
        staged(split(0, 1), *types(None, "TIDy", None, "TIDx")),
        staged(*types("TIDy", None, "TIDx")),
    ),
    "tmem_access_moves_whole_words": (vector((2,), dtype="float16"), vector((2,), dtype="int8")),
    "tmem_access_width_is_a_power_of_two": (vector((4,)), vector((3,))),
    "tmem_words_hold_neighbours": (
        vector((2, 2), merge(1), dtype="float16"),
        vector((2, 2), reorder({1: 2, 2: 1}), merge(1), dtype="float16"),
    ),
    "tmem_vector_is_in_memory_order": (
        vector((2, 2), merge(1)),
        vector((2, 2), reorder({1: 2, 2: 1}), merge(1)),
    ),
    "tmem_access_has_a_hardware_pattern": (
        copy((32, 32), *types("TIDx")),
        copy((32, 32), *types(None, "TIDx")),
    ),
    "tmem_lane_stride_is_one": (
        copy((2, 32, 2), *types("TIDy", "TIDx"), at=2),
        copy((32, 2, 2), *types("TIDx"), at=2),
    ),
    "tmem_warps_stay_in_their_subpartition": (
        copy((2, 32, 2), *types("TIDy", "TIDx"), at=2),
        copy((2, 32, 2), *types(None, "TIDx"), at=2),
    ),
}


def two_regions(columns: int) -> dict[str, Any]:
    """A tensor of so many columns, and a second one of a column that is copied from the first."""
    data = copy((32, columns), *types("TIDx"))
    chain = {"tw2": "tensor", "tw3": "local"}
    tensors = data["tensors"] | {n: {**data["tensors"]["tv2"], "memory": m} for n, m in chain.items()}
    ops = [
        *data["ops"][:3],
        {"op": "set", "in": ["tv3"], "out": "tw2", "via": "st_tmem"},
        {"op": "set", "in": ["tw2"], "out": "tw3", "via": "ld_tmem"},
        {"op": "set", "in": ["tw3"], "out": "tv4"},
    ]
    schedule = [*data["schedule"], *on(("tw2", "tw3"), *types("TIDx")), *on("tw2", dimsep(1))]
    return {**data, "tensors": tensors, "ops": ops, "schedule": schedule}


ROWS["tmem_regions_fit_together"] = (two_regions(256), two_regions(257))


def unknown(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "tensors": {n: {**t, "symbolic": [True, False]} for n, t in data["tensors"].items()}}


@pytest.mark.parametrize(("rule", "legal", "illegal"), [pytest.param(k, *v, id=k) for k, v in ROWS.items()])
def test_rule_refuses_alone(rule: str, legal: dict[str, Any], illegal: dict[str, Any]) -> None:
    assert broken(legal) == set()
    assert broken(illegal) == {rule}


@pytest.mark.parametrize(("rule", "legal", "illegal"), [pytest.param(k, *v, id=k) for k, v in ROWS.items()])
def test_verdicts_agree(rule: str, legal: dict[str, Any], illegal: dict[str, Any]) -> None:
    assert judge_document(legal).legal is True
    found = judge_document(illegal)
    assert (found.legal, found.stage) == (False, "compile")
    assert rule in {v.rule for v in found.violations}


def test_sizes_that_an_access_rests_on_are_kept() -> None:
    """The guard is what the rule alone gives; with the size known there is none."""
    known = copy((64, 4), *types("TIDx"))
    kept = [v for v in found_by_rules(unknown(known)) if v.rule == "tmem_access_keeps_its_sizes"]
    assert [v.expr for v in kept if isinstance(v, Kept)] == ["size[0][0] == 64"] * 2
    assert found_by_rules(known) == []


def test_every_rule_has_a_row() -> None:
    assert set(RULES) == {*ROWS, "tmem_access_keeps_its_sizes"}


def test_tensor_memory_needs_an_architecture_that_has_it() -> None:
    legal = copy((32, 4), *types("TIDx"))
    assert judge_document(legal).arch == "sm_100a"
    assert judge_document(legal, "sm_100a").legal is True
    assert judge_document(legal, "sm_90a").legal is False


@pytest.mark.parametrize(
    ("memory", "via"),
    [
        pytest.param("shared", "st_tmem", id="from-shared"),
        pytest.param("global", "st_tmem", id="from-global"),
        pytest.param("local", "plain", id="unmarked"),
        pytest.param("local", "ld_tmem", id="the-wrong-way"),
    ],
)
def test_only_marked_copies_with_registers_reach_tensor_memory(memory: str, via: str) -> None:
    data = copy((32, 4), *types("TIDx"))
    data["tensors"]["tv1"]["memory"] = memory
    data["ops"][1] = {**data["ops"][1], "via": via}
    assert judge_document(data).legal is False
