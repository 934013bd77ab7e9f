"""A request whose search has come to nothing that may be served: told again while nothing has changed since."""

from __future__ import annotations

from sqlalchemy.orm import Session

from fusetune.wire.artifact import Evidence
from fusetune.wire.service import TuningRequest
from service.db import cards, kernels, tunings
from service.db.kernels import Key
from service.db.models import CardRow, TuningRow
from service.operations.context import Context
from service.operations.presence import alive_since
from service.stands_on import StandsOn

_LOOKED_AT = 20
"""Tunings of a key that are looked at, the newest first: who accepts what may differ from one to the next."""

_CUT_SHORT = ("floor", "improvement")
"""Ends of a search that had enough: what is enough for one request may not be for another."""


def nothing_new(
    session: Session, context: Context, request: TuningRequest, key: Key, card: CardRow
) -> TuningRow | None:
    """The newest tuning that has searched for just this and found nothing that the request accepts; None if there is
    none, a search is under way, or cards, generator, verifier or fusetune are others since.

    The cache has no answer: whoever calls has looked.
    """
    if tunings.active(session, *key) is not None:
        return None
    now = _today(session, context, card)
    return next(
        (
            row
            for row in tunings.done(session, *key, _LOOKED_AT)
            if now.still_holds(row.stands_on) and _is_same(row, request) and not _was_served(session, row, request)
        ),
        None,
    )


def _today(session: Session, context: Context, card: CardRow) -> StandsOn:
    workers = cards.alive(session, alive_since(context.settings))
    on_gpu = any(worker.attached and worker.card_id == card.id for worker in workers)
    return StandsOn(on_gpu, card.driver if on_gpu else None)


def _is_same(row: TuningRow, request: TuningRequest) -> bool:
    """Whether the tuning had at least the budget that is asked for, and was asked for with the same evidence, by who
    opened it or by one who joined it."""
    return (
        request.budget_s <= row.budget_s
        and (row.trials_limit is None or (request.trials is not None and request.trials <= row.trials_limit))
        and any(one.is_like(request.accept) for one in tunings.accepts_of(row))
        and (row.ended not in _CUT_SHORT or tunings.enough_of(row) == request.enough)
    )


def _was_served(session: Session, row: TuningRow, request: TuningRequest) -> bool:
    """Whether the tuning had an answer for the request, which the cache has no more: refuted, say, or deleted."""
    if row.kernel_id is None:
        return False
    kernel = kernels.get(session, row.kernel_id)
    if kernel is None:
        return True
    return request.accept.allows(Evidence.model_validate({"correct": kernel.correct, "time": kernel.time}))
