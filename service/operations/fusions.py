"""Fusions that were posted."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy.exc import IntegrityError

from fusetune.wire.service import DeletedFusionView, Fusions, FusionView
from service.db import deletion, fusions, keys
from service.operations.context import Context
from service.operations.errors import FusionInUse, NotFound
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
            raise _not_found(fingerprint)
        return fusion_views(session, [row])[0]


def delete(context: Context, fingerprint: str, actor: str) -> DeletedFusionView:
    """Take a fusion out with its kernels, tunings and trials; returns how many went. Raises NotFound, FusionInUse."""
    try:
        with context.db.write() as session:
            gone = deletion.delete_fusion(session, fingerprint)
            if gone is None:
                raise _not_found(fingerprint)
            keys.audit(session, actor, "fusion.deleted", fingerprint, asdict(gone))
    except deletion.InUse as error:
        raise FusionInUse(str(error)) from None
    except IntegrityError:  # a worker wrote to it just now
        raise FusionInUse("Something was stored for the fusion just now.") from None
    return DeletedFusionView(fingerprint=fingerprint, **asdict(gone))


def _not_found(fingerprint: str) -> NotFound:
    return NotFound("fusion", fingerprint, "GET /v1/fusions")
