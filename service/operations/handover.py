"""Queued tunings get to a worker: at once where one is there, else as soon as one is.

A tuning belongs to the workers that have its card, or, if none of them is alive, to those that only compile for it.
Where the card is one of the table that no worker serves, any worker compiles for it. While none is alive at all, and
while the GPU that a card was read off is only away, a tuning waits in our table, under the queue "": handed over
blindly, it could wait in a queue that nobody ever reads.
"""

from __future__ import annotations

import threading
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from service.db import cards, tunings
from service.db.engine import Database
from service.db.models import NORMAL
from service.jobs.queue import OTHER_CARDS, JobQueue, QueueUnavailable, queue_name
from service.operations.presence import alive_since
from service.settings import Settings

log = structlog.get_logger(__name__)

NOWHERE = ""
"""The queue of a tuning that no worker can take yet."""


class Handover:
    """The way of tunings into the job queue. May be used by many threads."""

    def __init__(self, db: Database, queue: JobQueue, settings: Settings) -> None:
        self._db = db
        self._queue = queue
        self._settings = settings
        self._lock = threading.Lock()
        self._handed: set[str] = set()
        self._is_down = False

    def queue_for(self, session: Session, card_id: str) -> str:
        """The queue whose workers can take a tuning for this card now, NOWHERE if there are none."""
        return _queue_for(session, card_id, alive_since(self._settings))

    def hand(self, tuning_id: str, queue: str, priority: int = NORMAL) -> bool:
        """Hand a tuning over; False if it has to wait, which the next `run` mends."""
        if queue == NOWHERE:
            return False
        try:
            self._queue.enqueue(tuning_id, queue, priority)
        except QueueUnavailable as error:
            self._note_down(error)
            return False
        with self._lock:
            self._handed.add(tuning_id)
            self._is_down = False
        return True

    def drop(self, tuning_id: str) -> None:
        """Take the job of a cancelled tuning out of the queue; a worker that gets it after all finds it ended."""
        try:
            self._queue.cancel(tuning_id)
        except QueueUnavailable as error:
            self._note_down(error)

    def run(self) -> int:
        """Hand over every queued tuning that this process has not; returns how many. Doing it twice does no harm."""
        with self._db.read() as session:
            waiting = [row for row in tunings.unfinished(session) if row.state == "queued"]
            cards_without = {row.card_id for row in waiting if row.queue == NOWHERE}
            found = {card_id: self.queue_for(session, card_id) for card_id in cards_without}
        with self._lock:
            self._handed.intersection_update(row.id for row in waiting)
            left = [row for row in waiting if row.id not in self._handed]
        done = 0
        for row in left:
            queue = row.queue or self._note_queue(row.id, found[row.card_id])
            if queue != NOWHERE:
                if not self.hand(row.id, queue, row.priority):
                    break
                done += 1
        return done

    def _note_queue(self, tuning_id: str, queue: str) -> str:
        """The queue in the row of a tuning that had none; NOWHERE if it needs none any more."""
        if queue == NOWHERE:
            return NOWHERE
        with self._db.write() as session:
            row = tunings.get(session, tuning_id)
            if row is None or row.state != "queued":
                return NOWHERE
            row.queue = row.queue or queue
            return row.queue

    def _note_down(self, error: QueueUnavailable) -> None:
        """Says once that the queue is down, not for every tuning."""
        with self._lock:
            is_news, self._is_down = not self._is_down, True
        if is_news:
            log.warning("job queue unavailable, tunings wait", reason=error.reason)


def _queue_for(session: Session, card_id: str, since: datetime) -> str:
    alive = cards.alive(session, since)
    serving = [worker for worker in alive if worker.card_id == card_id]
    if not serving:
        card = cards.get(session, card_id)
        is_of_the_table = card is not None and card.source == cards.TABLE and card.name != cards.FAKE_CARD
        helpers = [worker for worker in alive if not cards.is_invented(session, worker.card_id)]
        return OTHER_CARDS if is_of_the_table and helpers else NOWHERE
    return queue_name(card_id, attached=any(worker.attached for worker in serving))
