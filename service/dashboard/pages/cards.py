"""The cards and the workers that serve them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from fusetune.wire.service import CardStatus
from service.views import card_statuses


def card_list(session: Session, since: datetime) -> list[CardStatus]:
    """Cards with a living worker first, and of each card's workers the living ones; heard of after `since` is alive."""
    return [
        status.model_copy(update={"workers": tuple(sorted(status.workers, key=lambda worker: not worker.alive))})
        for status in card_statuses(session, since)
    ]
