"""From a trace to a source: each stage stops what it must, and the same trace gives the same text."""

from __future__ import annotations

import pytest

from compiler.arch import arch_named
from compiler.errors import IllegalSchedule, InvalidStep
from compiler.pipeline import generate
from compiler.schedule import steps as st
from compiler.schedule.trace import ScheduleTrace
from compiler.wire import trace_from_json, trace_to_json
from tests.compiler.emit.golden_schedules import GOLDEN
from tests.compiler.schedules import by_threads, unary

HOPPER = arch_named("sm_90a")


def test_a_step_that_does_not_apply_stops_the_replay() -> None:
    with pytest.raises(InvalidStep, match=r"split\(tv=v9"):
        generate(ScheduleTrace(unary((64,)), (st.Split("v9", 0, 4),)), HOPPER)


def test_an_illegal_schedule_is_not_lowered_and_names_every_breach() -> None:
    trace = ScheduleTrace(unary((4096,)), tuple(by_threads(threads=2048, vector=8)))
    with pytest.raises(IllegalSchedule) as caught:
        generate(trace, HOPPER)
    rules = [v.rule for v in caught.value.violations]
    assert rules.count("block_fits_the_architecture") == 2
    assert rules.count("vector_word_is_one_instruction") == 2
    assert str(caught.value).count("\n") == len(rules) - 1


@pytest.mark.parametrize("name", GOLDEN)
def test_a_replayed_trace_gives_the_same_source(name: str) -> None:
    made = GOLDEN[name].generate()
    again = generate(trace_from_json(trace_to_json(made.trace)), made.arch)
    assert again.source == made.source
    assert [(one.kernel, one.scheduled) for one in again.launches] == [
        (one.kernel, one.scheduled) for one in made.launches
    ]
