"""Explicit schedules: judged, without a search."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from fusetune.wire.verdicts import ArchName, ScheduleCases, ScheduleVerdicts
from service.problems import (
    BODY_TOO_LARGE,
    INVALID_REQUEST,
    NOT_JSON,
    QUEUE_FULL,
    UNSUPPORTED_MEDIA_TYPE,
    problems,
)
from service.routes.dependencies import Ctx
from service.routes.strict import strict_router

router = strict_router("schedules", "/v1/schedules")

Arch = Annotated[
    ArchName | None, Query(description="Compile target; by default, for each schedule the least that will do.")
]


@router.post(
    "/check",
    response_model=ScheduleVerdicts,
    responses=problems(NOT_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, QUEUE_FULL),
)
def check_schedules(body: ScheduleCases, context: Ctx, arch: Arch = None) -> Response:
    """Whether explicit schedules are legal, by which rules not, and what is inferred of them: as `check` says it."""
    from service.operations import schedules  # `service.later`

    return Response(json.dumps(schedules.check(context, body, arch)), media_type="application/json")
