"""Jobs are handed over once, whoever asks how often, and before any worker ever ran."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, text

from service.db.models import NORMAL
from service.jobs.dbos_queue import SCHEMA, DbosQueue
from service.jobs.queue import QueueUnavailable
from tests.service.databases import created

QUEUE = "tune-0123456789abcdef"


@pytest.fixture(scope="module")
def postgres_url(postgres: URL) -> Iterator[str]:
    """One database for all tests, whose ids differ: making DBOS's tables takes a second."""
    with created(postgres) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'not' / 'there' / 'jobs.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def jobs(url: str) -> Iterator[DbosQueue]:
    queue = DbosQueue(url)
    yield queue
    queue.close()


@pytest.fixture
def tuning_id() -> str:
    return uuid.uuid4().hex


def test_a_job_is_handed_over_before_any_worker_ran_and_only_once(jobs: DbosQueue, tuning_id: str) -> None:
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    other = uuid.uuid4().hex
    assert jobs.states([tuning_id, other]) == {tuning_id: "ENQUEUED"}


def test_a_cancelled_job_is_not_brought_back(jobs: DbosQueue, tuning_id: str) -> None:
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    jobs.cancel(tuning_id)
    jobs.cancel(tuning_id)
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    assert jobs.states([tuning_id]) == {tuning_id: "CANCELLED"}


def test_cancelling_a_tuning_without_a_job_does_nothing(jobs: DbosQueue, tuning_id: str) -> None:
    jobs.cancel(tuning_id)
    assert jobs.states([tuning_id]) == {}


def test_two_processes_may_make_the_tables(url: str, tuning_id: str) -> None:
    first, second = DbosQueue(url), DbosQueue(url)
    try:
        first.enqueue(tuning_id, QUEUE, NORMAL)
        second.enqueue(tuning_id, QUEUE, NORMAL)
        assert second.states([tuning_id]) == {tuning_id: "ENQUEUED"}
    finally:
        first.close()
        second.close()


def test_a_closed_queue_connects_again(jobs: DbosQueue, tuning_id: str) -> None:
    jobs.close()
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    jobs.close()
    jobs.close()
    assert jobs.states([tuning_id]) == {tuning_id: "ENQUEUED"}


def test_arguments_are_stored_as_json(url: str, jobs: DbosQueue, tuning_id: str) -> None:
    jobs.enqueue(tuning_id, QUEUE, NORMAL)
    engine = create_engine(url)
    schema = "" if url.startswith("sqlite") else f"{SCHEMA}."
    with engine.connect() as connection:
        query = text(f"SELECT inputs FROM {schema}workflow_input WHERE workflow_uuid = :id")
        (stored,) = connection.execute(query, {"id": tuning_id}).scalars()
    engine.dispose()
    assert stored == f'{{"namedArgs":{{}},"positionalArgs":["{tuning_id}"]}}'


@pytest.mark.parametrize(
    ("url", "why"),
    [
        pytest.param("sqlite:////proc/no/jobs.db", "No such file", id="no-folder"),
        pytest.param("sqlite:////proc/version", "database", id="no-database"),
        pytest.param("postgresql://u:secret@127.0.0.1:1/jobs", "connection", id="no-server"),
        pytest.param("nonsense", "URL", id="no-url"),
        pytest.param("mysql://u@h/db", "found mysql, expected", id="other-kind"),
    ],
)
def test_a_database_that_does_not_answer_is_said_so(url: str, why: str, tuning_id: str) -> None:
    jobs = DbosQueue(url)
    with pytest.raises(QueueUnavailable) as caught:
        jobs.enqueue(tuning_id, QUEUE, NORMAL)
    assert why in caught.value.reason
    assert "secret" not in str(caught.value)
    jobs.close()
