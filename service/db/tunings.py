"""Tunings: opened or joined, advanced by their worker, cancelled by whoever may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import ForUpdateParameter

from service.db.models import TuningRow
from service.db.once import find_or_add
from service.db.pages import Page, after, cursor_of
from service.db.types import now

_ACTIVE = ("queued", "running")
_ENDED = ("done", "failed", "cancelled")
_PHASE_LENGTH = 80

_LOCK: ForUpdateParameter = {"key_share": True}
"""Held against writers of the row, not against new rows that refer to it: trials are recorded meanwhile."""


def open_or_join(session: Session, row: TuningRow) -> tuple[TuningRow, bool]:
    """Add `row`, or find the queued or running tuning of the same key. Returns the tuning, and whether it is new.

    Two requests at once are settled by the unique index over active keys, whichever process they came through. Raises
    IntegrityError if the Idempotency-Key of `row` has just been taken by a tuning of another key.
    """
    return find_or_add(
        session, lambda: active(session, row.fingerprint, row.binding, row.card_id, row.policy), lambda: row
    )


def active(session: Session, fingerprint: str, binding: str, card_id: str, policy: str) -> TuningRow | None:
    """The queued or running tuning of a key."""
    return session.scalars(
        select(TuningRow).where(
            TuningRow.fingerprint == fingerprint,
            TuningRow.binding == binding,
            TuningRow.card_id == card_id,
            TuningRow.policy == policy,
            TuningRow.state.in_(_ACTIVE),
        )
    ).one_or_none()


def get(session: Session, id: str) -> TuningRow | None:
    """The tuning with this id."""
    return session.get(TuningRow, id)


def by_idempotency_key(session: Session, key: str) -> TuningRow | None:
    """The tuning that a request with this Idempotency-Key opened."""
    return session.scalars(select(TuningRow).where(TuningRow.idempotency_key == key)).one_or_none()


def page(
    session: Session,
    cursor: str | None,
    limit: int,
    state: str | None = None,
    fingerprint: str | None = None,
) -> Page[TuningRow]:
    """Tunings, the newest first. Raises BadCursor."""
    query = after(select(TuningRow), TuningRow.created_at, TuningRow.id, cursor)
    if state is not None:
        query = query.where(TuningRow.state == state)
    if fingerprint is not None:
        query = query.where(TuningRow.fingerprint == fingerprint)
    rows = session.scalars(query.limit(limit + 1)).all()
    return Page.of(rows, limit, lambda row: cursor_of(row.created_at, row.id))


def queued(session: Session) -> int:
    """Tunings that wait for a worker."""
    return session.scalar(select(func.count()).select_from(TuningRow).where(TuningRow.state == "queued")) or 0


def counts_by_state(session: Session) -> dict[str, int]:
    """All tunings by state."""
    return dict(session.execute(select(TuningRow.state, func.count()).group_by(TuningRow.state)).all())


def unfinished(session: Session) -> Sequence[TuningRow]:
    """Queued and running tunings, the oldest first: what must have a job in the queue."""
    query = select(TuningRow).where(TuningRow.state.in_(_ACTIVE)).order_by(TuningRow.created_at)
    return session.scalars(query).all()


def ahead(session: Session, row: TuningRow) -> int:
    """Tunings of the same queue that come before a queued one."""
    return ahead_of(session, [row])[row.id]


def ahead_of(session: Session, rows: Sequence[TuningRow]) -> dict[str, int]:
    """For each tuning, how many of the same queue come before it; 0 for those that wait no more."""
    waiting = [row for row in rows if row.state == "queued"]
    found = dict.fromkeys((row.id for row in rows), 0)
    if waiting:
        place = func.row_number().over(partition_by=TuningRow.queue, order_by=(TuningRow.created_at, TuningRow.id))
        active_ones = select(TuningRow.id, (place - 1).label("ahead")).where(TuningRow.state.in_(_ACTIVE)).subquery()
        query = select(active_ones.c.id, active_ones.c.ahead).where(active_ones.c.id.in_([row.id for row in waiting]))
        found |= dict(session.execute(query).all())
    return found


def _locked(session: Session, id: str) -> TuningRow | None:
    """The tuning as it is now, held against every other writer until this transaction ends."""
    return session.get(TuningRow, id, with_for_update=_LOCK, populate_existing=True)


def start(session: Session, id: str, worker: str) -> TuningRow | None:
    """The worker takes the tuning, for the first time or again; None if it has ended or is to be cancelled."""
    row = _locked(session, id)
    if row is None or row.state not in _ACTIVE:
        return None
    if row.cancel_requested:
        _end(row, "cancelled", ended="stopped")
        return None
    row.state, row.phase, row.worker_id = "running", "starting", worker
    row.started_at = row.started_at or now()
    return row


def advance(session: Session, id: str, phase: str, spent_s: float) -> bool:
    """Note how far a running tuning is. Returns whether it shall stop: it was cancelled, or is not running at all."""
    row = _locked(session, id)
    if row is None or row.state != "running":
        return True
    row.spent_s = spent_s
    if not row.cancel_requested:  # then it is "stopping", whatever the search is at
        row.phase = phase[:_PHASE_LENGTH]
    return row.cancel_requested


def set_space(
    session: Session, id: str, points: int, legal: int, refused: Mapping[str, int], floor_us: float | None
) -> None:
    """What there is to search, once it is known."""
    row = session.get_one(TuningRow, id)
    row.points, row.legal, row.refused, row.floor_us = points, legal, dict(refused), floor_us


def finish(
    session: Session,
    id: str,
    state: str,
    *,
    ended: str | None = None,
    note: str = "",
    error: str | None = None,
    kernel_id: str | None = None,
) -> TuningRow:
    """The tuning has ended as `state`: done, failed or cancelled. A second end is ignored.

    Raises NoResultFound if there is no such tuning.
    """
    row = _locked(session, id)
    if row is None:
        raise NoResultFound(f"no tuning {id}")
    if row.state in _ACTIVE:
        _end(row, state, ended=ended, note=note, error=error, kernel_id=kernel_id)
    return row


def request_cancel(session: Session, id: str) -> TuningRow | None:
    """Ask the worker to stop; a tuning that no worker has begun ends here. None if there is no such tuning."""
    row = _locked(session, id)
    if row is None or row.state not in _ACTIVE:
        return row
    row.cancel_requested = True
    if row.state == "queued":
        _end(row, "cancelled", ended="stopped", note="Cancelled before a worker had begun.")
    else:
        row.phase = "stopping"
    return row


def _end(row: TuningRow, state: str, **facts: str | None) -> None:
    if state not in _ENDED:
        raise ValueError(f"found state {state}, expected one of {', '.join(_ENDED)}")
    row.state, row.phase, row.ended_at = state, "", now()
    for name, value in facts.items():
        setattr(row, name, value)
