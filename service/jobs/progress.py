"""How far a tuning is, for those who watch it; and whether somebody wants it to stop."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from search.tuning.budget import Budget
from search.tuning.progress import Snapshot
from search.tuning.stopping import StopRules
from search.tuning.timeline import Timeline
from service.db import tunings
from service.db.engine import Database

log = logging.getLogger(__name__)

EVERY_S, LOOKED_S = 1.0, 0.2
"""How often phase and seconds are written; and how often it is looked for a wish to cancel, or for the first kernel."""

STOPPING = "stopping"


class DbProgress:
    """A `Progress` of a tuning that a thread writes down while it is entered, whatever the search is busy with.

    `budget` and `timeline` are those of this `run`; `spent_s` the seconds that earlier runs of the tuning took.
    """

    def __init__(
        self, db: Database, tuning_id: str, budget: Budget, spent_s: float, run: str, timeline: Timeline | None = None
    ) -> None:
        self._db = db
        self._tuning_id = tuning_id
        self._budget = budget
        self._before_s = spent_s
        self._run = run
        self._timeline = timeline or Timeline()
        self._phase = "ranking candidates"
        self._wants_first = False
        self._enough = StopRules()
        self._cancelled = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    @property
    def is_cancelled(self) -> bool:
        """Somebody asked for an end, or the tuning is not this run's any more."""
        return self._cancelled.is_set()

    @property
    def wants_first(self) -> bool:
        """Somebody takes the first kernel that may be served."""
        return self._wants_first

    @property
    def enough(self) -> StopRules:
        """When all who wait for the tuning have enough."""
        return self._enough

    @property
    def spent_s(self) -> float:
        """Seconds of the tuning's budget that are used up, earlier runs included."""
        return self._before_s + self._budget.elapsed_s

    def show(self, snapshot: Snapshot) -> None:
        """The phase is written with the next line."""
        self._phase = snapshot.phase

    def note(self, text: str) -> None:
        """One line in the log."""
        log.info("tuning %s: %s", self._tuning_id, text)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._left.set()
        self._thread.join()
        self._write()

    def _watch(self) -> None:
        due = time.monotonic() + EVERY_S
        while not self._left.wait(LOOKED_S):
            if time.monotonic() < due:
                self._look()
            else:
                self._write()
                due = time.monotonic() + EVERY_S

    def _look(self) -> None:
        """What others wish, without a word of our own. A database that does not answer is told of by `_write`."""
        with suppress(SQLAlchemyError), self._db.read() as session:
            row = tunings.get(session, self._tuning_id)
            if row is None or row.cancel_requested:
                self._cancelled.set()
            else:
                self._wants_first = row.want == "first"

    def _write(self) -> None:
        """A database that does not answer now is asked again in a second: the search needs it for more than this."""
        phase = STOPPING if self.is_cancelled else self._phase
        try:
            with self._db.write() as session:
                told = self._timeline.record().to_json()
                shall_stop = tunings.advance(session, self._tuning_id, phase, self.spent_s, self._run, told)
                row = tunings.get(session, self._tuning_id)
        except SQLAlchemyError as error:
            log.warning("tuning %s: its progress cannot be written: %s", self._tuning_id, error)
            return
        if shall_stop or row is None:
            self._cancelled.set()
        else:  # who joined since may allow more, and take less
            self._wants_first = row.want == "first"
            enough = tunings.enough_of(row)
            self._enough = StopRules() if enough is None else StopRules(enough.within_floor, enough.improvement)
            self._budget.extend(max(0.0, row.budget_s - self._before_s), row.trials_limit)
