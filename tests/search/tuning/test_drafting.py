"""Drafts are the same whoever makes them: this process or children; what breaks costs at most its own candidate."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from compiler.arch import card_or_default
from compiler.errors import Unsupported, Violation
from compiler.nvrtc import Compiled, KernelResources
from compiler.pipeline import Generated
from search.cost.predicting import predictor, refiner
from search.measure import early
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.draft import Draft, Drafting, DraftSubject, LeftBehind, foreseen_here
from search.tuning.candidates.drafting import DraftPool, Drafts
from search.tuning.candidates.finishing import BuiltElsewhere, finished
from search.tuning.candidates.plan import Plan
from search.tuning.failing import Failure
from search.tuning.hands import drafters
from search.tuning.trial import TrialState
from tests.search.launches.made import softmax

pytestmark = pytest.mark.usefixtures("forked")

CARD = card_or_default(None)
PLAN = Plan.of(softmax(), CARD)
SUBJECT = PLAN.subject(CARD)
SAMPLE = PLAN.sample(5, seed=1)[:5]


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A scheduler whose points say what goes wrong."""

    name: str = "scripted"

    def trace(self, fusion: Any, point: Any) -> Any:
        match point["how"]:
            case "refused":
                raise Unsupported("that", "Do this.")
            case "broken":
                return 1 / 0
            case "dead":
                raise SystemExit(3)  # no Exception: it ends a child
        raise AssertionError(point)


@pytest.fixture(params=[0, 2], ids=["here", "children"])
def drafts(request: pytest.FixtureRequest) -> Iterator[Drafts]:
    with DraftPool(request.param) as pool:
        up(pool)
        yield pool.of(SUBJECT)


def up(pool: DraftPool) -> None:
    """Waits for the first child."""
    pool.start()
    until = time.monotonic() + 60.0
    while pool.children and not pool.is_up:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_drafts_and_times_are_those_of_this_process(drafts: Drafts) -> None:
    predict = predictor(CARD)
    for candidate in SAMPLE:
        drafted = drafts.submit(candidate).result()
        assert isinstance(drafted, Draft)
        made = SUBJECT.generated(candidate)
        assert drafted.generated.source == made.source
        assert drafted.predicted_us == sum(predict(launch).total_us for launch in made.launches)
        assert drafted.seconds > 0.0
    expected = list(foreseen_here(SUBJECT, predict)(SAMPLE))
    assert list(drafts.foresee(iter(SAMPLE))) == expected == [(c, Drafting(SUBJECT, predict).times(c)) for c in SAMPLE]


def test_a_draft_of_what_was_ranked_is_that_of_a_candidate_alone(drafts: Drafts) -> None:
    times = dict(drafts.foresee(SAMPLE))
    for candidate in SAMPLE:
        drafted = drafts.submit(candidate).result()
        assert isinstance(drafted, Draft)
        alone = SUBJECT.generated(candidate)
        assert drafted.generated.source == alone.source
        assert drafted.predicted_us == sum(times[candidate] or [])


