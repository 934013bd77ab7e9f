"""The OpenAPI document: what FastAPI reads off the routes, and what it cannot know."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fusetune.wire.service import API_VERSION, ProblemDetails

_DESCRIPTION = """\
Post a fusion of tensor operations, get the fastest correct kernel that a search has found for its sizes and card.

Errors are problem details (RFC 9457): `type` is stable, `problems` names each fault by its place.
"""

PATH = "/openapi.json"

_GENERATED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own form of a refusal, which this service never sends."""


def document(app: FastAPI) -> dict[str, Any]:
    """The document of `app`."""
    found = get_openapi(title="fusetune", version=API_VERSION, description=_DESCRIPTION, routes=app.routes, tags=_TAGS)
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
    return found


def _complete(operation: dict[str, Any]) -> None:
    """An operation's summary is its docstring's first sentence, not its function's name."""
    text = str(operation.get("description", "")).strip()
    first, period, _ = text.partition(". ")
    operation["summary"] = f"{first}." if period else text
    for status, response in operation["responses"].items():
        if status == "200" and response["description"] == "Successful Response":
            response["description"] = "Done."


_TAGS = [
    {"name": "tunings", "description": "Searches."},
    {"name": "kernels", "description": "What searches have found."},
    {"name": "fusions", "description": "What was posted."},
    {"name": "spaces", "description": "What a search would look through."},
    {"name": "schedules", "description": "Explicit schedules, judged without a search."},
    {"name": "cards", "description": "GPU models and the workers that serve them."},
    {"name": "audit", "description": "Who did what."},
    {"name": "health", "description": "For machines that keep watch."},
]
