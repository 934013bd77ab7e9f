"""What a key has had searched within a day: against its quotas counts what it may still take, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.models import TuningRow

DAY = timedelta(hours=24)

_ACTIVE = ("queued", "running")

NO_GPU = "prepare-"
"""How the queues of workers without a GPU begin: their seconds are none of a GPU."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A tuning that a key pays for: what it took of a GPU or, while it goes on, may take in all."""

    tuning_id: str
    at: datetime
    gpu_s: float


def charges(session: Session, key_id: str, since: datetime) -> Sequence[Charge]:
    """The tunings that a key pays for and that were opened after that moment, the oldest first."""
    query = select(TuningRow).where(TuningRow.payer == key_id, TuningRow.created_at > since)
    return [
        Charge(row.id, row.created_at, 0.0 if row.queue.startswith(NO_GPU) else _taken_s(row))
        for row in session.scalars(query.order_by(TuningRow.created_at))
    ]


def _taken_s(row: TuningRow) -> float:
    return max(row.spent_s, row.budget_s) if row.state in _ACTIVE else row.spent_s
