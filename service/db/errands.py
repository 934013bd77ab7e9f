"""Helpers of tunings, and what they are asked for: put, taken, answered, collected."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from service.db.models import ErrandRow, HelperRow, WorkerRow
from service.db.types import now

Kind = Literal["measure", "build"]


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing that a tuning asks for."""

    id: str
    kind: Kind
    request: bytes


def idle_workers(session: Session, card_id: str, but: str, within_s: float) -> list[str]:
    """Workers that may help with a tuning for the card: those that have it, or no GPU; heard of within so many seconds,
    and without a tuning."""
    query = select(WorkerRow).where(
        WorkerRow.stopped_at.is_(None),
        WorkerRow.heartbeat_at > now() - timedelta(seconds=within_s),
        WorkerRow.tuning_id.is_(None),
        WorkerRow.id != but,
    )
    found = session.scalars(query.order_by(WorkerRow.attached.desc(), WorkerRow.id)).all()
    return [row.id for row in found if not row.attached or row.card_id == card_id]


def join(session: Session, tuning_id: str, worker: str, hands: int) -> None:
    """The worker helps with the tuning from now on; what an earlier run of it had in hand there it has no more."""
    own = (ErrandRow.tuning_id == tuning_id, ErrandRow.worker_id == worker, ErrandRow.answer.is_(None))
    session.execute(update(ErrandRow).where(*own, ErrandRow.kind == "measure").values(is_taken=False))
    session.execute(update(ErrandRow).where(*own, ErrandRow.kind == "build").values(is_taken=False, worker_id=None))
    row = session.get(HelperRow, (tuning_id, worker))
    if row is None:
        session.add(HelperRow(tuning_id=tuning_id, worker_id=worker, attached=False, hands=hands))
        return
    row.attached, row.hands, row.left_at, row.why, row.joined_at = False, hands, None, "", now()


def attach(session: Session, tuning_id: str, worker: str) -> None:
    """The tuning's fusion is open on the helper's GPU: it measures from now on."""
    row = session.get(HelperRow, (tuning_id, worker))
    if row is not None:
        row.attached = True


def leave(session: Session, tuning_id: str, worker: str, why: str) -> None:
    """The worker helps no more."""
    row = session.get(HelperRow, (tuning_id, worker))
    if row is not None and row.left_at is None:
        row.left_at, row.why = now(), why


def helpers(session: Session, tuning_ids: Sequence[str]) -> dict[str, list[HelperRow]]:
    """All that have helped with each tuning, in the order in which they came."""
    found: dict[str, list[HelperRow]] = {id: [] for id in tuning_ids}
    query = select(HelperRow).where(HelperRow.tuning_id.in_(tuning_ids))
    for row in session.scalars(query.order_by(HelperRow.joined_at, HelperRow.worker_id)):
        found[row.tuning_id].append(row)
    return found


def put(session: Session, tuning_id: str, kind: Kind, request: bytes, worker: str | None = None) -> str:
    """Asks the worker, or whoever takes it; returns the errand's id."""
    id = uuid.uuid4().hex
    session.add(ErrandRow(id=id, tuning_id=tuning_id, kind=kind, worker_id=worker, request=request))
    return id


def take(session: Session, tuning_id: str, worker: str, kind: Kind, at_most: int) -> list[Errand]:
    """The oldest errands of the kind that nobody has begun, those of this worker or of anybody: it has them in hand."""
    if at_most <= 0:
        return []
    query = select(ErrandRow).where(
        ErrandRow.tuning_id == tuning_id,
        ErrandRow.kind == kind,
        ~ErrandRow.is_taken,
        ErrandRow.answer.is_(None),
        (ErrandRow.worker_id == worker) if kind == "measure" else ErrandRow.worker_id.is_(None),
    )
    query = query.order_by(ErrandRow.created_at, ErrandRow.id).limit(at_most).with_for_update(skip_locked=True)
    rows = session.scalars(query).all()
    for row in rows:
        row.is_taken, row.worker_id = True, worker
    return [Errand(row.id, kind, row.request) for row in rows]


def answer(session: Session, id: str, worker: str, content: bytes) -> None:
    """What came of an errand; nothing if nobody waits for it any more."""
    row = session.get(ErrandRow, id)
    if row is None or row.answer is not None:
        return
    row.answer = content
    helper = session.get(HelperRow, (row.tuning_id, worker))
    if helper is not None:
        helper.measured += row.kind == "measure"
        helper.built += row.kind == "build"


def has_answers(session: Session, tuning_id: str) -> bool:
    """Whether there is something to collect."""
    query = select(ErrandRow.id).where(ErrandRow.tuning_id == tuning_id, ErrandRow.answer.is_not(None))
    return session.scalars(query.limit(1)).first() is not None


def collect(session: Session, tuning_id: str) -> dict[str, bytes]:
    """The answers that have come, by id; they are gone then."""
    query = select(ErrandRow.id, ErrandRow.answer).where(
        ErrandRow.tuning_id == tuning_id, ErrandRow.answer.is_not(None)
    )
    found = {id: content for id, content in session.execute(query).all() if content is not None}
    drop(session, list(found))
    return found


def drop(session: Session, ids: Sequence[str]) -> None:
    """Nobody waits for these any more."""
    if ids:
        session.execute(delete(ErrandRow).where(ErrandRow.id.in_(ids)))


def taken(session: Session, tuning_id: str) -> dict[str, str | None]:
    """The errands that somebody has begun, and who."""
    query = select(ErrandRow.id, ErrandRow.worker_id).where(ErrandRow.tuning_id == tuning_id, ErrandRow.is_taken)
    return dict(session.execute(query).all())


def clear(session: Session, tuning_id: str) -> None:
    """The tuning asks for nothing more."""
    session.execute(delete(ErrandRow).where(ErrandRow.tuning_id == tuning_id))


def put_back(session: Session, ids: Sequence[str]) -> None:
    """Whoever had these builds in hand has not: others may take them."""
    if ids:
        session.execute(update(ErrandRow).where(ErrandRow.id.in_(ids)).values(is_taken=False, worker_id=None))
