"""The page about the REST API, made from its OpenAPI document: nothing of it is loaded from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from service.openapi_words import kind_of

_MARKS = re.compile(r"\[([^\]]+)\]\(#([^)]+)\)|`([^`]+)`")


@dataclass(frozen=True, slots=True)
class ApiLine:
    """A parameter, an answer or a field: its name, what kind of thing it is, what it means."""

    name: str
    kind: Markup
    meaning: Markup


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """What one method of a path does."""

    id: str
    method: str
    path: str
    summary: Markup
    text: Markup
    parameters: tuple[ApiLine, ...]
    body: Markup | None
    example: str | None
    answers: tuple[ApiLine, ...]


@dataclass(frozen=True, slots=True)
class ApiType:
    """A type of the document and its fields."""

    name: str
    text: Markup
    fields: tuple[ApiLine, ...]
    kind: Markup


@dataclass(frozen=True, slots=True)
class ApiPage:
    """Operations by subject, then the types."""

    version: str
    subjects: tuple[tuple[str, str, tuple[ApiOperation, ...]], ...]
    types: tuple[ApiType, ...]


def api_page(document: Mapping[str, Any]) -> ApiPage:
    """The page of an OpenAPI document."""
    operations = [
        (operation["tags"][0], _operation(method, path, operation))
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    subjects = tuple(
        (tag["name"], tag["description"], tuple(one for name, one in operations if name == tag["name"]))
        for tag in document["tags"]
    )
    schemas = document["components"]["schemas"]
    types = tuple(_type(name, schemas[name]) for name in sorted(schemas))
    return ApiPage(document["info"]["version"], subjects, types)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> ApiOperation:
    bodies = operation.get("requestBody", {}).get("content", {})
    body = bodies.get("application/json")
    text = operation.get("description", "").strip()
    return ApiOperation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=shown(operation["summary"]),
        text=shown(text.removeprefix(operation["summary"]).strip()),
        parameters=tuple(
            ApiLine(one["name"], shown(f"{one['in']}, {kind_of(one['schema'])}"), shown(one.get("description", "")))
            for one in operation.get("parameters", ())
        ),
        body=_content(bodies) if bodies else None,
        example=None if body is None or "example" not in body else _example(body["example"]),
        answers=tuple(
            ApiLine(status, _content(one.get("content", {})), shown(one["description"]))
            for status, one in sorted(operation["responses"].items())
        ),
    )


def _example(body: Mapping[str, Any]) -> str:
    """JSON, a line for each field."""
    fields = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in body.items())
    return f"{{\n{fields}\n}}"


def _content(content: Mapping[str, Any]) -> Markup:
    kinds = [
        f"`{name}`"
        if one.get("schema", {}).get("format") == "binary" or not one.get("schema")
        else kind_of(one["schema"])
        for name, one in content.items()
    ]
    return shown(", ".join(kinds))


def _type(name: str, schema: Mapping[str, Any]) -> ApiType:
    required = set(schema.get("required", ()))
    return ApiType(
        name=name,
        text=shown(" ".join(schema.get("description", "").split())),
        fields=tuple(
            ApiLine(
                field,
                shown(kind_of(one)),
                shown("required" if field in required else f"`{json.dumps(one.get('default'))}`"),
            )
            for field, one in schema.get("properties", {}).items()
        ),
        kind=shown(kind_of(schema)),
    )


def shown(text: str) -> Markup:
    """Text of the document as HTML: its code and its links to types, everything else as it stands."""
    found, done = Markup(), 0
    for match in _MARKS.finditer(text):
        found += escape(text[done : match.start()])
        name, anchor, code = match.groups()
        found += Markup("<code>{}</code>").format(code) if code else Markup('<a href="#{}">{}</a>').format(anchor, name)
        done = match.end()
    return found + escape(text[done:])
