"""Random fusions for Blackwell, at random points that keep something in tensor memory, are right in the emulator."""

from __future__ import annotations

from collections.abc import Mapping
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


def expect_right(seeds: range, limits: str, least: int, pool: CompilePool) -> None:
    """At least so many of the cases of these seeds have points with tensor memory, and all that are tried are right."""
    found: list[Outcome] = []
    for seed in seeds:
        kernel = kernel_with_tmem(random_case(seed, limits), seed, pool)
        if kernel is not None:
            found.append(outcome(kernel))
    wrong = [str(one) for one in found if one.fault or one.unsupported]
    assert not wrong, f"{len(wrong)} of {len(found)}\n\n" + "\n\n".join(wrong[:3])
    assert len(found) >= least


@pytest.mark.parametrize("first", [0, pytest.param(50, marks=pytest.mark.long)])
def test_random_fusions_are_right_with_tensor_memory(first: int, pool: CompilePool) -> None:
    expect_right(range(first, first + 50), "small", 10, pool)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1853, id="half-a-word-that-nothing-uses"),
        pytest.param(6494, id="a-tensor-reached-twice-alike-from-the-reference"),
    ],
)
def test_random_fusions_that_failed_once(seed: int, pool: CompilePool) -> None:
    expect_right(range(seed, seed + 1), "small", 1, pool)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 2_000, 100))
def test_many_random_fusions_are_right_with_tensor_memory(first: int, pool: CompilePool) -> None:
    expect_right(range(first, first + 100), "small", 20, pool)
