"""Random fusions for Blackwell, at random points that keep something in tensor memory, are right in the emulator."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from compiler.errors import IllegalSchedule, Unsupported
from compiler.nvrtc import CompilePool
from search.space.groups import STREAMS, TRANSPOSE, parts_in_tmem
from search.space.knobs import KnobValue
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from tests.search.random_fusions.cases import Case, random_case
from tests.search.random_fusions.proving import BLACKWELL_CARDS, Kernel, kernel_of, outcome

FOUND = json.loads(Path(__file__).with_name("kept_in_tensor_memory.json").read_text())
"""Random fusions that showed a fault, as they were drawn then."""

DRAWN = 3
"""Points of each use of tensor memory that a scheduler has; what the whole model refuses of them is passed over."""


def with_tmem(space: Space) -> Iterator[Space]:
    """The parts of a space whose points keep something in tensor memory; and of tiles, those that go there thrice."""
    for part in parts_in_tmem(space):
        yield part
        for knob in part.knobs:
            launch, dot, name = knob.name.rpartition(".")
            if name == "tmem" and knob.values == (TRANSPOSE,):
                yield part.having({f"{launch}{dot}tmem_rounds": 3})


def kernel_with_tmem(case: Case, seed: int, pool: CompilePool) -> Kernel | None:
    """The case at a random point with tensor memory, of a random scheduler that has one; None where none has."""
    random = Random(seed)
    try:
        plan = Plan.of(case.bound(), random.choice(BLACKWELL_CARDS))
    except Unsupported:
        return None
    parts = [(name, part) for name, space in plan.searchable.items() for part in with_tmem(space)]
    random.shuffle(parts)
    for name, part in parts:
        for point in part.sample(DRAWN, seed):
            try:
                return kernel_of(case, seed, plan, Candidate.of(name, point), pool)
            except (IllegalSchedule, Unsupported):
                continue
    return None


def expect_right(first: int, count: int, pool: CompilePool) -> None:
    """So many cases that have points with tensor memory, from a seed on, are right at one of these."""
    drawn = (kernel_with_tmem(random_case(seed, "small"), seed, pool) for seed in itertools.count(first))
    found = [outcome(kernel) for kernel in itertools.islice(filter(None, drawn), count)]
    wrong = [str(one) for one in found if one.fault or one.unsupported]
    assert not wrong, f"{len(wrong)} of {len(found)}\n\n" + "\n\n".join(wrong[:3])


def test_random_fusions_are_right_with_tensor_memory(pool: CompilePool) -> None:
    expect_right(0, 5, pool)


@pytest.mark.parametrize(
    ("name", "seed", "scheduler", "settings"),
    [
        pytest.param(
            "half-a-word-that-nothing-uses",
            1853,
            "flat",
            {"threads_x": 512, "column_steps": 2, "tmem_pattern": "16x256b", "tmem_load": 4, "tmem_store": 4},
        ),
        pytest.param(
            "a-tensor-reached-twice-alike-from-the-reference",
            6494,
            "row",
            {"threads": 512, "unroll": 2, "vector": 2, "resident": 1024, "fold": "online", "keep": "reload"},
        ),
    ],
)
def test_random_fusions_that_failed_once(
    name: str, seed: int, scheduler: str, settings: dict[str, KnobValue], pool: CompilePool
) -> None:
    case = Case(name, FOUND[name]["document"], FOUND[name]["binding"])
    plan = Plan.of(case.bound(), BLACKWELL_CARDS[0])
    first = {knob.name: knob.values[0] for knob in plan.spaces[scheduler].knobs}
    again = outcome(kernel_of(case, seed, plan, Candidate.of(scheduler, {**first, "tmem": STREAMS, **settings}), pool))
    assert not again.fault, again
    assert not again.unsupported, again


@pytest.mark.long
@pytest.mark.parametrize("first", [0, *range(1_000, 2_000, 100)])
def test_many_random_fusions_are_right_with_tensor_memory(first: int, pool: CompilePool) -> None:
    expect_right(first, 20, pool)
