"""Kernels that were timed under other conditions than today's, timed again while the GPU has nothing else to do.

The served kernel and what was tied with it are timed in turns, as leaders of a search are, the tied ones built anew.
What comes first by the rule of all searches is served from then on, once it is right on all input sets. A served kernel
that is wrong now is served no more; one that cannot be timed stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from compiler.generator import GENERATOR
from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.checks import Checked
from search.tuning.attached import Attached
from search.tuning.build import Builder
from search.tuning.candidates.candidate import Candidate
from search.tuning.candidates.plan import Plan
from search.tuning.drops import slower_by
from search.tuning.failing import Failure
from search.tuning.leaders import Finals, Winner
from search.tuning.trial import Trial, TrialState
from service.db import fusions, kernels, keys, trials, tunings
from service.db.conditions import TimedUnder, due
from service.db.engine import Database
from service.db.models import KernelRow
from service.db.types import now
from service.jobs import kernel_rows
from service.jobs.job import plan_of

log = logging.getLogger(__name__)

TIED = 4
"""Of a tied set, so many are built and timed beside the served kernel."""

ROUNDS = 3

_SERVED_FIRST = 0
"""The number of the served kernel among those that are timed."""

_WRONG = frozenset({TrialState.WRONG_RESULT, TrialState.CRASHED})


@dataclass(frozen=True, slots=True)
class RecheckBench:
    """What a kernel is timed with again, by the worker that has the GPU."""

    db: Database
    gpu: Attached
    card_id: str
    worker: str
    builder_of: Callable[[Plan], Builder]
    tried: set[str] = field(default_factory=set)
    """Kernels that this worker has come to, whatever came of it: none is tried again and again."""

    @property
    def conditions(self) -> TimedUnder:
        """Today's."""
        return TimedUnder(GENERATOR, self.gpu.facts.driver, self.gpu.facts.clock_limit_mhz or None)


def recheck_next(bench: RecheckBench, is_wanted: Callable[[], bool]) -> str | None:
    """Times the next kernel again that is due; returns its id, None if none is. Raises DeviceLost and what the database
    raises."""
    with bench.db.read() as session:
        known = due(session, bench.card_id, bench.conditions, bench.tried)
        if known is None:
            return None
        bench.tried.add(known.id)
        fusion = fusions.get(session, known.fingerprint)
        binding = fusions.get_binding(session, known.fingerprint, known.binding)
        content = kernels.artifact(session, known.artifact_sha256)
        tuning = None if known.tuning_id is None else tunings.get(session, known.tuning_id)
        numbers = [] if tuning is None else list(tuning.tied or ())[:TIED]
        rows = [row for n in numbers if (row := trials.get(session, known.tuning_id, n)) is not None]
        tied = [Candidate.of(row.scheduler, row.point) for row in rows]
        own = trials.get(session, known.tuning_id, known.trial_number)
        predicted_us = None if own is None else own.predicted_us
    assert fusion is not None
    assert binding is not None
    plan = plan_of(fusion, binding, bench.gpu.card)
    artifact = KernelArtifact.model_validate_json(content)
    log.info("kernel %s is timed again", known.id)
    _Recheck(bench, known, artifact, plan, predicted_us, tied).run(is_wanted)
    return known.id


