"""The job queue on DBOS: a durable job for each tuning, under the tuning's id, in a database of its own.

A job says only which tuning to work on. What is asked and what has come of it stands in our tables, so a job may be
handed over, lost and handed over again without harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, error
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from service.jobs.bell import ERRANDS, Bell, bell_of
from service.jobs.queue import QueueUnavailable, help_queue

APPLICATION = "fusetune"
SCHEMA = "fusetune_jobs"
"""Where DBOS keeps its tables on PostgreSQL; on SQLite they are a file's only tables."""

WORKFLOW = "tune"
"""The workflow that workers run (`service.jobs.executor`). Its one argument is the tuning's id."""

HELP = "help"
"""The workflow of a worker that helps with the tuning of another one; its argument is that tuning's id."""

SERIALIZER = DBOSPortableJSONSerializer()
"""Arguments and results are JSON: whoever can write to the database could run code through pickles."""

ENDED = frozenset({"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})
"""States of a job that will not be run again."""

GIVEN_UP = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
"""The state of a job whose worker died of it, or with it, too often."""

_URLS = "Write sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME"

QUEUE_POLL_S, UNHEARD_POLL_S = 5.0, 0.5
"""How often an idle worker asks for work that nobody has told it of (`service.jobs.bell`), and where none can."""


class DbosQueue:
    """A `JobQueue`. Connects, and makes or migrates DBOS's tables, when it is first used. May be used by many threads.

    Every method raises QueueUnavailable if the database does not answer.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._client: DBOSClient | None = None
        self._bell: Bell | None = None
        self._errand_bell: Bell | None = None

    def open(self) -> None:
        """Connect now, and make or migrate DBOS's tables."""
        with self._connected():
            pass

    def enqueue(self, tuning_id: str, queue: str, priority: int) -> None:
        """Hand a tuning over; of those that wait, 1 comes before 9.

        One that has a job already, even an ended one, keeps it as it is.
        """
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW, "queue_name": queue, "workflow_id": tuning_id, "priority": priority,
        }  # fmt: skip
        with self._connected() as client:
            client.enqueue(options, tuning_id)
        self.bell.ring()

    def ask(self, tuning_id: str, worker: str, turn: int) -> None:
        """Ask a worker to help with a tuning; each `turn` asks once."""
        options: EnqueueOptions = {
            "workflow_name": HELP,
            "queue_name": help_queue(worker),
            "workflow_id": f"{tuning_id}-{worker}-{turn}",
        }
        with self._connected() as client:
            client.enqueue(options, tuning_id)
        self.bell.ring()

    def cancel(self, tuning_id: str) -> None:
        """Drop the job of a tuning that no worker has begun; nothing if there is none."""
        with self._connected() as client:
            client.cancel_workflow(tuning_id)

    def states(self, tuning_ids: Sequence[str]) -> dict[str, str]:
        """The states of the jobs of these tunings, in DBOS's words (see ENDED); those without a job are left out."""
        if not tuning_ids:
            return {}
        with self._connected() as client:
            jobs = client.list_workflows(workflow_ids=list(tuning_ids), load_input=False, load_output=False)
        return {job.workflow_id: job.status for job in jobs}

    def begun(self, queue: str) -> dict[str, str]:
        """The jobs of a queue that a worker has begun and not ended: the worker of each tuning."""
        with self._connected() as client:
            jobs = client.list_workflows(status="PENDING", queue_name=queue, load_input=False, load_output=False)
        return {job.workflow_id: job.executor_id for job in jobs if job.executor_id is not None}

    def hand_back(self, tuning_ids: Iterable[str], queue: str) -> None:
        """Put begun jobs back into their queue, as if they had never been tried; those that have ended stay so."""
        with self._connected() as client:
            for tuning_id in tuning_ids:
                client.resume_workflow(tuning_id, queue_name=queue)
        self.bell.ring()

    def register(self, queue: str, poll_s: float = QUEUE_POLL_S) -> None:
        """Make a queue from which each worker takes one job at a time, and for which it asks so often by itself."""
        with self._connected() as client:
            client.register_queue(queue, worker_concurrency=1, polling_interval_sec=poll_s)

    def close(self) -> None:
        """Give connections back. A later call connects again."""
        with self._lock:
            client, self._client = self._client, None
            bells = [bell for bell in (self._bell, self._errand_bell) if bell is not None]
            self._bell = self._errand_bell = None
        if client is not None:
            client.destroy()
        for bell in bells:
            bell.close()

    @property
    def bell(self) -> Bell:
        """What wakes workers that wait for this queue."""
        with self._lock:
            if self._bell is None:
                self._bell = bell_of(self._url)
            return self._bell

    @property
    def errand_bell(self) -> Bell:
        """What wakes tunings and their helpers for what they ask of each other; queues are not looked at for that."""
        with self._lock:
            if self._errand_bell is None:
                self._errand_bell = bell_of(self._url, ERRANDS)
            return self._errand_bell

    @contextmanager
    def _connected(self) -> Iterator[DBOSClient]:
        try:
            with self._lock:
                if self._client is None:
                    self._client = _connect(self._url)
                client = self._client
            yield client
        except (error.DBOSException, SQLAlchemyError, OSError) as fault:
            raise QueueUnavailable(_first_line(fault)) from fault


def _connect(url: str) -> DBOSClient:
    """A client of a database whose tables are there."""
    logging.getLogger("dbos").setLevel(logging.WARNING)  # one line for each migration otherwise
    make_parent(url)
    DBOS.migrate(url, schema=SCHEMA)
    return DBOSClient(
        system_database_url=url,
        dbos_system_schema=SCHEMA,
        serializer=SERIALIZER,
        application_name=APPLICATION,
        lazy=True,
        retry_connection_errors=False,
    )


def make_parent(url: str) -> None:
    """The folder of a SQLite file. Raises OSError, and ArgumentError for what is no URL of a database that we use."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ArgumentError(f"its URL cannot be read. {_URLS}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise ArgumentError(f"found {parsed.get_backend_name()}, expected sqlite or postgresql. {_URLS}")
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)


def _first_line(fault: Exception) -> str:
    """What happened, without the statement and the URL, which may hold a password."""
    lines = str(getattr(fault, "orig", None) or fault).splitlines()
    return lines[0].rstrip(".") if lines else type(fault).__name__
