"""What is answered while the service starts: that it does, and what it is at. A probe tells that from a broken one.

The address is bound first. Until a process with the application accepts connections, `/healthz` answers 200 and
everything else 503, with `Retry-After`: the process lives, and is not ready.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from types import TracebackType
from typing import Self

import structlog

from fusetune.wire.service import Health
from fusetune.wire.version import VERSION

news = structlog.get_logger("service")

_ALIVE = "/healthz"
_RETRY_AFTER_S = "2"
_POLL_S = 0.05
_PATIENCE_S = 5.0
"""How long a client may take to send its request."""


class Starting:
    """Answers on a listening socket from entry to `end`, or exit; others may accept on it before, and do afterwards."""

    def __init__(self, listener: socket) -> None:
        self._at = ""
        self._server = ThreadingHTTPServer(("", 0), self._handler(), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="starting", daemon=True
        )

    def at(self, what: str, **facts: str) -> None:
        """What is done now; it stands in the log too."""
        self._at = what
        news.info(f"starting: {what}", **facts)

    def end(self) -> None:
        """Answers no more, from now on; once is enough."""
        self._server.shutdown()
        self._thread.join()

    def __enter__(self) -> Self:
        self._server.socket.setblocking(False)  # whoever else accepts may have been quicker
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        starting = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE_S

            def do_GET(self) -> None:
                health = Health(status="starting", checks={"start": starting._at}, version=VERSION)
                content = health.model_dump_json().encode()
                is_alive = self.path.partition("?")[0] == _ALIVE
                self.send_response(200 if is_alive else 503)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if not is_alive:
                    self.send_header("Retry-After", _RETRY_AFTER_S)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_HEAD = do_POST = do_DELETE = do_PUT = do_PATCH = do_OPTIONS = do_GET  # noqa: N815 (the names that http.server looks for)

            def log_message(self, format: str, *args: object) -> None:
                """Probes of a start are not worth a line each."""

        return Handler
