"""DBOS inside a worker: takes jobs from its queues, one at a time of each; those that the last run left come first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from dbos import DBOS, DBOSConfig

from service.jobs.dbos_queue import APPLICATION, HELP, SCHEMA, SERIALIZER, WORKFLOW, make_parent
from service.jobs.waking import Waker

VERSION = "1"
"""DBOS runs a job under the version it began with: fixed, because what a job needs stands in our tables."""

MAX_RECOVERIES = 100
"""How often a job is taken up again after its worker died. It is given up long before, by the count in our tables that
knows whether it got on (`service.jobs.job`), unless it does not even get that far.
"""


AFTER_END_S = (0.02, 0.1, 0.3, 1.0, 3.0)
"""When the queue is looked at after a job has ended, each counted from the one before. A ring that comes while a job
runs finds the worker busy, and a job counts as running until DBOS has written its outcome, which it does not tell."""


class JobLeft(BaseException):
    """Leaves a job unfinished: not an error, so that nobody takes it for the job's outcome.

    DBOS records what is an Exception; whatever else leaves a workflow keeps it as begun.
    """


class WorkerStopping(JobLeft):
    """The worker ends; the job is there for the next run."""


class TuningLost(JobLeft):
    """Another run has taken the tuning, or somebody has ended it: nothing that this run finds counts any more."""


class Executor:
    """The one DBOS of this process. `run` works on the tuning of an id and returns a word about its end.

    Anything that `run` raises but a JobLeft ends the job for good. `help_with` helps with the tuning of an id, and
    returns in words why it does no more.
    """

    def __init__(
        self,
        url: str,
        worker: str,
        queues: Sequence[str],
        run: Callable[[str], str],
        help_with: Callable[[str], str] = lambda tuning_id: "it helps nobody",
    ) -> None:
        self._url = url
        self._worker = worker
        self._queues = list(queues)
        self._run = run
        self._help_with = help_with
        self._waker: Waker | None = None

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
        dbos = DBOS(config=config)
        run, help_with = self._run, self._help_with

        @DBOS.step(name="search")
        def search(tuning_id: str) -> str:
            return run(tuning_id)

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=MAX_RECOVERIES)
        def tune(tuning_id: str) -> str:
            """One step, which may be run again: it goes on from what our tables hold."""
            try:
                return search(tuning_id)
            finally:
                if self._waker is not None:
                    self._waker.ring_later(AFTER_END_S)

        @DBOS.step(name="help out")
        def help_out(tuning_id: str) -> str:
            return help_with(tuning_id)

        @DBOS.workflow(name=HELP, max_recovery_attempts=MAX_RECOVERIES)
        def assist(tuning_id: str) -> str:
            """Begun again by a worker that died, it finds the tuning over, or helps again."""
            try:
                return help_out(tuning_id)
            finally:
                if self._waker is not None:
                    self._waker.ring_later(AFTER_END_S)

        DBOS.listen_queues(self._queues)
        DBOS.launch()
        self._waker = Waker(getattr(dbos, "background_thread_stop_events", ()))

    @property
    def can_be_woken(self) -> bool:
        """Whether `wake` does anything: it reaches into DBOS."""
        return self._waker is not None and self._waker.reaches > 0

    def wake(self) -> None:
        """Look for jobs now: somebody says that there are some."""
        if self._waker is not None:
            self._waker.ring()

    def stop(self) -> None:
        """Take no more jobs. A job that runs is not waited for, and its outcome is no longer recorded."""
        if self._waker is not None:
            self._waker.close()
        DBOS.destroy()
