"""The OpenAPI document: what FastAPI reads off the routes, and what it cannot know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fusetune.wire.service import ProblemDetails
from fusetune.wire.version import VERSION
from service.openapi_examples import EXAMPLES

_DESCRIPTION = """\
Post a fusion of tensor operations, get the fastest correct kernel that a search has found for its sizes and card.

Errors are problem details (RFC 9457): `type` is stable, `problems` names each fault by its place.
"""

PATH = "/openapi.json"

_HEADERS: Mapping[str, Any] = {
    "X-Request-Id": {"description": "The client's, or one that stands in the log.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds after which to ask again.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "`Bearer`: a key is demanded.", "schema": {"type": "string"}},
}
_OF_STATUS: Mapping[str, tuple[str, ...]] = {
    "401": ("WWW-Authenticate",),
    "429": ("Retry-After",),
    "503": ("Retry-After",),
}
"""What an answer has beside X-Request-Id, which each has."""

_GENERATED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own form of a refusal, which this service never sends."""


def document(app: FastAPI) -> dict[str, Any]:
    """The document of `app`."""
    found = get_openapi(title="fusetune", version=VERSION, description=_DESCRIPTION, routes=app.routes, tags=_TAGS)
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _GENERATED:
        schemas.pop(name, None)
    details = ProblemDetails.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
    schemas |= details.pop("$defs", {})
    schemas["ProblemDetails"] = details
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Where the operator demands one."}
    }
    found["security"] = [{}, {"key": []}]
    for path in found["paths"].values():
        for operation in path.values():
            _complete(operation)
    for path, example in EXAMPLES.items():
        found["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = example
    components["headers"] = dict(_HEADERS)
    return found


def kept(app: FastAPI) -> dict[str, Any]:
    """The document of `app`, made once."""
    if not hasattr(app.state, "openapi"):
        app.state.openapi = document(app)
    found: dict[str, Any] = app.state.openapi
    return found


def _complete(operation: dict[str, Any]) -> None:
    """An operation's summary is its docstring's first sentence, not its function's name."""
    text = str(operation.get("description", "")).strip()
    first, period, _ = text.partition(". ")
    operation["summary"] = f"{first}." if period else text
    for status, response in operation["responses"].items():
        if status == "200" and response["description"] == "Successful Response":
            response["description"] = "Done."
        headers = response.setdefault("headers", {})
        for name in ("X-Request-Id", *_OF_STATUS.get(status, ())):
            headers[name] = {"$ref": f"#/components/headers/{name}"}


_TAGS = [
    {"name": "tunings", "description": "Searches."},
    {"name": "kernels", "description": "What searches have found."},
    {"name": "fusions", "description": "What was posted."},
    {"name": "spaces", "description": "What a search would look through."},
    {"name": "schedules", "description": "Explicit schedules, judged without a search."},
    {"name": "cards", "description": "GPU models and the workers that serve them."},
    {"name": "packs", "description": "Kernels in one file."},
    {"name": "audit", "description": "Who did what."},
    {"name": "health", "description": "For machines that keep watch."},
]
