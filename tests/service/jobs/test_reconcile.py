"""Tunings and jobs are in two databases; whatever a crash leaves apart is put together."""

from __future__ import annotations

import sqlite3

import pytest

from service.db import tunings
from service.jobs.dbos_queue import GIVEN_UP, DbosQueue
from service.jobs.reconcile import reconcile
from tests.service.jobs.sites import Site, fusion_of


def set_job(site: Site, tuning_id: str, state: str) -> None:
    with sqlite3.connect(site.folder / "jobs.db") as connection:
        connection.execute("UPDATE workflow_status SET status = ? WHERE workflow_uuid = ?", (state, tuning_id))
    connection.close()


def test_a_tuning_without_a_job_is_handed_over(site: Site) -> None:
    tuning_id = site.post(hand_over=False)
    queue = site.tuning(tuning_id).queue
    reconcile(site.db, site.jobs, queue)
    reconcile(site.db, site.jobs, queue)
    assert site.jobs.states([tuning_id]) == {tuning_id: "ENQUEUED"}
    assert site.tuning(tuning_id).state == "queued"


def test_the_tunings_of_other_queues_are_left_alone(site: Site) -> None:
    tuning_id = site.post(hand_over=False)
    reconcile(site.db, site.jobs, "tune-another")
    assert site.jobs.states([tuning_id]) == {}


@pytest.mark.parametrize(
    ("job", "error"),
    [
        pytest.param(GIVEN_UP, "The worker died several times while it worked on this tuning", id="given-up"),
        pytest.param("ERROR", "ended without a result", id="failed"),
        pytest.param("SUCCESS", "ended without a result", id="nothing-came-of-it"),
        pytest.param("CANCELLED", "cancelled in the queue", id="cancelled"),
    ],
)
def test_a_tuning_whose_job_has_ended_without_it_fails(site: Site, job: str, error: str) -> None:
    lost, waiting = site.post(), site.post(fusion_of("neg"))
    set_job(site, lost, job)
    reconcile(site.db, site.jobs, site.tuning(lost).queue)
    row = site.tuning(lost)
    assert row.state == "failed"
    assert error in (row.error or "")
    assert site.tuning(waiting).state == "queued"


@pytest.mark.parametrize("job", ["ENQUEUED", "PENDING"])
def test_a_tuning_with_a_job_is_left_alone(site: Site, job: str) -> None:
    tuning_id = site.post()
    set_job(site, tuning_id, job)
    reconcile(site.db, site.jobs, site.tuning(tuning_id).queue)
    assert site.tuning(tuning_id).state == "queued"
    assert site.jobs.states([tuning_id]) == {tuning_id: job}


def test_a_tuning_that_has_ended_needs_no_job(site: Site) -> None:
    tuning_id = site.post(hand_over=False)
    with site.db.write() as session:
        tunings.finish(session, tuning_id, "failed", error="its own")
    reconcile(site.db, site.jobs, site.tuning(tuning_id).queue)
    assert site.jobs.states([tuning_id]) == {}


def test_a_queue_that_does_not_answer_is_a_line_in_the_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    tuning_id = site.post(hand_over=False)
    reconcile(site.db, DbosQueue("sqlite:////proc/no/jobs.db"), site.tuning(tuning_id).queue)
    assert "cannot be compared now" in caplog.text
    assert site.tuning(tuning_id).state == "queued"