class _Recheck:
    """One kernel, of the trial `served`, and those tied with it."""

    def __init__(
        self,
        bench: RecheckBench,
        known: KernelRow,
        artifact: KernelArtifact,
        plan: Plan,
        predicted_us: float | None,
        tied: list[Candidate],
    ) -> None:
        self._bench = bench
        self._known = known
        self._artifact = artifact
        self._plan = plan
        self._tied = tied
        served = Trial(
            _SERVED_FIRST, Candidate.of(known.scheduler, known.point), TrialState.MEASURED, predicted_us=predicted_us
        )
        self._trials = {_SERVED_FIRST: served}

    def run(self, is_wanted: Callable[[], bool]) -> None:
        bench = self._bench
        built = {_SERVED_FIRST: self._artifact, **self._built()}
        bench.gpu.device.open(self._plan.fusion)
        finals = Finals(bench.gpu.device, lambda trial: built.get(trial.number), self._record)
        ranking = sorted(self._trials.values(), key=lambda trial: trial.number)
        winner = finals.run(ranking, len(ranking), ROUNDS if len(ranking) > 1 else 1, lambda: not is_wanted())
        self._settle(winner)

    def _built(self) -> dict[int, KernelArtifact]:
        """What was tied, as today's generator makes it."""
        if not self._tied:
            return {}
        found, builder = {}, self._bench.builder_of(self._plan)
        for number, candidate in enumerate(self._tied, start=1):
            build = builder.start(number, candidate)
            artifact = builder.finish(build)
            if not isinstance(artifact, Failure):
                found[number] = artifact
                self._trials[number] = Trial(
                    number, candidate, TrialState.MEASURED, predicted_us=build.predicted_us, median_us=None
                )
        return found

    def _record(self, trial: Trial) -> None:
        self._trials[trial.number] = trial

    def _settle(self, winner: Winner | None) -> None:
        served = self._trials[_SERVED_FIRST]
        actor, known = f"worker:{self._bench.worker}", self._known
        with self._bench.db.write() as session:
            row = session.get(KernelRow, known.id, with_for_update=True, populate_existing=True)
            if row is None or row.superseded_at is not None:
                return  # another kernel answers by now
            if served.state in _WRONG:
                kernels.refute(session, row.id, served.reason)
                keys.audit(session, actor, "kernel.refuted", row.id, {"why": served.reason})
                log.error("kernel %s is wrong now and is served no more: %s", row.id, served.reason)
            elif (checked := self._checked(served)) is None:
                log.warning("kernel %s could not be timed again: %s", row.id, served.reason or served.state)
            else:
                row.checked = checked.model_dump(mode="json")
                if checked.slower:
                    told = {"slower": checked.slower, "median_us": checked.median_us, "before_us": checked.before_us}
                    keys.audit(session, actor, "kernel.slower", row.id, told)
                    log.warning("kernel %s is %.1f %% slower than it was", row.id, 100 * checked.slower)
            if winner is not None and winner.trial.number != _SERVED_FIRST:
                new = kernels.publish(session, self._row_of(session, winner), replace_slower_only=False)
                keys.audit(session, actor, "kernel.published", new.id, {"instead_of": row.id})
                log.info("kernel %s takes the place of %s, with which it was tied", new.id, row.id)

    def _checked(self, served: Trial) -> Checked | None:
        """None of a kernel that has no time."""
        known, conditions = self._known, self._bench.conditions
        if not served.samples_us or served.median_us is None or served.p10_us is None or served.p90_us is None:
            return None
        before = {"median_us": known.median_us, "p90_us": known.p90_us, **(known.checked or {})}
        before_us = before["median_us"]
        slower = 0.0
        if before_us:
            slower = slower_by(before_us, before["p90_us"] or before_us, served.samples_us)
        return Checked(
            at=now(),
            median_us=served.median_us,
            p10_us=served.p10_us,
            p90_us=served.p90_us,
            before_us=before_us,
            slower=round(slower, 4),
            generator=conditions.generator,
            driver=conditions.driver,
            clock_limit_mhz=conditions.clock_limit_mhz,
            marks=tuple(served.conditions.get("marks", ())),
        )

    def _row_of(self, session: Session, winner: Winner) -> KernelRow:
        """The kernel that was tied, as the answer of the same key."""
        conditions = self._bench.conditions
        now_so = {"driver": conditions.driver, "clock_limit_mhz": conditions.clock_limit_mhz}
        facts = {**kernel_rows.of_winner(session, winner), **now_so, "checked": None, "trial_number": None}
        return kernels.proven_again(self._known, **facts)
