"""API keys and the audit trail."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.selectable import ForUpdateParameter

from service.db import answers
from service.db.models import NORMAL, ApiKeyRow, AuditRow
from service.db.types import now

PREFIX = "ftk_"
"""How keys begin, so that secret scanners know them."""


class NameTaken(Exception):
    """An accepted key already has that `name`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"a key named {self.name} exists already. Choose another name, or revoke that one first."


@dataclass(frozen=True, slots=True)
class Holder:
    """Who asks, and what that one may do. `id` is the key's; None for who has none of the table."""

    name: str
    scope: str
    id: str | None = None
    requests_a_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What a key is made with; None is no limit."""

    scope: str = "tune"
    expires_at: datetime | None = None
    priority: int = NORMAL
    tunings_a_day: int | None = None
    gpu_s_a_day: float | None = None
    requests_a_minute: int | None = None


def hash_of(key: str) -> str:
    """What is kept of a key. Keys are 256 random bits: a fast hash gives nothing away."""
    return hashlib.sha256(key.encode()).hexdigest()


def create(session: Session, name: str, terms: Terms | None = None) -> str:
    """A new key, which is shown this once. Raises NameTaken if a key that is not revoked has the name."""
    key = PREFIX + secrets.token_urlsafe(32)
    try:
        with session.begin_nested():
            session.add(ApiKeyRow(id=uuid.uuid4().hex, name=name, key_sha256=hash_of(key), **asdict(terms or Terms())))
    except IntegrityError:
        raise NameTaken(name) from None
    return key


def revoke(session: Session, name: str) -> bool:
    """The key of that name is accepted no more; False if there is none."""
    rows = session.scalars(select(ApiKeyRow).where(ApiKeyRow.name == name)).all()
    for row in rows:
        row.revoked_at = row.revoked_at or now()
    return bool(rows)


def every(session: Session) -> Sequence[ApiKeyRow]:
    """All keys by name and age, revoked ones included."""
    return session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.name, ApiKeyRow.created_at)).all()


def usable(session: Session) -> int:
    """How many keys are accepted."""
    is_accepted = ApiKeyRow.revoked_at.is_(None), or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > now())
    return session.scalar(select(func.count()).select_from(ApiKeyRow).where(*is_accepted)) or 0


def asked(key: str) -> dict[str, Any]:
    """The parameters of `answers.HOLDER` for a key."""
    return {"key_sha256": hash_of(key), "at": now()}


def holder(session: Session, key: str) -> Holder | None:
    """Who holds the key if it is accepted."""
    row = session.execute(answers.HOLDER, asked(key)).one_or_none()
    return None if row is None else Holder(*row)


def note_use(session: Session, used: Mapping[str, datetime]) -> None:
    """When keys, by their ids, were used last."""
    for id, at in sorted(used.items()):
        is_news = or_(ApiKeyRow.last_used_at.is_(None), ApiKeyRow.last_used_at < at)
        session.execute(update(ApiKeyRow).where(ApiKeyRow.id == id, is_news).values(last_used_at=at))


def get(session: Session, id: str, *, to_spend: bool = False) -> ApiKeyRow | None:
    """The key with this id; `to_spend`, nobody else spends of its quotas before this transaction ends."""
    lock: ForUpdateParameter = {"key_share": True} if to_spend else None
    return session.get(ApiKeyRow, id, with_for_update=lock, populate_existing=True)


def audit(session: Session, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None) -> None:
    """Note who did what."""
    session.add(AuditRow(actor=actor, action=action, subject=subject, detail=dict(detail or {})))


def audit_page(
    session: Session,
    before: int | None,
    limit: int,
    actor: str | None = None,
    action: str | None = None,
    subject: str | None = None,
) -> tuple[Sequence[AuditRow], int | None]:
    """What was done, the newest first, below the number `before`; and the `before` of the next page."""
    query = select(AuditRow).order_by(AuditRow.id.desc())
    wanted = ((AuditRow.actor, actor), (AuditRow.action, action), (AuditRow.subject, subject))
    query = query.where(*(column == value for column, value in wanted if value is not None))
    if before is not None:
        query = query.where(AuditRow.id < before)
    rows = session.scalars(query.limit(limit + 1)).all()
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None
