"""What one tuning comes to, with the search replaced where it is not the point."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from compiler.arch import Card, card_named
from fusetune.wire.artifact import (
    VERIFIER,
    Conditions,
    Evidence,
    KernelArtifact,
    LaunchSpec,
    Resources,
    Timing,
    Verification,
)
from search.measure.device import EAGER, Baseline, CardFacts, DeviceLost
from search.measure.fake import FACTS, FakeDevice
from search.proof.emulated.apart import Prover
from search.proof.emulated.check import EmulatedProof
from search.tuning.attached import Attached, Detached, card_of
from search.tuning.budget import Budget
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from search.tuning.candidates.spread import Ranked
from search.tuning.ending import not_run
from search.tuning.first import FirstKernel
from search.tuning.leaders import Winner
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import Ending, SearchOutcome
from service.db import cards, kernels, tunings
from service.db.models import AuditRow, FusionRow, KernelRow, TuningRow
from service.db.types import now
from service.jobs import preparing, proving
from service.jobs.executor import TuningLost, WorkerStopping
from service.jobs.job import MAX_DEATHS
from service.jobs.settle import why_no_kernel
from service.jobs.trial_log import DbTrialLog
from service.jobs.tuning import TuningJobs
from tests.service.jobs.sites import FAKE_CARD, Site, fusion_of, until

CANDIDATE = Candidate.of("flat", {"vector": 8})
H200 = Detached(card_named("H200"), "no GPU is attached")


class Device:
    """A GPU that answers unless it is `gone`."""

    def __init__(self) -> None:
        self.gone = False
        self.baselines = 0
        self.baseline_timing: Timing | None = timing(25.0)

    def tell(self, timeline: Any) -> None: ...

    def open(self, fusion: Any) -> None: ...

    def measure(self, artifact: KernelArtifact, effort: Any = None) -> Any:
        raise AssertionError("nothing is measured here")

    def baseline(self, name: str = EAGER) -> Baseline:
        self.baselines += 1
        return Baseline(name, self.baseline_timing, "" if self.baseline_timing else "no such operator")

    def facts(self) -> CardFacts:
        if self.gone:
            raise DeviceLost("GPU 0", "it fell off the bus")
        return FACTS

    def close(self) -> None: ...


def timing(us: float) -> Timing:
    return Timing(policy="p", card="fake", median_us=us, p10_us=us, p90_us=us, samples_us=(us,) * 3)


def winner(us: float, number: int = 0) -> Winner:
    artifact = KernelArtifact(
        fingerprint="f",
        binding="b",
        arch="sm_90a",
        inputs=(),
        outputs=(),
        launches=(LaunchSpec(entry="k", grid=(1, 1, 1), block=(32, 1, 1), args=()),),
        cubin=b"",
        cubin_sha256=sha256(b"").hexdigest(),
        source=f"takes {us}",
        ptx="",
        trace={},
        resources=Resources(registers=1, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, static_smem_bytes=0),
        code_hash="hash",
        conditions=Conditions(generator="1", nvrtc="13.0"),
        evidence=Evidence(correct="verified_on_gpu", time="measured"),
        verification=Verification(
            device="d", input_sets=("random",), max_error=0, tolerance=0, deterministic=True, verifier=VERIFIER
        ),
        timing=timing(us),
    )
    return Winner(Trial(number, CANDIDATE, TrialState.MEASURED, median_us=us, p10_us=us, p90_us=us), artifact)


@dataclass
class Bench:
    """A worker's hands without its process; `search` is what the search does."""

    site: Site
    search: Callable[..., SearchOutcome] = lambda **_: SearchOutcome(None, (), "budget")
    device: Device = field(default_factory=Device)
    stopping: threading.Event = field(default_factory=threading.Event)
    budgets: list[Budget] = field(default_factory=list)

    def tune_on(
        self, gpu: Any, plan: Any, log: Any, budget: Budget, *args: Any, baseline: Any, **kwargs: Any
    ) -> SearchOutcome:
        self.budgets.append(budget)
        baseline(gpu.device)
        return self.search(log=log, **kwargs)

    def tunings(self) -> TuningJobs:
        gpu = Attached(self.device, FACTS, card_of(FACTS)[0], ())
        return TuningJobs(self.site.db, gpu, "w0", self.stopping, database_pause_s=0.01)

    def run(self, tuning_id: str) -> TuningRow:
        self.tunings().run(tuning_id)
        return self.site.tuning(tuning_id)

    def kernels(self) -> list[KernelRow]:
        with self.site.db.read() as session:
            return list(session.scalars(select(KernelRow).order_by(KernelRow.created_at)))


