"""API keys and the audit trail."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.db.models import ApiKeyRow, AuditRow
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


def hash_of(key: str) -> str:
    """What is kept of a key. Keys are 256 random bits: a fast hash gives nothing away."""
    return hashlib.sha256(key.encode()).hexdigest()


def create(session: Session, name: str) -> str:
    """A new key, which is shown this once. Raises NameTaken if an accepted key has the name."""
    key = PREFIX + secrets.token_urlsafe(32)
    try:
        with session.begin_nested():
            session.add(ApiKeyRow(id=uuid.uuid4().hex, name=name, key_sha256=hash_of(key)))
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
    return session.scalar(select(func.count()).select_from(ApiKeyRow).where(ApiKeyRow.revoked_at.is_(None))) or 0


def holder(session: Session, key: str) -> str | None:
    """The name of the key if it is accepted."""
    query = select(ApiKeyRow.name).where(ApiKeyRow.key_sha256 == hash_of(key), ApiKeyRow.revoked_at.is_(None))
    return session.scalars(query).one_or_none()


def audit(session: Session, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None) -> None:
    """Note who did what."""
    session.add(AuditRow(actor=actor, action=action, subject=subject, detail=dict(detail or {})))
