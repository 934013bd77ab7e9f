"""The outermost layer of the application: what happens to every request, whatever answers it.

A request gets an id, a line in the log, its place in the metrics and the headers that every answer has. An error that
nobody expected ends here: it is logged with its traceback, and answered with the id alone.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.db.unready import reason
from service.metrics import Metrics
from service.problems import INTERNAL, ProblemDetail, answer, fault_of, route_template

log = structlog.get_logger("service")

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked every few seconds by machines: in the log only if the answer is an error."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
}
"""For answers that do not set them themselves, as pages do."""


class Border:
    """Pure ASGI, because a wrapper around each response would slow the hot answers by more than they take."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, answer: Callable[[Request, ProblemDetail], Response] = answer
    ) -> None:
        """`answer` makes the response of what nobody below has translated."""
        self._app = app
        self._metrics = metrics
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status: int | None = None

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _complete(message, request_id)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except ClientDisconnect:
            pass  # in the middle of its own request: there is nobody to answer
        except Exception as error:
            # Routes have translated theirs already; the gate and other layers have not.
            fault = None if status is not None else fault_of(error)
            if fault is None:
                log.exception("request failed", request_id=request_id, method=scope["method"], path=_path(scope))
            if status is not None:
                raise  # half an answer is out: the server drops the connection, so that it cannot pass for a whole one
            if fault is not None:
                scope["state"]["why"] = reason(error)
            await self._answer(Request(scope), fault or _internal(request_id))(scope, receive, sent)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int | None, seconds: float) -> None:
        template = route_template(scope)
        self._metrics.request(template, scope["method"], status, seconds)
        if template in _QUIET and status is not None and status < 400:
            return
        facts: dict[str, Any] = {"method": scope["method"], "path": _path(scope), "status": status}
        state = scope["state"]
        if "why" in state:  # the answer says only that the database did not do its part
            facts["why"] = state["why"]
        log.info(
            "request", **facts, ms=round(1000 * seconds, 1), actor=state.get("actor"), request_id=state["request_id"]
        )


def _internal(request_id: str) -> ProblemDetail:
    detail = f"Something went wrong here, not in the request. The log has it under {request_id}."
    return ProblemDetail(INTERNAL, detail, "Report it with the request id.")


def _path(scope: Scope) -> str:
    """The path without its query, which may hold anything, cut to a line."""
    return str(scope["path"])[:200]


def _request_id(scope: Scope) -> str:
    """The client's X-Request-Id if it can stand in a log, else a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _complete(message: Message, request_id: str) -> None:
    headers = MutableHeaders(raw=message["headers"])
    headers["X-Request-Id"] = request_id
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    message["headers"] = headers.raw
