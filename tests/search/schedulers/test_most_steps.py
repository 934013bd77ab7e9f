"""How long traces are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.errors import CompilerError
from compiler.schedule.trace import ScheduleTrace, launches_of
from search.cli.load import load_one
from search.tuning.candidates.plan import Plan
from tests.shares import shared

SUITE = Path("benchmarks/suite/suite_public.json")
CASES: list[dict[str, Any]] = json.loads(SUITE.read_text())["cases"]
TAKEN = [case["id"] for case in CASES if not case["id"].startswith(("mm_", "tmem_"))]
"""All but the fusions that the README says are refused."""
MOST_STEPS = 40


def traced(case: str, count: int) -> Iterator[ScheduleTrace]:
    """The launches of some points of each of a case's schedulers."""
    plan = Plan.of(load_one(SUITE, case, {}).bound(), card_or_default("H200"))
    for name, scheduler in plan.schedulers.items():
        for point in plan.spaces[name].sample(count, seed=1):
            try:
                trace = scheduler.trace(plan.fusion, point)
            except CompilerError:
                continue  # a rule of the compiler refuses the point
            yield from (launch.trace for launch in launches_of(trace))


@pytest.mark.parametrize("points", [2, pytest.param(24, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", shared(TAKEN, 2))
def test_a_launch_of_the_public_suite_has_at_most_forty_steps(case: str, points: int) -> None:
    longest = max(traced(case, points), key=lambda trace: len(trace.steps))
    assert len(longest.steps) <= MOST_STEPS, str(longest)
