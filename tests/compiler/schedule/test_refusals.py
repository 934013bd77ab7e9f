"""Every step rule: the nearest step that it lets through, and the one that only it refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from compiler.errors import InvalidStep, Stage
from compiler.ir.ops import OpKind
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.refusals import STEP_RULES
from compiler.schedule.refusals.registry import StepRule
from compiler.schedule.replay import replay_document
from tests.compiler.schedule.documents_of_steps import (
    Json,
    after,
    chain,
    do,
    document,
    inline,
    merge,
    op,
    parallel,
    refusal,
    split,
    tensor,
)
from tests.compiler.schedules import GLOBAL, LOCAL, SHARED, unary
from tests.compiler.scheduling import load, scheduled


@dataclass(frozen=True)
class Row:
    """`before` and then `legal` can be taken on a -> t0 -> z; `illegal` in its place is refused by `rule`."""

    rule: str
    before: Sequence[Json]
    legal: Json
    illegal: Json
    found: int | str
    shape: tuple[int, ...] = (4, 8)
    middle: tuple[str, ...] = ("local",)
    symbolic: bool = False

    def __str__(self) -> str:
        return f"{self.rule}-{self.found}"

    def document(self, last: Json) -> Json:
        return chain(self.shape, *self.before, last, middle=self.middle, symbolic=self.symbolic)


def allocation(axes: object, tv: str = "t0", **more: object) -> Json:
    return do("set_allocation_domain", tv, axes=axes, **more)


def buffer(stages: int = 2, tv: str = "t0", **more: object) -> Json:
    return do("circular_buffer", tv, stages=stages, **more)


def swizzle(x: int, y: int) -> Json:
    return do("swizzle", "t0", axes=[x, y])


def resize(axis: int, left: int = 0, right: int = 0) -> Json:
    return do("resize", "t0", axis=axis, left=left, right=right)


def reorder(**map_: int) -> Json:
    return do("reorder", "t0", map={k.removeprefix("_"): v for k, v in map_.items()})


def dimsep(position: int) -> Json:
    return do("tmem_dimsep", "t0", position=position)


def question(*ids: object) -> Json:
    return do("check_domain_equivalence", "t0", ids=list(ids))


HUGE = 1 << 60
IN = inline("t0", 1)
WIDE = "((size[0][1] + 4 - 1) // 4)"
FIXED = "transforms_stay_right_of_the_compute_position"
SHARED_LOOPS = "transforms_stay_right_of_inlined_producers"
POWERS = "swizzled_extents_are_equal_powers_of_two"
PLACES = "padded_tensors_have_places_that_an_index_can_count"
KNOWN = "unrolled_and_vectorized_extents_are_known"
FLAGS = "contiguity_has_one_flag_an_axis"
STRIDES = "allocation_strides_are_positive_and_one_an_axis"
EQUIVALENT = "allocations_are_equivalent_to_the_logical_domain"
LISTED = "listed_axes_are_equivalent_to_the_logical_domain"
SEPARATOR = "separators_lie_among_the_allocation_axes"
STAGES = "circular_buffer_has_stages_to_fill"
REGISTERS = "shared_registers_are_whole_units"
INLINED = "circular_buffer_has_a_loop"
QUARTERS = [split("t0", 1, 4), split("z", 1, 4)]

ROWS = [
    Row("steps_name_axes_that_exist", [], split("t0", 1, 2), split("t0", 2, 2), 2),
    Row("steps_name_axes_that_exist", [], split("t0", -2, 2), split("t0", -3, 2), -1),
    Row("steps_name_axes_that_exist", [], merge("t0", 0), merge("t0", 1), 2),
    Row("steps_name_axes_that_exist", [], parallel("t0", 1, "TIDx"), parallel("t0", 2, "TIDx"), 2),
    Row("steps_name_axes_that_exist", [], resize(1), resize(2), 2),
    Row("steps_name_axes_that_exist", [split("t0", 1, 4)], swizzle(0, 2), swizzle(0, 3), 3),
    Row("reorders_are_permutations", [], reorder(_0=-1), reorder(_0=2), "((0, 2),)"),
    Row("reorders_are_permutations", [], reorder(_0=1, _1=0), reorder(_0=1, _1=1), "((0, 1), (1, 1))"),
    Row("split_factors_are_positive", [], split("t0", 1, 1), split("t0", 1, 0), 0),
    Row("split_factors_are_positive", [], split("t0", 1, 9), split("t0", 1, -1), -1),
    Row(PLACES, [], split("t0", 1, HUGE), split("t0", 1, HUGE + 1), "2**62 places"),
    Row(PLACES, [], resize(1, 0, HUGE - 8), resize(1, 0, HUGE), "2**62 places"),
    Row("merged_axes_are_two", [], merge("t0", 1, 0), merge("t0", 1, 1), 1),
    Row(POWERS, [split("t0", 1, 4)], swizzle(0, 2), swizzle(0, 1), "4 and 2"),
    Row(POWERS, [split("t0", 1, 4)], swizzle(0, 2), swizzle(0, 0), "4 and 4"),
    Row(POWERS, [split("t0", 0, 2), split("t0", 2, 2)], swizzle(1, 3), swizzle(1, 2), "2 and 4"),
    Row(POWERS, [], split("t0", 0, 2), swizzle(0, 1), "6 and 6", shape=(6, 6)),
    Row(POWERS, [], split("t0", 0, 2), swizzle(0, 1), "4 and 1", shape=(4, 1)),
    Row(POWERS, [], split("t0", 0, 4), swizzle(0, 1), "size[0][0] and size[0][1]", shape=(8, 8), symbolic=True),
    Row("resized_axes_hold_something", [], resize(1, -7), resize(1, -8), "8 + -8 + 0"),
    Row(FIXED, [IN], split("t0", 1, 2), split("t0", 0, 2), 0),
    Row(FIXED, [IN, split("t0", 1, 2)], merge("t0", 1), merge("t0", 0), 0),
    Row(FIXED, [IN], resize(1, 0, 1), resize(0, 0, 1), 0),
    Row(FIXED, [split("t0", 1, 4), IN], split("t0", 2, 2), swizzle(0, 2), 0),
    Row(FIXED, [IN, split("t0", 1, 2)], reorder(_1=2), reorder(_1=0), 0),
    Row(SHARED_LOOPS, [IN], split("z", 1, 2), split("z", 0, 2), 0),
    Row(SHARED_LOOPS, [IN], do("reorder", "z", map={"1": 1}), do("reorder", "z", map={"1": 0}), 0),
    Row("split_axes_are_serial", [parallel("t0", 0, "TIDx")], split("t0", 1, 2), split("t0", 0, 2), "TIDx"),
    Row("split_axes_are_serial", [parallel("t0", 0, "Unroll")], resize(1, 0, 1), resize(0, 0, 1), "Unroll"),
    Row(
        "a_merged_axis_is_serial",
        [split("t0", 1, 2), parallel("t0", 0, "TIDx"), parallel("t0", 1, "TIDy")],
        merge("t0", 1),
        merge("t0", 0),
        "TIDx and TIDy",
    ),
    Row(
        KNOWN, [split("t0", 1, 4)], parallel("t0", 2, "Vectorize"), parallel("t0", 1, "Vectorize"), WIDE, symbolic=True
    ),
    Row(KNOWN, [], parallel("t0", 1, "TIDx"), parallel("t0", 1, "Unroll"), "size[0][1]", symbolic=True),
    Row("allocation_axes_are_loops", [], allocation([1, 0]), allocation([1, 1]), "(1, 1)"),
    Row("allocation_axes_are_loops", [], allocation([-1, 0]), allocation([0, 1, 2]), "(0, 1, 2)"),
    Row(EQUIVALENT, [], allocation([0, 1]), allocation([1]), "it0.0{4}"),
    Row(EQUIVALENT, [split("t0", 1, 2)], allocation([0, 1, 2]), allocation([0, 2]), "it0.2{4}"),
    Row(EQUIVALENT, [], allocation([1], "z") | {"axes": [1, 0]}, allocation([1], "z"), "iz.0{4}"),
    Row(STRIDES, [], allocation([0, 1], strides=[9, 1]), allocation([0, 1], strides=[9]), 1),
    Row(STRIDES, [], allocation([0, 1], strides=[None, 1]), allocation([0, 1], strides=[None, 0]), "(None, 0)"),
    Row(FLAGS, [], allocation([0, 1], contiguity=[False, True]), allocation([0, 1], contiguity=[True]), 1),
    Row(FLAGS, [], allocation("loop", contiguity=False), allocation("loop", contiguity=[True, None]), "None"),
    Row(
        FLAGS,
        [],
        allocation("loop", contiguity=[True, None]),
        allocation("loop", contiguity=[True, True]),
        "True",
        (4, 1),
    ),
    Row(SEPARATOR, [], dimsep(2), dimsep(3), 3, middle=("tensor",)),
    Row(SEPARATOR, [], dimsep(-3), dimsep(-4), -4, middle=("tensor",)),
    Row(LISTED, [split("t0", 0, 2)], question(0, 1, 2), question(1, 2), "it0.2{2}"),
    Row(LISTED, [split("t0", 0, 2)], question([0, 0], 2), question([0, 0], 0, 1, 2), "it0.0{4}"),
    Row(LISTED, [], question(-1, 0), question(0, 0, 1), "it0.0{4}"),
    Row(STAGES, [IN], buffer(2), buffer(1), "stages 1, prefetch -1"),
    Row(STAGES, [IN], buffer(3, prefetch=2), buffer(3, prefetch=3), "stages 3, prefetch 3"),
    Row(STAGES, [IN], buffer(3, prefetch=-3), buffer(3, prefetch=-4), "stages 3, prefetch -4"),
    Row(REGISTERS, [IN], buffer(registers=[24, 256]), buffer(registers=[16, 256]), "16 and 256"),
    Row(REGISTERS, [IN], buffer(registers=[24, 256]), buffer(registers=[24, 264]), "24 and 264"),
    Row(REGISTERS, [IN], buffer(registers=[40, 48]), buffer(registers=[40, 44]), "40 and 44"),
    Row(REGISTERS, [IN], buffer(registers=[40, 40]), buffer(registers=[48, 40]), "48 and 40"),
    Row(INLINED, [IN], buffer(), buffer(tv="t1"), "compute-at position 0", middle=("shared", "local")),
]

# Rules that such a chain cannot show: the nearest document that passes, and the one that is refused


def reduced(*taken: Json) -> Json:
    """a[4, 8, 8] -> s, summed over its last axis -> z."""
    tensors = {
        "a": tensor([4, 8, 8], "global"),
        "t0": tensor([4, 8, 8], reduction_axes=[2]),
        "z": tensor([4, 8], "global"),
    }
    return document(tensors, [op("sum", "a", "t0", axes=[2]), op("set", "t0", "z")], "a", "z", *taken)


def spread(*taken: Json) -> Json:
    """a[8] -> t0[1, 8] by a new broadcast axis, + y[8, 8] -> z."""
    tensors = {
        "a": tensor([8], "global"),
        "y": tensor([8, 8], "global"),
        "t0": tensor([1, 8], broadcast_axes=[0]),
        "z": tensor([8, 8], "global"),
    }
    ops = [op("broadcast", "a", "t0", broadcast_flags=[True, False]), op("add", "t0 y", "z")]
    return document(tensors, ops, "a y", "z", *taken)


def computed(*taken: Json) -> Json:
    """a -> t0 = exp(a) -> z."""
    tensors = {"a": tensor([4, 8], "global"), "t0": tensor([4, 8]), "z": tensor([4, 8], "global")}
    return document(tensors, [op("exp", "a", "t0"), op("set", "t0", "z")], "a", "z", *taken)


def permuted(*taken: Json) -> Json:
    """a -> t0, its transpose, -> z."""
    tensors = {"a": tensor([8, 4], "global"), "t0": tensor([4, 8]), "z": tensor([4, 8], "global")}
    return document(tensors, [op("permute", "a", "t0", dims=[1, 0]), op("set", "t0", "z")], "a", "z", *taken)


def nested(depth: int) -> list[Json]:
    """Splits that cut an unknown extent again and again, each time a rounded-up product."""
    return [step for i in range(depth) for step in (split("t0", 0, 3 + 2 * (i % 2)), merge("t0", 0))]


SPREAD = [split("t0", 0, 8), split("t0", 2, 8)]
ELSEWHERE = [
    (
        "merged_axes_are_both_reductions_or_neither",
        reduced(merge("t0", 0)),
        reduced(merge("t0", 1)),
    ),
    ("swizzled_axes_carry_data", reduced(split("t0", 2, 8)), reduced(swizzle(1, 2))),
    ("swizzled_axes_carry_data", spread(split("t0", 1, 8)), spread(*SPREAD, swizzle(1, 3))),
    (
        "swizzled_axes_carry_data",
        spread(*SPREAD[:1]),
        spread(split("t0", 0, 8), merge("t0", 0), split("t0", 1, 8), swizzle(0, 2)),
    ),
    ("resized_axes_are_not_summed_over", reduced(resize(1, 1)), reduced(resize(2, 1))),
    (
        "unknown_extents_have_formulas_of_a_page",
        chain((4, 8), *nested(20), symbolic=True),
        chain((4, 8), *nested(80), symbolic=True),
    ),
    (
        "only_tensor_memory_has_lanes_and_columns",
        chain((4, 8), dimsep(1), middle=("tensor",)),
        chain((4, 8), dimsep(1), middle=("shared",)),
    ),
    ("circular_buffer_is_filled_by_a_copy", chain((4, 8), IN, buffer()), computed(IN, buffer())),
    ("circular_buffer_is_filled_by_a_copy", permuted(IN, buffer()), computed(IN, buffer())),
    ("circular_buffer_is_filled_by_a_copy", chain((4, 8), IN, buffer()), chain((4, 8), buffer(tv="a"))),
    (
        "circular_buffer_is_filled_by_a_copy",
        chain((4, 8), inline("t1", 1), buffer(tv="t1"), middle=("shared", "local")),
        chain((4, 8), inline("t1", 1), buffer(tv="t1"), middle=("local", "local")),
    ),
    (
        "circular_buffer_is_filled_by_a_copy",
        chain((4, 8), IN, buffer(), middle=("shared",)),
        chain((4, 8), IN, buffer(), middle=("tensor",)),
    ),
    (INLINED, chain((4, 8), IN, buffer()), chain((4, 8), buffer())),
    (
        INLINED,
        chain((4, 8), IN, parallel("t0", 1, "Unroll"), buffer()),
        chain((4, 8), IN, parallel("t0", 0, "Unroll"), buffer()),
    ),
    (
        "circular_buffer_is_computed_where_it_is_allocated",
        chain((4, 8), IN, buffer()),
        chain((4, 8), IN, do("compute_with", "t0", position=2), buffer()),
    ),
    (
        "circular_buffer_copies_what_is_complete",
        chain((4, 8), inline("t0", 1), inline("t1", 2), buffer(tv="t1"), middle=("shared", "local")),
        chain((4, 8), inline("t0", 1), inline("t1", 1), buffer(tv="t1"), middle=("shared", "local")),
    ),
    (
        "circular_buffer_copies_what_is_complete",
        chain((4, 8), inline("t0", 1), inline("t1", 2), buffer(tv="t1"), middle=("shared", "local")),
        chain(
            (4, 8),
            inline("t0", 1),
            inline("t1", 2),
            parallel("t1", 1, "TIDx"),
            buffer(tv="t1"),
            middle=("shared", "local"),
        ),
    ),
    (
        "declared_inputs_and_outputs_are_global",
        chain((4, 8)),
        document({n: tensor([4], m) for n, m in (("a", "shared"), ("z", "global"))}, [op("set", "a", "z")], "a", "z"),
    ),
    (
        "declared_inputs_and_outputs_are_global",
        chain((4, 8)),
        document({n: tensor([4], m) for n, m in (("a", "global"), ("z", "local"))}, [op("set", "a", "z")], "a", "z"),
    ),
]

RECOMPUTED = "recomputed_tensors_are_read_and_not_scheduled_yet"

# Steps of traces, which documents do not have: on i0 -> s -> v0
TRACED: list[tuple[str, list[steps.Step], steps.Step, steps.Step]] = [
    ("steps_name_tensors_of_the_fusion", [], steps.Split("s", 0, 2), steps.Split("t", 0, 2)),
    ("steps_name_tensors_of_the_fusion", [], steps.Propagate("s", ("v0",)), steps.Propagate("t", ("v0",))),
    ("steps_name_tensors_of_the_fusion", [], steps.Propagate("s", ("v0",)), steps.Propagate("s", ("v0", "t"))),
    ("steps_name_tensors_of_the_fusion", [], steps.ParallelizeLike("s", ("v0",)), steps.ParallelizeLike("s", ("t",))),
    ("steps_name_tensors_of_the_fusion", [], steps.InlineSelectedAt(("s",), 1), steps.InlineSelectedAt(("t",), 1)),
    ("inline_positions_lie_among_the_loops", [], steps.InlineSelectedAt(("s",), 2), steps.InlineSelectedAt(("s",), 3)),
    (
        "transforms_stay_right_of_the_compute_position",
        [steps.InlineAt("s", 1), steps.Split("v0", 1, 4)],
        steps.Propagate("v0", ("s",)),
        steps.Reorder("s", ((1, 0),)),
    ),
    (
        "allocation_transforms_are_of_the_tensor",
        [],
        steps.SetAllocationDomain("s", (0, 1), (steps.Split("s", 1, 4),)),
        steps.SetAllocationDomain("s", (0, 1), (steps.Split("v0", 1, 4),)),
    ),
    (
        "caches_have_names_of_their_own",
        [],
        steps.CacheInput("i0", "t", SHARED),
        steps.CacheInput("i0", "s", SHARED),
    ),
    ("caches_lie_inside_the_kernel", [], steps.CacheInput("s", "r", LOCAL), steps.CacheInput("s", "r", GLOBAL)),
    ("caches_lie_inside_the_kernel", [], steps.CacheOutput("v0", "r", LOCAL), steps.CacheOutput("v0", "r", GLOBAL)),
    (
        "cached_inputs_are_read_and_not_inlined",
        [steps.InlineAt("s", 1)],
        steps.CacheInput("i0", "t", LOCAL),
        steps.CacheInput("s", "t", LOCAL),
    ),
    (
        "cached_inputs_are_read_and_not_inlined",
        [],
        steps.CacheInput("s", "t", LOCAL),
        steps.CacheInput("v0", "t", LOCAL),
    ),
    ("tensors_are_made_by_an_operator", [], steps.SetMemory("s", LOCAL), steps.SetMemory("i0", LOCAL)),
    ("cached_outputs_are_outputs", [], steps.CacheOutput("v0", "t", LOCAL), steps.CacheOutput("s", "t", LOCAL)),
    (
        "cached_outputs_are_not_scheduled_yet",
        [steps.Split("v0", 0, 2)],
        steps.CacheInput("s", "t", LOCAL),
        steps.CacheOutput("v0", "t", LOCAL),
    ),
    (RECOMPUTED, [], steps.Recompute("s", "v0", "t"), steps.Recompute("s", "i0", "t")),
    (RECOMPUTED, [], steps.Recompute("s", "v0", "t"), steps.Recompute("s", "v0", "t", ("s",))),
    (
        RECOMPUTED,
        [steps.CacheInput("s", "r", LOCAL), steps.Split("s", 0, 2)],
        steps.Recompute("r", "v0", "t"),
        steps.Recompute("s", "r", "t"),
    ),
    ("shifted_rows_have_a_phase", [], steps.Shift("s", 1, (0,), (5,), 2), steps.Shift("s", 1, (0,), (5,), 1)),
    ("shifted_rows_have_a_phase", [], steps.Shift("s", 1, (0,), (5,), 2), steps.Shift("s", 1, (1,), (5,), 2)),
    ("shifted_rows_have_a_phase", [], steps.Shift("s", 1, (0,), (5,), 2), steps.Shift("s", 1, (0,), (5, 1), 2)),
    ("shifted_rows_have_a_phase", [], steps.Shift("s", 1, (0,), (5,), 2), steps.Shift("s", 1, (0,), (5,), 2, -1)),
    ("windows_cover_their_axis", [], steps.Window("s", 1, 4, 4, 0), steps.Window("s", 1, 4, 3, 0)),
    ("windows_cover_their_axis", [], steps.Window("s", 1, 1, 3, 2), steps.Window("s", 1, 0, 3, 2)),
    ("windows_cover_their_axis", [], steps.Window("s", 1, 4, 6, 0), steps.Window("s", 1, 4, 6, -1)),
    ("windows_cover_their_axis", [], steps.Window("s", 1, 4, 6, 2), steps.Window("v0", 1, 4, 6, 2)),
    (
        "straddling_words_are_loaded_by_threads",
        [steps.CacheInput("i0", "r", LOCAL)],
        steps.Straddle("r"),
        steps.Straddle("v0"),
    ),
    ("inputs_and_outputs_stay_global", [], steps.SetMemory("s", LOCAL), steps.SetMemory("v0", LOCAL)),
    ("inputs_and_outputs_stay_global", [], steps.SetMemory("s", LOCAL), steps.SetMemory("s", GLOBAL)),
    ("parked_tensors_are_in_registers", [steps.CacheInput("i0", "r", LOCAL)], steps.Park("r", 1), steps.Park("r", 0)),
    ("parked_tensors_are_in_registers", [steps.CacheInput("i0", "r", LOCAL)], steps.Park("r", 1), steps.Park("v0", 1)),
    ("turns_are_dealt_to_blocks", [], steps.Deal("s", 1), steps.Deal("s", 0)),
    ("turns_are_dealt_to_blocks", [], steps.Deal("s", 1), steps.Deal("s", -1)),
    ("register_caps_are_multiples_of_8", [], steps.CapRegisters(248), steps.CapRegisters(256)),
    ("register_caps_are_multiples_of_8", [], steps.CapRegisters(16), steps.CapRegisters(20)),
]

IN_OTHER_TESTS = {
    "references_have_every_axis_of_the_tensors",
    "float_sums_are_folded_once",
    "shared_tensors_are_written_by_copies",
    "tensors_are_inlined_at_most_at_their_maximum_position",
    "inline_positions_lie_among_the_loops",
    "tensors_are_computed_at_what_is_computed_from_them",
    "compute_positions_lie_among_the_consumers_loops",
    "tensors_that_are_computed_with_others_have_consumers",
    "tensors_are_computed_with_consumers_at_most_at_their_maximum_position",
    "tensors_are_computed_no_shallower_than_allocated",
    "online_sums_are_tensors_of_the_fusion",
    "online_sums_fold_exponentials_of_the_distance_to_the_maximum",
    "online_sums_share_one_running_maximum",
    "online_folds_are_not_scheduled_yet",
}
"""Of inlining, in test_inline.py, and one below; of sums along with a maximum, in test_online.py."""


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_nearest_steps_that_pass_and_that_do_not(row: Row) -> None:
    after(row.document(row.legal))
    found = refusal(row.document(row.illegal))
    assert (found.rule, found.found, found.stage) == (row.rule, row.found, Stage.SCHEDULE)
    assert found.message
    assert found.fix.endswith(".")


@pytest.mark.parametrize(("rule", "legal", "illegal"), ELSEWHERE, ids=[row[0] for row in ELSEWHERE])
def test_documents_that_pass_and_that_do_not(rule: str, legal: Json, illegal: Json) -> None:
    after(legal)
    assert replay_document(illegal).refused[0].rule == rule


@pytest.mark.parametrize(("rule", "before", "legal", "illegal"), TRACED, ids=[row[0] for row in TRACED])
def test_steps_of_traces_that_pass_and_that_do_not(
    rule: str, before: list[steps.Step], legal: steps.Step, illegal: steps.Step
) -> None:
    sf = load((4, 8), *before)
    apply(sf, legal)
    with pytest.raises(InvalidStep) as caught:
        apply(sf, illegal)
    (found,) = caught.value.violations
    assert (found.rule, found.stage) == (rule, Stage.SCHEDULE)
    assert (caught.value.reason, caught.value.fix) == (found.message, found.fix)


def test_arithmetic_does_not_write_shared_memory() -> None:
    sf = scheduled(unary((4, 8), OpKind.RELU), steps.CacheOutput("v0", "q", LOCAL))
    apply(sf, steps.SetMemory("q", LOCAL))
    with pytest.raises(InvalidStep) as caught:
        apply(sf, steps.SetMemory("q", SHARED))
    assert caught.value.violations[0].rule == "shared_tensors_are_written_by_copies"


@pytest.mark.parametrize("rule", STEP_RULES, ids=lambda rule: rule.__name__)
def test_every_rule_has_a_row_and_says_why_it_is_there(rule: StepRule) -> None:
    rows = {row.rule for row in ROWS} | {row[0] for row in ELSEWHERE} | {row[0] for row in TRACED}
    assert rule.__name__ in rows | IN_OTHER_TESTS
    assert re.fullmatch(r"(?s)\S.{20,}\.", (rule.__doc__ or "").strip())


def test_rules_are_registered_once() -> None:
    names = [rule.__name__ for rule in STEP_RULES]
    assert len(set(names)) == len(names)


def test_a_step_stops_at_the_first_rule_that_refuses_it() -> None:
    data = chain((4, 8), split("t0", 9, 0))
    assert [v.rule for v in replay_document(data).refused] == ["steps_name_axes_that_exist"]


def test_refusals_name_the_step_of_the_document() -> None:
    found = refusal(chain((4, 8), split("t0", 0, 2), split("t0", 5, 2)))
    assert found.where == "schedule[1]: t0: axis 5"
    assert str(found) == (
        "schedule[1]: t0: axis 5: there is no axis 5 (steps_name_axes_that_exist). "
        "Count loop axes at the moment of the step: 0 to 2."
    )
