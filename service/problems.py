"""Every error over HTTP: problem details (RFC 9457) with a stable `type`, said in this one place.

Below it nobody knows HTTP: operations, compiler and database raise errors of their own, which `problem_of` translates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from compiler.errors import UnknownCard, Unsupported
from fusetune.wire.pack import UnusablePack
from fusetune.wire.parse import problem_of as wire_problem
from fusetune.wire.problems import InvalidDocument, NotJson, Problem
from fusetune.wire.service import ProblemDetails, ProblemItem
from service.db.kernels import DamagedArtifact, PrunedArtifact
from service.db.types import DamagedDocument
from service.db.unready import is_damaged, is_disk_full, reason
from service.operations.errors import (
    Busy,
    FusionInUse,
    Gone,
    IdempotencyConflict,
    NotFound,
    OutdatedKernel,
    OverLimit,
    QuotaSpent,
    UntrustedPack,
)

MEDIA_TYPE = "application/problem+json"
URN = "urn:fusetune:problem:"
SHOWN_PROBLEMS = 100
"""Faults that one answer lists."""


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A type of problem: `name` ends its URN, `meaning` is for the reference."""

    name: str
    status: int
    title: str
    meaning: str


INVALID_REQUEST = ProblemType(
    "invalid-request", 422, "The request is invalid",
    "Fields, types or values that cannot mean anything; `problems` names each by its place.",
)  # fmt: skip
NOT_JSON = ProblemType(
    "not-json", 400, "The body is not JSON", "Not UTF-8, no JSON, a field twice, NaN, too deep, or empty."
)
NOT_HTTP = ProblemType("not-http", 400, "This is not HTTP", "Bytes that cannot be parsed; the connection is closed.")
HEADERS_TOO_LARGE = ProblemType(
    "headers-too-large", 431, "The headers are too large", "64 KiB is the limit, for the request line and headers."
)
BAD_FORM = ProblemType("bad-form", 400, "The form cannot be read", "Of a page for people: too many fields, or a file.")
UNSUPPORTED_MEDIA_TYPE = ProblemType(
    "unsupported-media-type", 415, "The body has another content type", "Bodies are `application/json`, not compressed."
)
BODY_TOO_LARGE = ProblemType("body-too-large", 413, "The body is too large", "FUSETUNE_MAX_BODY_BYTES is the limit.")
NOT_FOUND = ProblemType("not-found", 404, "There is no such thing", "No row has the id, or no page the path.")
METHOD_NOT_ALLOWED = ProblemType(
    "method-not-allowed", 405, "The method is not allowed", "`Allow` lists those that are."
)
UNKNOWN_CARD = ProblemType("unknown-card", 422, "The card is not known", "No card has that id, name or alias.")
UNSUPPORTED_FUSION = ProblemType(
    "unsupported-fusion", 422, "The fusion cannot be compiled yet", "It is valid; `detail` names what is missing."
)
OVER_LIMIT = ProblemType(
    "over-limit", 422, "The request is over a limit", "Its budget or its graph is larger than allowed."
)
QUEUE_FULL = ProblemType("queue-full", 429, "Too much waits already", "`Retry-After` says when to ask again.")
IDEMPOTENCY_CONFLICT = ProblemType(
    "idempotency-conflict", 409, "The Idempotency-Key is taken", "It came with another body before."
)
OUTDATED_PROOF = ProblemType(
    "outdated-proof", 409, "The kernel's proof is outdated", "An older verifier proved it; its code is not given out."
)
GONE = ProblemType(
    "gone", 410, "The kernel is not kept any more", "It was deleted, or its code was pruned after another replaced it."
)
IN_USE = ProblemType("in-use", 409, "The fusion is being tuned", "What is to be deleted has tunings that go on.")
UNUSABLE_PACK = ProblemType(
    "unusable-pack", 422, "The pack cannot be used", "It is none, is damaged, or contradicts itself; nothing was taken."
)
UNTRUSTED_PACK = ProblemType(
    "untrusted-pack", 422, "The pack is not signed by whom is trusted here",
    "The service was told whose packs it takes, and none of these keys has signed this one; nothing was taken.",
)  # fmt: skip
UNAUTHORIZED = ProblemType("unauthorized", 401, "A key is needed", "Send `Authorization: Bearer KEY`.")
FOREIGN_REQUEST = ProblemType(
    "foreign-request", 403, "The request comes from another site",
    "A browser sent it for a page of somebody else, or under a name that is not this host's.",
)  # fmt: skip
FORBIDDEN = ProblemType("forbidden", 403, "The key may not do this", "Its scope is less than what this needs.")
RATE_LIMITED = ProblemType(
    "rate-limited", 429, "The key asks too often", "It has sent its requests of a minute; `Retry-After` says how long."
)
QUOTA_SPENT = ProblemType(
    "quota-spent",
    429,
    "The key's quota is spent",
    "Its tunings or GPU seconds of 24 hours; `Retry-After` says how long.",
)
NOT_READY = ProblemType("not-ready", 503, "The service is not ready", "Its database does not answer, or cannot write.")
DAMAGED_ARTIFACT = ProblemType(
    "damaged-artifact", 500, "A stored kernel is damaged", "Its bytes are not those that were stored; it is not served."
)
DAMAGED_ROW = ProblemType(
    "damaged-row", 500, "A row of the database is damaged",
    "A stored document is no JSON any more, or SQLite finds its file malformed; it is not shown.",
)  # fmt: skip
INTERNAL = ProblemType("internal", 500, "The service has failed", "A fault of ours; the log has it under `request_id`.")

