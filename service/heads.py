"""HEAD: what GET would answer, without the content. Whoever has GET must have it (RFC 9110, 9.1)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """Asks the application for GET and lets the head of the answer pass; of a stream, too, nothing follows it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def head(message: Message) -> None:
            # With its end the server tells the application that nobody listens, so a stream does not go on.
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        try:
            await self._app(asked, receive, head)
        finally:
            if "route" in asked:  # what the metrics name the request by
                scope["route"] = asked["route"]
