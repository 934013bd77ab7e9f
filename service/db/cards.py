"""Cards and the workers that serve them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from compiler.arch import READ_FACTS, Card, card_like
from service.db.models import CardRow, KernelRow, WorkerRow
from service.db.once import find_or_add
from service.db.types import Words, now


def card_id(card: Card) -> str:
    """Short name of a card's key."""
    return hashlib.sha256(card.key.encode()).hexdigest()[:16]


def put(
    session: Session, card: Card, driver: str | None = None, clock_limit_mhz: int | None = None, *, attached: bool
) -> CardRow:
    """The card's row, made if it is not there. What was read off a card stays so; a new driver or clock limit
    replaces the old.

    A table has neither: they count only where the card is `attached`.
    """
    id = card_id(card)
    facts = {name: getattr(card, name) for name in READ_FACTS} | {"capability": list(card.arch.capability)}
    row, _ = find_or_add(
        session,
        lambda: session.get(CardRow, id),
        lambda: CardRow(id=id, key=card.key, name=card.name, facts=facts, source=TABLE),
    )
    if attached:
        row.source, row.driver, row.clock_limit_mhz = "attached", driver, clock_limit_mhz
    return row


def get(session: Session, id: str) -> CardRow | None:
    """The card with this id."""
    return session.get(CardRow, id)


def by_id(session: Session, ids: Iterable[str]) -> dict[str, CardRow]:
    """The cards with these ids."""
    return {row.id: row for row in session.scalars(select(CardRow).where(CardRow.id.in_(set(ids))))}


FAKE_CARD = "fake"
"""The name of the card on which nothing is run and times are invented (search.measure.fake)."""


def is_invented(session: Session, id: str) -> bool:
    """Whether the results on a stored card are invented: that is the fake one, for rehearsals."""
    row = get(session, id)
    return row is not None and row.name == FAKE_CARD


def card_of(row: CardRow) -> Card:
    """A stored card as the compiler knows it. Raises Unsupported if nothing is compiled for its compute capability."""
    major, minor = row.facts["capability"]
    return card_like(row.name, (major, minor), {name: row.facts[name] for name in READ_FACTS})


def of_model(session: Session, card: CardRow) -> Sequence[CardRow]:
    """The cards of the same model that no GPU was read for: what is known of them holds of `card` too."""
    return [row for row in named(session, card.name) if row.source == TABLE and row.id != card.id]


TABLE = "table"
"""The source of a card that nobody has read off a GPU (`compiler/cards.json`); "attached" that of the others."""


def named(session: Session, name: str) -> Sequence[CardRow]:
    """Cards of one model: those read off a card first, the newest first."""
    query = select(CardRow).where(func.lower(CardRow.name, type_=Words()) == name.lower())
    return session.scalars(query.order_by(CardRow.source, CardRow.created_at.desc())).all()


def every(session: Session) -> Sequence[CardRow]:
    """All cards by name."""
    return session.scalars(select(CardRow).order_by(CardRow.name, CardRow.id)).all()


def kernel_counts(session: Session) -> dict[str, int]:
    """Current kernels of each card."""
    query = select(KernelRow.card_id, func.count()).where(KernelRow.superseded_at.is_(None)).group_by(KernelRow.card_id)
    return dict(session.execute(query).all())


@dataclass(frozen=True, slots=True)
class Presence:
    """A worker as it announces itself. `why`: why it has no GPU, empty if it has one."""

    id: str
    host: str
    pid: int
    card_id: str
    attached: bool
    why: str = ""


def announce(session: Session, worker: Presence) -> WorkerRow:
    """The worker is up: its row as of now."""
    state = {
        "host": worker.host, "pid": worker.pid, "card_id": worker.card_id, "attached": worker.attached,
        "why": worker.why, "tuning_id": None, "started_at": now(), "stopped_at": None,
    }  # fmt: skip
    row, is_new = find_or_add(
        session, lambda: session.get(WorkerRow, worker.id), lambda: WorkerRow(id=worker.id, **state)
    )
    if not is_new:
        for name, value in state.items():
            setattr(row, name, value)
    row.heartbeat_at = row.started_at
    return row


def beat(session: Session, worker: str, tuning: str | None) -> bool:
    """The worker lives, and works on `tuning`. After `leave` only `announce` makes it live again.

    False if it has no row any more: it was silent for so long that somebody has pruned it.
    """
    row = session.get(WorkerRow, worker)
    if row is not None and row.stopped_at is None:
        row.heartbeat_at, row.tuning_id = now(), tuning
    return row is not None


def leave(session: Session, worker: str) -> None:
    """The worker has stopped in good order."""
    row = session.get(WorkerRow, worker)
    if row is not None:
        row.stopped_at, row.tuning_id = now(), None


def worker(session: Session, id: str) -> WorkerRow | None:
    """The worker with this id, however long ago it was heard of."""
    return session.get(WorkerRow, id)


def workers(session: Session) -> Sequence[WorkerRow]:
    """All workers ever seen, by id."""
    return session.scalars(select(WorkerRow).order_by(WorkerRow.id)).all()


def last_heard(session: Session) -> Sequence[WorkerRow]:
    """All workers ever seen: those with a GPU first, then the one that was heard of last."""
    return session.scalars(
        select(WorkerRow).order_by(WorkerRow.attached.desc(), WorkerRow.heartbeat_at.desc(), WorkerRow.id)
    ).all()


def alive(session: Session, since: datetime) -> Sequence[WorkerRow]:
    """Workers heard of after `since` that have not stopped: those with a GPU first."""
    query = select(WorkerRow).where(WorkerRow.stopped_at.is_(None), WorkerRow.heartbeat_at > since)
    return session.scalars(query.order_by(WorkerRow.attached.desc(), WorkerRow.id)).all()
