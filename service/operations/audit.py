"""Who did what."""

from __future__ import annotations

from fusetune.wire.service import AuditEntries, AuditEntry
from service.db import keys
from service.operations.context import Context


def page(
    context: Context, before: int | None, limit: int, actor: str | None, action: str | None, subject: str | None
) -> AuditEntries:
    """Entries of the audit log, the newest first."""
    with context.db.read() as session:
        rows, following = keys.audit_page(session, before, limit, actor, action, subject)
    items = (
        AuditEntry(id=row.id, at=row.at, actor=row.actor, action=row.action, subject=row.subject, detail=row.detail)
        for row in rows
    )
    return AuditEntries(items=tuple(items), next=following)
