"""Kernels: from the cache only."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header
from starlette.requests import Request
from starlette.responses import Response

from fusetune.wire.artifact import KernelArtifact
from fusetune.wire.service import KernelAnswers, KernelLookup, Kernels, KernelView
from service.operations import kernels
from service.operations.kernels import PARTS, PartName
from service.problems import (
    BODY_TOO_LARGE,
    DAMAGED_ARTIFACT,
    GONE,
    INTERNAL,
    INVALID_REQUEST,
    NOT_FOUND,
    NOT_JSON,
    OUTDATED_PROOF,
    UNKNOWN_CARD,
    UNSUPPORTED_MEDIA_TYPE,
    problems,
)
from service.routes.dependencies import (
    PAGE_LIMIT,
    Actor,
    After,
    CardFilter,
    Ctx,
    HashFilter,
    Limit,
    as_json,
)
from service.routes.strict import strict_router

router = strict_router("kernels", "/v1/kernels")

CACHED = "private, no-cache"
"""An id is a hash of what it names, so what was fetched is never old; but it may have been deleted, so whoever keeps it
asks again, by its ETag (RFC 9111, 5.2.2.4). Private: a key may be needed."""

IfNoneMatch = Annotated[str | None, Header(description="An ETag that the client holds.")]

_KEPT = {
    "ETag": {"description": "Of these bytes: send it as If-None-Match.", "schema": {"type": "string"}},
    "Cache-Control": {"description": "They never change.", "schema": {"type": "string"}},
}
_PACKED = {"Content-Encoding": {"description": "`gzip`, if the client takes it.", "schema": {"type": "string"}}}
_STORED = {
    304: {"description": "The client has it: the ETag is the one it sent.", "headers": _KEPT},
    **problems(NOT_FOUND, GONE, INTERNAL, DAMAGED_ARTIFACT),
}
_LOADABLE = {**_STORED, **problems(OUTDATED_PROOF)}


@router.get("", response_model=Kernels, responses=problems(INVALID_REQUEST, UNKNOWN_CARD))
def list_kernels(
    context: Ctx,
    fingerprint: HashFilter = None,
    binding: HashFilter = None,
    card: CardFilter = None,
    after: After = None,
    limit: Limit = PAGE_LIMIT,
) -> Response:
    """The kernels that are served today, the newest first."""
    return as_json(kernels.page(context, after, limit, fingerprint, binding, card))


@router.post(
    "/lookup",
    response_model=KernelAnswers,
    responses=problems(NOT_JSON, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE),
)
def look_up_kernels(body: KernelLookup, context: Ctx) -> Response:
    """The kernels of many keys at once; null where the cache has none that is acceptable."""
    return Response(kernels.lookup(context, body), media_type="application/json")


@router.get(
    "/{kernel_id}", response_model=KernelArtifact, responses={**_LOADABLE, 200: {"headers": {**_KEPT, **_PACKED}}}
)
def get_artifact(request: Request, kernel_id: str, context: Ctx, if_none_match: IfNoneMatch = None) -> Response:
    """The whole kernel, `fusetune.kernel/1`, byte for byte as it was stored."""
    found = kernels.artifact(context, kernel_id)
    if found.zipped is None or not takes_gzip(request.headers.get("accept-encoding", "")):
        response = _stored(found.content, "application/json", found.sha256, if_none_match)
    else:
        response = _stored(found.zipped, "application/json", f"{found.sha256}-gzip", if_none_match)
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a client unpacks gzip (RFC 9110, 12.5.3): it names it, and not with a weight of zero."""
    for one in accept_encoding.lower().split(","):
        coding, _, parameters = one.partition(";")
        if coding.strip() == "gzip":
            weight = parameters.replace(" ", "").removeprefix("q=")
            return not weight or weight.strip("0.") != ""
    return False


@router.delete("/{kernel_id}", status_code=204, responses=problems(NOT_FOUND, GONE))
def delete_kernel(kernel_id: str, context: Ctx, actor: Actor) -> Response:
    """Delete a kernel with its code: it is not served again, unless a search finds it that is asked for after this.
    Its trial stays.
    """
    kernels.delete(context, kernel_id, actor)
    return Response(status_code=204)


@router.get("/{kernel_id}/info", response_model=KernelView, responses=problems(NOT_FOUND, GONE))
def get_kernel(kernel_id: str, context: Ctx) -> Response:
    """A kernel without its code."""
    return as_json(kernels.info(context, kernel_id))


_MEDIA_TYPES: dict[PartName, str] = {
    "source": "text/plain; charset=utf-8",
    "ptx": "text/plain; charset=utf-8",
    "cubin": "application/octet-stream",
    "schedule": "application/json",
}
_SUMMARIES: dict[PartName, str] = {
    "source": "The CUDA C++ that the kernel was compiled from.",
    "ptx": "The kernel's PTX.",
    "cubin": "The machine code that is launched.",
    "schedule": "The schedule as a trace: replaying it gives the same source.",
}


def _add_part(name: PartName) -> None:
    """The route of one part of an artifact."""
    media_type = _MEDIA_TYPES[name]
    kind = {"type": "object"} if name == "schedule" else {"type": "string"}

    def get_part(kernel_id: str, context: Ctx, if_none_match: IfNoneMatch = None) -> Response:
        found = kernels.part(context, kernel_id, name)
        return _stored(found.content, media_type, f"{found.sha256}-{name}", if_none_match)

    router.add_api_route(
        f"/{{kernel_id}}/{name}",
        get_part,
        name=f"get_{name}",
        description=_SUMMARIES[name],
        response_class=Response,
        responses={
            200: {"content": {media_type.partition(";")[0]: {"schema": kind}}, "headers": _KEPT},
            **(_LOADABLE if name == kernels.LOADABLE else _STORED),
        },
    )


for _part in PARTS:
    _add_part(_part)


def _stored(content: bytes, media_type: str, tag: str, if_none_match: str | None) -> Response:
    """Bytes that never change under their name."""
    headers = {"ETag": f'"{tag}"', "Cache-Control": CACHED}
    if if_none_match is not None and _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def _matches(if_none_match: str, tag: str) -> bool:
    """RFC 9110, 13.1.2: one of the tags, weak or not, or any."""
    tags = (one.strip().removeprefix("W/").strip('"') for one in if_none_match.split(","))
    return any(one in (tag, "*") for one in tags)
