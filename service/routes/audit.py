"""The audit log, for administrators."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from fusetune.wire.service import AuditEntries
from service.operations import audit
from service.routes.dependencies import PAGE_LIMIT, Ctx, Limit, as_json
from service.routes.strict import strict_router

router = strict_router("audit", "/v1/audit")

Word = Annotated[str | None, Query(min_length=1, max_length=120)]


@router.get("", response_model=AuditEntries)
def list_audit(
    context: Ctx,
    actor: Word = None,
    action: Word = None,
    subject: Word = None,
    before: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="The `next` of the page before.")] = None,
    limit: Limit = PAGE_LIMIT,
) -> Response:
    """Who did what, the newest first."""
    return as_json(audit.page(context, before, limit, actor, action, subject))
