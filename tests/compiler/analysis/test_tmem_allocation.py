"""What tensors take of tensor memory: allocated axes, lanes and columns, strides, rounding, regions, unknown sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.analysis.id.graph import id_graph
from compiler.analysis.tmem.allocation import Side, columns_allocated, layout_of, regions_of, total
from compiler.analysis.tmem.tmem import plan_tensor_memory
from compiler.errors import Kept, Violation
from compiler.ir.iter_domain import IterDomain
from compiler.ir.size import Size
from tests.compiler.analysis.tmem_cases import (
    ALL,
    Step,
    allocate,
    breaches_of,
    dimsep,
    document,
    fusion_of,
    inline,
    judged,
    on,
    plan_of,
    split,
    types,
)


def taken(shape: Sequence[int], *steps: Step, dtype: str = "float32") -> tuple[int, int, int | None]:
    """Lanes, columns and allocated columns of tv2."""
    (found,) = plan_of(document(shape, on("tv2", *steps), dtype)).tensors
    return found.lanes, found.columns, found.allocated_columns


# Allocated axes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "inlined", "lanes"),
    [
        pytest.param(None, False, 4, id="serial"),
        pytest.param(None, True, 1, id="serial-inlined"),
        pytest.param("Unroll", True, 1, id="unrolled-inlined"),
        pytest.param("BIDx", False, 1, id="block"),
        pytest.param("BIDy", True, 1, id="block-inlined"),
        pytest.param("TIDx", False, 4, id="thread"),
        pytest.param("TIDz", True, 4, id="thread-inlined"),
    ],
)
def test_the_three_rules(type_: str | None, inlined: bool, lanes: int) -> None:
    schedule = [*on(ALL, *types(type_)), *on("tv2", dimsep(1))]
    schedule += [*on("tv3", inline(1)), *on("tv2", inline(1))] if inlined else []
    (found,) = plan_of(document((4, 8), schedule)).tensors
    assert (found.lanes, found.columns) == (lanes, 8)


def test_the_logical_domain_is_the_allocation_where_none_is_set() -> None:
    """Pieces of a split axis are no allocation axes, whatever they are mapped to."""
    assert taken((64, 8), dimsep(1), split(0, 32), *types("BIDx", "TIDx")) == (64, 8, 32)
    assert taken((64, 8), split(0, 32), *types("BIDx", "TIDx"), allocate(), dimsep(2)) == (32, 8, 32)


def test_allocation_order_is_the_order_of_strides() -> None:
    sf = fusion_of(document((2, 3, 5, 7), on("tv2", allocate([2, 0, 3, 1]), dimsep(2))))
    layout = layout_of(sf.tensor("tv2"))
    assert (layout.lanes.strides, layout.columns.strides) == ((2, 1), (3, 1))
    assert [a.extent for a in layout.lanes.axes] == [5, 2]


def test_axes_of_one_element_take_nothing() -> None:
    assert taken((1, 32, 1, 4), dimsep(2)) == (32, 4, 32)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        pytest.param(0, (1, 8 * 16, 128), id="all-columns"),
        pytest.param(1, (8, 16, 32), id="between"),
        pytest.param(2, (128, 1, 32), id="all-lanes"),
        pytest.param(-1, (128, 1, 32), id="from-the-end"),
        pytest.param(-2, (8, 16, 32), id="from-the-end-between"),
    ],
)
def test_separator(position: int, expected: tuple[int, int, int]) -> None:
    assert taken((8, 16), dimsep(position)) == expected


@pytest.mark.parametrize(
    ("dtype", "elements", "columns"),
    [
        pytest.param("float32", 33, 33, id="4-bytes"),
        pytest.param("float16", 33, 17, id="2-bytes-round-up"),
        pytest.param("int8", 33, 9, id="1-byte"),
        pytest.param("float4_e2m1", 33, 5, id="half-a-byte"),
        pytest.param("float64", 33, 66, id="8-bytes"),
        pytest.param("complex128", 32, 128, id="16-bytes"),
    ],
)
def test_columns_have_4_bytes(dtype: str, elements: int, columns: int) -> None:
    assert taken((32, elements), dimsep(1), dtype=dtype)[:2] == (32, columns)


# Strides -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strides", "span", "columns"),
    [
        pytest.param([32, 1, 1], 112, 8, id="rows-of-16-in-32"),
        pytest.param([None, 1, 2], 64, 15, id="every-other-column"),
        pytest.param([None, 2, None], 4 * 32 - 1, 8, id="every-other-lane"),
        pytest.param([1, 4, None], 64, 8, id="the-other-way-round"),
    ],
)
def test_strides_reach_to_their_last_element(strides: list[int | None], span: int, columns: int) -> None:
    (tensor,) = plan_of(document((4, 16, 8), on("tv2", allocate("loop", strides), dimsep(2)))).tensors
    assert (tensor.lanes, tensor.lane_span, tensor.columns) == (64, span, columns)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), max_size=4))
def test_places_are_told_apart_as_counting_does(axes: list[tuple[int, int]]) -> None:
    side = Side(tuple(IterDomain(f"a{i}", n) for i, (n, _) in enumerate(axes)), tuple(s for _, s in axes), Size(1))
    places = [sum(np.multiply(i, side.strides)) for i in product(*(range(n) for n, _ in axes))]
    assert side.is_one_to_one == (len(set(places)) == len(places))


def test_more_places_than_there_can_be_are_not_one_to_one() -> None:
    side = Side((IterDomain("a", 1 << 20), IterDomain("b", 2)), (1, 1), Size(1))
    assert not side.is_one_to_one


# Rounding and regions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "allocated"),
    [
        *((1, 32), (31, 32), (32, 32), (33, 64), (63, 64), (64, 64), (65, 128), (127, 128), (128, 128)),
        *((129, 256), (255, 256), (256, 256), (257, 512), (511, 512), (512, 512)),
    ],
)
def test_columns_are_allocated_in_powers_of_two(needed: int, allocated: int) -> None:
    assert columns_allocated(Size(needed)) == Size(allocated)
    assert taken((32, needed), dimsep(1)) == (32, needed, allocated)


@pytest.mark.parametrize("needed", [1, 32, 33, 64, 65, 100, 128, 129, 256, 257, 512, 513])
def test_a_guard_counts_allocated_columns_the_same(needed: int) -> None:
    text = str(columns_allocated(Size.symbol("n", needed)))
    found = eval(text, {"min": min, "n": needed})
    assert found == columns_allocated(Size(needed)).value == columns_allocated(Size.symbol("n", needed)).value


def test_too_many_columns_are_not_allocated() -> None:
    assert taken((32, 513), dimsep(1)) == (32, 513, None)


def test_a_sum_of_sizes() -> None:
    n = Size.symbol("n", 5)
    assert total([Size(2), Size(3)]) == Size(5)
    assert total([n]) is n
    assert (str(total([n, Size(3)])), total([n, Size(3)]).value) == ("(n + 3)", 8)


def two(columns: tuple[int, int], regions: list[list[str]] | None = None, **more: Any) -> dict[str, Any]:
    """Two copies through tensor memory, tv2 of the first and tb2 of the second."""
    single = document((32, columns[0]), on(ALL, *types("TIDx")))
    other = document((32, columns[1]), on(ALL, *types("TIDx")))
    rename = {f"tv{n}": f"tb{n}" for n in range(5)}
    tensors = single["tensors"] | {rename[n]: t for n, t in other["tensors"].items()}
    ops = [*single["ops"], *({**o, "in": [rename[o["in"][0]]], "out": rename[o["out"]]} for o in other["ops"])]
    schedule = [*single["schedule"], *({**s, "tv": rename[s["tv"]]} for s in other["schedule"])]
    schedule += [*on("tv2", dimsep(1)), *on("tb2", dimsep(1))]
    return {
        **single,
        "tensors": tensors,
        "ops": ops,
        "inputs": ["tv0", "tb0"],
        "outputs": ["tv4", "tb4"],
        "schedule": schedule,
        "managed": {"tmem_regions": regions or []},
        **more,
    }


@pytest.mark.parametrize(
    ("columns", "regions", "expected", "breaches"),
    [
        pytest.param((33, 20), [], [(33, 64, 0), (20, 32, 0)], set(), id="regions-of-their-own"),
        pytest.param((33, 20), [["tv2", "tb2"]], [(33, 64, 0), (20, 64, 33)], set(), id="one-region"),
        pytest.param((33, 20), [["tb2", "tv2"]], [(33, 64, 20), (20, 64, 0)], set(), id="in-the-other-order"),
        pytest.param((33, 20), [["tb2"]], [(33, 64, 0), (20, 32, 0)], set(), id="a-region-named"),
        pytest.param((256, 256), [], [(256, 256, 0), (256, 256, 0)], set(), id="both-fit"),
        pytest.param((257, 1), [], [(257, 512, 0), (1, 32, 0)], {"tmem_regions_fit_together"}, id="do-not-fit"),
        pytest.param((257, 1), [["tv2", "tb2"]], [(257, 512, 0), (1, 512, 257)], set(), id="fit-in-one"),
        pytest.param(
            (257, 256), [["tv2", "tb2"]], [(257, None, 0), (256, None, 257)], {"tmem_columns_fit"}, id="too-many-in-one"
        ),
        pytest.param((4, 4), [[]], [(4, 32, 0), (4, 32, 0)], {"tmem_regions_are_disjoint"}, id="empty"),
        pytest.param((4, 4), [["tv3"]], [(4, 32, 0), (4, 32, 0)], {"tmem_regions_are_disjoint"}, id="registers"),
        pytest.param(
            (4, 4), [["tv2"], ["tb2", "tv2"]], [(4, 32, 0), (4, 32, 0)], {"tmem_regions_are_disjoint"}, id="overlap"
        ),
        pytest.param((4, 4), [["tv2", "tv2"]], [(4, 32, 0), (4, 32, 0)], {"tmem_regions_are_disjoint"}, id="twice"),
    ],
)
def test_regions(
    columns: tuple[int, int],
    regions: list[list[str]],
    expected: list[tuple[int, int | None, int]],
    breaches: set[str],
) -> None:
    memory = plan_of(two(columns, regions))
    assert [(t.columns, t.allocated_columns, t.first_column) for t in memory.tensors] == expected
    assert breaches_of(memory) == breaches


def test_regions_that_are_asked_for_come_first() -> None:
    named = [r.name for r in regions_of(fusion_of(two((4, 4), [["tb2"]])))]
    assert named == ["tb2", "tv2"]


def test_regions_of_a_fusion_without_tensor_memory_are_looked_at() -> None:
    data = document((4, 4), [], managed={"tmem_regions": [["tv1"]]})
    data["tensors"]["tv2"]["memory"] = "local"
    assert breaches_of(plan_of(data)) == {"tmem_regions_are_disjoint"}


def test_a_region_of_a_tensor_that_is_none_is_refused() -> None:
    sf = replace(fusion_of(two((4, 4))), tmem_regions=(("none",),))
    assert breaches_of(plan_tensor_memory(sf, id_graph(sf))) == {"tmem_regions_are_disjoint"}


# Unknown sizes -------------------------------------------------------------------------------------------------------


def symbolic(data: dict[str, Any], *flags: bool) -> dict[str, Any]:
    return {**data, "tensors": {n: {**t, "symbolic": list(flags)} for n, t in data["tensors"].items()}}


def conditions(data: dict[str, Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """Guards of a plan, and the rules that this launch fails with their stages."""
    memory = plan_of(data)
    every = judged(memory)
    kept = {f"{b.rule}: {b.expr}" for b in every if isinstance(b, Kept)}
    return kept, {(b.rule, b.stage) for b in every if isinstance(b, Violation)}


LANES = "tmem_lanes_fit: size[0][0] <= 128"
COLUMNS = "tmem_columns_fit: size[0][1] <= 512"


@pytest.mark.parametrize(
    ("data", "kept", "failed"),
    [
        pytest.param(
            symbolic(document((32, 4), [*on(ALL, *types("TIDx")), *on("tv2", dimsep(1))]), False, True),
            {COLUMNS},
            set(),
            id="columns",
        ),
        pytest.param(
            symbolic(document((32, 513), [*on(ALL, *types("TIDx")), *on("tv2", dimsep(1))]), False, True),
            {COLUMNS},
            {("tmem_columns_fit", "runtime")},
            id="too-many-columns-at-this-launch",
        ),
        pytest.param(
            symbolic(document((64, 4), [*on(ALL, *types("TIDx")), *on("tv2", dimsep(1))]), True, False),
            {
                LANES,
                "tmem_access_is_warp_collective: size[0][0] % (32) == 0",
                "tmem_access_keeps_its_sizes: size[0][0] == 64",
            },
            set(),
            id="threads",
        ),
        pytest.param(
            symbolic(document((60, 4), [*on(ALL, *types("TIDx")), *on("tv2", dimsep(1))]), True, False),
            {LANES, "tmem_access_is_warp_collective: size[0][0] % (32) == 0"},
            {("tmem_access_is_warp_collective", "runtime")},
            id="threads-that-are-no-warps-at-this-launch",
        ),
        pytest.param(
            symbolic(
                document((4096,), [*on(ALL, split(0, 32), *types("BIDx", "TIDx")), *on("tv2", allocate(), dimsep(2))]),
                True,
            ),
            set(),
            set(),
            id="blocks-take-nothing",
        ),
        pytest.param(
            symbolic(
                document((32, 4, 2), [*on(ALL, *types("TIDx")), *on("tv2", allocate([0, 2, 1]), dimsep(1))]),
                False,
                True,
                False,
            ),
            {"tmem_columns_fit: 2 * size[0][1] <= 512", "tmem_access_keeps_its_sizes: size[0][1] == 4"},
            set(),
            id="a-column-stride",
        ),
        pytest.param(
            symbolic(
                document((32, 4, 2), [*on(ALL, *types("TIDx")), *on("tv2", allocate("loop", [1, 3, 1]), dimsep(1))]),
                False,
                True,
                False,
            ),
            {"tmem_columns_fit: (1 + 3 * (size[0][1] - 1) + 1 * (2 - 1)) <= 512"},
            set(),
            id="columns-with-strides-given",
        ),
    ],
)
def test_unknown_sizes_are_kept(data: dict[str, Any], kept: set[str], failed: set[tuple[str, str]]) -> None:
    assert conditions(data) == (kept, failed)
