"""A request for a kernel that was answered before is answered here: by its bytes, before anything reads them, or by
what they say, if others have asked for the same in other words.

Most of what a cached answer would take is to read the fusion, to work out its names, to find the route and to make the
view, each time with the same end. What may have changed since, the database is asked about
(`service.operations.answers`). Whatever is unusual about a request goes on to its route, with its body as it came.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fusetune.wire.patterns import IDEMPOTENCY_KEY
from service.operations.answers import Answers
from service.operations.spelled import question_of
from service.settings import Settings

MOST_IDEMPOTENCY_KEY = 255

_PATH = "/v1/tunings"
_MOST_BYTES = 32 * 1024
"""A larger body is not kept waiting here: it may come in pieces, and is rare."""

_INLINE_BYTES = 2 * 1024
"""What a smaller body asks for is worked out in less than two milliseconds, and others wait that long: less than they
would for a thread that works it out beside them. A larger one goes to a thread."""

_JSON = b"application/json"


@dataclass(frozen=True, slots=True)
class _Route:
    """What the metrics name the request by."""

    path: str


class ToldAgain:
    """The innermost layer: who asks, and how much, has been looked at."""

    def __init__(self, app: ASGIApp, answers: Answers, settings: Settings) -> None:
        self._app = app
        self._answers = answers
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != _PATH or scope["method"] != "POST" or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        usual, key = _usual(scope["headers"])
        if not usual:
            await self._app(scope, receive, send)
            return
        messages = [await receive()]
        while messages[-1].get("more_body", False):
            messages.append(await receive())
        body = b"".join(message.get("body", b"") for message in messages)
        digest = hashlib.sha256(body).digest()
        content = await self._content(digest, body, key)
        if content is None:
            scope["state"]["body_sha256"] = digest
            await self._app(scope, _replayed(messages, receive), send)
            return
        scope["route"] = _Route(_PATH)
        headers = [(b"content-length", str(len(content)).encode()), (b"content-type", _JSON)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _content(self, digest: bytes, body: bytes, idempotency_key: str | None) -> bytes | None:
        """The answer that is told again, None if there is none."""
        if (known := self._answers.question(digest)) is not None:
            return await self._answers.again(known, idempotency_key)
        asked = (body, self._answers, self._settings)
        is_small = len(body) <= _INLINE_BYTES
        question = question_of(*asked) if is_small else await run_in_threadpool(question_of, *asked)
        content = None if question is None else await self._answers.again(question, idempotency_key)
        if question is not None and content is not None:
            self._answers.note(digest, question)
        return content


def _usual(headers: list[tuple[bytes, bytes]]) -> tuple[bool, str | None]:
    """Whether a request comes as clients send it, and its Idempotency-Key."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _LOOKED_AT:
            if name in found:
                return False, None
            found[name] = value
    length = found.get(b"content-length", b"")
    if (
        b"content-encoding" in found
        or found.get(b"content-type") != _JSON
        or not length.isdigit()
        or int(length[:10]) > _MOST_BYTES
    ):
        return False, None
    key = found.get(b"idempotency-key")
    if key is None:
        return True, None
    text = key.decode("latin-1")
    return len(text) <= MOST_IDEMPOTENCY_KEY and re.match(IDEMPOTENCY_KEY, text) is not None, text


_LOOKED_AT = frozenset({b"content-type", b"content-length", b"content-encoding", b"idempotency-key"})


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    """What was received, once more, then what comes."""
    again = iter(messages)

    async def next_one() -> Message:
        for message in again:
            return message
        return await receive()

    return next_one
