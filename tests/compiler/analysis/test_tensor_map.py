"""Tensor maps inferred from schedules: a table by strategy, the nearest refusals beside them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tma.tensor_map import coordinates
from compiler.arch import TENSOR_MAP_BOX
from compiler.errors import Kept, Stage, Violation
from compiler.ir.expr import Var, var
from compiler.ir.tensor import Allocation
from compiler.legality.tensor_map import inference
from compiler.schedule import steps as st
from compiler.schedule.axes import AxisList, transform
from tests.compiler.analysis.explicit_copies import (
    Inferred,
    Step,
    bulk,
    document,
    inferred,
    merge,
    par,
    reorder,
    scheduled,
    split,
    swizzle,
)


@dataclass(frozen=True)
class Case:
    """`dims`: size, stride, box and element stride, innermost first."""

    name: str
    shape: tuple[int, ...]
    steps: list[Step]
    dims: list[tuple[int, int, int, int]]
    more: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("partitioning_1d", (100,), [split(0, 32), *bulk(1)], [(100, 1, 32, 1)]),
    Case("outer_split_gives_the_box", (96,), [split(0, 3, False), *bulk(1)], [(96, 1, 32, 1)]),
    Case(
        "partitioning_2d",
        (40, 64),
        [split(1, 16), split(0, 8), *bulk(1, 3)],
        [(64, 1, 16, 1), (40, 64, 8, 1)],
    ),
    Case(
        "partitioning_5d",
        (4, 6, 8, 10, 32),
        [split(4, 8), split(3, 5), split(2, 3), split(1, 4), split(0, 2), *bulk(1, 3, 5, 7, 9)],
        [(32, 1, 8, 1), (10, 32, 5, 1), (8, 320, 3, 1), (6, 2560, 4, 1), (4, 15360, 2, 1)],
    ),
    Case(
        "one_dimension_of_three_axes",
        (4, 6, 8),
        [merge(0), merge(0), split(0, 32), *bulk(1)],
        [(192, 1, 32, 1)],
    ),
    Case("box_is_the_inner_axis_as_it_stands", (10, 16), [*bulk(1)], [(160, 1, 16, 1)]),
    Case("compositing_of_two_and_two", (3, 5, 4, 8), [*bulk(2, 3)], [(480, 1, 32, 1)]),
    Case("implicit_whole", (4, 16), [*bulk(0, 1)], [(64, 1, 64, 1)]),
    Case("implicit_whole_of_a_merge", (4, 16), [merge(0), *bulk(0)], [(64, 1, 64, 1)]),
    Case(
        "implicit_whole_does_not_grow_past_the_longest_box",
        (TENSOR_MAP_BOX // 8, 16),
        [*bulk(0, 1)],
        [(16, 1, 16, 1), (TENSOR_MAP_BOX // 8, 16, TENSOR_MAP_BOX // 8, 1)],
    ),
    Case("implicit_size_one", (5, 6, 16), [split(2, 8), *bulk(3)], [(16, 1, 8, 1), (30, 16, 1, 1)]),
    Case(
        "a_box_of_one_marked_bulk",
        (16, 32),
        [split(1, 8), split(0, 1), *bulk(1, 3)],
        [(32, 1, 8, 1), (16, 32, 1, 1)],
    ),
    Case(
        "an_inner_split_by_the_extent_is_none",
        (16, 12),
        [split(1, 12), split(0, 4), *bulk(1, 3)],
        [(12, 1, 12, 1), (16, 12, 4, 1)],
    ),
    Case(
        "a_box_wider_than_the_axis",
        (16, 10),
        [split(1, 16), split(0, 4), *bulk(1, 3)],
        [(10, 1, 16, 1), (16, 10, 4, 1)],
    ),
    Case("rotation_right", (100,), [split(0, 16), split(1, 4), *bulk(2)], [(100, 1, 4, 1)]),
    Case("rotation_left", (101,), [split(0, 4), split(0, 8), *bulk(1, 2)], [(101, 1, 32, 1)]),
    Case("rotation_right_twice", (1000,), [split(0, 64), split(1, 32), split(2, 8), *bulk(3)], [(1000, 1, 8, 1)]),
    Case("rotation_left_twice", (1000,), [split(0, 2), split(0, 4), split(0, 8), *bulk(1, 2, 3)], [(1000, 1, 64, 1)]),
    Case(
        "rotation_left_around_rotation_right",
        (999,),
        [split(0, 4), split(0, 16), split(1, 8), *bulk(2, 3)],
        [(999, 1, 32, 1)],
    ),
    Case(
        "rotation_right_around_rotation_left",
        (999,),
        [split(0, 64), split(1, 4), split(1, 4), *bulk(2, 3)],
        [(999, 1, 16, 1)],
    ),
    Case(
        "an_uneven_nest_is_a_view",
        (92, 8),
        [split(0, 23), split(1, 8), *bulk(2, 3)],
        [(8, 1, 8, 1), (23, 8, 8, 1), (4, 184, 1, 1)],
    ),
    Case(
        "a_strided_box_is_no_part_of_a_larger_one",
        (320,),
        [split(0, 8), split(0, 4), split(1, 2), *bulk(1, 3)],
        [(8, 1, 8, 1), (40, 8, 4, 2)],
    ),
    Case(
        "strided",
        (16, 200),
        [split(1, 128), split(0, 4), split(1, 3), *bulk(1, 4)],
        [(200, 1, 128, 1), (16, 200, 4, 3)],
    ),
    Case(
        "strided_and_rotated_up",
        (64, 8),
        [split(0, 16), split(1, 4), split(2, 2), *bulk(2, 4)],
        [(8, 1, 8, 1), (64, 8, 4, 2)],
    ),
    Case("strided_whole", (12, 8), [split(0, 3), *bulk(0, 2)], [(8, 1, 8, 1), (12, 8, 12, 3)]),
    Case(
        "strided_composite",
        (5, 12, 8),
        [split(1, 3), *bulk(1, 3)],
        [(8, 1, 8, 1), (60, 8, 12, 3)],
    ),
    Case(
        "a_flat_axis_viewed_as_rows",
        (1024,),
        [split(0, 64), split(1, 16), split(0, 4), *bulk(1, 3)],
        [(64, 1, 16, 1), (16, 64, 4, 1)],
    ),
    Case(
        "padded_rows",
        (10, 16),
        [*bulk(1)],
        [(16, 1, 16, 1), (10, 20, 1, 1)],
        {"contiguity": [False, True], "strides": [20, 1]},
    ),
    Case(
        "boxes_do_not_grow_over_padding",
        (10, 16),
        [*bulk(0, 1)],
        [(16, 1, 16, 1), (10, 20, 10, 1)],
        {"contiguity": [False, True], "strides": [20, 1]},
    ),
    Case(
        "mixture_in_5_dimensions",
        (6, 4, 9, 3, 2, 4, 5, 2, 8),
        [split(2, 3), *bulk(1, 3, 5, 6, 8, 9)],
        [(80, 1, 16, 1), (8, 96, 8, 1), (3, 800, 1, 1), (9, 2400, 3, 1), (24, 22000, 4, 1)],
        {
            "contiguity": [True, False, False, False, True, False, True, True, True],
            "strides": [88000, 22000, 2400, 800, 384, 96, 16, 8, 1],
        },
    ),
    Case(
        "tile_axes_merged_and_swizzled_further",
        (64, 64),
        [split(1, 16), split(0, 8), reorder(0, 2, 1, 3), split(3, 2), swizzle(2, 3), merge(2), *bulk(2, 3)],
        [(64, 1, 16, 1), (64, 64, 8, 1)],
    ),
    Case(
        "other_axes_merged_and_cut_unevenly",
        (64, 64),
        [split(1, 16), split(0, 8), reorder(0, 2, 1, 3), merge(0), split(0, 5), *par("BIDx", 0), *bulk(2, 3)],
        [(64, 1, 16, 1), (64, 64, 8, 1)],
    ),
    Case("broadcast_in_front", (1, 32, 16), [split(1, 8), *bulk(2, 3)], [(16, 1, 16, 1), (32, 16, 8, 1)]),
    Case("broadcast_between", (32, 1, 16), [split(0, 8), *bulk(1, 3)], [(16, 1, 16, 1), (32, 16, 8, 1)]),
    Case("broadcast_merged", (32, 1, 16), [merge(0), split(0, 8), *bulk(1, 2)], [(16, 1, 16, 1), (32, 16, 8, 1)]),
    Case(
        "symbolic",
        (300, 200),
        [split(1, 32), split(0, 8), *bulk(1, 3)],
        [(200, 1, 32, 1), (300, 200, 8, 1)],
        {"symbolic": True},
    ),
    Case(
        "symbolic_whole_axes_are_merged",
        (30, 20),
        [*bulk(0, 1)],
        [(600, 1, 600, 1)],
        {"symbolic": True},
    ),
    Case(
        "symbolic_rotation_needs_no_known_size",
        (300,),
        [split(0, 4), split(0, 8), split(1, 2), *bulk(2, 3)],
        [(300, 1, 8, 1)],
        {"symbolic": True},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_tensor_map_of_a_load(case: Case) -> None:
    found = inferred(scheduled(document(case.shape, case.steps, **case.more)))
    assert not found.refusals
    assert found.dims == case.dims
    assert found.copy.is_load


@pytest.mark.parametrize("case", [c for c in CASES if "strides" not in c.more], ids=lambda c: c.name)
def test_a_store_has_the_map_of_the_load(case: Case) -> None:
    found = inferred(scheduled(document(case.shape, case.steps, store=True, **case.more)))
    assert not found.refusals
    assert found.dims == case.dims
    assert not found.copy.is_load


@pytest.mark.parametrize(
    ("swizzled", "span", "expect"),
    [
        ([split(1, 4), split(0, 4), swizzle(0, 2)], 32, [(8, 1, 8, 1), (8, 8, 8, 1)]),
        ([split(1, 4), split(0, 4)], 0, [(64, 1, 64, 1)]),
    ],
)
def test_the_swizzle_of_the_shared_tensor_bounds_the_innermost_box(
    swizzled: list[Step], span: int, expect: list[tuple[int, int, int, int]]
) -> None:
    """Rows of 8 f32 are one span of 32 bytes, and two rows would be more; without a swizzle they are one box."""
    allocation = {"do": "set_allocation_domain", "axes": "loop", "contiguity": True, "transforms": swizzled}
    found = inferred(scheduled(document((8, 8), [allocation, *bulk(0, 1)])))
    assert found.copy.swizzle == span
    assert found.dims == expect


@dataclass(frozen=True)
class Refused:
    name: str
    shape: tuple[int, ...]
    steps: list[Step]
    rule: str
    verdict: str
    more: dict[str, Any] = field(default_factory=dict)
    stage: Stage = Stage.COMPILE


REFUSED = [
    Refused(
        "view_split_leaves_holes",
        (10, 8),
        [split(0, 4), split(1, 3), *bulk(2, 3)],
        "tma_view_splits_divide",
        "not recognised",
    ),
    Refused(
        "view_split_leaves_holes_at_this_size",
        (10, 8),
        [split(0, 4), split(1, 3), *bulk(2, 3)],
        "tma_view_splits_divide",
        "not recognised",
        {"symbolic": True},
        Stage.RUNTIME,
    ),
    Refused(
        "merge_over_padding_boxed_across_rows",
        (4, 6),
        [merge(0), split(0, 4), *bulk(1)],
        "tma_merges_contiguous_axes",
        "impossible",
        {"contiguity": [False, True], "strides": [8, 1]},
    ),
    Refused(
        "merge_over_padding_boxed_within_rows",
        (4, 8),
        [merge(0), split(0, 4), *bulk(1)],
        "tma_merges_contiguous_axes",
        "not recognised",
        {"contiguity": [False, True], "strides": [12, 1]},
    ),
    Refused(
        "merge_in_the_wrong_order",
        (4, 8),
        [merge(1, 0), split(0, 3), *bulk(1)],
        "tma_merges_contiguous_axes",
        "impossible",
    ),
    Refused(
        "innermost_axis_with_a_stride",
        (32,),
        [split(0, 8), *bulk(1)],
        "tma_inner_dimension_is_contiguous",
        "not recognised",
        {"contiguity": [False], "strides": [2]},
    ),
    Refused(
        "innermost_element_stride",
        (64,),
        [split(0, 32), split(1, 2), *bulk(1)],
        "tma_inner_dimension_is_dense",
        "not recognised",
    ),
    Refused(
        "swizzle_of_tile_rows_by_tiles",
        (64,),
        [split(0, 16), split(0, 4), split(2, 4), swizzle(2, 1), *bulk(2, 3)],
        "tma_domain_is_a_view",
        "impossible",
    ),
    Refused(
        "swizzle_of_tiles_with_their_columns",
        (64,),
        [split(0, 16), split(1, 4), swizzle(0, 1), *bulk(1, 2)],
        "tma_domain_is_a_view",
        "not recognised",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.name)
def test_refusals_say_whether_any_tensor_map_does_it(case: Refused) -> None:
    found = inferred(scheduled(document(case.shape, case.steps, **case.more)))
    (breach,) = (b for b in inference.breaches(found.copy) if isinstance(b, Violation))
    assert breach.rule == case.rule
    assert breach.message.startswith(f"{case.verdict}: ")
    assert breach.stage is case.stage


def test_a_view_split_of_an_unknown_size_is_kept_as_a_guard() -> None:
    steps = [split(0, 4), split(1, 3), *bulk(2, 3)]
    found = inferred(scheduled(document((12, 8), steps, symbolic=True)))
    assert not found.refusals
    assert [b.expr for b in inference.breaches(found.copy) if isinstance(b, Kept)] == ["size[0][0] % (4) == 0"]
    assert found.dims == [(8, 1, 8, 1), (4, 8, 3, 1), (3, 32, 1, 1)]


def _allocated(shape: tuple[int, ...], copy: list[Step], transforms: list[st.Transform]) -> Inferred:
    """The copy of an input whose allocation domain is made of its logical one."""
    sf = scheduled(document(shape, copy))
    t = sf.tensor("in")
    listed = AxisList(t.logical)
    names = (f"in.m{i}" for i in range(99))
    for step in transforms:
        listed = transform(listed, step, names)
    allocation = Allocation(listed.axes, (None,) * len(listed.axes), listed.exprs)
    return inferred(sf.with_tensor(replace(t, allocation=allocation)))


def test_the_dimensions_follow_the_allocation_of_the_global_tensor() -> None:
    """Stored column by column: the boxes' rows are its innermost dimension."""
    found = _allocated((24, 64), [split(1, 16), split(0, 8), *bulk(1, 3)], [st.Reorder("in", ((0, 1),))])
    assert not found.refusals
    assert found.dims == [(24, 1, 8, 1), (64, 24, 16, 1)]


