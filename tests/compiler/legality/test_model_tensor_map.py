"""Rules on tensor-map copies: each with a schedule that it alone refuses, and the nearest legal one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from compiler.arch import TENSOR_MAP_BOX, arch_named
from compiler.errors import Stage
from compiler.ir.domain import ScheduledFusion
from compiler.ir.iter_domain import ParallelType
from compiler.ir.tensor import Allocation
from compiler.legality import bulk_copy
from compiler.legality.rules import Schedule, check_model
from compiler.legality.tensor_map import encoding, inference
from compiler.schedule.apply import apply
from compiler.schedule.steps import Parallelize, Resize, Split
from tests.compiler.analysis.explicit_copies import (
    Document,
    Step,
    bulk,
    document,
    merge,
    par,
    scheduled,
    split,
    swizzle,
)
from tests.compiler.legality.model_rules import kept_by, refused_by, rules_of

RULES = {rule for rule in rules_of(inference, encoding, bulk_copy) if not rule.startswith("bulk1d_")}
COMPILE, RUNTIME = Stage.COMPILE, Stage.RUNTIME


def _swizzled(*steps: Step) -> Step:
    return {"do": "set_allocation_domain", "axes": "loop", "contiguity": True, "transforms": list(steps)}


@dataclass(frozen=True)
class Row:
    """`legal` differs in one number."""

    rule: str
    stage: Stage
    illegal: Document
    legal: Document
    name: str = ""


def row(
    rule: str,
    stage: Stage,
    illegal: tuple[tuple[int, ...], list[Step]],
    legal: tuple[tuple[int, ...], list[Step]] | None = None,
    more: dict[str, Any] | None = None,
    legal_more: dict[str, Any] | None = None,
    name: str = "",
) -> Row:
    given = more or {}
    other = given if legal_more is None else legal_more
    return Row(rule, stage, document(*illegal, **given), document(*(legal or illegal), **other), name)


TILE = [split(1, 16), split(0, 8), *bulk(1, 3)]
UNEVEN_NEST = [split(0, 4), split(1, 3), *bulk(2, 3)]
ROWS = [
    Row(
        "bulk_axes_are_of_bulk_copies",
        COMPILE,
        document((32,), bulk(0), others=[("out", s) for s in bulk(0)]),
        document((32,), bulk(0)),
    ),
    row("bulk_axes_are_iterated", COMPILE, ((1, 32), bulk(0, 1)), ((1, 32), bulk(1))),
    row(
        "bulk_copies_are_issued_by_loops_and_threads",
        COMPILE,
        ((40, 64), [*TILE, *par("Vectorize", 2)]),
        ((40, 64), [*TILE, *par("Unswitch", 2)]),
    ),
    row("tma_box_is_inferred", COMPILE, ((1,), []), ((4,), bulk(0))),
    row(
        "tma_domain_is_a_view",
        COMPILE,
        ((256,), [split(0, 16), split(0, 16), swizzle(1, 2), *bulk(2)]),
        ((256,), [split(0, 16), split(0, 16), *bulk(2)]),
    ),
    row("tma_view_splits_divide", COMPILE, ((10, 8), UNEVEN_NEST), ((12, 8), UNEVEN_NEST), name="constant"),
    row(
        "tma_view_splits_divide",
        RUNTIME,
        ((10, 8), UNEVEN_NEST),
        ((12, 8), UNEVEN_NEST),
        {"symbolic": True},
        name="symbolic",
    ),
    row(
        "tma_merges_contiguous_axes",
        COMPILE,
        ((16, 64), [merge(0), split(0, 16), *bulk(1)]),
        more={"contiguity": [False, True]},
        legal_more={"contiguity": [True, True]},
    ),
    row(
        "tma_inner_dimension_is_contiguous",
        COMPILE,
        ((128,), [split(0, 16), *bulk(1)]),
        more={"contiguity": [False]},
        legal_more={"contiguity": [True]},
    ),
    row(
        "tma_inner_dimension_is_dense",
        COMPILE,
        ((128,), [split(0, 32), split(1, 2), *bulk(1)]),
        ((128,), [split(0, 32), split(1, 2), *bulk(1, 2)]),
    ),
    row(
        "tensor_map_has_1_to_5_dimensions",
        RUNTIME,
        ((4, 4, 4, 4, 4, 8), [s for a in (4, 3, 2, 1, 0) for s in [split(a, 2)]] + bulk(1, 3, 5, 7, 9, 10)),
        ((4, 4, 4, 4, 8), [s for a in (3, 2, 1, 0) for s in [split(a, 2)]] + bulk(1, 3, 5, 7, 8)),
    ),
    row(
        "tensor_map_address_is_aligned",
        RUNTIME,
        ((40, 64), TILE),
        more={"byte_offset": 8},
        legal_more={"byte_offset": 16},
    ),
    row(
        "tensor_map_sizes_are_1_to_2_to_32",
        RUNTIME,
        (((1 << 32) + 32,), [split(0, 32), *bulk(1)]),
        ((1 << 32,), [split(0, 32), *bulk(1)]),
    ),
    row(
        "tensor_map_strides_are_multiples_of_16_bytes",
        RUNTIME,
        ((40, 64), TILE),
        more={"contiguity": [False, True], "strides": [66, 1]},
        legal_more={"contiguity": [False, True], "strides": [68, 1]},
    ),
    row(
        "tensor_map_strides_are_below_2_to_40_bytes",
        RUNTIME,
        ((40, 64), TILE),
        more={"contiguity": [False, True], "strides": [1 << 38, 1]},
        legal_more={"contiguity": [False, True], "strides": [(1 << 38) - 4, 1]},
    ),
    row(
        "tensor_map_dimensions_do_not_overlap",
        RUNTIME,
        ((40, 64), TILE),
        more={"contiguity": [False, True], "strides": [60, 1]},
        legal_more={"contiguity": [False, True], "strides": [64, 1]},
    ),
    row(
        "tensor_map_boxes_are_1_to_256",
        RUNTIME,
        ((4 * TENSOR_MAP_BOX,), [split(0, TENSOR_MAP_BOX + 4), *bulk(1)]),
        ((4 * TENSOR_MAP_BOX,), [split(0, TENSOR_MAP_BOX), *bulk(1)]),
    ),
    row(
        "tensor_map_inner_box_is_a_multiple_of_16_bytes",
        RUNTIME,
        ((64, 64), [split(1, 2), split(0, 8), *bulk(1, 3)]),
        ((64, 64), [split(1, 4), split(0, 8), *bulk(1, 3)]),
    ),
    row(
        "tensor_map_element_strides_are_1_to_8",
        RUNTIME,
        ((72, 64), [split(1, 16), split(0, 36), split(1, 9), *bulk(1, 4)]),
        ((64, 64), [split(1, 16), split(0, 32), split(1, 8), *bulk(1, 4)]),
    ),
    row(
        "tensor_map_inner_box_fills_the_swizzle",
        RUNTIME,
        # Rows of 64 bytes, swizzled as if they were 32.
        ((8, 16), [_swizzled(split(1, 4), split(1, 2), split(0, 4), swizzle(0, 3)), *bulk(0, 1)]),
        ((8, 8), [_swizzled(split(1, 4), split(0, 4), swizzle(0, 2)), *bulk(0, 1)]),
    ),
    row(
        "tensor_map_has_the_element_type",
        RUNTIME,
        ((40, 64), TILE),
        more={"dtype": "complex64"},
        legal_more={"dtype": "float8_e4m3"},
    ),
    row(
        "tma_strided_tile_fills_its_box",
        COMPILE,
        ((16, 64), [split(1, 16), split(0, 4), split(1, 3, False), *bulk(1, 4)]),
        ((16, 64), [split(1, 16), split(0, 4), split(1, 2, False), *bulk(1, 4)]),
    ),
    row(
        "tma_moves_multiples_of_16_bytes",
        COMPILE,
        ((64,), [split(0, 6), *bulk(1)]),
        ((64,), [split(0, 8), *bulk(1)]),
    ),
    row(
        "tma_stores_write_no_holes",
        COMPILE,
        ((16, 64), [split(1, 16), split(0, 4), split(1, 3), *bulk(1, 4)]),
        ((16, 64), [split(1, 16), split(0, 6), split(1, 3), *bulk(1, 4)]),
        {"store": True},
    ),
    row(
        "tma_store_rows_are_multiples_of_16_bytes",
        RUNTIME,
        ((102,), [split(0, 32), *bulk(1)]),
        ((104,), [split(0, 32), *bulk(1)]),
        {"store": True},
    ),
]
SILENT_TWIN = {"tma_moves_multiples_of_16_bytes": {"tensor_map_inner_box_is_a_multiple_of_16_bytes"}}
"""A tile that is no multiple of 16 bytes has an innermost box that is none; only the stage of the first is earlier."""


@pytest.mark.parametrize("one", ROWS, ids=lambda r: f"{r.rule}{r.name and '-'}{r.name}")
def test_one_rule_refuses(one: Row) -> None:
    found = refused_by(one.illegal, RULES)
    assert set(found) - SILENT_TWIN.get(one.rule, set()) == {one.rule}
    assert found[one.rule] is one.stage


@pytest.mark.parametrize("one", ROWS, ids=lambda r: f"{r.rule}{r.name and '-'}{r.name}")
def test_the_nearest_legal_schedule_passes(one: Row) -> None:
    assert refused_by(one.legal, RULES) == {}


def _sum(box: int, factor: int) -> Document:
    """Rows loaded with an element stride, then summed through cuts of that kind."""
    cut = [split(1, 16), split(0, 4), split(1, 3)]
    data = document((16, 64), [*cut, *bulk(1, 4)])
    data["ops"][1] = {"op": "sum", "in": ["a"], "out": "out", "axes": [0]}
    data["tensors"]["out"]["reduction_axes"] = [0]
    data["schedule"] += [{"tv": "out", **s} for s in (split(0, box), split(1, factor))]
    return data


def test_a_sum_through_the_holes_of_a_weak_tile_is_refused() -> None:
    assert refused_by(_sum(4, 3), RULES) == {"weak_tiles_are_not_summed": COMPILE}
    assert refused_by(_sum(4, 2), RULES) == {}, "another cut reads elements alone"


def test_an_elected_lane_needs_a_warp_where_the_width_is_unknown() -> None:
    def wide(n: int, symbolic: bool) -> Document:
        steps = [("out", s) for s in par("TIDx", 1)]
        return document((8, n), bulk(1), symbolic=symbolic, others=steps)

    rule = "elected_issue_has_a_whole_warp"
    assert refused_by(wide(16, True), RULES) == {rule: RUNTIME}
    assert refused_by(wide(32, True), RULES) == {}
    assert kept_by(wide(32, True), rule) == ["size[0][1] >= 32"]
    assert refused_by(wide(16, False), RULES) == {}, "the first thread issues in a block known to be narrow"


def _rules_on(sf: ScheduledFusion) -> set[str]:
    violations, _ = check_model(Schedule(sf, arch_named("sm_90a")))
    return {v.rule for v in violations} & RULES


def _padded(left: int, *, store: bool) -> set[str]:
    target = "out" if store else "a"
    sf = apply(scheduled(document((60,), [], store=store)), Resize(target, 0, left, 4))
    sf = apply(sf, Split(target, 0, 16, True))
    return _rules_on(apply(sf, Parallelize(target, 1, ParallelType.BULK)))


def test_boxes_may_start_in_padding_of_loads_and_not_of_stores() -> None:
    assert _padded(4, store=False) == set()
    assert _padded(4, store=True) == {"tma_stores_start_inside"}
    assert _padded(0, store=True) == set()


def test_the_innermost_box_starts_on_16_bytes() -> None:
    assert _padded(3, store=False) == {"tma_inner_coordinates_are_multiples_of_16_bytes"}


def test_the_loops_of_the_copy_are_the_axes_of_the_global_tensor() -> None:
    sf = scheduled(document((8, 8), bulk(1)))
    t = sf.tensor("in")
    odd = tuple(replace(a, name=f"odd.{i}") for i, a in enumerate(t.logical))
    sf = sf.with_tensor(replace(t, allocation=Allocation(odd, (None, None), (), (True, True), is_source=True)))
    assert _rules_on(sf) == {"tma_domain_is_equivalent_to_the_allocation"}


def test_every_rule_has_a_schedule_that_it_alone_refuses() -> None:
    elsewhere = {
        "weak_tiles_are_not_summed",
        "elected_issue_has_a_whole_warp",
        "tma_stores_start_inside",
        "tma_inner_coordinates_are_multiples_of_16_bytes",
        "tma_domain_is_equivalent_to_the_allocation",
    }
    assert {one.rule for one in ROWS} | elsewhere == RULES


def test_unknown_sizes_are_kept_as_guards() -> None:
    data = document((40, 64), TILE, symbolic=True)
    assert kept_by(data, "tensor_map_strides_are_multiples_of_16_bytes") == ["4 * size[0][1] % (16) == 0"]
    assert kept_by(data, "tensor_map_address_is_aligned") == ["ptr[0] % 16 == 0"]
    assert kept_by(data, "tensor_map_boxes_are_1_to_256") == []
    padded = document((40, 64), TILE, contiguity=[False, True], strides=[68, 1])
    assert kept_by(padded, "tensor_map_strides_are_multiples_of_16_bytes") == ["4 * stride[0][0] % (16) == 0"]


def test_a_guard_that_this_binding_fails_is_a_breach_at_launch() -> None:
    data = document((40, 62), TILE, symbolic=True)
    assert refused_by(data, RULES) == {"tensor_map_strides_are_multiples_of_16_bytes": RUNTIME}
