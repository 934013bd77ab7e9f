"""A tuning in the hands of its worker."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.arch import Card
from compiler.wire import bind
from fusetune.wire.parse import parse_binding, parse_fusion
from search.budget import Budget
from search.plan import Plan
from search.roofline import floor_us
from service.db import fusions, tunings
from service.db.engine import Database
from service.db.kernels import Key
from service.db.models import BindingRow, FusionRow
from service.jobs.progress import DbProgress
from service.jobs.trial_log import DbTrialLog


@dataclass(frozen=True)
class Job:
    """What is asked, what there is to search, and what is left of the budget. `key` is the kernel's."""

    db: Database
    id: str
    key: Key
    worker: str
    plan: Plan
    floor_us: float | None
    budget: Budget
    spent_s: float
    seed: int

    @classmethod
    def begin(cls, db: Database, tuning_id: str, card: Card, worker: str) -> Job | None:
        """The worker takes the tuning, or goes on with it; None if it has ended or was cancelled.

        Raises InvalidFusion, InvalidDocument or Unsupported for what cannot be searched.
        """
        with db.write() as session:
            row = tunings.start(session, tuning_id, worker)
            if row is None:
                return None
            fusion = fusions.get(session, row.fingerprint)
            binding = fusions.get_binding(session, row.fingerprint, row.binding)
        if fusion is None or binding is None:
            raise AssertionError(f"tuning {tuning_id} names a fusion that is not stored")
        budget = Budget(seconds=max(0.0, row.budget_s - row.spent_s), trials=row.trials_limit)
        plan = _plan(fusion, binding, card)
        job = cls(
            db=db,
            id=tuning_id,
            key=(row.fingerprint, row.binding, row.card_id, row.policy),
            worker=worker,
            plan=plan,
            floor_us=floor_us(plan.fusion, card),
            budget=budget,
            spent_s=row.spent_s,
            seed=row.seed,
        )
        with db.write() as session:
            tunings.set_space(session, tuning_id, plan.points, plan.legal, plan.refused, job.floor_us)
        return job

    def trials(self) -> DbTrialLog:
        """The trials that are stored, and where the next ones go."""
        return DbTrialLog(self.db, self.id)

    def progress(self) -> DbProgress:
        """To be entered while the tuning is worked on."""
        return DbProgress(self.db, self.id, self.budget, self.spent_s)


def _plan(fusion: FusionRow, binding: BindingRow, card: Card) -> Plan:
    bound = bind(parse_fusion(fusion.document), parse_binding(binding.document))
    if bound.fingerprint != fusion.fingerprint or bound.binding_hash != binding.hash:
        raise AssertionError(f"fusion {fusion.fingerprint} is stored under a name that is not its own")
    return Plan.of(bound, card)