def test_what_comes_of_a_draft_is_that_of_its_kernel_here(drafts: Drafts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a draft whose kernel stays in a child, of one that the child has forgotten, and after a child has died."""
    monkeypatch.setattr("search.tuning.candidates.drafting.WHOLE", 0)
    refine = refiner(CARD)
    for n, candidate in enumerate(SAMPLE[:3]):
        drafted = drafts.submit(candidate).result()
        assert isinstance(drafted, Draft)
        assert isinstance(drafted.generated, LeftBehind) == bool(drafts._pool.children)
        alone, child = SUBJECT.generated(candidate), drafts._drafted_by.get(candidate)
        if n == 1:
            drafts._drafted_by.clear()
        elif n == 2 and child is not None and child._process is not None:
            child._process.kill()
        expected, built = finished(alone, COMPILED, refine), drafts.finish(candidate, COMPILED).result()
        assert isinstance(expected, BuiltElsewhere)
        assert built == expected
        assert expected.predicted_us is not None


def test_the_first_drafts_come_with_their_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.tuning.candidates.drafting.WHOLE", 2)
    with DraftPool(1) as pool:
        up(pool)
        drafts = pool.of(SUBJECT)
        made = [drafts.submit(candidate).result() for candidate in SAMPLE[:4]]
    kinds = [type(one.generated) for one in made if isinstance(one, Draft)]
    assert kinds == [Generated, Generated, LeftBehind, LeftBehind]


def test_kernels_that_are_left_behind_are_as_many_as_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.tuning.candidates.draft._MOST_LEFT", 1)
    drafting = Drafting(SUBJECT, predictor(CARD))
    for candidate in SAMPLE[:2]:
        drafting.left_behind(candidate)
    assert list(drafting._left) == [SAMPLE[1]]
    assert drafting.finished(SAMPLE[0], COMPILED) == finished(SUBJECT.generated(SAMPLE[0]), COMPILED, None)


def test_products_that_wait_for_one_another_are_a_failure() -> None:
    drafting = Drafting(SUBJECT, predictor(CARD))
    failure = drafting.finished(SAMPLE[0], replace(COMPILED, log="Potential Performance Loss (C7510) in 'kernel'"))
    assert isinstance(failure, Failure)
    assert "C7510" in failure.reason


COMPILED = Compiled(
    entry="kernel",
    arch="sm_90a",
    cubin=b"code",
    ptx="",
    log="",
    resources=KernelResources(40, 0, 0, 0, 0, 1),
    code_hash="c" * 64,
    nvrtc_version="13.0",
    seconds=0.1,
)


def test_rules_are_asked_of_what_was_ranked_when_it_is_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ranking asks none; a draft that takes up its kernel asks all, as one from the beginning does."""
    broken = (Violation("a_rule", "t", 1, 0, "Do this.", "no"),)
    monkeypatch.setattr("compiler.pipeline.check", lambda schedule: broken)
    drafting = Drafting(SUBJECT, predictor(CARD))
    assert drafting.times(SAMPLE[0]) is not None
    for candidate in SAMPLE[:2]:
        failure = drafting.draft(candidate)
        assert isinstance(failure, Failure)
        assert (failure.state, failure.violations) == (TrialState.ILLEGAL, broken)


def test_what_breaks_for_a_rule_s_reason_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that a rule refuses may break what lowers it: it is left out. One that none refuses is our fault."""

    def breaks(trace: Any, arch: Any) -> Any:
        raise AssertionError("rules keep this from happening")

    monkeypatch.setattr("search.tuning.candidates.draft.lowered_unchecked", breaks)
    drafting = Drafting(SUBJECT, predictor(CARD))
    with pytest.raises(AssertionError, match="rules keep"):
        drafting.times(SAMPLE[0])
    monkeypatch.setattr("compiler.pipeline.check", lambda schedule: (Violation("a_rule", "t", 1, 0, "Do this.", "no"),))
    assert drafting.times(SAMPLE[0]) is None


def test_the_fastest_of_a_ranking_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.tuning.candidates.draft.MOST_KEPT", 2)
    drafting = Drafting(SUBJECT, predictor(CARD))
    times = {candidate: sum(drafting.times(candidate) or []) for candidate in SAMPLE}
    assert set(drafting._kept) == set(sorted(SAMPLE, key=times.__getitem__)[:2])


SCRIPTED = DraftSubject(SUBJECT.fusion, CARD, {"scripted": Scripted()})  # type: ignore[dict-item]  # draws no points


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_refused_is_a_failure_and_what_is_broken_names_the_candidate(workers: int) -> None:
    refused, broken = (Candidate.of("scripted", {"how": how}) for how in ("refused", "broken"))
    with DraftPool(workers) as pool:
        up(pool)
        drafts = pool.of(SCRIPTED)
        failure = drafts.submit(refused).result()
        assert isinstance(failure, Failure)
        assert (failure.state, failure.reason) == (TrialState.UNSUPPORTED, "that is not supported yet. Do this.")
        assert list(drafts.foresee([refused])) == [(refused, None)]
        for ask in (lambda: drafts.submit(broken).result(), lambda: list(drafts.foresee([broken]))):
            with pytest.raises(ZeroDivisionError) as caught:
                ask()
            assert "while generating scripted(how=broken)" in caught.value.__notes__


def test_a_child_that_dies_costs_nothing() -> None:
    dead = Candidate.of("scripted", {"how": "dead"})
    with DraftPool(1) as pool:
        up(pool)
        first = list(pool.of(SUBJECT).foresee(SAMPLE[:2]))
        with pytest.raises(SystemExit):  # the child died of it: this process tries, and says so
            pool.of(SCRIPTED).submit(dead).result()
        assert list(pool.of(SUBJECT).foresee(SAMPLE[:2])) == first
        assert pool.children[0].starts == 2


def test_a_child_that_is_still_starting_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    with DraftPool(2) as pool:
        monkeypatch.setattr(pool.children[0], "start", goes_on.wait)
        up(pool)
        assert isinstance(pool.of(SUBJECT).submit(SAMPLE[0]).result(), Draft)
        goes_on.set()
        assert [child.starts for child in pool.children] == [0, 1]


@pytest.mark.parametrize(
    ("compilers", "gpus", "expected"),
    [(1, 1, 0), (2, 1, 1), (12, 1, 6), (64, 1, 6), (24, 2, 12), (31, 2, 12), (64, 8, 32)],
)
def test_a_machine_of_few_cores_drafts_in_one_process(compilers: int, gpus: int, expected: int) -> None:
    assert drafters(compilers, gpus) == expected


THREADS = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        pytest.param(["tune", "f.json"], 1, id="not-said"),
        pytest.param(["tune", "f.json", "--gpus", "2"], 2, id="two"),
        pytest.param(["tune", "--gpus=3", "f.json"], 3, id="in-one-word"),
        pytest.param(["tune", "f.json", "--gpus", "all"], 1, id="all-are-not-known-yet"),
        pytest.param(["tune", "f.json", "--gpus", "64"], 1, id="more-than-are-begun-unseen"),
        pytest.param(["tune", "f.json", "--gpus"], 1, id="what-the-command-refuses"),
    ],
)
def test_how_many_gpus_are_begun_before_the_command_is_understood(words: list[str], gpus: int) -> None:
    assert early.gpus_of(words) == gpus


@pytest.mark.parametrize("asked", [pytest.param({}, id="not-said"), pytest.param({THREADS: "4"}, id="by-the-user")])
def test_what_is_begun_early_has_few_threads_unless_the_user_asks(asked: dict[str, str]) -> None:
    environment = dict(asked)
    with early.one_thread_each(environment):
        assert environment == {THREADS: "1", **asked}
    assert environment == asked


def test_a_pool_takes_the_children_that_were_begun_before() -> None:
    early.begin_drafters(1)
    with DraftPool(2) as pool:
        assert [child.starts for child in pool.children] == [1, 0]
        assert early.taken_drafter(0) is None
        up(pool)
        assert isinstance(pool.of(SUBJECT).submit(SAMPLE[0]).result(), Draft)
