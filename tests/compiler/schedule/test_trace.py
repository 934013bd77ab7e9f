"""Traces: replay, hash, JSON, and faults with their place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compiler.errors import InvalidFusion, InvalidStep
from compiler.ir.fusion import Fusion
from compiler.ir.pinned import pinned
from compiler.schedule import steps
from compiler.schedule.apply import apply
from compiler.schedule.start import start
from compiler.schedule.step_forms import step_text
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_from_json, trace_to_json
from tests.compiler.schedules import SHARED, P, from_wire


def add_of(rows: int, columns: int, strides: tuple[int, ...] | None = None) -> Fusion:
    tensor: dict[str, Any] = {"name": "x", "shape": [rows, columns], "dtype": "bf16"}
    if strides is not None:
        tensor |= {"strides": list(strides), "align": 128}
    ops: list[dict[str, Any]] = [
        {"op": "cast", "in": ["x"], "out": "f", "dtype": "f32"},
        {"op": "add", "in": ["f", 0.5], "out": "y"},
    ]
    return from_wire([tensor], ops, "y")


STEPS: tuple[steps.Step, ...] = (
    steps.CacheInput("i0", "s", SHARED),
    steps.Split("s", 1, 16),
    steps.Parallelize("s", 2, P.TIDX),
    steps.SetAllocationDomain("s", (0, 1, 2), (steps.Split("s", 2, 8),), (None, None, 24, 1)),
    steps.InlineAt("s", 1),
)

TRACE = ScheduleTrace(pinned(add_of(4, 64)), STEPS)


def test_replay_is_the_steps_in_order_from_the_start() -> None:
    sf = start(TRACE.fusion)
    for step in STEPS:
        sf = apply(sf, step)
    assert TRACE.replay() == sf
    assert TRACE.replay() == TRACE.replay()
    assert ScheduleTrace(TRACE.fusion, ()).replay() == start(TRACE.fusion)


def test_who_has_applied_the_steps_spares_others_the_replay() -> None:
    sf = TRACE.replay()
    made = ScheduleTrace.that_made(sf, STEPS)
    assert (made, made.hash) == (TRACE, TRACE.hash)
    assert made.scheduled is sf
    assert TRACE.scheduled == sf
    assert TRACE.scheduled is TRACE.scheduled
    shorter = replace(made, steps=STEPS[:-1])
    assert shorter.scheduled == shorter.replay() != sf


def test_replay_names_the_step_that_does_not_apply() -> None:
    bad = replace(TRACE, steps=(*STEPS[:2], steps.Merge("s", 2), *STEPS[2:]))
    with pytest.raises(InvalidStep, match=r"^merge\(tv=s, axis=2, other=None\): there is no axis 3"):
        bad.replay()


def test_the_printed_form_is_one_line_a_step() -> None:
    assert str(TRACE).splitlines() == [step_text(s) for s in STEPS]


def test_the_hash_is_the_same_on_every_machine() -> None:
    """A stored hash must find the trace again: a change of it is a change of format and needs a new format name."""
    assert TRACE.hash == "06a5aa92e5c06182b91eb968f037f3bebe5435ba680d33f99972034c416fd352"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(TRACE, steps=STEPS[:-1]), id="fewer-steps"),
        pytest.param(replace(TRACE, steps=(*STEPS[:-1], steps.InlineAt("s", 0))), id="another-position"),
        pytest.param(replace(TRACE, steps=(STEPS[0], STEPS[2], STEPS[1], *STEPS[3:])), id="another-order"),
        pytest.param(replace(TRACE, fusion=add_of(4, 128)), id="another-size"),
        pytest.param(replace(TRACE, fusion=add_of(4, 64, (72, 1))), id="another-layout"),
    ],
)
def test_the_hash_tells_traces_apart(other: ScheduleTrace) -> None:
    assert other.hash != TRACE.hash


@pytest.mark.parametrize("fusion", [add_of(4, 64), add_of(4, 64, (72, 1))], ids=["dense", "strided"])
def test_json_round_trip(fusion: Fusion) -> None:
    trace = ScheduleTrace(fusion, STEPS)
    document = json.loads(json.dumps(trace_to_json(trace)))
    found = trace_from_json(document)
    assert found == trace
    assert found.hash == trace.hash
    assert found.replay() == trace.replay()
    assert trace_to_json(found) == document


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(trace_to_json(TRACE))
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "where", "found"),
    [
        pytest.param(changed(lambda d: d.pop("format")), "format", "", id="no-format"),
        pytest.param(changed(lambda d: d.update(format="fusetune.trace/0")), "format", "trace/0", id="other-format"),
        pytest.param(changed(lambda d: d.pop("fusion")), "fusion", "", id="no-fusion"),
        pytest.param(changed(lambda d: d.update(steps={})), "steps", "", id="steps-are-a-list"),
        pytest.param(changed(lambda d: d.update(step=[])), "step", "unknown field", id="unknown-field"),
        pytest.param(changed(lambda d: d["steps"].append("split")), "steps[5]", "split", id="a-step-is-an-object"),
        pytest.param(changed(lambda d: d["steps"][1].update(do="spilt")), "steps[1].do", "spilt", id="unknown-step"),
        pytest.param(changed(lambda d: d["steps"][1].pop("factor")), "steps[1].factor", "nothing", id="no-factor"),
        pytest.param(
            changed(lambda d: d["steps"][3]["transforms"][0].update(axis="2")),
            "steps[3].transforms[0].axis",
            "'2'",
            id="inside-transforms",
        ),
        pytest.param(changed(lambda d: d["fusion"].pop("binding")), "binding", "nothing", id="no-binding"),
        pytest.param(
            changed(lambda d: d["fusion"]["fusion"]["ops"][1].update(op="addd")), "ops[1]", "addd", id="in-the-fusion"
        ),
    ],
)
def test_faults_have_a_place(document: dict[str, Any], where: str, found: str) -> None:
    with pytest.raises(InvalidFusion) as caught:
        trace_from_json(document)
    (problem,) = caught.value.problems
    assert where in problem.where
    assert found in problem.found
    assert problem.expected
    assert problem.fix
