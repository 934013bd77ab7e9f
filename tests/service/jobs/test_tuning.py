"""What one tuning comes to, with the search replaced where it is not the point."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from fusetune.wire.artifact import (
    KernelArtifact,
)
from search.measure.device import EAGER, DeviceLost
from search.measure.fake import FACTS
from search.proof.emulated.apart import Prover
from search.tuning.first import FirstKernel
from search.tuning.trial import Trial, TrialState
from search.tuning.tuner import SearchOutcome
from service.db import kernels, tunings
from service.db.models import AuditRow, FusionRow, KernelRow, TuningRow
from service.jobs.executor import TuningLost, WorkerStopping
from service.jobs.job import MAX_DEATHS
from service.jobs.settle import why_no_kernel
from service.jobs.trial_log import DbTrialLog
from service.stands_on import StandsOn
from tests.service.jobs.benches import CANDIDATE, H200, Bench, winner, wins
from tests.service.jobs.sites import fusion_of


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


def test_it_is_written_down_what_an_end_stands_on(bench: Bench) -> None:
    bench.search = wins(12.5)
    row = bench.run(bench.site.post(hand_over=False))
    assert row.stands_on == StandsOn(True, FACTS.driver).to_json()


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
    monkeypatch.setattr(Prover, "rest", lambda _: asked.append("rest"))
    with Prover() as prover:
        work = bench.tunings(prover)
        work.rest_if_idle()
        work.rest_if_idle()
        assert asked == ["rest", "close", "facts"]
        bench.search = wins(12.5)
        work.run(bench.site.post(hand_over=False))
        work.rest_if_idle()
    assert asked == ["rest", "close", "facts"] * 2


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
