"""Fusions that were posted."""

from __future__ import annotations

from fusetune.wire.service import Fusions, FusionView
from service.db import fusions
from service.operations.context import Context
from service.operations.errors import NotFound
from service.operations.paging import cursor_faults
from service.views import fusion_views


def page(context: Context, after: str | None, limit: int) -> Fusions:
    """Fusions, the newest first. Raises InvalidDocument for a bad cursor."""
    with context.db.read() as session, cursor_faults(after):
        found = fusions.page(session, after, limit)
        return Fusions(items=tuple(fusion_views(session, found.rows)), next=found.next)


def get(context: Context, fingerprint: str) -> FusionView:
    """One fusion. Raises NotFound."""
    with context.db.read() as session:
        row = fusions.get(session, fingerprint)
        if row is None:
            raise NotFound("fusion", fingerprint, "GET /v1/fusions")
        return fusion_views(session, [row])[0]