def test_merges_of_the_allocation_are_striding_and_boxing_splits() -> None:
    """Axes 1 and 4 are the tile: merged with 2 axis 1 is strided, with 0 it is boxed; so is 4 by 3."""
    copy = [*bulk(1, 4)]
    merges: list[st.Transform] = [st.Merge("in", 1), st.Merge("in", 0), st.Merge("in", 1)]
    found = _allocated((3, 4, 2, 5, 8), copy, merges)
    assert not found.refusals
    assert found.dims == [(40, 1, 8, 1), (24, 40, 8, 2)]


def test_a_split_of_the_allocation_is_merged_by_the_view() -> None:
    """Columns apart in memory: an axis boxed across them would lie in two places."""
    move: list[st.Transform] = [st.Split("in", 1, 8, True), st.Reorder("in", ((1, 0),))]
    inside = _allocated((6, 32), [split(1, 8), *bulk(0, 2)], move)
    assert not inside.refusals
    assert inside.dims == [(192, 1, 48, 1)]
    across = _allocated((6, 32), [split(1, 16), *bulk(0, 2)], move)
    assert across.refusals


def test_the_start_of_a_box_is_told_by_the_loops_outside_it() -> None:
    found = inferred(scheduled(document((40, 64), [split(1, 16), split(0, 8), split(1, 4), *bulk(1, 4)])))
    loop = found.graph.groups(found.sf.tensor("a").loop)
    names = {loop[0]: "rows", loop[2]: "step", loop[3]: "columns"}
    index = {g: var(Var(name, found.graph.size(g).value)) for g, name in names.items()}
    assert [str(x) for x in coordinates(found.copy, found.graph, index)] == ["columns * 16", "(rows * 8 + step)"]


def test_nothing_is_inferred_of_a_tensor_that_is_all_broadcast() -> None:
    found = inferred(scheduled(document((1,), [])))
    assert found.copy.dims is None
    assert found.refusals == ["tma_box_is_inferred"]


def test_a_copy_that_reads_other_axes_has_no_domain() -> None:
    """The input's allocation has an axis that the copy does not know."""
    sf = scheduled(document((8, 8), bulk(1)))
    strange = scheduled(document((8, 8), bulk(1))).tensor("out").logical
    t = sf.tensor("in")
    odd = tuple(replace(a, name=f"odd.{i}") for i, a in enumerate(strange))
    sf = sf.with_tensor(replace(t, allocation=Allocation(odd, (None, None), (), (True, True), is_source=True)))
    assert id_graph(sf) is not None
    assert inferred(sf).refusals == ["tma_domain_is_equivalent_to_the_allocation"]
