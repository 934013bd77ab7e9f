"""The trials of a tuning in the database, as the search wants them: a `search.tuning.journal.TrialLog`."""

from __future__ import annotations

from search.tuning.trial import Trial
from service.db import trials, tunings
from service.db.engine import Database
from service.jobs.executor import TuningLost


class DbTrialLog:
    """Begins with the trials that are stored. Each record is a transaction of its own, committed when it returns."""

    def __init__(self, db: Database, tuning_id: str, run: str) -> None:
        self._db = db
        self._tuning_id = tuning_id
        self._run = run
        with db.read() as session:
            stored = [Trial.from_json(row) for row in trials.every(session, tuning_id)]
        self._trials = {trial.number: trial for trial in stored}

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The last record of each number, in order of number."""
        return tuple(self._trials[number] for number in sorted(self._trials))

    def record(self, trial: Trial) -> None:
        """Keep a trial, or its new state. Raises TuningLost and what the database raises; it is not kept then."""
        with self._db.write() as session:
            if not tunings.is_held(session, self._tuning_id, self._run):
                raise TuningLost(self._tuning_id)
            tunings.note_life(session, self._tuning_id)
            trials.record(session, self._tuning_id, trial.to_json())
        self._trials[trial.number] = trial
