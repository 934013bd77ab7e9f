"""The contract of every sampler, and what only the learning one does."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from search.space.constraints import Constraint
from search.space.knobs import Knob
from search.space.space import Space
from search.tuning.candidates.candidate import Candidate
from search.tuning.samplers.guided import LEARN_FROM, TURNS, WARM_START, GuidedSampler
from search.tuning.samplers.optuna import OptunaSampler
from search.tuning.samplers.protocol import Sampler
from search.tuning.samplers.uniform import RandomSampler
from search.tuning.trial import TrialState


def unranked(spaces: Mapping[str, Space], seed: int) -> GuidedSampler:
    return GuidedSampler(spaces, seed, [])


Kind = Callable[..., Sampler]
BOTH = pytest.mark.parametrize("sampler", [RandomSampler, OptunaSampler, unranked])


def tiled_space() -> Space:
    """13824 points of a tiled kernel's shape, a third of them refused."""
    return Space(
        "tiled",
        (
            Knob("load", ("vector", "bulk", "tma")),
            Knob("store", ("vector", "tma")),
            Knob("vector", (1, 2, 4, 8)),
            Knob("threads", (32, 64, 128, 256, 512, 1024)),
            Knob("unroll", (1, 2, 4, 8)),
            Knob("stages", (1, 2, 3, 4)),
            Knob("persistent", (False, True)),
            Knob("hint", ("none", "last", "first")),
        ),
        (
            Constraint("registers", ("vector", "threads", "unroll"), lambda v, t, u: v * t * u <= 8192, "registers"),
            Constraint("stages", ("load", "stages"), lambda load, s: (load != "vector") | (s == 1), "no buffer"),
        ),
    )


def flat_space() -> Space:
    return Space("flat", (Knob("vector", (1, 2, 4, 8)), Knob("threads", (64, 128, 256))))


def cost(candidate: Candidate) -> float:
    """Time of a synthetic kernel: separable bowls, one interaction, one narrow best path."""
    k: dict[str, Any] = candidate.knobs
    if candidate.scheduler != "tiled":
        return 90.0 + len(str(candidate))
    bytes_in_flight = k["vector"] * k["unroll"] * k["stages"]
    time = 40.0 + 6.0 * abs(math.log2(bytes_in_flight) - 5) + 4.0 * abs(math.log2(k["threads"]) - 8)
    time += {"vector": 6.0, "bulk": 4.0, "tma": 0.0}[k["load"]] + {"vector": 0.0, "tma": 5.0}[k["store"]]
    return time + (0.0 if k["persistent"] else 3.0) + {"none": 2.0, "last": 1.0, "first": 0.0}[k["hint"]]


def search(sampler: Sampler, trials: int) -> list[Candidate]:
    asked = []
    for _ in range(trials):
        candidate = sampler.ask()
        if candidate is None:
            break
        asked.append(candidate)
        sampler.tell(candidate, cost(candidate), TrialState.MEASURED)
    return asked


@BOTH
def test_every_legal_point_is_proposed_once_and_then_no_more(
    sampler: Kind,
) -> None:
    space = Space(
        "small",
        (Knob("a", (1, 2, 3, 4)), Knob("b", ("x", "y", "z")), Knob("c", (False, True))),
        (Constraint("not_4x", ("a", "b"), lambda a, b: (a != 4) | (b != "x"), "4x"),),
    )
    under_test = sampler({"small": space, "flat": flat_space()}, seed=1)
    asked = search(under_test, 100)
    assert len(asked) == len(set(asked)) == space.legal + 12
    assert all(space.is_legal(c.knobs) for c in asked if c.scheduler == "small")
    assert under_test.ask() is None


@BOTH
def test_candidates_out_at_the_same_time_differ(sampler: Kind) -> None:
    under_test = sampler({"tiled": tiled_space()}, seed=0)
    search(under_test, 15)
    out = [under_test.ask() for _ in range(8)]
    assert len(set(out)) == 8


@BOTH
def test_what_was_told_is_never_proposed_again(sampler: Kind) -> None:
    spaces = {"flat": flat_space()}
    told = search(sampler(spaces, seed=3), 7)
    rebuilt = sampler(spaces, seed=3)
    for candidate in told:
        rebuilt.tell(candidate, cost(candidate), TrialState.MEASURED)
    assert set(search(rebuilt, 100)).isdisjoint(told)


@BOTH
def test_failures_of_every_sort_leave_the_sampler_able_to_go_on(
    sampler: Kind,
) -> None:
    under_test = sampler({"tiled": tiled_space(), "flat": flat_space()}, seed=2)
    for state in list(TrialState) * 3:
        candidate = under_test.ask()
        assert candidate is not None
        under_test.tell(candidate, 50.0 if state is TrialState.MEASURED else None, state)
    assert under_test.ask() is not None


