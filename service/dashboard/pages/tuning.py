"""One tuning: how far it is, what its trials came to, what the rules refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from fusetune.wire.service import ACTIVE, BaselineView, CandidateView, TrialStateName, TrialView, TuningView
from service.dashboard import filters
from service.dashboard.charts import Figure, Line, best_so_far, improvements, predicted
from service.dashboard.evidence import is_fake
from service.dashboard.faults import not_found
from service.dashboard.pages.results import KernelResult, binding_words, results
from service.db import cards, kernels, overview, trials, tunings
from service.db.models import KernelRow, TuningRow
from service.db.overview import TrialOrder
from service.jobs.queue import OTHER_CARDS
from service.views import trial_view, tuning_views

TRIALS_A_PAGE = 25

_FURTHEST_FIRST: tuple[TrialStateName, ...] = (
    "measured", "verified", "compiled", "duplicate", "wrong_result", "crashed", "timed_out", "compile_failed",
    "compile_timed_out", "unsupported", "illegal", "pruned", "cancelled",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrialsShown:
    """Which trials the table shows: as they stand in the address."""

    state: TrialStateName | None = None
    order: TrialOrder = "fastest"
    page: int = 1


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Refusals by one rule: points that the space left out, and trials that it ended; `example` is one such trial's.

    `reason` says why it refuses, empty for a rule that no constraint of the space stands for.
    """

    rule: str
    reason: str
    points: int
    trials: int
    example: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TuningPage:
    """`chart_version` changes when the chart does. `served` is the kernel that it ended with, `winner` the number of
    the trial that this is of, if it is one of this tuning's.

    `has_worker`: a living worker serves its card, or compiles for it as one that nobody has. `has_lost_worker`: it
    runs, by a worker that is not alive. `predictions` counts the times that a model expects where none was measured.
    """

    tuning: TuningView
    shapes: str
    shown: TrialsShown
    trials: list[TrialView]
    matching: int
    improvements: list[tuple[int, float]]
    predictions: int
    baselines: list[BaselineView]
    rules: list[RuleCount]
    served: KernelResult | None
    winner: int | None
    has_worker: bool
    has_lost_worker: bool
    chart_version: str

    @property
    def is_active(self) -> bool:
        """True while it may change."""
        return self.tuning.state in ACTIVE

    def apart(self, trial: TrialView) -> Mapping[str, Any]:
        """The trial's knobs whose values are not those of `first`; all of them where there is none of its kind."""
        first = self.first
        point = trial.candidate.point
        if first is None or first.scheduler != trial.candidate.scheduler:
            return point
        differing = {name: value for name, value in point.items() if first.point.get(name) != value}
        return differing or point

    @property
    def first(self) -> CandidateView | None:
        """What the others are told apart from: the best so far; where nothing is timed, what is served."""
        if self.tuning.best is not None:
            return self.tuning.best.candidate
        return None if self.served is None or self.winner is None else self.served.kernel.candidate

    @property
    def is_timed(self) -> bool:
        """True if a trial has a time of its own."""
        return "measured" in self.tuning.trials

    @property
    def total(self) -> int:
        """Trials in all states."""
        return sum(self.tuning.trials.values())

    @property
    def counts(self) -> list[tuple[TrialStateName, int]]:
        """Trials by state, those that came furthest first."""
        return [(state, self.tuning.trials[state]) for state in _FURTHEST_FIRST if state in self.tuning.trials]

    @property
    def pages(self) -> int:
        """Pages that the table has."""
        return max(1, -(-self.matching // TRIALS_A_PAGE))


def tuning_page(session: Session, id: str, shown: TrialsShown, since: datetime) -> TuningPage:
    """Workers heard of after `since` count as alive. Raises PageFault if there is no such tuning."""
    row = _row(session, id)
    view = tuning_views(session, [row])[0]
    history = trials.history(session, id)
    expected = [] if history else trials.predictions(session, id)
    rows = overview.trial_page(session, id, shown.order, (shown.page - 1) * TRIALS_A_PAGE, TRIALS_A_PAGE, shown.state)
    kernel = kernels.get(session, row.kernel_id) if row.kernel_id else None
    alive = cards.alive(session, since)
    return TuningPage(
        tuning=view,
        shapes=binding_words(session, [view])[id],
        shown=shown,
        trials=[trial_view(trial) for trial in rows],
        matching=view.trials.get(shown.state, 0) if shown.state else sum(view.trials.values()),
        improvements=improvements(history),
        predictions=len(expected),
        baselines=_baselines(session, row),
        rules=_rules(session, view),
        served=results(session, [kernel])[0] if kernel else None,
        winner=_winner(kernel, id),
        has_worker=any(row.queue == OTHER_CARDS or worker.card_id == row.card_id for worker in alive),
        has_lost_worker=view.state == "running" and view.worker not in {worker.id for worker in alive},
        chart_version=_version(history or expected, view),
    )


def tuning_chart(session: Session, id: str) -> Figure:
    """The tuning's measured trials as a figure; where nothing was measured, what a model expects.

    Raises PageFault if there is no such tuning.
    """
    row = _row(session, id)
    view = tuning_views(session, [row])[0]
    kernel = kernels.get(session, row.kernel_id) if row.kernel_id else None
    last_trial, history = sum(view.trials.values()), trials.history(session, id)
    if not history:
        return predicted(trials.predictions(session, id), last_trial, view.floor_us, _winner(kernel, id))
    return best_so_far(
        history,
        last_trial=last_trial,
        floor_us=view.floor_us,
        baselines=[Line(filters.baseline(one.name), one.median_us) for one in _baselines(session, row)],
        winner=_winner(kernel, id),
        is_fake=is_fake(view.card.name),
    )


def _winner(kernel: KernelRow | None, tuning_id: str) -> int | None:
    return kernel.trial_number if kernel and kernel.tuning_id == tuning_id else None


def _row(session: Session, id: str) -> TuningRow:
    row = tunings.get(session, id)
    if row is None:
        raise not_found("tuning", id)
    return row


def _baselines(session: Session, row: TuningRow) -> list[BaselineView]:
    key = (row.fingerprint, row.binding, row.card_id, row.policy)
    return [
        BaselineView(name=one.name, median_us=one.median_us, recorded_at=one.recorded_at)
        for one in kernels.baselines(session, [key])[key]
    ]


def _rules(session: Session, view: TuningView) -> list[RuleCount]:
    refused = overview.refusals(session, view.id)
    names = [*view.refused, *(rule for rule in refused if rule not in view.refused)]
    counted = [
        RuleCount(
            rule=name,
            reason=view.reasons.get(name, ""),
            points=view.refused.get(name, 0),
            trials=refused[name].trials if name in refused else 0,
            example=refused[name].first if name in refused else None,
        )
        for name in names
    ]
    return sorted((one for one in counted if one.points or one.trials), key=lambda one: (-one.points, -one.trials))


def _version(history: Sequence[tuple[int, float]], view: TuningView) -> str:
    """Leaders are timed again under their old number, so the sum of times is part of it."""
    return f"{len(history)}-{sum(view.trials.values())}-{sum(us for _, us in history):.6f}-{view.kernel or view.state}"
