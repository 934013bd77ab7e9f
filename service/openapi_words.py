"""Schemas of the OpenAPI document in words, as Markdown: for docs/api.md and for the page about the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_LIMITS = (("minimum", "≥ {}"), ("maximum", "≤ {}"), ("minLength", "≥ {} characters"), ("maxLength", "≤ {} characters"))


def kind_of(schema: Mapping[str, Any]) -> str:
    """A schema in words: `integer ≥ 1`, `array of TrialView`, `text or null`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(kind_of(choice) for choice in choices))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    limits = [text.format(f"{schema[name]:.15g}") for name, text in _LIMITS if name in schema]
    return " ".join([_base(schema), *limits])


def _base(schema: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            return f"array of {kind_of(schema.get('items', {}))}"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {kind_of(values)}" if isinstance(values, Mapping) else "object"
        case "string":
            return {"date-time": "moment", "base64": "base64 text"}.get(schema.get("format", ""), "text")
        case str(name):
            return name
        case _:
            return "any"
