"""How deep tensors can be inlined: the nearest position that can be taken, and the one that cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compiler.schedule.documents_of_steps import (
    MOST,
    Json,
    after,
    chain,
    do,
    document,
    inline,
    merge,
    op,
    parallel,
    positions,
    refusal,
    split,
    tensor,
)

MAX_POSITION = "tensors_are_inlined_at_most_at_their_maximum_position"


def alike(tvs: str, *steps: Any) -> list[Json]:
    """The same steps on each tensor."""
    return [step(tv) for tv in tvs.split() for step in steps]


# inline_most ---------------------------------------------------------------------------------------------------------

BOTH = "t0 z"
DEPTHS = [
    pytest.param([], 2, id="all-loops"),
    pytest.param([split("t0", 1, 4)], 1, id="up-to-the-first-axis-that-the-consumer-does-not-have"),
    pytest.param(alike(BOTH, lambda t: split(t, 1, 4)), 3, id="made-alike"),
    pytest.param([split("t0", 1, 4), split("z", 1, 8)], 1, id="other-factors"),
    pytest.param([split("t0", 1, 4), split("z", 1, 4, False)], 1, id="the-other-piece-has-the-factor"),
    pytest.param([split("t0", 1, 4, False), split("z", 1, 2)], 3, id="two-factors-that-make-the-same-split"),
    pytest.param(alike(BOTH, lambda t: merge(t, 0)), 1, id="merged"),
    pytest.param([merge("t0", 0), merge("z", 1, 0)], 0, id="merged-in-another-order"),
    pytest.param([do("reorder", "t0", map={"0": 1})], 0, id="in-another-order"),
    pytest.param([parallel("t0", 1, "Vectorize")], 1, id="own-vector"),
    pytest.param([parallel("z", 1, "Vectorize")], 1, id="the-consumers-vector"),
    pytest.param([parallel("t0", 0, "Bulk")], 0, id="own-bulk"),
    pytest.param([parallel("z", 0, "Bulk")], 0, id="the-consumers-bulk"),
    pytest.param([parallel("t0", 1, "Unroll")], 1, id="own-unroll"),
    pytest.param([parallel("z", 1, "Unroll")], 1, id="the-consumers-unroll"),
    pytest.param([parallel("z", 1, "Unswitch"), parallel("t0", 0, "TIDx")], 2, id="other-types-do-not-matter"),
    pytest.param([split("t0", 1, 1)], 1, id="a-trivial-split-is-one"),
    pytest.param([split("t0", 1, 1), merge("t0", 1)], 2, id="undone-again-it-is-none"),
    pytest.param([split("z", 0, 1, False), merge("z", 0), split("z", 0, 4), merge("z", 0)], 0, id="a-real-one-stays"),
    pytest.param(
        [split("t0", 1, 1), merge("t0", 1), split("t0", 1, 4), split("z", 1, 8), merge("z", 1, 2), split("z", 1, 4)],
        3,
        id="made-alike-after-it-was-undone",
    ),
    pytest.param(alike(BOTH, lambda t: split(t, 1, 3), lambda t: split(t, 1, 2)), 4, id="holes-are-alike"),
    pytest.param(alike(BOTH, lambda t: split(t, 0, 8), lambda t: do("swizzle", t, axes=[1, 2])), 3, id="swizzled"),
    pytest.param([do("swizzle", "z", axes=[0, 1])], 1, id="swizzled-in-the-consumer-alone"),
]


@pytest.mark.parametrize(("steps", "depth"), DEPTHS)
def test_inline_most_goes_as_deep_as_it_can(steps: list[Json], depth: int) -> None:
    square = (32, 32) if any(s["do"] == "swizzle" and s["axes"] == [0, 1] for s in steps) else (32, 8)
    assert positions(chain(square, *steps, MOST), "t0") == (depth,)


def test_inputs_are_not_inlined_and_outputs_have_no_consumer_to_stop_them() -> None:
    assert positions(chain((4, 8), parallel("z", 1, "Vectorize"), MOST), "a", "t0", "z") == (0, 1, 1)


def test_the_least_of_several_consumers_counts() -> None:
    tensors = {"a": tensor([8, 4], "global"), "t": tensor([8, 4])} | {n: tensor([8, 4], "global") for n in "yz"}
    ops = [op("set", "a", "t"), op("set", "t", "y"), op("exp", "t", "z")]
    data = document(tensors, ops, "a", "y z")
    assert positions(data | {"schedule": [MOST]}, "t") == (2,)
    assert positions(data | {"schedule": [split("y", 1, 2), MOST]}, "t") == (1,)
    assert positions(data | {"schedule": [split("y", 1, 2), split("z", 0, 2), MOST]}, "t") == (0,)


def broadcasting(*steps: Json, new_first: bool = True) -> Json:
    """x[8] -> r[8] -> b[4, 8] or [8, 4] by a new broadcast axis, b + y -> z."""
    flags, shape = ([True, False], [4, 8]) if new_first else ([False, True], [8, 4])
    wide = [1, 8] if new_first else [8, 1]
    tensors = {
        "x": tensor([8], "global"),
        "y": tensor(shape, "global"),
        "r": tensor([8]),
        "b": tensor(wide, broadcast_axes=[0 if new_first else 1]),
        "z": tensor(shape, "global"),
    }
    ops = [op("set", "x", "r"), op("broadcast", "r", "b", broadcast_flags=flags), op("add", "b y", "z")]
    return document(tensors, ops, "x y", "z", *steps)


def test_new_broadcast_axes_of_the_consumer_are_stepped_over() -> None:
    assert positions(broadcasting(MOST), "r", "b") == (1, 2)


def test_trailing_broadcast_axes_are_left_outside() -> None:
    assert positions(broadcasting(MOST, new_first=False), "r", "b") == (1, 1)


def test_an_axis_merged_with_a_new_broadcast_axis_stands_for_its_other_part() -> None:
    merged = [merge("b", 0), merge("z", 0)]
    assert positions(broadcasting(*merged, MOST), "r", "b") == (1, 1)
    again = [split("b", 0, 4), split("z", 0, 4)]
    assert positions(broadcasting(*merged, *again, MOST), "r") == (0,), "r has no split"
    assert positions(broadcasting(*merged, *again, split("r", 0, 4), MOST), "r") == (2,)


def test_a_split_of_a_broadcast_axis_is_the_split_of_what_it_becomes() -> None:
    cut = [split("b", 0, 3), split("z", 0, 3)]
    assert positions(broadcasting(*cut, MOST), "b") == (3,)
    assert positions(broadcasting(split("b", 0, 2), split("z", 0, 3), MOST), "b") == (0,)


def test_a_permuted_axis_is_the_same_axis() -> None:
    tensors = {"a": tensor([4, 8], "global"), "t": tensor([4, 8]), "z": tensor([8, 4], "global")}
    ops = [op("set", "a", "t"), op("permute", "t", "z", dims=[1, 0])]
    data = document(tensors, ops, "a", "z")
    assert positions(data | {"schedule": [MOST]}, "t") == (0,)
    assert positions(data | {"schedule": [do("reorder", "z", map=[1, 0]), MOST]}, "t") == (2,)


def reducing(*steps: Json, use_after: bool) -> Json:
    """x[4, 8] -> r -> s = sum over axis 1, and with `use_after` b = broadcast(s), z = r + b."""
    tensors = {
        "x": tensor([4, 8], "global"),
        "r": tensor([4, 8]),
        "s": tensor([4, 8], reduction_axes=[1]) if use_after else tensor([4, 8], "global", reduction_axes=[1]),
        "b": tensor([4, 1], broadcast_axes=[1]),
        "z": tensor([4, 8], "global"),
    }
    ops = [op("set", "x", "r"), op("sum", "r", "s", axes=[1])]
    if use_after:
        ops += [op("broadcast", "s", "b", broadcast_flags=[False, True]), op("add", "r b", "z")]
    return document(tensors, ops, "x", "z" if use_after else "s", *steps)


def test_a_sum_is_not_inlined_past_what_it_sums_over() -> None:
    assert positions(reducing(MOST, use_after=True), "s", "b") == (1, 1)
    assert refusal(reducing(inline("s", 2), use_after=True)).limit == 1


def test_what_is_summed_and_used_with_the_sum_is_not_computed_inside_the_sum() -> None:
    assert positions(reducing(MOST, use_after=False), "r") == (2,)
    assert positions(reducing(MOST, use_after=True), "r") == (1,), "one loop would hold the sum and a use of it"
    assert after(reducing(inline("r", 1), use_after=True)).tensor("r").compute_at == 1
    assert refusal(reducing(inline("r", 2), use_after=True)).rule == MAX_POSITION


def test_what_is_summed_and_used_with_the_sum_may_be_computed_with_both() -> None:
    outer = [inline(tv, 1) for tv in "rsb"]
    deeper = do("compute_with", "r", position=-1)
    t = after(reducing(*outer, deeper, use_after=True)).tensor("r")
    assert (t.compute_at, t.compute_with) == (1, 2)
    fixed = refusal(reducing(*outer, deeper, split("s", 1, 4), use_after=True))
    assert fixed.rule == "transforms_stay_right_of_inlined_producers"


def spreading(rows: str, *steps: Json) -> Json:
    """a[8] -> b[1, 8], y = b + p and z = b + q, p and q [4, 8]; `rows` names what p and q are: inputs, or copies."""
    p, q = rows.split()
    names = dict.fromkeys((p, q))
    tensors = {"a": tensor([8], "global"), "b": tensor([1, 8], broadcast_axes=[0])}
    tensors |= {n: tensor([4, 8], "global") for n in (*names, "y", "z")}
    ops = [op("broadcast", "a", "b", broadcast_flags=[True, False]), op("add", f"b {p}", "y"), op("add", f"b {q}", "z")]
    return document(tensors, ops, " ".join(("a", *names)), "y z", *steps)


def test_a_broadcast_axis_that_becomes_two_is_no_loop_of_both() -> None:
    assert after(spreading("p p", inline("b", 2))).tensor("b").compute_at == 2, "one axis, by the input that both read"
    assert refusal(spreading("p q", inline("b", 2))).rule == MAX_POSITION
    assert positions(spreading("p p", MOST), "b") == (2,)
    assert positions(spreading("p q", MOST), "b") == (0,)
    last = [do("reorder", tv, map=[1, 0]) for tv in "byz"]
    assert positions(spreading("p q", *last, MOST), "b") == (1,), "the axis of 8 is the same in both"


def test_a_broadcast_axis_that_becomes_one_axis_later_is_a_loop() -> None:
    """y and z, to which it is expanded, are added."""
    data = spreading("p q", inline("b", 2))
    data["tensors"] |= {"y": tensor([4, 8]), "z": tensor([4, 8]), "w": tensor([4, 8], "global")}
    data["ops"].append(op("add", "y z", "w"))
    assert positions(data | {"outputs": ["w"]}, "b") == (2,)


def test_a_broadcast_axis_that_stays_one_is_no_second_axis() -> None:
    """Expanded in y alone: z has it as it is."""
    data = spreading("p p", inline("b", 2))
    data["tensors"]["z"] = tensor([1, 8], "global", broadcast_axes=[0])
    data["ops"][2] = op("exp", "b", "z")
    assert positions(data, "b") == (2,)


# inline_at -----------------------------------------------------------------------------------------------------------

POSITIONS = [
    pytest.param([], 2, 3, id="past-the-loops"),
    pytest.param([parallel("t0", 1, "Vectorize")], 1, 2, id="own-vector"),
    pytest.param([parallel("z", 1, "Bulk")], 1, 2, id="the-consumers-bulk"),
    pytest.param([split("t0", 1, 4), split("z", 1, 2)], 1, 2, id="no-such-axis-in-the-consumer"),
]


@pytest.mark.parametrize(("steps", "legal", "illegal"), POSITIONS)
def test_a_position_past_the_greatest_is_refused(steps: list[Json], legal: int, illegal: int) -> None:
    assert positions(chain((4, 8), *steps, inline("t0", legal)), "t0") == (legal,)
    refusal(chain((4, 8), *steps, inline("t0", illegal)))


@pytest.mark.parametrize(("position", "found"), [(-1, 2), (-2, 1), (-3, 0)])
def test_negative_positions_count_from_the_end(position: int, found: int) -> None:
    assert positions(chain((4, 8), inline("t0", position)), "t0") == (found,)


def test_an_explicit_position_may_lie_right_of_unrolled_axes() -> None:
    unrolled = alike(BOTH, lambda t: parallel(t, 0, "Unroll"))
    assert positions(chain((4, 8), *unrolled, MOST), "t0") == (0,)
    assert positions(chain((4, 8), *unrolled, inline("t0", 2)), "t0") == (2,)


def test_a_named_position_takes_loops_that_do_the_same_however_they_were_made() -> None:
    ways = [split("t0", 1, 4), split("t0", 1, 2), split("z", 1, 8), split("z", 2, 4)]
    assert positions(chain((4, 32), *ways, MOST), "t0") == (1,), "not made alike"
    assert positions(chain((4, 32), *ways, inline("t0", 4)), "t0") == (4,)
    others = [split("t0", 1, 4), split("t0", 1, 2), split("z", 1, 8), split("z", 2, 2)]
    assert refusal(chain((4, 32), *others, inline("t0", 3))).limit == 2


def test_inlining_again_only_goes_deeper() -> None:
    assert positions(chain((4, 8), inline("t0", 2), inline("t0", 1)), "t0") == (2,)


def test_inlining_an_input_says_nothing_unless_it_is_too_deep() -> None:
    assert positions(chain((4, 8), inline("a", 2)), "a") == (0,)
    assert refusal(chain((4, 8), split("t0", 0, 2), inline("a", 1))).rule == MAX_POSITION


# compute_at ----------------------------------------------------------------------------------------------------------


def at(tv: str, consumer: str, position: int) -> Json:
    return do("compute_at", tv, consumer=consumer, position=position)


def test_compute_at_takes_the_consumers_loops_over() -> None:
    sf = after(chain((4, 8), merge("z", 0), split("z", 0, 4), at("a", "z", 1), middle=("local", "local")))
    assert [t.compute_at for t in sf.tensors] == [0, 1, 1, 0]
    assert [[a.extent for a in t.loop] for t in sf.tensors] == [[8, 4]] * 4


def test_compute_at_carries_over_the_axes_left_of_the_position_alone() -> None:
    sf = after(chain((4, 8), split("z", 1, 2), split("z", 0, 2), at("t0", "z", 2)))
    assert [a.extent for a in sf.tensor("t0").loop] == [2, 2, 8]
    assert sf.tensor("t0").compute_at == 2


def test_compute_at_moves_axes_to_the_front() -> None:
    sf = after(chain((4, 8), do("reorder", "z", map=[1, 0]), at("t0", "z", 1)))
    assert [a.extent for a in sf.tensor("t0").loop] == [8, 4]


def test_negative_compute_positions_count_from_the_consumers_end() -> None:
    assert positions(chain((4, 8), at("a", "z", -1), middle=("local", "local")), "t0", "t1") == (2, 2)
    assert positions(chain((4, 8), at("a", "z", -2), middle=("local", "local")), "t0", "t1") == (1, 1)


def test_compute_at_inlines_up_to_where_all_uses_meet() -> None:
    tensors = {"a": tensor([4, 8], "global")} | {n: tensor([4, 8]) for n in "rst"} | {"z": tensor([4, 8], "global")}
    ops = [op("set", "a", "r"), op("exp", "r", "s"), op("set", "r", "t"), op("add", "s t", "z")]
    data = document(tensors, ops, "a", "z", at("r", "s", 1))
    assert positions(data, "r", "s", "t") == (1, 1, 1), "t reads r too, so all are computed in z"
    assert positions(data | {"schedule": [at("s", "z", 1)]}, "r", "s", "t") == (0, 1, 0)


def test_compute_at_with_no_place_where_all_uses_meet_inlines_whatever_is_read() -> None:
    tensors = {"a": tensor([4, 8], "global")} | {n: tensor([4, 8]) for n in "rs"}
    tensors |= {n: tensor([4, 8], "global") for n in "yz"}
    ops = [op("set", "a", "r"), op("exp", "r", "s"), op("set", "s", "y"), op("set", "r", "z")]
    assert positions(document(tensors, ops, "a", "y z", at("r", "s", 1)), "r", "s") == (1, 1)


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        pytest.param([at("t0", "a", 1)], "tensors_are_computed_at_what_is_computed_from_them", id="upstream"),
        pytest.param([at("t0", "t0", 1)], "tensors_are_computed_at_what_is_computed_from_them", id="itself"),
        pytest.param([at("t0", "z", 3)], "compute_positions_lie_among_the_consumers_loops", id="past-the-loops"),
        pytest.param([parallel("z", 1, "Vectorize"), at("t0", "z", 2)], MAX_POSITION, id="past-a-vector"),
        pytest.param(
            [inline("t0", 1), split("z", 0, 2), at("t0", "z", 1)],
            "transforms_stay_right_of_inlined_producers",
            id="through-fixed-loops",
        ),
    ],
)
def test_what_cannot_be_computed_there_is_refused(steps: list[Json], rule: str) -> None:
    assert refusal(chain((4, 8), *steps, middle=("local", "local"))).rule == rule


# compute_with --------------------------------------------------------------------------------------------------------


def with_(position: int) -> Json:
    return do("compute_with", "t0", position=position)


def test_compute_with_computes_deeper_than_it_allocates() -> None:
    t = after(chain((4, 8), inline("t0", 1), with_(2))).tensor("t0")
    assert (t.compute_at, t.compute_with) == (1, 2)


def test_compute_with_ends_where_inlining_reaches_it() -> None:
    t = after(chain((4, 8), with_(1), inline("t0", 2))).tensor("t0")
    assert (t.compute_at, t.compute_with) == (2, None)
    t = after(chain((4, 8), with_(2), with_(1))).tensor("t0")
    assert t.compute_with == 2


@pytest.mark.parametrize(
    ("before", "tv", "legal", "illegal", "rule"),
    [
        pytest.param([], "t0", 2, 3, "inline_positions_lie_among_the_loops", id="past-the-loops"),
        pytest.param(
            [parallel("z", 1, "Bulk")],
            "t0",
            1,
            2,
            "tensors_are_computed_with_consumers_at_most_at_their_maximum_position",
            id="past-a-bulk-axis",
        ),
        pytest.param(
            [inline("t0", 2)], "t0", 2, 1, "tensors_are_computed_no_shallower_than_allocated", id="left-of-compute-at"
        ),
    ],
)
def test_positions_of_compute_with(before: list[Json], tv: str, legal: int, illegal: int, rule: str) -> None:
    after(chain((4, 8), *before, do("compute_with", tv, position=legal)))
    assert refusal(chain((4, 8), *before, do("compute_with", tv, position=illegal))).rule == rule


def test_compute_with_needs_a_consumer() -> None:
    found = refusal(chain((4, 8), do("compute_with", "z", position=1)))
    assert found.rule == "tensors_that_are_computed_with_others_have_consumers"


# What inlining fixes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "last", "rule"),
    [
        pytest.param([inline("t0", 1)], split("t0", 0, 2), "transforms_stay_right_of_the_compute_position", id="own"),
        pytest.param([inline("t0", 1)], split("z", 0, 2), "transforms_stay_right_of_inlined_producers", id="consumer"),
        pytest.param([with_(1)], split("t0", 0, 2), "transforms_stay_right_of_the_compute_position", id="own-with"),
        pytest.param([with_(1)], split("z", 0, 2), "transforms_stay_right_of_inlined_producers", id="consumer-with"),
        pytest.param([inline("t0", 1)], merge("z", 0), "transforms_stay_right_of_inlined_producers", id="merge"),
        pytest.param(
            [inline("t0", 1)],
            do("reorder", "z", map=[1, 0]),
            "transforms_stay_right_of_inlined_producers",
            id="reorder",
        ),
        pytest.param(
            [split("t0", 1, 4), split("t0", 1, 2), split("z", 1, 8), split("z", 2, 4), inline("t0", 3)],
            split("z", 2, 1),
            "transforms_stay_right_of_inlined_producers",
            id="loops-made-otherwise",
        ),
        pytest.param([MOST], split("z", 0, 2), "transforms_stay_right_of_the_compute_position", id="an-output"),
    ],
)
def test_shared_loops_are_fixed(steps: list[Json], last: Json, rule: str) -> None:
    assert refusal(chain((4, 32), *steps, last)).rule == rule


def test_loops_right_of_the_shared_ones_are_free() -> None:
    sf = after(chain((4, 32), inline("t0", 1), split("t0", 1, 4), split("z", -1, 8), do("reorder", "z", map={"1": 2})))
    assert [a.extent for a in sf.tensor("z").loop] == [4, 8, 4]
