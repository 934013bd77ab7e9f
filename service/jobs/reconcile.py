"""Our tables and the job queue are two databases: what a crash in between has left apart is put together here."""

from __future__ import annotations

import logging

from sqlalchemy.exc import SQLAlchemyError

from service.db import tunings
from service.db.engine import Database
from service.jobs.dbos_queue import ENDED, GIVEN_UP, DbosQueue
from service.jobs.queue import QueueUnavailable

log = logging.getLogger(__name__)

_WHY = {
    GIVEN_UP: "The worker died several times while it worked on this tuning, so it was given up.",
    "CANCELLED": "Its job was cancelled in the queue.",
}
_ENDED_WITHOUT_US = "Its job ended without a result. The worker's log says more."


def reconcile(db: Database, jobs: DbosQueue, queue: str) -> None:
    """Hand over the queue's tunings that have no job, and fail those whose job has ended without them.

    Databases that do not answer are a line in the log: the next call tries again.
    """
    try:
        with db.read() as session:
            waiting = {row.id: row.priority for row in tunings.unfinished(session) if row.queue == queue}
        states = jobs.states(list(waiting))
        for tuning_id, priority in waiting.items():
            state = states.get(tuning_id)
            if state is None:
                log.info("tuning %s had no job: handed over", tuning_id)
                jobs.enqueue(tuning_id, queue, priority)
            elif state in ENDED:
                _give_up(db, tuning_id, state)
    except (SQLAlchemyError, QueueUnavailable) as error:
        log.warning("tunings and jobs cannot be compared now: %s", error)


def _give_up(db: Database, tuning_id: str, state: str) -> None:
    with db.write() as session:
        row = tunings.get(session, tuning_id)
        if row is None or row.state not in ("queued", "running"):  # it has ended since it was read
            return
        log.error("tuning %s is given up: its job is %s", tuning_id, state)
        tunings.finish(session, tuning_id, "failed", error=_WHY.get(state, _ENDED_WITHOUT_US))
