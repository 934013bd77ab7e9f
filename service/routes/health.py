"""For machines that keep watch: is it alive, can it work, what has it done."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fusetune.wire.service import Health
from service import openapi
from service.metrics import CONTENT_TYPE, Metrics
from service.operations import health
from service.problems import INTERNAL, INVALID_REQUEST, problems
from service.routes.dependencies import EVERYWHERE, Ctx, as_json
from service.routes.strict import strict_router

router = strict_router("health", responses={})


@router.get("/healthz", response_model=Health, responses=problems(INVALID_REQUEST, INTERNAL))
async def get_health() -> Response:
    """The process answers."""
    return as_json(health.alive())


@router.get(
    "/readyz",
    response_model=Health,
    responses={
        503: {"model": Health, "description": "Not ready; `checks` says why."},
        **problems(INVALID_REQUEST, INTERNAL),
    },
)
def get_readiness(context: Ctx) -> Response:
    """The database answers and has the tables of this version."""
    found = health.ready(context)
    return as_json(found, 200 if found.status == "ok" else 503)


@router.get(openapi.PATH, include_in_schema=False)
def get_document(request: Request) -> Response:
    """The OpenAPI document, encoded once."""
    state = request.app.state
    if not hasattr(state, "openapi_json"):
        state.openapi_json = json.dumps(openapi.kept(request.app)).encode()
    return Response(state.openapi_json, media_type="application/json")


@router.get("/metrics", response_class=PlainTextResponse, responses=EVERYWHERE)
def get_metrics(request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE})
