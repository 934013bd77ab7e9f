"""Jobs that a dead worker has begun go back into the queue, for the living ones of the same card.

A worker that was only silent (a network that parted, a process that was stopped) is in nobody's way when it is back:
whoever starts a tuning takes it out of the hand of the run before, which notices and keeps nothing more of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from service.db import cards
from service.db.engine import Database
from service.db.tunings import SILENT_S
from service.jobs.dbos_queue import DbosQueue
from service.jobs.queue import QueueUnavailable

log = logging.getLogger(__name__)


class Adoption:
    """Watches the other workers of a queue. `clock` is monotonic, in seconds.

    A worker is dead once its heartbeat has stood still for SILENT_S of our own clock: clocks of hosts differ, and jump.
    Databases that do not answer are a line in the log, and no silence.
    """

    def __init__(
        self, db: Database, jobs: DbosQueue, queue: str, worker: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._jobs = jobs
        self._queue = queue
        self._worker = worker
        self._clock = clock
        self._heard: dict[str, tuple[datetime | None, float]] = {}

    def run(self) -> list[str]:
        """Look once; returns the tunings that were put back into the queue."""
        try:
            begun = {id: worker for id, worker in self._jobs.begun(self._queue).items() if worker != self._worker}
            dead = {worker for worker in set(begun.values()) if self._is_dead(worker)}
            adopted = [id for id, worker in begun.items() if worker in dead]
            for id in adopted:
                log.warning("tuning %s goes back into the queue: worker %s is not heard of any more", id, begun[id])
            self._jobs.hand_back(adopted, self._queue)
        except (SQLAlchemyError, QueueUnavailable) as error:
            self._heard.clear()
            log.warning("it cannot be seen now which workers live: %s", error)
            return []
        return adopted

    def _is_dead(self, worker: str) -> bool:
        with self._db.read() as session:
            row = cards.worker(session, worker)
        heartbeat = None if row is None else row.heartbeat_at
        before, since = self._heard.get(worker, (None, None))
        if since is None or heartbeat != before:
            self._heard[worker] = heartbeat, self._clock()
            return False
        return self._clock() - since >= SILENT_S
