"""How many samples a candidate gets, and that few of them cost no search its best kernel."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusetune.wire.artifact import KernelArtifact, Timing, Verification
from search.measure.device import Effort, MeasureResult
from search.measure.fake import FakeDevice
from search.measure.halving import FEW, BestTimed, median_interval, more_samples, surely_slower
from search.measure.marks import SLOWER_THAN, marks_of
from search.tuning.candidates.candidate import Candidate
from search.tuning.leaders import AS_FAST, Finals
from search.tuning.trial import Trial, TrialState
from tests.search.measure.kernels import add_fusion, fake_artifact

FAR = [20.0, 20.1, 20.2, 20.3]
NEAR = [10.9, 20.1, 20.2, 20.3]

Rule = Callable[[Sequence[float], int, float], int]


@pytest.mark.parametrize(
    ("samples", "most", "reach_us", "more"),
    [
        pytest.param([], 10, 10.0, FEW, id="few-at-first"),
        pytest.param([], 10, math.inf, 10, id="all-at-once-where-nothing-is-known"),
        pytest.param([], 3, 10.0, 3, id="never-more-than-there-are"),
        pytest.param([], 7, 10.0, 7, id="a-last-round-of-fewer-than-a-round-is-none"),
        pytest.param([], 8, 10.0, 4, id="a-last-round-that-is-whole"),
        pytest.param(FAR, 20, 10.0, 0, id="beyond-doubt"),
        pytest.param(FAR[:3], 20, 10.0, 4, id="too-few-to-be-beyond-doubt"),
        pytest.param(NEAR, 20, 10.0, 4, id="one-of-few-is-near"),
        pytest.param(NEAR * 2, 20, 10.0, 12, id="doubled-and-the-rest-with-it"),
        pytest.param(NEAR * 2, 32, 10.0, 8, id="doubled"),
        pytest.param([10.9] * 4, 20, 10.0, 4, id="nearest-that-goes-on"),
        pytest.param([11.1] * 4, 20, 10.0, 0, id="nearest-that-ends"),
        pytest.param([9.0] * 20, 20, 10.0, 0, id="all-are-taken"),
    ],
)
def test_how_many_more(samples: list[float], most: int, reach_us: float, more: int) -> None:
    assert more_samples(samples, most, reach_us) == more


@given(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=60), st.floats(1.0, 100.0) | st.just(math.inf))
def test_who_is_not_surely_slower_gets_all(samples: list[float], reach_us: float) -> None:
    taken: list[float] = []
    while more := more_samples(taken, len(samples), reach_us):
        assert more > 0
        taken += samples[len(taken) : len(taken) + more]
    assert len(taken) == len(samples) or surely_slower(taken, reach_us)
    assert not (surely_slower(taken, reach_us) and statistics.median(taken) <= reach_us)


def test_a_device_gives_a_slow_kernel_few_samples_and_a_leader_all() -> None:
    good, slow = fake_artifact("good"), fake_artifact("slow")
    with FakeDevice() as device:
        device.open(add_fusion())
        first = _timing(device.measure(slow))
        best = _timing(device.measure(good))
        again, leader = _timing(device.measure(slow)), _timing(device.measure(slow, Effort.LEADER))
        device.open(add_fusion())
        other = _timing(device.measure(slow))
    assert again.conditions[SLOWER_THAN] == median_interval(best.samples_us)[1]
    assert len(again.samples_us) == FEW < len(first.samples_us) < len(leader.samples_us)
    assert again.median_us == pytest.approx(first.median_us, rel=0.005)
    assert [SLOWER_THAN in one.conditions for one in (first, best, leader, other)] == [False] * 4
    assert len(other.samples_us) == len(first.samples_us)


def test_what_is_slower_beyond_doubt_is_not_taken_again_for_being_noisy() -> None:
    assert marks_of({}, NEAR) == ("noisy",)
    assert marks_of({SLOWER_THAN: 5.0}, NEAR) == ()
    assert marks_of({SLOWER_THAN: 5.0, "other_processes": 1}, NEAR) == ("other processes",)


def _timing(result: MeasureResult) -> Timing:
    assert result.timing is not None
    return result.timing


COUNTS = {Effort.SCREEN: 10, Effort.LEADER: 25, Effort.ALL_SETS: 10}


class NoisyCard:
    """A card whose noise is known: each sample varies by `sigma`, one in twenty is up to half slower (something came
    between), and every timing as a whole is up to 2 % slower (clocks). Kernels are named by their time.

    The noise of a sample depends on the seed, the kernel and the number of its timing alone: two rules meet the same.
    """

    def __init__(self, seed: int, sigma: float, rule: Rule) -> None:
        self.samples = 0
        self.ended_early: set[float] = set()
        self._seed = seed
        self._timings: Counter[str] = Counter()
        self._sigma = sigma
        self._rule = rule
        self._best = BestTimed()

    def measure(self, artifact: KernelArtifact, effort: Effort = Effort.SCREEN) -> MeasureResult:
        noise = random.Random(f"{self._seed} {artifact.source} {self._timings[artifact.source]}")
        self._timings[artifact.source] += 1
        us = float(artifact.source) * (1 + noise.uniform(0.0, 0.02))
        reach_us = self._best.reach_us if effort is Effort.SCREEN else math.inf
        taken: list[float] = []
        while more := self._rule(taken, COUNTS[effort], reach_us):
            taken += [self._sample(us, noise) for _ in range(more)]
        self.samples += len(taken)
        if len(taken) == COUNTS[effort]:
            self._best.saw(taken)
        else:
            self.ended_early.add(float(artifact.source))
        ordered = sorted(taken)
        timing = Timing(
            policy="p", card="c", median_us=statistics.median(taken), p10_us=ordered[len(taken) // 10],
            p90_us=ordered[len(taken) * 9 // 10], samples_us=tuple(taken),
        )  # fmt: skip
        proof = Verification(device="d", input_sets=("random",), max_error=0, tolerance=0, deterministic=True)
        return MeasureResult(TrialState.MEASURED, "", proof, timing)

    def _sample(self, us: float, noise: random.Random) -> float:
        late = noise.uniform(0.0, 0.5) if noise.random() < 0.05 else 0.0
        return us * (1 + abs(noise.gauss(0.0, self._sigma)) + late)


@dataclass(frozen=True)
class End:
    """Of a search: whether it serves one of the kernels that are as fast as the best, whether the best of all was given
    up after few samples, and how many samples were taken."""

    is_best: bool
    dropped: bool
    samples: int


def searched(seed: int, sigma: float, rule: Rule) -> End:
    """A search of random kernels."""
    chance = random.Random(seed)
    times = [10.0 * (1 + chance.expovariate(2.0)) for _ in range(40)]
    card = NoisyCard(seed, sigma, rule)
    kernels = {n: fake_artifact("good").model_copy(update={"source": repr(us)}) for n, us in enumerate(times)}
    trials = [
        Trial(n, Candidate("s", (("n", n),)), TrialState.MEASURED, median_us=_timing(card.measure(kernel)).median_us)
        for n, kernel in kernels.items()
    ]
    ranking = sorted(trials, key=lambda trial: trial.median_us or math.inf)
    finals = Finals(card, lambda trial: kernels[trial.number], lambda trial: None)  # type: ignore[arg-type]  # a stand-in
    winner = finals.run(ranking, 5, 6, lambda: True)
    assert winner is not None
    best = min(times)
    return End(times[winner.trial.number] <= (1 + AS_FAST) * best, best in card.ended_early, card.samples)


def all_at_once(samples: Sequence[float], most: int, reach_us: float) -> int:
    return most - len(samples)


def hasty(samples: Sequence[float], most: int, reach_us: float) -> int:
    """What the rule must not be: one sample, and away with what is slower."""
    if not samples:
        return 1
    return 0 if len(samples) == most or samples[0] > reach_us else most - len(samples)


SIGMAS = [pytest.param(0.002, id="quiet"), pytest.param(0.01, id="usual"), pytest.param(0.04, id="loud")]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_as_often_one_of_the_fastest_with_fewer_samples(sigma: float) -> None:
    _holds(range(75), sigma)


@pytest.mark.long
@pytest.mark.parametrize("sigma", SIGMAS)
def test_as_often_one_of_the_fastest_with_fewer_samples_over_many_seeds(sigma: float) -> None:
    _holds(range(2000), sigma)


def _holds(seeds: range, sigma: float) -> None:
    rules = {"halved": more_samples, "whole": all_at_once, "hasty": hasty}
    ends = {name: [searched(seed, sigma, rule) for seed in seeds] for name, rule in rules.items()}
    served = {name: sum(end.is_best for end in of) for name, of in ends.items()}
    samples = {name: sum(end.samples for end in of) for name, of in ends.items()}
    print(f"{sigma}: of {len(seeds)} searches one of the fastest in {served}, samples {samples}")
    assert not any(end.dropped for end in ends["halved"])
    assert served["halved"] >= served["whole"]
    assert samples["halved"] < samples["whole"]
    assert any(end.dropped for end in ends["hasty"])
