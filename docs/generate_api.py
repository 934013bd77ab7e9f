"""`make docs`: writes docs/api.md, the reference of the REST API, from its OpenAPI document."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from fusetune.wire.fusion import MODEL_OF_OP, Input, Output
from service.app import create_app
from service.openapi import document
from service.openapi_examples import EXAMPLES
from service.openapi_words import kind_of
from service.problems import KINDS, MEDIA_TYPE, URN
from service.routes.dependencies import ALWAYS
from service.settings import Settings

PAGE = Path(__file__).with_name("api.md")

HEAD = """\
# REST API

What the service answers over HTTP, made from its OpenAPI document (`make docs`; a running service has the document
under `/openapi.json`, and a page of it under `/docs`). `python -m service serve` listens on `http://127.0.0.1:8765`
unless told otherwise. From Python the SDK is shorter.

- Bodies are JSON in UTF-8, `Content-Type: application/json`. Unknown fields and query parameters are refused, and so
  are repeated fields and NaN.
- Where the operator demands a key: `Authorization: Bearer KEY`. A browser gets it into a cookie at `/login`. Without a
  key, a service on loopback answers to loopback names only, and takes no changes from pages of other sites.
- Times are microseconds (`_us`) or seconds (`_s`), moments are UTC. Every answer has an `X-Request-Id`; the client may
  choose it.
- Lists come in pages: `next` is the `after` of the next one, null at the end.
"""

PROBLEMS = """\
## Problems

Errors are problem details (RFC 9457), `application/problem+json`. `type` is `{urn}` and one of these
names; programs may branch on it. `detail` says what was found, `fix` what to do, `problems` lists every fault of a
request with its place, such as `fusion.ops[3].in[1]`.

Not listed with each endpoint, because every one can answer them: {always}.
"""

_NOT_LISTED = {model.__name__ for model in MODEL_OF_OP.values()} | {Input.__name__, Output.__name__}
"""Types that are parts of a fusion document."""

_FUSION = "A document `fusetune.fusion/1`: see [contracts.md](contracts.md#fusion)."


def api_page() -> str:
    """The page as it should stand in docs/api.md: the endpoints by subject, then the types, then the problems."""
    api = _document()
    parts = [HEAD]
    for tag in api["tags"]:
        parts.append(f"## Endpoints: {tag['name']}\n\n{tag['description']}\n")
        parts += [
            _endpoint(method, path, operation)
            for path, item in api["paths"].items()
            for method, operation in item.items()
            if tag["name"] in operation["tags"]
        ]
    parts.append("## Types\n")
    schemas = api["components"]["schemas"]
    parts += [_type(name, schemas[name]) for name in sorted(schemas) if name not in _NOT_LISTED]
    always = ", ".join(f"`{kind.name}`" for kind in ALWAYS)
    parts.append(PROBLEMS.format(urn=URN, always=always))
    parts.append(_table(("name", "status", "meaning"), ((f"`{k.name}`", str(k.status), k.meaning) for k in KINDS)))
    return "\n".join(parts)


def _document() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:  # the application is only asked about itself: nothing is written
        return document(create_app(Settings(data_dir=Path(folder))))


def _endpoint(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [f"### `{method.upper()} {path}`\n", f"{operation['description'].strip()}\n"]
    if parameters := operation.get("parameters"):
        rows = ((f"`{p['name']}`", p["in"], kind_of(p["schema"]), p.get("description", "")) for p in parameters)
        parts.append(_table(("parameter", "in", "type", "meaning"), rows))
    if body := operation.get("requestBody"):
        parts.append(f"Body: {', '.join(starmap(_body, body['content'].items()))}.\n")
    parts.append(_table(("answer", "body", "meaning"), _answers(operation["responses"])))
    parts.append(_example(method, path))
    return "\n".join(parts)


def _answers(responses: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of the problems that every endpoint can answer, the page speaks once."""
    for status, response in sorted(responses.items()):
        content = response.get("content", {})
        if MEDIA_TYPE not in content:
            yield status, ", ".join(starmap(_body, content.items())), response["description"]
            continue
        names = [kind.name for kind in KINDS if f"`{kind.name}`" in response["description"] and kind not in ALWAYS]
        if names:
            yield status, kind_of(content[MEDIA_TYPE]["schema"]), ", ".join(f"`{name}`" for name in names)


def _body(media_type: str, content: Mapping[str, Any]) -> str:
    return (
        kind_of(content["schema"]) if media_type == "application/json" and content.get("schema") else f"`{media_type}`"
    )


def _example(method: str, path: str) -> str:
    url = f"http://127.0.0.1:8765{path}"
    if path in EXAMPLES and method == "post":
        body = json.dumps(EXAMPLES[path])
        lines = ["curl -H 'Content-Type: application/json' \\", f"  -d '{body}' \\", f"  {url}"]
    elif (method, path) == ("post", "/v1/pack"):
        lines = [f"curl --data-binary @kernels.ftpack {url}"]
    else:
        options = "" if method == "get" else f" -X {method.upper()}"
        lines = [f"curl{' -N' if path.endswith('/events') else ''}{options} {url}"]
    return "\n".join(["```sh", *lines, "```", ""])


def _type(name: str, schema: Mapping[str, Any]) -> str:
    text = _FUSION if name == "Fusion" else " ".join(schema.get("description", "").split())
    parts = [f"### {name}\n", f"{text}\n"]
    if name != "Fusion" and (fields := schema.get("properties")):
        required = set(schema.get("required", ()))
        rows = ((f"`{field}`", kind_of(one), _default(field, one, required)) for field, one in fields.items())
        parts.append(_table(("field", "type", "default"), rows))
    elif name != "Fusion" and "properties" not in schema:
        parts.append(f"Is: {kind_of(schema)}.\n")
    return "\n".join(parts)


def _default(field: str, schema: Mapping[str, Any], required: set[str]) -> str:
    if field in required:
        return "required"
    return f"`{json.dumps(schema.get('default'))}`"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(api_page(), encoding="utf-8")