@pytest.fixture
def bench(site: Site, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Bench:
    bench = Bench(site)
    monkeypatch.setattr("service.jobs.searching.tune_on", bench.tune_on)
    return bench


def wins(us: float, ended: Ending = "budget") -> Callable[..., SearchOutcome]:
    return lambda **_: SearchOutcome(winner(us), (winner(us).trial,), ended)


def test_a_winner_is_published(bench: Bench) -> None:
    bench.search = wins(12.5)
    tuning_id = bench.site.post(hand_over=False)
    row = bench.run(tuning_id)
    assert (row.state, row.ended, row.note, row.error, row.phase) == ("done", "budget", "", None, "")
    assert row.worker_id == "w0"
    assert row.started_at is not None
    assert row.ended_at is not None
    assert row.points is not None
    assert row.legal is not None
    assert 0 < row.legal < row.points
    (kernel,) = bench.kernels()
    assert row.kernel_id == kernel.id
    assert (kernel.median_us, kernel.correct, kernel.time) == (12.5, "verified_on_gpu", "measured")
    assert (kernel.tuning_id, kernel.trial_number, kernel.point) == (tuning_id, 0, {"vector": 8})
    assert kernel.driver == FACTS.driver
    with bench.site.db.read() as session:
        content = kernels.artifact(session, kernel.artifact_sha256)
        (audit,) = session.scalars(select(AuditRow)).all()
    assert KernelArtifact.model_validate_json(content) == winner(12.5).artifact
    assert (audit.actor, audit.action, audit.subject) == ("worker:w0", "kernel.published", kernel.id)


def test_the_first_kernel_is_served_before_the_search_has_ended(bench: Bench) -> None:
    """What answers is provisional until then, and gives way to what the search ends with, even to a slower one."""
    at_first: list[TuningRow | KernelRow] = []

    def search(early: FirstKernel, **_: Any) -> SearchOutcome:
        assert early.is_wanted()
        early.publish(replace(winner(12.0), trial=replace(winner(12.0).trial, predicted_us=11.0)), 10.0)
        at_first.extend([bench.site.tuning(tuning_id), *bench.kernels()])
        return SearchOutcome(winner(12.5, 1), (), "budget")

    bench.search = search
    tuning_id = bench.site.post(hand_over=False)
    with bench.site.db.write() as session:
        tunings.extend(session, tuning_id, 1.0, None, want="first")
    row = bench.run(tuning_id)
    running, provisional = at_first
    assert isinstance(running, TuningRow)
    assert isinstance(provisional, KernelRow)
    assert (running.state, running.first_kernel_id, running.kernel_id) == ("running", provisional.id, None)
    assert provisional.provisional is not None
    assert row.floor_us is not None
    assert provisional.provisional["at_most"] == pytest.approx(1 - row.floor_us / 12.0)
    assert provisional.provisional["expected"] == pytest.approx(1 / 11)
    (current,) = [kernel for kernel in bench.kernels() if kernel.superseded_at is None]
    assert (current.id, current.median_us, current.provisional) == (row.kernel_id, 12.5, None)


def test_a_kernel_that_a_search_ended_with_stays_while_another_one_searches(bench: Bench) -> None:
    bench.search = wins(12.5)
    known = bench.run(bench.site.post(hand_over=False)).kernel_id

    def search(early: FirstKernel, **_: Any) -> SearchOutcome:
        early.publish(winner(9.0), None)
        return SearchOutcome(None, (), "budget")

    bench.search = search
    row = bench.run(bench.site.post(hand_over=False))
    (current,) = [kernel for kernel in bench.kernels() if kernel.superseded_at is None]
    assert current.id == known == row.first_kernel_id


@pytest.mark.parametrize(
    ("second_us", "kept_us", "note"),
    [
        pytest.param(12.0, 12.0, "", id="faster-replaces"),
        pytest.param(12.5, 12.5, "", id="equal-replaces"),
        pytest.param(13.0, 12.5, "The kernel found earlier stays (12.50 us): the best of this search", id="slower-not"),
    ],
)
def test_the_faster_of_two_searches_answers(bench: Bench, second_us: float, kept_us: float, note: str) -> None:
    bench.search = wins(12.5)
    bench.run(bench.site.post(hand_over=False))
    bench.search = wins(second_us)
    row = bench.run(bench.site.post(hand_over=False))
    (current,) = [kernel for kernel in bench.kernels() if kernel.superseded_at is None]
    assert (current.median_us, row.kernel_id) == (kept_us, current.id)
    assert row.note.startswith(note)
    assert bool(row.note) == bool(note)


def test_an_idle_worker_gives_the_gpu_back_once_and_has_its_imports_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.jobs.tuning._IDLE_S", 0.0)
    asked: list[str] = []
    monkeypatch.setattr(bench.device, "close", lambda: asked.append("close"))
    monkeypatch.setattr(bench.device, "facts", lambda: asked.append("facts"))
    work = bench.tunings()
    work.rest_if_idle()
    work.rest_if_idle()
    assert asked == ["close", "facts"]
    bench.search = wins(12.5)
    work.run(bench.site.post(hand_over=False))
    work.rest_if_idle()
    assert asked == ["close", "facts"] * 2


def test_kernel_and_end_are_written_together_or_not_at_all(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.search = wins(12.5)
    tuning_id = bench.site.post(hand_over=False)
    finish = tunings.finish

    def dies(session: Any, id: str, state: str, **facts: Any) -> TuningRow:
        if state == "done":
            raise KeyboardInterrupt
        return finish(session, id, state, **facts)

    monkeypatch.setattr(tunings, "finish", dies)
    with pytest.raises(KeyboardInterrupt):
        bench.run(tuning_id)
    assert bench.site.tuning(tuning_id).state == "running"
    assert bench.kernels() == []
    monkeypatch.setattr(tunings, "finish", finish)
    assert bench.run(tuning_id).state == "done"
    assert len(bench.kernels()) == 1


def test_a_search_without_a_winner_says_why(bench: Bench) -> None:
    failed = tuple(Trial(n, CANDIDATE, TrialState.WRONG_RESULT) for n in range(3))
    bench.search = lambda **_: SearchOutcome(None, failed, "exhausted")
    row = bench.run(bench.site.post(hand_over=False))
    assert (row.state, row.ended, row.kernel_id) == ("done", "exhausted", None)
    assert row.note == "No kernel: of 3 candidates none was both right and timed (3 wrong_result)."


@pytest.mark.parametrize(
    ("states", "why"),
    [
        pytest.param([], "budget ended before a candidate was run", id="none"),
        pytest.param([TrialState.CANCELLED], "budget ended before a candidate was run", id="cancelled-only"),
        pytest.param([TrialState.VERIFIED], "none of the 1 candidates could be timed", id="untimed"),
        pytest.param(
            [TrialState.CRASHED, TrialState.TIMED_OUT, TrialState.CRASHED, TrialState.CANCELLED],
            "of 3 candidates none was both right and timed (2 crashed, 1 timed_out)",
            id="failures-by-kind",
        ),
        pytest.param(
            [s for s in TrialState if s.is_failure], "of 7 candidates none was both right and timed (", id="many-kinds"
        ),
    ],
)
def test_why_there_is_no_kernel(states: list[TrialState], why: str) -> None:
    note = why_no_kernel(Trial(n, CANDIDATE, state) for n, state in enumerate(states))
    assert why in note
    assert note.endswith(".")
    assert note.count(",") <= 5


def test_a_cancelled_tuning_publishes_nothing(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def cancelled_in_the_finals(**_: Any) -> SearchOutcome:
        with bench.site.db.write() as session:
            tunings.request_cancel(session, tuning_id)
        return wins(12.5)()

    bench.search = cancelled_in_the_finals
    row = bench.run(tuning_id)
    assert (row.state, row.ended, row.kernel_id) == ("cancelled", "stopped", None)
    assert bench.kernels() == []


@pytest.mark.parametrize("begun", [pytest.param(False, id="waiting"), pytest.param(True, id="begun")])
def test_a_tuning_that_was_cancelled_before_its_job_began_is_not_searched(bench: Bench, begun: bool) -> None:
    tuning_id = bench.site.post(hand_over=False)
    with bench.site.db.write() as session:
        if begun:
            tunings.start(session, tuning_id, "another")
        tunings.request_cancel(session, tuning_id)
    assert bench.run(tuning_id).state == "cancelled"
    assert bench.budgets == []


def test_a_stopping_worker_leaves_the_tuning_to_the_next(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def told_to_stop(is_stopped: Callable[[], bool], **_: Any) -> SearchOutcome:
        assert not is_stopped()
        bench.stopping.set()
        assert is_stopped()
        return SearchOutcome(None, (), "stopped")

    bench.search = told_to_stop
    with pytest.raises(WorkerStopping):
        bench.run(tuning_id)
    assert bench.site.tuning(tuning_id).state == "running"
    with pytest.raises(WorkerStopping):
        bench.run(tuning_id)
    bench.stopping.clear()
    bench.search = wins(12.5)
    assert bench.run(tuning_id).state == "done"


def test_the_budget_counts_on_over_runs(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False, budget_s=20.0, trials_limit=7)
    with bench.site.db.write() as session:
        tunings.start(session, tuning_id, "w0")
        tunings.advance(session, tuning_id, "searching", 12.5)
    row = bench.run(tuning_id)
    (budget,) = bench.budgets
    assert (budget.seconds, budget.trials) == (7.5, 7)
    assert 12.5 < row.spent_s < 20.0


def test_a_tuning_that_has_used_up_its_budget_is_only_settled(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False, budget_s=20.0)
    with bench.site.db.write() as session:
        tunings.start(session, tuning_id, "w0")
        tunings.advance(session, tuning_id, "searching", 21.0)
    bench.search = wins(12.5)
    assert bench.run(tuning_id).state == "done"
    assert bench.budgets[0].seconds == 0.0


# In whose hand it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", [wins(12.5), wins(12.5, "stopped"), lambda **_: SearchOutcome(None, (), "exhausted")])
def test_what_a_run_finds_after_another_took_the_tuning_comes_to_nothing(
    bench: Bench, found: Callable[..., SearchOutcome]
) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def silent_for_long(**_: Any) -> SearchOutcome:
        with bench.site.db.write() as session:
            tunings.start(session, tuning_id, "w1", "another run")
        return found()

    bench.search = silent_for_long
    with pytest.raises(TuningLost):
        bench.run(tuning_id)
    row = bench.site.tuning(tuning_id)
    assert (row.state, row.worker_id, row.phase, row.kernel_id) == ("running", "w1", "starting", None)
    assert bench.kernels() == []


def test_a_run_does_not_fail_a_tuning_that_another_took(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def breaks_too_late(**_: Any) -> SearchOutcome:
        with bench.site.db.write() as session:
            tunings.start(session, tuning_id, "w1", "another run")
        raise ZeroDivisionError("ours")

    bench.search = breaks_too_late
    with pytest.raises(TuningLost):
        bench.run(tuning_id)
    assert bench.site.tuning(tuning_id).state == "running"


def test_a_stopping_worker_lets_go_of_its_tuning(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def told_to_stop(**_: Any) -> SearchOutcome:
        bench.stopping.set()
        return SearchOutcome(None, (), "stopped")

    bench.search = told_to_stop
    for _ in range(2 * MAX_DEATHS):
        bench.stopping.clear()
        with pytest.raises(WorkerStopping):
            bench.run(tuning_id)
    row = bench.site.tuning(tuning_id)
    assert (row.state, row.worker_id, row.deaths) == ("running", None, 0)


def test_a_tuning_that_its_workers_die_of_is_given_up(bench: Bench) -> None:
    tuning_id = bench.site.post(hand_over=False)

    def die(times: int) -> None:
        for n in range(times):
            with bench.site.db.write() as session:
                tunings.start(session, tuning_id, "w0", f"run {len(bench.budgets)} {n}")

    def gets_on(log: DbTrialLog, **_: Any) -> SearchOutcome:
        log.record(Trial(len(log.trials), CANDIDATE, TrialState.ILLEGAL))
        raise KeyboardInterrupt

    bench.search = gets_on
    for _ in range(3):  # as often as it takes, as long as it gets on
        die(MAX_DEATHS - 1)
        with pytest.raises(KeyboardInterrupt):
            bench.run(tuning_id)
    die(MAX_DEATHS)
    assert bench.site.tuning(tuning_id).state == "running"
    row = bench.run(tuning_id)
    assert (row.state, len(bench.budgets)) == ("failed", 3)
    assert "4 workers in a row died" in (row.error or "")
    assert len(bench.site.trials(tuning_id)) == 3


def test_a_worker_of_another_card_does_not_search(bench: Bench) -> None:
    row = bench.run(bench.site.post(card=H200.card, hand_over=False))
    assert row.state == "failed"
    assert bench.budgets == []


# Another version in the middle --------------------------------------------------------------------------------------


def test_trials_of_another_generator_do_not_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = bench.site.post(hand_over=False)
    old = Trial(0, CANDIDATE, TrialState.MEASURED, median_us=1.0, code_hash="c", launch_hash="l", samples_us=(1.0,))

    def killed(log: DbTrialLog, **_: Any) -> SearchOutcome:
        log.record(old)
        raise KeyboardInterrupt

    bench.search = killed
    with pytest.raises(KeyboardInterrupt):
        bench.run(tuning_id)
    seen: list[Trial] = []

    def goes_on(log: DbTrialLog, **_: Any) -> SearchOutcome:
        seen.extend(log.trials)
        raise KeyboardInterrupt

    bench.search = goes_on
    with pytest.raises(KeyboardInterrupt):
        bench.run(tuning_id)
    assert seen.pop() == old
    monkeypatch.setattr("service.jobs.job.GENERATOR", "fusetune 99")
    with pytest.raises(KeyboardInterrupt):
        bench.run(tuning_id)
    (aside,) = seen
    assert (aside.number, aside.state, aside.code_hash, aside.median_us) == (0, TrialState.CANCELLED, None, 1.0)
    assert "fusetune 99" in aside.reason


def test_other_spaces_are_another_generator(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = bench.site.post(hand_over=False)
    generators = []
    for key in ("a", "a", "b"):
        monkeypatch.setattr("service.jobs.job.spaces_key", lambda _, key=key: key)
        bench.search = interrupted
        with pytest.raises(KeyboardInterrupt):
            bench.run(tuning_id)
        generators.append(bench.site.tuning(tuning_id).generator)
    assert generators[0] == generators[1] != generators[2]


def interrupted(**_: Any) -> SearchOutcome:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fusion", "error"),
    [
        pytest.param(
            {**fusion_of("square"), "ops": [{"op": "copy", "in": ["x"], "out": "y", "memory": "register"}]},
            "memory register",
            id="memory",
        ),
        pytest.param(
            {
                **fusion_of("square"),
                "ops": [
                    {"op": "permute", "in": ["x"], "out": "t", "dims": [1, 0]},
                    {"op": "matmul", "in": ["x", "t"], "out": "y", "dtype": "f64"},
                ],
            },
            "matmul",
            id="operator",
        ),
    ],
)
def test_what_cannot_be_searched_fails_with_the_reason(bench: Bench, fusion: dict[str, Any], error: str) -> None:
    tuning_id = bench.site.post(hand_over=False)
    with bench.site.db.write() as session:
        row = session.get_one(TuningRow, tuning_id)
        session.get_one(FusionRow, row.fingerprint).document = fusion
    row = bench.run(tuning_id)
    assert row.state == "failed"
    assert row.error is not None
    assert error in row.error
    assert "Traceback" not in row.error


def test_a_fault_of_ours_fails_one_tuning_with_a_reference(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def faulty(**_: Any) -> SearchOutcome:
        raise ZeroDivisionError("ours")

    bench.search = faulty
    row = bench.run(bench.site.post(hand_over=False))
    assert row.state == "failed"
    assert row.error is not None
    reference = row.error.split()[-1].rstrip(".")
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert reference in logged.getMessage()
    assert logged.exc_info is not None
    assert "ZeroDivisionError" not in row.error
    bench.search = wins(12.5)
    assert bench.run(bench.site.post(hand_over=False)).state == "done"


@pytest.mark.parametrize("is_gone", [pytest.param(False, id="it-answers-again"), pytest.param(True, id="it-is-gone")])
def test_a_lost_gpu_fails_one_tuning_and_a_dead_one_ends_the_worker(bench: Bench, is_gone: bool) -> None:
    def lost(**_: Any) -> SearchOutcome:
        bench.device.gone = is_gone
        raise DeviceLost("GPU 0", "out of memory")

    bench.search = lost
    tuning_id = bench.site.post(hand_over=False)
    work = bench.tunings()
    assert work.run(tuning_id) == "failed"
    assert bench.site.tuning(tuning_id).error == "GPU 0 cannot be used: out of memory"
    assert bench.stopping.is_set() == is_gone
    assert work.gpu_lost == ("it fell off the bus" if is_gone else "")


def test_a_database_that_comes_back_costs_nothing(bench: Bench) -> None:
    left = list(range(12))

    def database_restarts(**_: Any) -> SearchOutcome:
        if left:
            left.pop()
            raise OperationalError("UPDATE", {}, Exception("the server closed the connection"))
        return wins(12.5)()

    bench.search = database_restarts
    row = bench.run(bench.site.post(hand_over=False))
    assert (row.state, row.deaths) == ("done", 0)
    assert len(bench.budgets) == 13


def test_a_worker_may_be_told_to_stop_while_the_database_is_away(bench: Bench) -> None:
    def database_is_away(**_: Any) -> SearchOutcome:
        bench.stopping.set()
        raise OperationalError("UPDATE", {}, Exception("connection refused"))

    bench.search = database_is_away
    with pytest.raises(WorkerStopping):
        bench.run(bench.site.post(hand_over=False))


def test_a_baseline_is_recorded_once_for_a_key(bench: Bench) -> None:
    bench.search = wins(12.5)
    tuning_id = bench.site.post(hand_over=False)
    bench.run(tuning_id)
    bench.run(bench.site.post(hand_over=False))
    row = bench.site.tuning(tuning_id)
    key = (row.fingerprint, row.binding, row.card_id, row.policy)
    with bench.site.db.read() as session:
        (baseline,) = kernels.baselines(session, [key])[key]
    assert (baseline.name, baseline.median_us, baseline.samples_us) == (EAGER, 25.0, [25.0] * 3)
    assert bench.device.baselines == 1


def test_a_fusion_without_a_baseline_is_tuned_as_well(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.device.baseline_timing = None
    bench.search = wins(12.5)
    assert bench.run(bench.site.post(hand_over=False)).state == "done"
    assert "no such operator" in caplog.text


# Without a GPU, with real schedules and compiles ------------------------------------------------------------


@dataclass
class Compiling:
    """A worker without a GPU; `wanted` kernels are compiled."""

    site: Site
    monkeypatch: pytest.MonkeyPatch
    stopping: threading.Event = field(default_factory=threading.Event)
    card: Card = H200.card

    def run(self, tuning_id: str, wanted: int) -> TuningRow:
        self.monkeypatch.setattr(preparing, "KERNELS", wanted)
        target = Detached(self.card, H200.why)
        TuningJobs(self.site.db, target, "w0", self.stopping, compilers=1).run(tuning_id)
        return self.site.tuning(tuning_id)

    def post(self, **kwargs: Any) -> str:
        return self.site.post(card=self.card, attached=False, hand_over=False, **kwargs)

    def served(self) -> tuple[KernelRow, KernelArtifact]:
        """The kernel that answers, and its artifact."""
        with self.site.db.read() as session:
            (row,) = session.scalars(select(KernelRow).where(KernelRow.superseded_at.is_(None)))
            return row, KernelArtifact.model_validate_json(kernels.artifact(session, row.artifact_sha256))


@pytest.fixture
def compiling(site: Site, monkeypatch: pytest.MonkeyPatch, borrowed: None) -> Compiling:
    return Compiling(site, monkeypatch)


def test_without_a_gpu_the_best_predicted_kernels_are_proven_and_one_is_served(
    compiling: Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proving, "VERIFIED", 2)
    tuning_id = compiling.post(trials_limit=None)
    row = compiling.run(tuning_id, wanted=3)
    assert (row.state, row.ended, row.error) == ("done", "emulated", None)
    found = compiling.site.trials(tuning_id)
    right = [trial for trial in found if trial.state is TrialState.VERIFIED]
    left = [trial for trial in found if trial.state is TrialState.CANCELLED]
    assert (len(right), len(left)) == (2, 1)
    predicted = [trial.predicted_us or 0.0 for trial in right]
    assert max(predicted) <= min(trial.predicted_us or 0.0 for trial in left)
    for trial in right:
        assert trial.reason == "right on every input set in the emulator; not timed"
        assert trial.seconds["emulate"] > 0
    for trial in left:
        assert trial.reason == f"compiled for {H200.card.name}; not run, there is no GPU here"
    assert all(trial.median_us is None and trial.resources is not None for trial in (*right, *left))
    assert row.note == (
        f"Nothing was timed: no GPU is attached. 3 kernels compiled for the {H200.card.name}, 2 of them verified in "
        f"the emulator. The best of the verified ones is predicted to take {min(predicted):.2f} us; that was not "
        "measured. It is served where verified_emulated and predicted are accepted."
    )
    kernel, artifact = compiling.served()
    assert row.kernel_id == kernel.id
    assert (kernel.correct, kernel.time, kernel.median_us, kernel.driver) == (
        "verified_emulated",
        "predicted",
        None,
        None,
    )
    assert artifact.evidence == Evidence(correct="verified_emulated", time="predicted")
    assert artifact.predicted_us == min(predicted)
    assert artifact.verification is not None
    assert artifact.verification.emulated is not None


def test_what_the_emulator_finds_wrong_is_not_served(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter(
        [EmulatedProof(fault="in the emulator: race"), EmulatedProof(undone="Emulating `x` is not supported yet.")]
    )
    monkeypatch.setattr(Prover, "prove", lambda *_: next(verdicts))
    tuning_id = compiling.post(trials_limit=None)
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended, row.kernel_id) == ("done", "compiled", None)
    wrong, undone = sorted(compiling.site.trials(tuning_id), key=lambda t: t.state, reverse=True)
    assert (wrong.state, wrong.reason) == (TrialState.WRONG_RESULT, "in the emulator: race")
    assert undone.state is TrialState.CANCELLED
    assert undone.reason == f"compiled for {H200.card.name}; Emulating `x` is not supported yet."
    assert row.note.startswith("Nothing was verified or timed: no GPU is attached. 2 kernels compiled for the ")
    assert "; 1 gave a wrong result there. " in row.note
    assert row.note.endswith("No kernel is served on a prediction alone.")
    with compiling.site.db.read() as session:
        assert session.scalars(select(KernelRow)).all() == []


def test_a_proof_ends_with_the_budget(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is given the seconds that are left, and spends them; no other is tried."""
    given: list[float] = []

    def spends_all(prover: Prover, compiled: KernelArtifact, seconds: float) -> EmulatedProof:
        given.append(seconds)
        time.sleep(seconds)
        return EmulatedProof(undone="Its proof takes more than that")

    monkeypatch.setattr(Prover, "prove", spends_all)
    tuning_id = compiling.post(trials_limit=None, budget_s=6.0)
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended, row.kernel_id) == ("done", "compiled", None)
    assert len(given) == 1
    assert 0.3 * 6.0 < given[0] < 6.0
    reasons = [trial.reason for trial in compiling.site.trials(tuning_id)]
    assert sum(reason.endswith("; Its proof takes more than that") for reason in reasons) == 1


def test_a_proof_on_a_gpu_stands_over_one_in_the_emulator(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """In either order: the measured kernel answers in the end."""
    compiling = Compiling(bench.site, monkeypatch, card=FAKE_CARD)
    first = compiling.run(compiling.post(trials_limit=None), wanted=1)
    assert compiling.served()[0].id == first.kernel_id
    bench.search = wins(12.5)
    measured = bench.run(bench.site.post(hand_over=False))
    assert compiling.served()[0].id == measured.kernel_id
    again = compiling.run(compiling.post(trials_limit=None), wanted=1)
    assert compiling.served()[0].id == measured.kernel_id == again.kernel_id
    assert again.note.endswith("was verified on a GPU, the best of this search in the emulator.")


def test_proving_goes_on_where_it_was_stopped(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    prove = Prover.prove

    def told_to_stop(*args: Any) -> EmulatedProof:
        compiling.stopping.set()
        return prove(*args)

    monkeypatch.setattr(Prover, "prove", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=2)
    first = compiling.site.trials(tuning_id)
    assert sorted(trial.state for trial in first) == [TrialState.CANCELLED, TrialState.VERIFIED]
    monkeypatch.setattr(Prover, "prove", prove)
    compiling.stopping.clear()
    row = compiling.run(tuning_id, wanted=2)
    assert (row.state, row.ended) == ("done", "emulated")
    after = compiling.site.trials(tuning_id)
    assert [trial.candidate for trial in after] == [trial.candidate for trial in first]
    assert {trial.state for trial in after} == {TrialState.VERIFIED}


def test_compiling_goes_on_where_it_was_stopped(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    def told_to_stop(*args: Any) -> Trial:
        compiling.stopping.set()
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=3)
    first = compiling.site.trials(tuning_id)
    assert compiling.site.tuning(tuning_id).state == "running"
    monkeypatch.setattr("service.jobs.preparing.not_run", not_run)
    compiling.stopping.clear()
    assert compiling.run(tuning_id, wanted=3).state == "done"
    after = compiling.site.trials(tuning_id)
    assert [trial.code_hash for trial in after[: len(first)]] == [trial.code_hash for trial in first]
    assert sum(trial.state is TrialState.VERIFIED for trial in after) == 3
    assert len({trial.candidate for trial in after}) == len(after)


def test_another_generator_compiles_anew(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=2)

    def told_to_stop(*args: Any) -> Trial:
        compiling.stopping.set()
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", told_to_stop)
    with pytest.raises(WorkerStopping):
        compiling.run(tuning_id, wanted=2)
    (old,) = compiling.site.trials(tuning_id)
    monkeypatch.setattr("service.jobs.preparing.not_run", not_run)
    monkeypatch.setattr("service.jobs.job.GENERATOR", "fusetune 99")
    compiling.stopping.clear()
    row = compiling.run(tuning_id, wanted=2)
    aside, *new = compiling.site.trials(tuning_id)
    assert (aside.candidate, aside.code_hash) == (old.candidate, None)
    assert [trial.number for trial in new] == [1, 2]
    assert new[0].candidate == old.candidate
    assert ". 2 kernels compiled" in row.note


def test_compiling_keeps_to_the_limit_of_trials(compiling: Compiling) -> None:
    tuning_id = compiling.post(trials_limit=1)
    assert compiling.run(tuning_id, wanted=5).state == "done"
    assert len(compiling.site.trials(tuning_id)) == 1


def test_compiling_can_be_cancelled(compiling: Compiling, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning_id = compiling.post(trials_limit=None)

    def somebody_cancels(*args: Any) -> Trial:
        with compiling.site.db.write() as session:
            tunings.request_cancel(session, tuning_id)
        return not_run(*args)

    monkeypatch.setattr("service.jobs.preparing.not_run", somebody_cancels)
    monkeypatch.setattr("service.jobs.progress.EVERY_S", 0.01)
    row = compiling.run(tuning_id, wanted=15)
    assert (row.state, row.kernel_id) == ("cancelled", None)
    assert 1 <= len(compiling.site.trials(tuning_id)) < 15


@pytest.mark.usefixtures("borrowed")
@pytest.mark.parametrize("attached", [False, True])
def test_a_cancelled_tuning_ranks_no_further(site: Site, monkeypatch: pytest.MonkeyPatch, attached: bool) -> None:
    card = FAKE_CARD if attached else H200.card
    tuning_id = site.post(card=card, attached=attached, hand_over=False)
    rank: Callable[..., list[Ranked]] = Plan.ranking

    def cancelled(*args: Any, is_stopped: Callable[[], bool], **kwargs: Any) -> list[Ranked]:
        with site.db.write() as session:
            tunings.request_cancel(session, tuning_id)
        until(is_stopped, "the run to hear of it")
        assert rank(*args, is_stopped=is_stopped, **kwargs) == []
        return []

    monkeypatch.setattr(Plan, "ranking", cancelled)
    monkeypatch.setattr("service.jobs.progress.EVERY_S", 0.01)
    with closing(FakeDevice()) as device:
        target = Attached(device, FACTS, card, ()) if attached else H200
        assert TuningJobs(site.db, target, "w0", threading.Event(), compilers=1).run(tuning_id) == "cancelled"
    assert site.trials(tuning_id) == []


def test_the_search_itself_on_the_fake_device(site: Site) -> None:
    """Once through everything in this process: what the other tests replace."""
    tuning_id = site.post(trials_limit=2, budget_s=10.0, hand_over=False)
    with closing(FakeDevice()) as device:
        gpu = Attached(device, FACTS, FAKE_CARD, ())
        assert TuningJobs(site.db, gpu, "w0", threading.Event(), compilers=1).run(tuning_id) == "done"
    row = site.tuning(tuning_id)
    assert row.kernel_id is not None
    assert 0 < row.spent_s < 10.0
    with site.db.read() as session:
        kernel = kernels.get(session, row.kernel_id)
        assert kernel is not None
        assert cards.card_id(FAKE_CARD) == kernel.card_id
        artifact = KernelArtifact.model_validate_json(kernels.artifact(session, kernel.artifact_sha256))
    assert artifact.evidence == Evidence(correct="verified_on_gpu", time="measured")
    assert artifact.verification is not None
    assert kernel.verifier == artifact.verification.verifier == VERIFIER
    assert kernel.created_at <= now()