KINDS = (
    NOT_HTTP, NOT_JSON, BAD_FORM, UNAUTHORIZED, FOREIGN_REQUEST, FORBIDDEN, NOT_FOUND, METHOD_NOT_ALLOWED,
    IDEMPOTENCY_CONFLICT, OUTDATED_PROOF, IN_USE, GONE, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, INVALID_REQUEST,
    UNUSABLE_PACK, UNTRUSTED_PACK, UNKNOWN_CARD, UNSUPPORTED_FUSION, OVER_LIMIT, QUEUE_FULL, RATE_LIMITED, QUOTA_SPENT,
    HEADERS_TOO_LARGE, INTERNAL, DAMAGED_ARTIFACT, DAMAGED_ROW, NOT_READY,
)  # fmt: skip
"""All of them, by status."""


class WrongMediaType(Exception):
    """A body that is not said to be JSON, or is said to be packed."""

    def __init__(self, found: str, fix: str) -> None:
        super().__init__(found, fix)
        self.found = found
        self.fix = fix


class BodyTooLarge(Exception):
    """More bytes than a body may have."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes


@dataclass(frozen=True, slots=True)
class ProblemDetail:
    """A problem before it is an answer."""

    kind: ProblemType
    detail: str
    fix: str = ""
    problems: Sequence[Problem] = ()
    headers: Mapping[str, str] | None = None


def fault_of(error: Exception) -> ProblemDetail | None:
    """The problem that an error is; None for one that nobody expects. HTTPException is for `_http_fault`."""
    match error:
        case NotJson():
            return ProblemDetail(NOT_JSON, f"Found {error.problems[0].found}.", error.problems[0].fix, error.problems)
        case InvalidDocument():
            return _invalid(error.problems)
        case RequestValidationError():
            return _invalid([_parameter_problem(fault) for fault in error.errors()])
        case WrongMediaType():
            return ProblemDetail(UNSUPPORTED_MEDIA_TYPE, f"Found {error.found}.", error.fix)
        case BodyTooLarge():
            return ProblemDetail(
                BODY_TOO_LARGE, f"At most {error.limit_bytes} bytes are taken.", "Send less.", headers=_CLOSE
            )
        case UnknownCard():
            known = f"Known cards: {', '.join(error.known)}."
            return ProblemDetail(
                UNKNOWN_CARD, f"No card is called {error.name!r}. {known}", "Use one of these names, or an id."
            )
        case Unsupported():
            return ProblemDetail(UNSUPPORTED_FUSION, f"{error.what} is not supported yet.", error.fix)
        case NotFound():
            return ProblemDetail(NOT_FOUND, error.detail, error.fix)
        case OverLimit():
            return ProblemDetail(OVER_LIMIT, error.detail, error.fix)
        case IdempotencyConflict():
            return ProblemDetail(IDEMPOTENCY_CONFLICT, error.detail, error.fix)
        case OutdatedKernel():
            return ProblemDetail(OUTDATED_PROOF, error.detail, error.fix)
        case Gone():
            return ProblemDetail(GONE, error.detail, error.fix)
        case PrunedArtifact():
            return ProblemDetail(GONE, f"The code is not kept any more: {error}", "Post its fusion for today's kernel.")
        case UnusablePack():
            return ProblemDetail(UNUSABLE_PACK, f"{error}.", "Have the pack written again.")
        case UntrustedPack():
            return ProblemDetail(UNTRUSTED_PACK, error.detail, error.fix)
        case FusionInUse():
            return ProblemDetail(IN_USE, error.detail, error.fix)
        case Busy():
            retry = {"Retry-After": str(error.retry_after_s)}
            kind = QUOTA_SPENT if isinstance(error, QuotaSpent) else QUEUE_FULL
            return ProblemDetail(kind, error.detail, error.fix, headers=retry)
        case DamagedArtifact():
            detail = f"Artifact {error.sha256} does not have the hash it is stored under."
            return ProblemDetail(DAMAGED_ARTIFACT, detail, 'Tune its fusion again with "refresh": true.')
        case DamagedDocument():
            return ProblemDetail(
                DAMAGED_ROW, f"The database is damaged: {error}.", "Have its operator restore it from a backup."
            )
        case DBAPIError() if is_damaged(error):
            return ProblemDetail(
                DAMAGED_ROW, f"The database is damaged: {reason(error)}.", "Have its operator restore it from a backup."
            )
        case OperationalError() if is_disk_full(error):
            return ProblemDetail(
                NOT_READY, "The disk of the database is full.", "Make room there, then ask again.", headers=_SOON
            )
        case OperationalError() | PoolTimeout():
            return ProblemDetail(NOT_READY, "The database does not answer.", "Ask again later.", headers=_SOON)
        case DBAPIError() if error.connection_invalidated:
            return ProblemDetail(NOT_READY, "The database has dropped the connection.", "Ask again.", headers=_SOON)
        case _:
            return None


_CLOSE = {"Connection": "close"}
"""The rest of the body is not read, so nothing else can come over this connection."""

_SOON = {"Retry-After": "2"}


def _invalid(problems: Sequence[Problem]) -> ProblemDetail:
    detail = str(problems[0]) if len(problems) == 1 else f"{len(problems)} faults. The first: {problems[0]}"
    return ProblemDetail(INVALID_REQUEST, detail, problems[0].fix, problems)


def _parameter_problem(fault: Any) -> Problem:
    """A fault of a query parameter or header, named as the request has it: `limit`, `state[1]`."""
    _, name, *positions = fault["loc"]
    return wire_problem(fault, f"{name}{''.join(f'[{position}]' for position in positions)}")


def answer(request: Request, fault: ProblemDetail) -> Response:
    """The problem as a response."""
    body = details(fault, request.url.path, request.scope.get("state", {}).get("request_id"))
    return Response(body, fault.kind.status, dict(fault.headers or {}), MEDIA_TYPE)


def details(fault: ProblemDetail, instance: str, request_id: str | None) -> bytes:
    """The problem as its document."""
    problems = fault.problems[:SHOWN_PROBLEMS]
    document = ProblemDetails(
        type=URN + fault.kind.name,
        title=fault.kind.title,
        status=fault.kind.status,
        detail=fault.detail,
        fix=fault.fix,
        instance=instance,
        request_id=request_id,
        problems=tuple(ProblemItem(where=p.where, found=p.found, expected=p.expected, fix=p.fix) for p in problems),
    )
    return document.model_dump_json().encode()


def install(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Let `app`, which has these routers, answer errors as problems.

    What `fault_of` does not know is left to `service.border`.
    """
    app.state.methods = methods_by_path(routers)
    for error in _HANDLED:
        app.add_exception_handler(error, _handle)
    app.add_exception_handler(HTTPException, handle_http)


