"""Random fusions for Blackwell, at random points that keep something in tensor memory, are right in the emulator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compiler.errors import IllegalSchedule, Unsupported
from compiler.nvrtc import CompilePool
from search.space.groups import is_kept_there
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.cases import Case, random_case
from tests.search.random_fusions.proving import BLACKWELL_CARDS, Kernel, Outcome, kernel_of, outcome

FOUND = json.loads(Path(__file__).with_name("kept_in_tensor_memory.json").read_text())
"""Random fusions that showed a fault, as they were drawn then."""

SEEDS = {"half-a-word-that-nothing-uses": 1853, "a-tensor-reached-twice-alike-from-the-reference": 6494}
"""What draws the points that each was wrong at."""

DRAWN = 60
"""Points of a scheduler that one with tensor memory is looked for among: every third has some."""


def keeps_some(point: Mapping[str, Any]) -> bool:
    """Whether a point, or a launch of it, keeps something in tensor memory."""
    launches = {name.rpartition(".")[0] for name in point}
    return any(is_kept_there({"tmem": point.get(f"{one}.tmem" if one else "tmem", "none")}) for one in launches)


def kernel_with_tmem(case: Case, seed: int, pool: CompilePool) -> Kernel | None:
    """The case at a random point with tensor memory, of a random scheduler that has one; None where none has."""
    random = Random(seed)
    try:
        plan = Plan.of(case.bound(), random.choice(BLACKWELL_CARDS))
    except Unsupported:
        return None
    points = [
        Candidate.of(name, point)
        for name, space in plan.searchable.items()
        for point in space.sample(DRAWN, seed)
        if keeps_some(point)
    ]
    random.shuffle(points)
    for candidate in points[:6]:
        try:
            return kernel_of(case, seed, plan, candidate, pool)
        except (IllegalSchedule, Unsupported):
            continue
    return None


def drawn(seeds: range) -> Iterator[tuple[Case, int]]:
    return ((random_case(seed, "small"), seed) for seed in seeds)


def expect_right(cases: Iterable[tuple[Case, int]], least: int, pool: CompilePool) -> None:
    """At least so many of the cases have points with tensor memory by their seeds, and all that are tried are right."""
    found: list[Outcome] = []
    for case, seed in cases:
        kernel = kernel_with_tmem(case, seed, pool)
        if kernel is not None:
            found.append(outcome(kernel))
    wrong = [str(one) for one in found if one.fault or one.unsupported]
    assert not wrong, f"{len(wrong)} of {len(found)}\n\n" + "\n\n".join(wrong[:3])
    assert len(found) >= least


@pytest.mark.parametrize("first", [0, pytest.param(50, marks=pytest.mark.long)])
def test_random_fusions_are_right_with_tensor_memory(first: int, pool: CompilePool) -> None:
    expect_right(drawn(range(first, first + 50)), 10, pool)


@pytest.mark.parametrize("name", FOUND)
def test_random_fusions_that_failed_once(name: str, pool: CompilePool) -> None:
    case = Case(name, FOUND[name]["document"], FOUND[name]["binding"])
    expect_right([(case, SEEDS[name])], 1, pool)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 2_000, 100))
def test_many_random_fusions_are_right_with_tensor_memory(first: int, pool: CompilePool) -> None:
    expect_right(drawn(range(first, first + 100)), 20, pool)
