"""What a worker learns of its card from all trials that were measured on it, for the order of the next ones.

While the GPU has nothing to do, and the database has a quarter more measured trials than were learnt from, a ranker is
fitted to the newest and kept as a file beside the databases. A search orders its candidates by it (`CardRanker`): one
that is of another card or version, or no better than the model for fusions that it was not fitted to, is left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from compiler.arch import Card
from compiler.generator import GENERATOR
from search.cost.ranker import CardRanker, RankerError
from search.cost.ranker_features import FEATURES
from search.tuning.candidates.candidate import Candidate
from search.tuning.fitting import TooLittle, fit
from search.tuning.timed import TimedFusion, TimedTrial
from service.db import cards, trials
from service.db.engine import Database

log = logging.getLogger(__name__)

FOLDER = "rankers"
"""Of the data folder: a file a card."""

EVERY_S = 600.0
"""How often it is looked whether there is more to learn from."""

MORE = 1.25
"""Times as many trials as were learnt from, from which on it is learnt again."""

MOST_TRIALS = 20_000
"""The newest: fitting to them takes a few seconds of one core."""


class CardLearning:
    """The ranker of one card, in `folder`; what is there from before is used at once."""

    def __init__(self, db: Database, card: Card, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._card = card
        self._path = folder / FOLDER / f"{cards.card_id(card)}.json"
        self._clock = clock
        self._due_s = 0.0
        self._seen = 0
        self._thread: threading.Thread | None = None
        self.ranker = self._read()

    def learn_if_due(self) -> None:
        """Learns in a thread, if it is time to; nobody waits for it."""
        if self._clock() < self._due_s or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_s = self._clock() + EVERY_S
        self._thread = threading.Thread(target=self._learn, name="learn", daemon=True)
        self._thread.start()

    def learn(self) -> bool:
        """Whether something was learnt: there are trials enough, and enough new ones. Raises what the database and the
        file raise."""
        with self._db.read() as session:
            count = trials.timed_count(session, cards.card_id(self._card), GENERATOR)
            if count < max(1.0, MORE * self._seen):
                return False
            rows = trials.timed(session, cards.card_id(self._card), GENERATOR, MOST_TRIALS)
        self._seen = count
        fusions: dict[str, list[TimedTrial]] = {}
        for fusion, row in rows:
            if row.predicted_us and row.predicted_terms and row.median_us:
                candidate = Candidate.of(row.scheduler, row.point)
                one = TimedTrial(candidate, row.predicted_us, row.predicted_terms, row.median_us)
                fusions.setdefault(fusion, []).append(one)
        found = [TimedFusion(fusion, self._card.name, GENERATOR, each) for fusion, each in fusions.items()]
        try:
            self.ranker = fit(found, self._card.name)
        except TooLittle as error:
            log.info("nothing is learnt of the %s yet: %s", self._card.name, error)
            return False
        self.ranker.write(self._path)
        log.info(
            "learnt from %d kernels of %d fusions on the %s: rank correlation %.3f for fusions left out, %.3f by the "
            "model alone",
            self.ranker.trials,
            self.ranker.fusions,
            self._card.name,
            self.ranker.held_out.ranker,
            self.ranker.held_out.model,
        )
        return True

    def _learn(self) -> None:
        try:
            self.learn()
        except (SQLAlchemyError, OSError) as error:
            log.warning("nothing is learnt of the %s now: %s", self._card.name, error)
        except Exception:
            log.exception("learning of the %s failed unexpectedly", self._card.name)

    def _read(self) -> CardRanker | None:
        """What is there from before, unless it is not for this card and version any more."""
        try:
            found = CardRanker.read(self._path)
        except FileNotFoundError:
            return None
        except (RankerError, OSError) as error:
            log.warning("what was learnt of the %s cannot be read and is learnt anew: %s", self._card.name, error)
            return None
        if (why := found.why_not(self._card.name)) is not None:
            log.info("what was learnt of the %s before is not used: %s", self._card.name, why)
        is_of_today = found.generator == GENERATOR and found.features == FEATURES
        self._seen = found.trials if is_of_today else 0
        return found
