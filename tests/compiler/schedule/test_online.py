"""Which sums can be folded along with their maximum, and what the fusion is afterwards."""

from __future__ import annotations

import pytest

from compiler.errors import InvalidStep
from compiler.ir.fusion import Fusion
from compiler.ir.tensor import Running
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.online import NoOnlineForm, OnlineForm, online_form, online_sums
from compiler.schedule.start import start
from compiler.schedule.trace import ScheduleTrace
from tests.compiler.schedule.online_fusions import PLAIN, Made, exponentials

SUB, EXP = PLAIN


def ends_of(fusion: Fusion) -> tuple[str, str]:
    """The first maximum, or whatever is folded first, and the last sum."""
    ops = start(fusion).ops
    tops, totals = ([op.output for op in ops if op.kind in kinds] for kinds in (("amax", "amin"), ("sum",)))
    return tops[0], totals[-1]


LEGAL = [
    pytest.param(exponentials(PLAIN), id="exp-of-a-distance"),
    pytest.param(exponentials(PLAIN, dtype="bf16"), id="in-halves"),
    pytest.param(exponentials([SUB, ("exp", ("d",), "h"), ("mul", ("h", "y"), "e")]), id="times-a-weight"),
    pytest.param(exponentials([SUB, ("exp", ("d",), "h"), ("div", ("h", "y"), "e")]), id="over-a-weight"),
    pytest.param(exponentials([SUB, ("mul", ("d", 0.125), "c"), ("exp", ("c",), "e")]), id="of-a-share"),
    pytest.param(exponentials([SUB, ("exp", ("d",), "h"), ("cast", ("h",), "e")], dtype="bf16"), id="summed-wider"),
    pytest.param(
        exponentials([("tanh", ("x",), "z"), ("sub", ("z", "mb"), "d"), EXP], of="z"), id="of-what-is-computed"
    ),
    pytest.param(
        exponentials([("maximum", ("mb", -3.4028234663852886e38), "b"), ("sub", ("x", "b"), "d"), EXP]),
        id="of-a-maximum-that-is-kept-finite",
    ),
]


@pytest.mark.parametrize("fusion", LEGAL)
def test_these_sums_have_the_form(fusion: Fusion) -> None:
    sf = start(fusion)
    maximum, total = ends_of(fusion)
    assert isinstance(online_form(sf, maximum, total), OnlineForm)
    assert online_sums(sf) == {maximum: (total,)}
    after = apply(sf, steps.Online(maximum, (total,)))
    (running,) = (op for op in after.ops if op.is_running)
    assert running.tensor_inputs == (maximum,)
    assert all(op.output in after.by_name for op in after.ops)
    assert {op.output for op in after.ops} | set(after.inputs) == set(after.by_name)


ILLEGAL = [
    pytest.param(exponentials(PLAIN, fold="amin"), "amin", id="from-a-minimum"),
    pytest.param(exponentials([SUB, ("square", ("d",), "e")]), "square", id="of-squares"),
    pytest.param(exponentials([("sub", ("mb", "x"), "d"), EXP]), "another difference", id="the-other-way-round"),
    pytest.param(exponentials([("sub", ("y", "mb"), "d"), EXP]), "other values", id="of-other-values"),
    pytest.param(
        exponentials([SUB, ("mul", ("d", -0.125), "c"), ("exp", ("c",), "e")]), "mul", id="of-a-negative-share"
    ),
    pytest.param(exponentials([SUB, ("mul", ("d", "y"), "c"), ("exp", ("c",), "e")]), "mul", id="of-many-shares"),
    pytest.param(
        exponentials([SUB, ("exp", ("d",), "h"), ("mul", ("h", "mb"), "e")]), "several values", id="weighted-by-it"
    ),
    pytest.param(exponentials([SUB, ("exp", ("d",), "h"), ("add", ("h", "y"), "e")]), "add", id="plus-something"),
    pytest.param(exponentials([SUB, ("exp", ("d",), "h"), ("div", ("y", "h"), "e")]), "div", id="below-something"),
    pytest.param(
        exponentials([("maximum", ("mb", -1e30), "b"), ("sub", ("x", "b"), "d"), EXP]),
        "maximum",
        id="bounded-otherwise",
    ),
    pytest.param(
        exponentials([("cast", ("mb",), "bf162"), ("cast", ("bf162",), "b"), ("sub", ("x", "b"), "d"), EXP]),
        "cast",
        id="of-a-rounded-maximum",
    ),
    pytest.param(exponentials([SUB, EXP], outputs=("e", "s")), "an output", id="of-what-is-stored"),
    pytest.param(
        exponentials([("exp", ("x",), "e"), ("sub", ("x", "mb"), "f")], outputs=("s", "t")), "sub", id="no-exp"
    ),
    pytest.param(
        exponentials([("exp", ("x",), "e")], outputs=("m", "s")), "no use of the maximum", id="of-no-distance"
    ),
]


