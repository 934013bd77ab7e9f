"""Routes that take what their models say and nothing else.

FastAPI would read a body more kindly: repeated fields, NaN, other encodings, field names of ours beside those of the
wire; and it would pass over query parameters that no route knows, which hides spelling mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from email.message import Message
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from fusetune.wire.advice import nearest
from fusetune.wire.parse import decode, read
from fusetune.wire.problems import InvalidDocument, NotJson, Problem
from service.problems import WrongMediaType
from service.routes.dependencies import EVERYWHERE

_ROOT = "body"
_INLINE_BYTES = 32 * 1024
"""Larger bodies are parsed in a thread: they would hold up the event loop for milliseconds."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """Parses the body by `fusetune.wire.parse` and checks the names of query parameters, then goes on as usual."""

    def get_route_handler(self) -> Handler:
        """The handler behind both checks."""
        handle = super().get_route_handler()
        model: Any = None if self.body_field is None else self.body_field.field_info.annotation
        parameters = {f.alias: _is_list(f.field_info.annotation) for f in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            if problems := tuple(_parameter_problems(request, parameters)):
                raise InvalidDocument(problems)
            if model is not None:
                request = _Parsed(request, await _body(request, model))
            return await handle(request)

        return strict


def strict_router(tag: str, prefix: str = "", responses: Mapping[int | str, dict[str, Any]] = EVERYWHERE) -> APIRouter:
    """A router of strict routes. Its operations are called as the functions that answer them; a test sees that no two
    are called the same."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=StrictRoute,
        responses=dict(responses),
        generate_unique_id_function=lambda route: route.name,
    )


class _Parsed(Request):
    """A request whose JSON is the checked model: FastAPI validates it again, which for an instance does nothing."""

    def __init__(self, request: Request, value: BaseModel) -> None:
        super().__init__(request.scope, request.receive)
        self._value = value

    async def body(self) -> bytes:
        """Not empty, which is all that is asked."""
        return b"{}"

    async def json(self) -> Any:
        """The model."""
        return self._value


async def _body(request: Request, model: type[BaseModel]) -> BaseModel:
    """The body as a model. Raises WrongMediaType, BodyTooLarge, NotJson and InvalidDocument."""
    found = request.headers.get("content-type", "")
    if not _is_json(found):
        raise WrongMediaType(found[:80] or "no content type", "Send Content-Type: application/json.")
    if (packed := request.headers.get("content-encoding", "")).lower() not in ("", "identity"):
        raise WrongMediaType(f"Content-Encoding: {packed[:80]}", "Send it uncompressed, without Content-Encoding.")
    content = await request.body()
    if len(content) > _INLINE_BYTES:
        return await run_in_threadpool(_parse, content, model)
    return _parse(content, model)


def _parse(content: bytes, model: type[BaseModel]) -> BaseModel:
    if not content:
        expected = f"a {model.__name__} as JSON"
        raise NotJson((Problem(_ROOT, "nothing: the body is empty", expected, "Send the request in the body."),))
    return read(model, decode(content, _ROOT), _ROOT)


def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    charset = message.get_param("charset", "utf-8")
    return message.get_content_type() == "application/json" and str(charset).lower() in ("utf-8", "utf8", "us-ascii")


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (list, tuple)


def _parameter_problems(request: Request, known: dict[str, bool]) -> Iterator[Problem]:
    """Parameters that the route does not have, and repeated ones of which it takes one."""
    for name in request.query_params:
        values = request.query_params.getlist(name)
        if name not in known:
            expected = f"one of {', '.join(sorted(known))}" if known else "no parameters"
            fix = f"{nearest(name, sorted(known))}Remove it."
            yield Problem(name[:80], "an unknown query parameter", expected, fix)
        elif len(values) > 1 and not known[name]:
            yield Problem(name, f"{len(values)} values", "one value", "Give it once.")
