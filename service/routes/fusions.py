"""Fusions that were posted."""

from __future__ import annotations

from starlette.responses import Response

from fusetune.wire.service import DeletedFusionView, Fusions, FusionView
from service.operations import fusions
from service.problems import IN_USE, NOT_FOUND, problems
from service.routes.dependencies import PAGE_LIMIT, Actor, After, Ctx, Limit, as_json
from service.routes.strict import strict_router

router = strict_router("fusions", "/v1/fusions")


@router.get("", response_model=Fusions)
def list_fusions(context: Ctx, after: After = None, limit: Limit = PAGE_LIMIT) -> Response:
    """Fusions, the newest first."""
    return as_json(fusions.page(context, after, limit))


@router.get("/{fingerprint}", response_model=FusionView, responses=problems(NOT_FOUND))
def get_fusion(fingerprint: str, context: Ctx) -> Response:
    """A fusion in its canonical form, and how often it was tuned."""
    return as_json(fusions.get(context, fingerprint))


@router.delete("/{fingerprint}", response_model=DeletedFusionView, responses=problems(NOT_FOUND, IN_USE))
def delete_fusion(fingerprint: str, context: Ctx, actor: Actor) -> Response:
    """Delete a fusion with its bindings, kernels, tunings and trials. Its tunings must have ended."""
    return as_json(fusions.delete(context, fingerprint, actor))
