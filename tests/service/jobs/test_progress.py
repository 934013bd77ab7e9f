"""What people see of a running tuning, and how it learns that somebody cancelled it."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import OperationalError

from search.tuning.budget import Budget
from search.tuning.progress import Snapshot
from service.db import tunings
from service.jobs import progress
from service.jobs.progress import DbProgress
from tests.service.jobs.sites import Site, until


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)


@pytest.fixture
def running(site: Site) -> str:
    tuning_id = site.post(hand_over=False)
    with site.db.write() as session:
        tunings.start(session, tuning_id, "w0", "run")
    return tuning_id


def test_phase_and_seconds_are_written_while_the_search_is_busy(site: Site, running: str) -> None:
    with DbProgress(site.db, running, Budget(seconds=60.0), 5.0, "run") as shown:
        assert site.tuning(running).phase == "ranking candidates"
        shown.show(Snapshot(phase="searching"))
        until(lambda: site.tuning(running).phase == "searching", "the phase")
        before = site.tuning(running).spent_s
        until(lambda: site.tuning(running).spent_s > before, "the seconds to count on")
        assert not shown.is_cancelled
    row = site.tuning(running)
    assert 5.0 < row.spent_s <= shown.spent_s


def test_who_joins_may_allow_more_while_it_runs(site: Site, running: str) -> None:
    budget = Budget(seconds=site.tuning(running).budget_s - 5.0, trials=3)
    with site.db.write() as session:
        tunings.get(session, running).trials_limit = 3  # type: ignore[union-attr]  # it is there
    with DbProgress(site.db, running, budget, 5.0, "run"):
        with site.db.write() as session:
            tunings.extend(session, running, 500.0, 70)
        until(lambda: budget.seconds == 495.0, "the budget to grow")
    assert budget.trials == 70


def test_a_wish_to_cancel_is_noticed_and_shown(site: Site, running: str) -> None:
    with DbProgress(site.db, running, Budget(), 0.0, "run") as shown:
        with site.db.write() as session:
            tunings.request_cancel(session, running)
        until(lambda: shown.is_cancelled, "the wish")
        shown.show(Snapshot(phase="searching"))
    assert site.tuning(running).phase == "stopping"


def test_a_tuning_that_has_ended_elsewhere_is_to_stop(site: Site, running: str) -> None:
    with site.db.write() as session:
        tunings.finish(session, running, "failed", error="given up")
    with DbProgress(site.db, running, Budget(), 0.0, "run") as shown:
        assert shown.is_cancelled
    assert site.tuning(running).error == "given up"


def test_a_tuning_that_another_run_has_taken_is_to_stop(site: Site, running: str) -> None:
    with DbProgress(site.db, running, Budget(), 7.0, "run") as shown:
        with site.db.write() as session:
            tunings.start(session, running, "w1", "another")
        until(lambda: shown.is_cancelled, "the loss to be noticed")
    row = site.tuning(running)
    assert (row.phase, row.cancel_requested) == ("starting", False)


def test_a_database_that_is_away_stops_nothing(
    site: Site, running: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object) -> bool:
        raise OperationalError("UPDATE", {}, Exception("connection refused"))

    with DbProgress(site.db, running, Budget(), 0.0, "run") as shown, monkeypatch.context() as patch:
        patch.setattr(tunings, "advance", away)
        until(lambda: "cannot be written" in caplog.text, "the line in the log")
        assert not shown.is_cancelled
    assert all(record.levelno == logging.WARNING for record in caplog.records)