_HANDLED: tuple[type[Exception], ...] = (
    InvalidDocument, RequestValidationError, WrongMediaType, BodyTooLarge, UnknownCard, Unsupported, NotFound,
    OverLimit, IdempotencyConflict, OutdatedKernel, Gone, FusionInUse, Busy, DamagedArtifact, PrunedArtifact,
    UnusablePack, UntrustedPack, DamagedDocument, OperationalError, PoolTimeout, DBAPIError,
)  # fmt: skip


async def _handle(request: Request, error: Exception) -> Response:
    fault = fault_of(error)
    if fault is None:
        raise error
    if fault.kind is NOT_READY:
        request.scope.setdefault("state", {})["why"] = reason(error)
    return answer(request, fault)


async def handle_http(request: Request, error: Exception) -> Response:
    """The problem of an error that starlette raises: no such path, no such method, an unreadable form."""
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            fault = ProblemDetail(
                NOT_FOUND, f"There is nothing at {request.url.path[:200]}.", "GET /openapi.json lists paths."
            )
        case 405:
            allowed = ", ".join(request.app.state.methods.get(route_template(request.scope), ()))
            detail = f"{request.method} is not allowed here; allowed: {allowed}."
            fault = ProblemDetail(METHOD_NOT_ALLOWED, detail, "Use another method.", headers={"Allow": allowed})
        case status:
            phrase = HTTPStatus(status).phrase
            # Our routes raise errors of their own; what is left is the parser of forms.
            kind = BAD_FORM if status == 400 else ProblemType("http", status, phrase, phrase)
            fault = ProblemDetail(kind, str(error.detail), "Use the form of the page.", headers=error.headers)
    return answer(request, fault)


def methods_by_path(routers: Iterable[APIRouter]) -> dict[str, list[str]]:
    """For each path template its methods: one path may have several routes, and Allow names all of them (RFC 9110)."""
    found: dict[str, set[str]] = {}
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, Route):
            found.setdefault(route.path, set()).update(route.methods or ())
    return {path: sorted(methods | ({"HEAD"} if "GET" in methods else set())) for path, methods in found.items()}


def route_template(scope: Scope) -> str:
    """The path of the route that answers, with its parameters' names: few, however many ids there are."""
    template = getattr(scope.get("route"), "path", None)
    return template if isinstance(template, str) else "(none)"


def problems(*kinds: ProblemType) -> dict[int | str, dict[str, Any]]:
    """What a route's `responses` say of the problems it can answer."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({kind.status for kind in kinds}):
        meant = [kind for kind in kinds if kind.status == status]
        text = " ".join(f"`{kind.name}`: {kind.title}." for kind in meant)
        schema = {"$ref": "#/components/schemas/ProblemDetails"}
        found[status] = {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}
    return found