@pytest.mark.parametrize(("fusion", "found"), ILLEGAL)
def test_others_are_refused_by_what_stands_in_the_way(fusion: Fusion, found: str) -> None:
    sf = start(fusion)
    maximum, total = ends_of(fusion)
    form = online_form(sf, maximum, total)
    assert isinstance(form, NoOnlineForm)
    assert found in form.found
    with pytest.raises(InvalidStep, match=form.tensor) as caught:
        apply(sf, steps.Online(maximum, (total,)))
    (violation,) = caught.value.violations
    assert violation.rule == "online_sums_fold_exponentials_of_the_distance_to_the_maximum"
    assert total not in {name for sums in online_sums(sf).values() for name in sums}


def steps_of(*more: steps.Step) -> tuple[steps.Step, ...]:
    return more


SCALED = exponentials([SUB, EXP, ("mul", ("d", 0.5), "c"), ("exp", ("c",), "f")], outputs=("s", "t"))
M, S, T = (op.output for op in start(SCALED).ops if op.kind in ("amax", "sum"))


@pytest.mark.parametrize(
    ("chosen", "rule"),
    [
        pytest.param(steps_of(steps.Online(M, (S, T))), "", id="two-sums"),
        pytest.param(steps_of(steps.Online(M, (S,))), "", id="one-of-two"),
        pytest.param(steps_of(steps.Online(M, ())), "online_sums_are_tensors_of_the_fusion", id="none"),
        pytest.param(steps_of(steps.Online(M, (S, S))), "online_sums_are_tensors_of_the_fusion", id="one-twice"),
        pytest.param(steps_of(steps.Online(M, ("q",))), "online_sums_are_tensors_of_the_fusion", id="unknown-sum"),
        pytest.param(steps_of(steps.Online("q", (S,))), "steps_name_tensors_of_the_fusion", id="unknown-maximum"),
        pytest.param(
            steps_of(steps.Online(M, (S,)), steps.Online(M, (T,))), "online_folds_are_not_scheduled_yet", id="two-steps"
        ),
        pytest.param(
            steps_of(steps.Split(S, 1, 8), steps.Online(M, (S,))), "online_folds_are_not_scheduled_yet", id="scheduled"
        ),
        pytest.param(steps_of(steps.Online(M, (S,)), steps.Split(S, 1, 8)), "", id="scheduled-afterwards"),
    ],
)
def test_when_the_step_can_be_taken(chosen: tuple[steps.Step, ...], rule: str) -> None:
    trace = ScheduleTrace(SCALED, chosen)
    if not rule:
        trace.replay()
        return
    with pytest.raises(InvalidStep) as caught:
        trace.replay()
    assert {v.rule for v in caught.value.violations} == {rule}


def test_sums_that_bound_the_maximum_differently_do_not_share_it() -> None:
    bounded: list[Made] = [
        ("maximum", ("mb", -3.4028234663852886e38), "b"),
        ("sub", ("x", "b"), "c"),
        ("exp", ("c",), "f"),
    ]
    fusion = exponentials([*PLAIN, *bounded], outputs=("s", "t"))
    sf = start(fusion)
    m, s, t = (op.output for op in sf.ops if op.kind in ("amax", "sum"))
    assert online_sums(sf) == {m: (s,)}
    with pytest.raises(InvalidStep) as caught:
        apply(sf, steps.Online(m, (s, t)))
    assert caught.value.violations[0].rule == "online_sums_share_one_running_maximum"
    finite = apply(sf, steps.Online(m, (t,)))
    assert [op.running for op in finite.ops if op.is_running] == [Running.FINITE]


def test_what_others_read_stays_and_the_sum_has_its_own() -> None:
    """Of a softmax: the numerator is measured from the whole row's maximum."""
    sf = start(exponentials([*PLAIN], outputs=("s",)))
    kept = start(exponentials([*PLAIN, ("mul", ("e", "y"), "p")], outputs=("s", "p")))
    for before, copies in ((sf, 0), (kept, 2)):
        m, s = (op.output for op in before.ops if op.kind in ("amax", "sum"))
        after = apply(before, steps.Online(m, (s,)))
        assert sum(op.output.endswith("_o") for op in after.ops) == copies
        whole = [op for op in after.ops if m in op.tensor_inputs and not op.is_running]
        assert len(whole) == (1 if copies else 0)
