"""Loops of a reference given to other tensors: propagation, parallel types, inlining of a selection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import arch_named
from compiler.errors import InvalidStep
from compiler.ir.domain import ScheduledFusion
from compiler.pipeline import generate
from compiler.schedule.apply import apply
from compiler.schedule.steps import (
    CacheInput,
    CacheOutput,
    InlineAt,
    InlineSelectedAt,
    Merge,
    Parallelize,
    ParallelizeLike,
    ParallelizeLoops,
    Propagate,
    Reorder,
    Shift,
    Split,
    Step,
    Transform,
)
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_from_json, trace_to_json
from tests.compiler.schedules import LOCAL, P, from_wire
from tests.compiler.scheduling import load, scheduled

ARCH = arch_named("sm_90a")


def row_sums() -> ScheduledFusion:
    """v1 = relu(sum of a row): the sum is a tensor of 6 rows and 40 columns that are folded, v1 one of the rows."""
    ops: list[dict[str, Any]] = [
        {"op": "sum", "in": ["x"], "out": "s", "dims": [1]},
        {"op": "relu", "in": ["s"], "out": "y"},
    ]
    return scheduled(from_wire([{"name": "x", "shape": [6, 40], "dtype": "f32"}], ops, "y"))


def taken(sf: ScheduledFusion, *more: Step) -> ScheduledFusion:
    for step in more:
        sf = apply(sf, step)
    return sf


def same_on(name: str, *written: Transform) -> list[Transform]:
    """The transforms, of another tensor."""
    return [replace(step, tv=name) for step in written]


CUTS: list[list[Transform]] = [
    [Split("s", 1, 8)],
    [Split("s", 1, 7), Split("s", 0, 4), Reorder("s", ((1, 0), (0, 1)))],
    [Merge("s", 0), Split("s", 0, 32), Split("s", 0, 3), Reorder("s", ((1, 0),))],
    [Shift("s", 1, (0,), (5,), 8), Split("s", 1, 8)],
    [Reorder("s", ((1, 0),))],
]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: " ".join(type(s).__name__ for s in cut))
def test_a_propagation_is_the_same_steps_on_the_other_tensor(cut: list[Transform]) -> None:
    found = load((6, 40), *cut, Propagate("s", ("v0",)))
    assert found == load((6, 40), *cut, *same_on("v0", *cut))
    again = Split("s", 0, 2)
    more = taken(found, again, Parallelize("s", 0, P.BIDX), Propagate("s", ("v0",)))
    assert more.tensor("v0") == load((6, 40), *same_on("v0", *cut, again)).tensor("v0")


def test_what_a_tensor_has_is_not_done_again_and_what_it_has_otherwise_stays() -> None:
    sf = load(
        (6, 40), Split("s", 1, 8), Split("s", 2, 2), Split("v0", 1, 8), Split("v0", 0, 3), Propagate("s", ("v0",))
    )
    assert [a.extent for a in sf.tensor("v0").loop] == [5, 4, 2, 2, 3]


def test_what_was_cut_and_merged_again_is_as_it_was() -> None:
    round_trip: list[Step] = [Split("v0", 1, 8), Merge("v0", 1)]
    sf = load((6, 40), *round_trip, Split("s", 1, 10), Propagate("s", ("v0",)))
    assert [a.extent for a in sf.tensor("v0").loop] == [6, 4, 10]
    back = load((6, 40), *round_trip, Split("v0", 1, 10), Propagate("v0", ("s",)))
    assert [type(e).__name__ for e in back.tensor("s").exprs] == ["Split"]


def test_tensors_without_what_was_folded_have_the_rest() -> None:
    cut: list[Step] = [Split("v0_sum", 1, 8), Split("v0_sum", 0, 2), Parallelize("v0_sum", 0, P.BIDX)]
    sf = taken(row_sums(), *cut, Propagate("v0_sum", ("v1",)), ParallelizeLike("v0_sum", ("v1",)))
    t = sf.tensor("v1")
    assert [a.extent for a in t.loop] == [3, 2]
    assert t.types == (P.BIDX, P.SERIAL)


@pytest.mark.parametrize("step", [Propagate, ParallelizeLike])
def test_a_reference_has_every_axis_of_the_tensors(step: type[Propagate | ParallelizeLike]) -> None:
    taken(row_sums(), step("v0_sum", ("v1",)))
    with pytest.raises(InvalidStep) as caught:
        taken(row_sums(), step("v1", ("v0_sum",)))
    (found,) = caught.value.violations
    assert (found.rule, found.where) == ("references_have_every_axis_of_the_tensors", "v1 to v0_sum")
    assert (found.found, found.limit) == ("1 axes", "2 axes")


def test_a_refused_transform_is_told_of_the_propagation() -> None:
    with pytest.raises(InvalidStep) as caught:
        load((6, 40), Split("s", 0, 2), Parallelize("v0", 0, P.BIDX), Propagate("s", ("v0",)))
    assert caught.value.violations[0].rule == "split_axes_are_serial"
    assert "propagate(tv=s, to=[v0])" in str(caught.value)


def test_types_of_loops_are_those_of_single_axes() -> None:
    cut: list[Step] = [Split("s", 1, 8), Parallelize("s", 1, P.UNROLL)]
    found = load((6, 40), *cut, ParallelizeLoops("s", (P.BIDX, P.SERIAL, P.TIDX)))
    assert found == load((6, 40), *cut, Parallelize("s", 0, P.BIDX), Parallelize("s", 2, P.TIDX))
    assert found.tensor("s").types == (P.BIDX, P.UNROLL, P.TIDX)


def test_there_are_no_more_types_than_loops() -> None:
    with pytest.raises(InvalidStep, match="there is no axis 2") as caught:
        load((6, 40), ParallelizeLoops("s", (P.BIDX, P.SERIAL, P.TIDX)))
    assert caught.value.violations[0].rule == "steps_name_axes_that_exist"


def test_types_go_to_the_loops_that_are_the_references() -> None:
    sf = load((6, 40), Split("s", 1, 8), Parallelize("s", 0, P.BIDX), Parallelize("s", 2, P.TIDX))
    assert taken(sf, ParallelizeLike("s", ("v0",))).tensor("v0").types == (P.BIDX, P.SERIAL)
    both = taken(sf, Propagate("s", ("v0",)), Parallelize("v0", 1, P.UNROLL), ParallelizeLike("s", ("v0",)))
    assert both.tensor("v0").types == (P.BIDX, P.SERIAL, P.TIDX)


@pytest.mark.parametrize(
    ("position", "found"), [(0, 0), (1, 1), (2, 1)], ids=["nowhere", "as-said", "as-deep-as-shared"]
)
def test_a_selection_is_inlined_as_deep_as_it_may_be(position: int, found: int) -> None:
    cut = [Split("s", 1, 8)]
    sf = load((6, 40), *cut, InlineSelectedAt(("s",), position))
    assert sf.tensor("s").compute_at == found
    assert sf == load((6, 40), *cut, *([InlineAt("s", found)] if found else []))


def test_a_trace_of_them_is_stored_and_replayed() -> None:
    steps: tuple[Step, ...] = (
        CacheInput("i0", "r", LOCAL),
        CacheOutput("v0", "q", LOCAL),
        Split("q", 1, 8),
        Propagate("q", ("r", "v0")),
        Parallelize("q", 0, P.BIDX),
        Parallelize("q", 1, P.TIDX),
        Parallelize("q", 2, P.UNROLL),
        ParallelizeLike("q", ("r", "v0")),
        InlineSelectedAt(("q", "r"), 2),
    )
    fusion = load((6, 40)).fusion
    trace = ScheduleTrace(fusion, steps)
    again = trace_from_json(trace_to_json(trace))
    assert (again, again.hash) == (trace, trace.hash)
    assert generate(again, ARCH).source == generate(trace, ARCH).source
    assert trace.transforms_of("v0") == [Split("v0", 1, 8)]
    assert trace.transforms_of("q") == [steps[2]]
