"""Scheduling spaces, without a search."""

from __future__ import annotations

from starlette.responses import Response

from fusetune.wire.service import SpaceRequest, SpaceView
from service.problems import (
    BODY_TOO_LARGE,
    INVALID_REQUEST,
    NOT_JSON,
    OVER_LIMIT,
    QUEUE_FULL,
    UNKNOWN_CARD,
    UNSUPPORTED_FUSION,
    UNSUPPORTED_MEDIA_TYPE,
    problems,
)
from service.routes.dependencies import Ctx, as_json
from service.routes.strict import strict_router

router = strict_router("spaces", "/v1/spaces")


@router.post(
    "",
    response_model=SpaceView,
    responses=problems(
        NOT_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST, UNKNOWN_CARD, UNSUPPORTED_FUSION,
        OVER_LIMIT, QUEUE_FULL,
    ),
)  # fmt: skip
def describe_space(body: SpaceRequest, context: Ctx) -> Response:
    """What a search of this fusion would look through: points, legal ones, what each rule refuses, samples."""
    from service.operations import spaces  # `service.later`

    return as_json(spaces.describe(context, body))