@BOTH
def test_a_seed_fixes_the_sequence(sampler: Kind) -> None:
    spaces = {"tiled": tiled_space(), "flat": flat_space()}
    assert search(sampler(spaces, seed=5), 25) == search(sampler(spaces, seed=5), 25)


def test_it_beats_random_search_at_60_trials() -> None:
    spaces = {"tiled": tiled_space(), "flat": flat_space()}
    seeds = range(7)
    best = {
        sampler: [min(map(cost, search(sampler(spaces, seed=seed), 60))) for seed in seeds]
        for sampler in (RandomSampler, OptunaSampler)
    }
    assert statistics.median(best[OptunaSampler]) < statistics.median(best[RandomSampler])


def test_it_leaves_a_scheduler_that_only_fails() -> None:
    spaces = {"tiled": tiled_space(), "flat": flat_space()}
    sampler = OptunaSampler(spaces, seed=0)
    tried = []
    for _ in range(50):
        candidate = sampler.ask()
        assert candidate is not None
        fails = candidate.knobs.get("load") == "tma"
        tried.append(fails)
        state = TrialState.WRONG_RESULT if fails else TrialState.MEASURED
        sampler.tell(candidate, None if fails else cost(candidate), state)
    assert sum(tried[-20:]) < sum(tried[:20])


def test_ranked_candidates_come_first_in_order_without_what_cannot_be_proposed() -> None:
    spaces = {"flat": flat_space()}
    first, second = (Candidate.of("flat", {"vector": v, "threads": 64}) for v in (8, 4))
    gone = Candidate.of("flat", {"vector": 16, "threads": 64})
    sampler = GuidedSampler(spaces, 0, [first, gone, first, second])
    assert [sampler.ask(), sampler.ask()] == [first, second]


def test_a_better_ranking_takes_the_place_of_the_first_once_it_is_there() -> None:
    space = flat_space()
    drawn = [Candidate.of("flat", point) for point in space.sample(4, seed=1)]
    better = Future[Sequence[Candidate]]()
    sampler = GuidedSampler({"flat": space}, 0, drawn[:2], better)
    assert sampler.ask() == drawn[0]
    better.set_result([drawn[0], drawn[3], drawn[2], drawn[1]])
    assert [sampler.ask(), sampler.ask(), sampler.ask()] == [drawn[3], drawn[2], drawn[1]]


def test_what_a_better_ranking_fails_over_is_raised() -> None:
    better = Future[Sequence[Candidate]]()
    better.set_exception(RuntimeError("no ranking"))
    with pytest.raises(RuntimeError, match="no ranking"):
        GuidedSampler({"flat": flat_space()}, 0, [], better).ask()


@pytest.mark.parametrize("stay", [0, 20])
def test_what_comes_first_stays_there_whatever_is_learnt(stay: int) -> None:
    ranked = [Candidate.of("tiled", point) for point in tiled_space().sample(WARM_START, seed=1)]
    predicted = {one: 100.0 - n for n, one in enumerate(ranked)}
    spaces = {"tiled": tiled_space()}
    sampler = GuidedSampler(spaces, 0, ranked, predicted_us=predicted, first=ranked[:stay])
    found = search(sampler, WARM_START - 2)
    assert found[:LEARN_FROM] == ranked[:LEARN_FROM]
    assert (found[:20] == ranked[:20]) == (stay == 20)
    assert found[20:] != ranked[20:-2]


def test_half_of_the_turns_lie_around_the_fastest() -> None:
    spaces = {"tiled": tiled_space()}
    ranked = [Candidate.of("tiled", point) for point in tiled_space().sample(WARM_START + 200, seed=1)]
    sampler = GuidedSampler(spaces, 0, ranked)
    warm = search(sampler, WARM_START)
    assert warm == ranked[:WARM_START]
    later = search(sampler, 3 * len(TURNS))
    fast = sorted(warm, key=cost)
    near = [min(steps(one, parent) for parent in [*fast[:12], *later[:n]]) <= 2 for n, one in enumerate(later)]
    assert [near[n] for n, turn in enumerate(TURNS * 3) if turn == "near"] == [True] * 6
    assert [one for one, turn in zip(later, TURNS * 3, strict=True) if turn == "ranked"] == ranked[WARM_START:][:3]


def steps(one: Candidate, other: Candidate) -> int:
    return sum(one.knobs[knob] != other.knobs[knob] for knob in one.knobs)


def test_it_finds_the_best_of_a_bowl_that_its_ranking_knows_by_half() -> None:
    spaces = {"tiled": tiled_space()}
    ranked = [Candidate.of("tiled", point) for point in tiled_space().sample(400, seed=1)]
    ranked.sort(key=lambda one: cost(one) + 8.0 * math.sin(int(one.key[:6], 16)))
    guided = [min(map(cost, search(GuidedSampler(spaces, seed, ranked), 48))) for seed in range(3)]
    tpe = [min(map(cost, search(OptunaSampler(spaces, seed), 48))) for seed in range(3)]
    assert statistics.mean(guided) < statistics.mean(tpe)
