"""DBOS inside a worker: takes jobs from one queue, one at a time, and takes up those that the last run left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable

from dbos import DBOS, DBOSConfig

from service.jobs.dbos_queue import APPLICATION, SCHEMA, SERIALIZER, WORKFLOW, make_parent

VERSION = "1"
"""DBOS runs a job under the version it began with: fixed, because what a job needs stands in our tables."""

MAX_RECOVERIES = 3
"""How often a job is taken up again after its worker died before it is given up: it may be what they die of."""


class WorkerStopping(BaseException):
    """Leaves a job unfinished because the worker ends: not an error, so that nobody takes it for the job's outcome.

    DBOS records what is an Exception; whatever else leaves a workflow keeps it as begun.
    """


class Executor:
    """The one DBOS of this process. `run` works on the tuning of an id and returns a word about its end.

    Anything that `run` raises but WorkerStopping ends the job for good.
    """

    def __init__(self, url: str, worker: str, queue: str, run: Callable[[str], str]) -> None:
        self._url = url
        self._worker = worker
        self._queue = queue
        self._run = run

    def start(self) -> None:
        """Begin to take jobs; those that a worker of this id left behind come first."""
        logger = logging.getLogger("dbos")
        logger.addHandler(logging.NullHandler())  # before DBOS adds one of its own: its lines go where ours go
        make_parent(self._url)
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_url": self._url,
            "dbos_system_schema": SCHEMA,
            "serializer": SERIALIZER,
            "executor_id": self._worker,
            "application_version": VERSION,
            "log_level": "WARNING",
        }
        DBOS(config=config)
        run = self._run

        @DBOS.step(name="search")
        def search(tuning_id: str) -> str:
            return run(tuning_id)

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=MAX_RECOVERIES)
        def tune(tuning_id: str) -> str:
            """One step, which may be run again: it goes on from what our tables hold."""
            return search(tuning_id)

        DBOS.listen_queues([self._queue])
        DBOS.launch()

    def stop(self) -> None:
        """Take no more jobs. A job that runs is not waited for, and its outcome is no longer recorded."""
        DBOS.destroy()
