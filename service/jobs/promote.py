"""A GPU is there: what was only predicted for its model is measured on it.

Queued tunings of the model that no worker could take move over to the card that was read off the GPU. Every kernel that
nobody has timed on such a card gets a tuning, which begins with the candidates that the emulator found right
(`service.jobs.searching`); the kernel that comes of it takes the place of the predicted one (`service.jobs.settle`).
"""

from __future__ import annotations

import logging
import uuid

from sqlalchemy.orm import Session

from fusetune.wire.artifact import TIMING_POLICY
from fusetune.wire.service import Accept, TuningRequest
from service.db import cards, kernels, keys, tunings
from service.db.engine import Database
from service.db.models import CardRow, KernelRow, TuningRow

log = logging.getLogger(__name__)


def promote(db: Database, card_id: str, queue: str, worker: str) -> list[str]:
    """Moves and opens tunings for the attached card, in the queue of its workers; returns their ids."""
    with db.write() as session:
        card = cards.get(session, card_id)
        if card is None:
            raise AssertionError(f"worker {worker} has announced no card {card_id}")
        twins = [row.id for row in cards.of_model(session, card)]
        moved = tunings.move_waiting(session, twins, card_id, queue)
        rows = [row for row in kernels.not_measured(session, [card_id, *twins]) if _is_waiting(session, row, card)]
        opened = [_opened(session, row, card, queue, worker) for row in rows]
    if moved or opened:
        log.info("%s: %d tunings moved over, %d kernels are to be measured", card.name, len(moved), len(opened))
    return [*moved, *opened]


def _is_waiting(session: Session, row: KernelRow, card: CardRow) -> bool:
    """Whether nobody has tried to measure the kernel's fusion on the card since the kernel was made."""
    found = tunings.newest(session, row.fingerprint, row.binding, card.id, TIMING_POLICY)
    return found is None or (found.created_at < row.created_at and found.ended_at is not None)


def _opened(session: Session, row: KernelRow, card: CardRow, queue: str, worker: str) -> str:
    """A tuning as the one that found the kernel; the default one where that is not known any more."""
    before = None if row.tuning_id is None else tunings.get(session, row.tuning_id)
    budget_s = TuningRequest.model_fields["budget_s"].default if before is None else before.budget_s
    new = TuningRow(
        id=uuid.uuid4().hex,
        fingerprint=row.fingerprint,
        binding=row.binding,
        card_id=card.id,
        policy=TIMING_POLICY,
        queue=queue,
        name=None if before is None else before.name,
        accept=Accept().model_dump(mode="json"),
        budget_s=budget_s,
        trials_limit=None if before is None else before.trials_limit,
        request_sha256="",
    )
    opened, is_new = tunings.open_or_join(session, new)
    if is_new:
        keys.audit(session, f"worker:{worker}", "tuning.opened", opened.id, {"measures": row.id})
    return opened.id
