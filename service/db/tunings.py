"""Tunings: opened or joined, advanced by their worker, cancelled by whoever may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import ForUpdateParameter

from fusetune.wire.service import Accept
from fusetune.wire.wanting import Enough
from service.db.models import TuningRow, WorkerRow
from service.db.once import find_or_add
from service.db.pages import Page, after, cursor_of
from service.db.types import now

_ACTIVE = ("queued", "running")
_ENDED = ("done", "failed", "cancelled")
_PHASE_LENGTH = 80

SILENT_S = 60.0
"""After so long without a heartbeat a worker is not waited for: what it had in hand may be taken out of it."""

INTERRUPTED = "interrupted, waiting for a worker"
"""The phase of a tuning that was begun, and that no living worker has in hand: one that nobody began only waits."""

_JOINED = "joined"
"""Where the column `accept` has what those who joined accept, beside that of who opened the tuning."""

_TURN = (TuningRow.state == "queued", TuningRow.priority, TuningRow.created_at, TuningRow.id)
"""What runs, then what waits by its priority and age."""

_LOCK: ForUpdateParameter = {"key_share": True}
"""Held against writers of the row, not against new rows that refer to it: trials are recorded meanwhile."""


def open_or_join(session: Session, row: TuningRow) -> tuple[TuningRow, bool]:
    """Add `row`, or find the tuning in flight with the same key. Returns the tuning, and whether it is new.

    Two requests at once are settled by the unique index over active keys, whichever process they came through. Raises
    IntegrityError if the Idempotency-Key of `row` has just been taken by a tuning of another key.
    """
    return find_or_add(
        session, lambda: active(session, row.fingerprint, row.binding, row.card_id, row.policy), lambda: row
    )


def active(session: Session, fingerprint: str, binding: str, card_id: str, policy: str) -> TuningRow | None:
    """The queued or running tuning of a key that nobody has cancelled: a request may join it."""
    return session.scalars(
        select(TuningRow).where(
            TuningRow.fingerprint == fingerprint,
            TuningRow.binding == binding,
            TuningRow.card_id == card_id,
            TuningRow.policy == policy,
            TuningRow.state.in_(_ACTIVE),
            ~TuningRow.cancel_requested,
        )
    ).one_or_none()


def newest(session: Session, fingerprint: str, binding: str, card_id: str, policy: str) -> TuningRow | None:
    """The tuning of a key that was opened last, whatever its state."""
    query = select(TuningRow).where(
        TuningRow.fingerprint == fingerprint,
        TuningRow.binding == binding,
        TuningRow.card_id == card_id,
        TuningRow.policy == policy,
    )
    return session.scalars(query.order_by(TuningRow.created_at.desc(), TuningRow.id).limit(1)).first()


def done(
    session: Session, fingerprint: str, binding: str, card_id: str, policy: str, limit: int
) -> Sequence[TuningRow]:
    """The tunings of a key that came to their end, at most `limit`, the newest first."""
    query = select(TuningRow).where(
        TuningRow.fingerprint == fingerprint,
        TuningRow.binding == binding,
        TuningRow.card_id == card_id,
        TuningRow.policy == policy,
        TuningRow.state == "done",
    )
    return session.scalars(query.order_by(TuningRow.created_at.desc(), TuningRow.id).limit(limit)).all()


def move_waiting(session: Session, card_ids: Sequence[str], card_id: str, queue: str) -> list[str]:
    """Queued tunings of `card_ids` that no queue has yet are for `card_id` from now on; returns their ids.

    One whose key has a tuning in flight there stays as it is.
    """
    waiting = [row for row in unfinished(session) if row.card_id in card_ids and row.state == "queued"]
    moved = []
    for row in waiting:
        if not row.queue and active(session, row.fingerprint, row.binding, card_id, row.policy) is None:
            row.card_id, row.queue = card_id, queue
            session.flush()  # first, or the next of the same key would not see it
            moved.append(row.id)
    return moved


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
        place = func.row_number().over(partition_by=TuningRow.queue, order_by=_TURN)
        active_ones = select(TuningRow.id, (place - 1).label("ahead")).where(TuningRow.state.in_(_ACTIVE)).subquery()
        query = select(active_ones.c.id, active_ones.c.ahead).where(active_ones.c.id.in_([row.id for row in waiting]))
        found |= dict(session.execute(query).all())
    return found


def _locked(session: Session, id: str) -> TuningRow | None:
    """The tuning as it is now, held against every other writer until this transaction ends."""
    return session.get(TuningRow, id, with_for_update=_LOCK, populate_existing=True)


def start(session: Session, id: str, worker: str, run: str = "") -> TuningRow | None:
    """A run of the worker takes the tuning, for the first time or again; None if it has ended or is to be cancelled.

    Whoever had it in hand and did not let go of it is taken for dead, and has no say any more.
    """
    row = _locked(session, id)
    if row is None or row.state not in _ACTIVE:
        return None
    if row.cancel_requested:
        _end(row, "cancelled", ended="stopped")
        return None
    if row.run_id is not None and row.run_id != run:
        row.deaths += 1
    row.state, row.phase, row.worker_id, row.run_id = "running", "starting", worker, run
    row.started_at = row.started_at or now()
    return row


def is_held(session: Session, id: str, run: str) -> bool:
    """Whether the run still has the tuning in hand; if so, nobody takes it or ends it before this transaction ends."""
    row = _locked(session, id)
    return row is not None and row.state == "running" and row.run_id == run


def note_life(session: Session, id: str) -> None:
    """The run that has the tuning in hand gets on with it: its worker does not just die of it."""
    row = _locked(session, id)
    if row is not None and row.deaths:
        row.deaths = 0


def let_go(session: Session, id: str, run: str) -> None:
    """The run leaves the tuning to the next one, in good order; nothing if it has it no more."""
    row = _locked(session, id)
    if row is not None and row.state == "running" and row.run_id == run:
        row.worker_id = row.run_id = None
        if not row.cancel_requested:
            row.phase = INTERRUPTED


def advance(
    session: Session, id: str, phase: str, spent_s: float, run: str = "", timeline: Mapping[str, Any] | None = None
) -> bool:
    """Note how far a run is, and what it spent its time on. Returns whether it shall stop: the tuning was cancelled, or
    is not in its hand at all."""
    row = _locked(session, id)
    if row is None or row.state != "running" or row.run_id != run:
        return True
    row.spent_s = max(row.spent_s, spent_s)
    if timeline is not None:
        row.timeline = dict(timeline)
    if not row.cancel_requested:  # then it is "stopping", whatever the search is at
        row.phase = phase[:_PHASE_LENGTH]
    return row.cancel_requested


def extend(
    session: Session,
    id: str,
    budget_s: float,
    trials_limit: int | None,
    refresh: bool = False,
    want: str = "best",
    enough: Enough | None = None,
    accept: Accept | None = None,
) -> bool:
    """Somebody else waits for this tuning: it may take as long as any of them allows, searches if one wants that, gives
    its first kernel if one takes that, has enough once all of them have, and ends with a known kernel if all accept it.

    None is no limit of trials, never enough, and nothing said of evidence. False, with nothing changed, if it has ended
    or was cancelled just now: nobody can join it any more.
    """
    row = _locked(session, id)
    if row is None or row.state not in _ACTIVE or row.cancel_requested:
        return False
    row.budget_s = max(row.budget_s, budget_s)
    row.refresh = row.refresh or refresh
    row.want = "first" if "first" in (row.want, want) else row.want
    both = Enough.both(enough_of(row), enough)
    row.enough = None if both is None else both.model_dump()
    if row.trials_limit is not None:
        row.trials_limit = None if trials_limit is None else max(row.trials_limit, trials_limit)
    if accept is not None and not any(one.is_like(accept) for one in accepts_of(row)):
        joined = [*row.accept.get(_JOINED, ()), accept.model_dump(mode="json")]
        row.accept = {**row.accept, _JOINED: joined}
    return True


def accepts_of(row: TuningRow) -> tuple[Accept, ...]:
    """The evidence that each of those who wait accepts: of who opened the tuning, then of who joined it."""
    first = {name: value for name, value in row.accept.items() if name != _JOINED}
    return tuple(Accept.model_validate(one, strict=False) for one in (first, *row.accept.get(_JOINED, ())))


def enough_of(row: TuningRow) -> Enough | None:
    """When the tuning has enough; None: when its budget is spent."""
    return None if row.enough is None else Enough.model_validate(row.enough)


def set_first(session: Session, id: str, kernel_id: str) -> None:
    """The first kernel that may be served is there; the search goes on."""
    session.get_one(TuningRow, id).first_kernel_id = kernel_id


def set_space(
    session: Session,
    id: str,
    points: int,
    legal: int,
    refused: Mapping[str, int],
    reasons: Mapping[str, str],
) -> None:
    """What there is to search, once it is known: `refused` counts points by rule, `reasons` says why each refuses."""
    row = session.get_one(TuningRow, id)
    row.points, row.legal = points, legal
    row.refused, row.reasons = dict(refused), dict(reasons)


def set_floor(session: Session, id: str, floor_us: float | None) -> None:
    """The least time that the card allows."""
    session.get_one(TuningRow, id).floor_us = floor_us


def set_stands_on(session: Session, id: str, stands_on: Mapping[str, Any]) -> None:
    """What this run stands on (`service.stands_on`)."""
    session.get_one(TuningRow, id).stands_on = dict(stands_on)


def set_generator(session: Session, id: str, generator: str) -> str | None:
    """What makes the trials from now on; returns what made those until now if that was another."""
    row = session.get_one(TuningRow, id)
    before, row.generator = row.generator, generator
    return None if before == generator else before


def finish(
    session: Session,
    id: str,
    state: str,
    *,
    ended: str | None = None,
    note: str = "",
    error: str | None = None,
    kernel_id: str | None = None,
    tied: Sequence[int] = (),
) -> TuningRow:
    """The tuning has ended as `state`: done, failed or cancelled. A second end is ignored.

    Raises NoResultFound if there is no such tuning.
    """
    row = _locked(session, id)
    if row is None:
        raise NoResultFound(f"no tuning {id}")
    if row.state in _ACTIVE:
        _end(row, state, ended=ended, note=note, error=error, kernel_id=kernel_id)
        row.tied = list(tied) or None
    return row


def request_cancel(session: Session, id: str) -> TuningRow | None:
    """Ask the worker to stop; a tuning that no living worker has in hand ends here. None if there is no such tuning."""
    row = _locked(session, id)
    if row is None or row.state not in _ACTIVE:
        return row
    row.cancel_requested = True
    if row.state == "queued":
        _end(row, "cancelled", ended="stopped", note="Cancelled before a worker had begun.")
    elif left(session, [row]):
        note = "Cancelled while no worker had it in hand: its trials are kept, no kernel was published."
        _end(row, "cancelled", ended="stopped", note=note)
    else:
        row.phase = "stopping"
    return row


def left(session: Session, rows: Sequence[TuningRow]) -> set[str]:
    """Ids of the tunings that run, and that no living worker has in hand: nobody would hear of a wish. A worker that
    was only silent is told by the row's state, and stops too."""
    running = [row for row in rows if row.state == "running"]
    held = {row.worker_id for row in running if row.run_id is not None}
    workers = {one.id: one for one in session.scalars(select(WorkerRow).where(WorkerRow.id.in_(held)))} if held else {}
    silent = now() - timedelta(seconds=SILENT_S)
    gone = {id for id, one in workers.items() if one.stopped_at is not None or one.heartbeat_at < silent}
    return {row.id for row in running if row.run_id is None or row.worker_id in gone}


def _end(row: TuningRow, state: str, **facts: str | None) -> None:
    if state not in _ENDED:
        raise ValueError(f"found state {state}, expected one of {', '.join(_ENDED)}")
    row.state, row.phase, row.ended_at = state, "", now()
    for name, value in facts.items():
        setattr(row, name, value)
