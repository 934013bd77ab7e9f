"""What routes take beside the request's own fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, Header, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from fusetune.wire.patterns import HASH, IDEMPOTENCY_KEY
from service.operations.context import Context
from service.operations.paging import DEFAULT_LIMIT, MAX_LIMIT
from service.problems import (
    DAMAGED_ROW,
    FORBIDDEN,
    FOREIGN_REQUEST,
    INTERNAL,
    INVALID_REQUEST,
    NOT_READY,
    RATE_LIMITED,
    UNAUTHORIZED,
    problems,
)  # fmt: skip


# Not `def`: FastAPI would call it in a thread, at the price of the whole route.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _actor(request: Request) -> str:
    actor: str = request.state.actor
    return actor


async def _key_id(request: Request) -> str | None:
    found: str | None = request.state.key_id
    return found


async def _body_sha256(request: Request) -> bytes | None:
    found: bytes | None = getattr(request.state, "body_sha256", None)
    return found


Ctx = Annotated[Context, Depends(_context)]
Actor = Annotated[str, Depends(_actor)]
KeyId = Annotated[str | None, Depends(_key_id)]
"""Of the API key that came with the request; None for the operator's, and for none."""

BodyHash = Annotated[bytes | None, Depends(_body_sha256)]
"""Of a body that `service.again` has read, and will know if it comes again."""

After = Annotated[str | None, Query(max_length=200, description="The `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows of the page.")]
HashFilter = Annotated[str | None, Query(pattern=HASH)]
CardFilter = Annotated[str | None, Query(min_length=1, max_length=120, description="A card's id or name.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=IDEMPOTENCY_KEY,
        description="Any text of the client's: a request sent again under it opens no second tuning.",
    ),
]

PAGE_LIMIT = DEFAULT_LIMIT
ALWAYS = (UNAUTHORIZED, FOREIGN_REQUEST, FORBIDDEN, RATE_LIMITED, INVALID_REQUEST, INTERNAL, DAMAGED_ROW, NOT_READY)
"""Problems that every route can answer."""

EVERYWHERE = problems(*ALWAYS)


def as_json(view: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A view as a response; made here once, where FastAPI would validate it again first."""
    return Response(view.model_dump_json(), status, dict(headers or {}), "application/json")
