"""Packs: kernels in one file, to be had and to be taken in."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from fusetune.signing import process_trust
from fusetune.wire.pack import PackFile
from fusetune.wire.patterns import HASH
from fusetune.wire.service import PackTaken
from service.operations import packs
from service.operations.cards import stored_ids
from service.operations.context import Context
from service.problems import (
    BODY_TOO_LARGE,
    DAMAGED_ARTIFACT,
    INTERNAL,
    NOT_FOUND,
    OVER_LIMIT,
    UNKNOWN_CARD,
    UNTRUSTED_PACK,
    UNUSABLE_PACK,
    problems,
)  # fmt: skip
from service.routes.dependencies import Actor, CardFilter, Ctx, as_json
from service.routes.strict import strict_router

router = strict_router("packs", "/v1/pack")

MEDIA_TYPE = "application/zip"

Fingerprint = Annotated[str, Query(pattern=HASH)]
Fingerprints = Annotated[list[Fingerprint], Query(description="Repeat it for several.")]


@router.get(
    "",
    response_class=Response,
    responses={
        200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}},
        **problems(NOT_FOUND, UNKNOWN_CARD, OVER_LIMIT, INTERNAL, DAMAGED_ARTIFACT),
    },
)
def get_pack(
    context: Ctx,
    fingerprint: Fingerprints = [],  # noqa: B006 (FastAPI copies it)
    card: CardFilter = None,
    history: bool = False,
) -> Response:
    """The kernels that are served, with their evidence, as a pack, `fusetune.pack/1`: of these fusions, or of all."""
    with context.db.read() as session:
        ids = None if card is None else stored_ids(session, card)
        pack = packs.written(session, fingerprint, ids, history=history)
    headers = {"ETag": f'"{pack.sha256}"', "Cache-Control": "private, no-cache"}
    return Response(pack.content(), headers=headers, media_type=MEDIA_TYPE)


_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""What the bytes are, they say themselves: any content type is taken."""


@router.post(
    "", response_model=PackTaken, responses=problems(BODY_TOO_LARGE, UNUSABLE_PACK, UNTRUSTED_PACK), openapi_extra=_BODY
)
async def take_pack(request: Request, context: Ctx, actor: Actor) -> Response:
    """Take the kernels of a pack in; the body is its file. Its evidence is believed: send packs of your own only.

    Where the service was told whom to trust (FUSETUNE_TRUST), one of these keys must have signed the pack.
    """
    content = await request.body()
    return as_json(await run_in_threadpool(_taken, context, content, actor))


def _taken(context: Context, content: bytes, actor: str) -> PackTaken:
    with context.db.write() as session:
        return packs.take_in(session, PackFile(content), actor, process_trust())
