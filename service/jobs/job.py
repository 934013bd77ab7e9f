"""A tuning in the hands of its worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from compiler.arch import Card
from compiler.generator import GENERATOR
from compiler.wire import bind
from fusetune.signer import Signer
from fusetune.wire.artifact import VERIFIER
from fusetune.wire.parse import parse_binding, parse_fusion
from search.cost.roofline import floor_us
from search.tuning.budget import Budget
from search.tuning.candidates.plan import Plan
from search.tuning.journal import spaces_key
from search.tuning.timeline import SearchStage, Timeline
from service.db import cards, fusions, trials, tunings
from service.db.engine import Database
from service.db.kernels import Key
from service.db.models import BindingRow, FusionRow
from service.jobs.executor import TuningLost
from service.jobs.progress import DbProgress
from service.jobs.trial_log import DbTrialLog

log = logging.getLogger(__name__)

MAX_DEATHS = 3
"""How many workers in a row may die of a tuning, none of which has kept a trial of it, before it is given up."""

_GIVEN_UP = f"{MAX_DEATHS + 1} workers in a row died while they worked on this tuning, so it was given up."


@dataclass(frozen=True)
class Job:
    """What is asked, what there is to search, and what is left of the budget. `key` is the kernel's.

    `run` is the run of this worker process, which has the tuning in hand until it ends or another one takes it.
    `found` is what there is to say of the kernel known before, in sentences, ahead of the tuning's own note.
    `signer` signs what is published.
    """

    db: Database
    id: str
    key: Key
    worker: str
    run: str
    plan: Plan
    floor_us: float | None
    budget: Budget
    spent_s: float
    seed: int
    found: str = ""
    signer: Signer | None = None
    timeline: Timeline = field(default_factory=Timeline)

    @classmethod
    def begin(
        cls, db: Database, tuning_id: str, card: Card, worker: str, run: str, signer: Signer | None = None
    ) -> Job | None:
        """The worker takes the tuning, or goes on with it; None if it has ended, was cancelled or is given up.

        Trials of another generator or verifier than this one's count no more. Raises InvalidFusion, InvalidDocument or
        Unsupported for what cannot be searched, TuningLost.
        """
        with db.write() as session:
            row = tunings.start(session, tuning_id, worker, run)
            if row is None:
                return None
            if row.deaths > MAX_DEATHS:
                tunings.finish(session, tuning_id, "failed", error=_GIVEN_UP)
                return None
            fusion = fusions.get(session, row.fingerprint)
            binding = fusions.get_binding(session, row.fingerprint, row.binding)
        if fusion is None or binding is None:
            raise AssertionError(f"tuning {tuning_id} names a fusion that is not stored")
        if row.card_id != cards.card_id(card):
            raise AssertionError(f"tuning {tuning_id} is for card {row.card_id}, this worker has {card.key}")
        budget = Budget(seconds=max(0.0, row.budget_s - row.spent_s), trials=row.trials_limit)
        timeline = Timeline()
        with timeline.span(SearchStage.SPACES):
            plan = plan_of(fusion, binding, card)
        job = cls(
            db=db,
            id=tuning_id,
            key=(row.fingerprint, row.binding, row.card_id, row.policy),
            worker=worker,
            run=run,
            plan=plan,
            floor_us=floor_us(plan.fusion, card),
            budget=budget,
            spent_s=row.spent_s,
            seed=row.seed,
            signer=signer,
            timeline=timeline,
        )
        generator = generator_of(plan)
        with job.writing() as session:
            tunings.set_floor(session, tuning_id, job.floor_us)
            before = tunings.set_generator(session, tuning_id, generator)
            if before is not None:
                trials.set_aside(session, tuning_id, f"made by {before}; the search went on with {generator}")
        return job

    def noted(self, note: str) -> str:
        """A note on the tuning's end, behind what was found before."""
        return f"{self.found} {note}".strip()

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction in which nobody takes the tuning from this run. Raises TuningLost if somebody has."""
        with self.db.write() as session:
            if not tunings.is_held(session, self.id, self.run):
                raise TuningLost(self.id)
            yield session

    def count(self) -> None:
        """Counts the points of the spaces, which takes up to seconds, and writes down how many are legal. Raises
        TuningLost."""
        plan = self.plan
        counted = plan.points, plan.legal, plan.refused, plan.reasons
        with self.writing() as session:
            tunings.set_space(session, self.id, *counted)
        log.info("tuning %s: %d of %d points are legal", self.id, plan.legal, plan.points)

    @contextmanager
    def counting(self, is_stopped: Callable[[], bool]) -> Iterator[Callable[[], None]]:
        """What begins to count beside a search, which does not need to know: nobody shall wait for it who wants a
        kernel. What was not begun inside is done at the end, unless it `is_stopped` or the tuning has ended."""
        begun: list[Future[None]] = []
        with ThreadPoolExecutor(1, thread_name_prefix="count") as thread:

            def begin() -> None:
                if not begun:
                    begun.append(thread.submit(self.count))

            try:
                yield begin
            finally:
                if not is_stopped():
                    begin()
        with suppress(TuningLost):
            for one in begun:
                one.result()

    def trials(self) -> DbTrialLog:
        """The trials that are stored, and where the next ones go."""
        return DbTrialLog(self.db, self.id, self.run)

    def progress(self) -> DbProgress:
        """To be entered while the tuning is worked on."""
        return DbProgress(self.db, self.id, self.budget, self.spent_s, self.run, self.timeline)


def generator_of(plan: Plan) -> str:
    """What makes trials here, in words that are equal where trials are."""
    return f"{GENERATOR}, spaces {spaces_key(plan.spaces)}, verifier {VERIFIER}"


def plan_of(fusion: FusionRow, binding: BindingRow, card: Card) -> Plan:
    """What there is to search of a stored fusion. Raises InvalidFusion, InvalidDocument and Unsupported."""
    bound = bind(parse_fusion(fusion.document), parse_binding(binding.document))
    if bound.fingerprint != fusion.fingerprint or bound.binding_hash != binding.hash:
        raise AssertionError(f"fusion {fusion.fingerprint} is stored under a name that is not its own")
    return Plan.of(bound, card)
