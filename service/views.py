"""From rows to what is answered and shown: one way for the routes and the dashboard. Each function reads in bulk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from compiler.generator import GENERATOR
from compiler.renamed import counts_today, rule_today
from fusetune.wire.artifact import Evidence, Resources, is_proven_today
from fusetune.wire.checks import Checked
from fusetune.wire.fusion import Fusion
from fusetune.wire.service import (
    BaselineView,
    BestSoFar,
    CandidateView,
    CardStatus,
    CardView,
    FusionView,
    HelperView,
    KernelView,
    TrialView,
    TuningView,
    ViolationView,
    WorkerView,
)
from fusetune.wire.signature import Signature
from fusetune.wire.wanting import Distance
from service.db import cards, errands, fusions, kernels, signatures, trials, tunings
from service.db.conditions import TimedUnder, timed_under
from service.db.models import (
    BaselineRow,
    CardRow,
    FusionRow,
    HelperRow,
    KernelRow,
    TrialRow,
    TuningRow,
    WorkerRow,
)


def card_view(row: CardRow) -> CardView:
    """A card."""
    return CardView.model_validate(
        {"id": row.id, "name": row.name, "source": row.source, "driver": row.driver, **row.facts}
    )


def worker_view(row: WorkerRow, since: datetime) -> WorkerView:
    """A worker; alive if it was heard of after `since`."""
    return WorkerView(
        id=row.id,
        host=row.host,
        card=row.card_id,
        attached=row.attached,
        alive=row.stopped_at is None and row.heartbeat_at > since,
        why=row.why,
        tuning=row.tuning_id,
        started_at=row.started_at,
        heartbeat_at=row.heartbeat_at,
    )


def card_statuses(session: Session, since: datetime) -> list[CardStatus]:
    """Every card with its workers, those with a living one first."""
    served = [worker_view(row, since) for row in cards.workers(session)]
    counts = cards.kernel_counts(session)
    found = [
        CardStatus(
            card=card_view(row),
            workers=tuple(worker for worker in served if worker.card == row.id),
            kernels=counts.get(row.id, 0),
        )
        for row in cards.every(session)
    ]
    return sorted(found, key=lambda status: not any(worker.alive for worker in status.workers))


def kernel_views(session: Session, rows: Sequence[KernelRow]) -> list[KernelView]:
    """Kernels with their cards and baselines."""
    keys = [(row.fingerprint, row.binding, row.card_id, row.policy) for row in rows]
    baselines = kernels.baselines(session, list(dict.fromkeys(keys)))
    used = cards.by_id(session, (row.card_id for row in rows))
    names = fusions.names(session, (row.fingerprint for row in rows))
    places = {row.id: (row.tuning_id, row.trial_number) for row in rows if row.time == "predicted"}
    found = trials.predicted(session, ((id, n) for id, n in places.values() if id is not None and n is not None))
    signed = signatures.of(session, [row.artifact_sha256 for row in rows])
    predicted = {
        id: found.get((tuning, n)) for id, (tuning, n) in places.items() if tuning is not None and n is not None
    }
    return [
        _kernel_view(
            row,
            used[row.card_id],
            names[row.fingerprint],
            baselines[key],
            predicted.get(row.id),
            signed.get(row.artifact_sha256, ()),
        )
        for row, key in zip(rows, keys, strict=True)
    ]


def _kernel_view(
    row: KernelRow,
    card: CardRow,
    name: str | None,
    baselines: Sequence[BaselineRow],
    predicted_us: float | None,
    signed: tuple[Signature, ...],
) -> KernelView:
    why = stale_reason(row, card)
    return KernelView(
        id=row.id,
        artifact_sha256=row.artifact_sha256,
        fingerprint=row.fingerprint,
        binding=row.binding,
        name=name,
        card=card_view(card),
        policy=row.policy,
        arch=row.arch,
        evidence=evidence_of(row),
        verifier=row.verifier,
        refuted=row.refuted or "",
        provisional=None if row.provisional is None else Distance.model_validate(row.provisional),
        median_us=row.median_us,
        p10_us=row.p10_us,
        p90_us=row.p90_us,
        predicted_us=predicted_us,
        floor_us=row.floor_us,
        baselines=tuple(
            BaselineView(name=one.name, median_us=one.median_us, recorded_at=one.recorded_at) for one in baselines
        ),
        candidate=CandidateView(scheduler=row.scheduler, point=row.point),
        resources=Resources.model_validate(row.resources),
        generator=row.generator,
        nvrtc=row.nvrtc,
        driver=row.driver,
        checked=None if row.checked is None else Checked.model_validate_json(json.dumps(row.checked)),
        stale=bool(why),
        stale_reason=why,
        superseded=row.superseded_at is not None,
        tuning=row.tuning_id,
        created_at=row.created_at,
        signatures=signed,
    )


def evidence_of(row: KernelRow) -> Evidence:
    """How the kernel is known to be right and fast. What an older verifier has proven is not known to be right."""
    correct = row.correct if is_proven_today(row.verifier) else "unverified"
    return Evidence.model_validate({"correct": correct, "time": row.time})


def stale_reason(row: KernelRow, card: CardRow) -> str:
    """Which condition has changed since the kernel was timed last, empty if none has (docs/contracts.md, "Key")."""
    return timed_under(row).differs(TimedUnder(GENERATOR, card.driver, card.clock_limit_mhz))


def tuning_views(session: Session, rows: Sequence[TuningRow]) -> list[TuningView]:
    """Tunings with their trials counted by state, and the best of them."""
    ids = [row.id for row in rows]
    counts = trials.counts_by_state(session, ids)
    best = trials.best_of(session, ids)
    ahead = tunings.ahead_of(session, rows)
    left = tunings.left(session, rows)
    used = cards.by_id(session, (row.card_id for row in rows))
    names = fusions.names(session, (row.fingerprint for row in rows if row.name is None))
    helpers = errands.helpers(session, ids)
    return [
        _tuning_view(
            row,
            row.name or names[row.fingerprint],
            used[row.card_id],
            counts[row.id],
            best.get(row.id),
            ahead[row.id],
            row.id in left,
            helpers[row.id],
        )
        for row in rows
    ]


def _tuning_view(
    row: TuningRow,
    name: str | None,
    card: CardRow,
    counts: dict[str, int],
    best: TrialRow | None,
    ahead: int,
    left: bool,
    helpers: Sequence[HelperRow],
) -> TuningView:
    return TuningView.model_validate(
        {
            **{name: getattr(row, name) for name in _TUNING_FIELDS},
            "name": name,
            "interrupted": left,
            "phase": tunings.INTERRUPTED if left else row.phase,
            "card": card_view(card),
            "refused": counts_today(row.refused or {}),
            "reasons": {rule_today(rule): why for rule, why in (row.reasons or {}).items()},
            "trials": counts,
            "best": None if best is None or best.median_us is None else _best(best, best.median_us),
            "kernel": row.kernel_id,
            "first": row.first_kernel_id,
            "tied": tuple(row.tied or ()),
            "worker": row.worker_id,
            "helpers": tuple(map(_helper_view, helpers)),
            "ahead": ahead,
        }
    )


def _helper_view(row: HelperRow) -> HelperView:
    left = "" if row.left_at is None else row.why or "it has left"
    return HelperView(worker=row.worker_id, attached=row.attached, measured=row.measured, built=row.built, left=left)


_TUNING_FIELDS = (
    "id", "state", "phase", "fingerprint", "binding", "policy", "budget_s", "spent_s", "trials_limit", "points",
    "legal", "floor_us", "want", "enough", "ended", "note", "error", "timeline", "cancel_requested", "created_at",
    "started_at", "ended_at",
)  # fmt: skip
"""Columns that the view has under the same name."""


def _best(row: TrialRow, median_us: float) -> BestSoFar:
    candidate = CandidateView(scheduler=row.scheduler, point=row.point)
    return BestSoFar(number=row.number, median_us=median_us, candidate=candidate)


def trial_view(row: TrialRow) -> TrialView:
    """A trial without its samples."""
    return TrialView.model_validate(
        {
            "number": row.number,
            "candidate": CandidateView(scheduler=row.scheduler, point=row.point),
            "state": row.state,
            "reason": row.reason,
            "violations": tuple(ViolationView.model_validate(one) for one in trials.violations_today(row.violations)),
            "predicted_us": row.predicted_us,
            "predicted_terms": row.predicted_terms or {},
            "median_us": row.median_us,
            "p10_us": row.p10_us,
            "p90_us": row.p90_us,
            "resources": None if row.resources is None else Resources.model_validate(row.resources),
            "duplicate_of": row.duplicate_of,
            "seconds": row.seconds,
            "recorded_at": row.recorded_at,
        }
    )


def fusion_views(session: Session, rows: Sequence[FusionRow]) -> list[FusionView]:
    """Fusions with their tunings and kernels counted."""
    counts = fusions.counts(session, [row.fingerprint for row in rows])
    return [
        FusionView(
            fingerprint=row.fingerprint,
            name=row.name,
            text=row.text,
            document=Fusion.model_validate(row.document),
            tunings=counts[row.fingerprint][0],
            kernels=counts[row.fingerprint][1],
            created_at=row.created_at,
        )
        for row in rows
    ]
