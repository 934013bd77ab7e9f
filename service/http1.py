"""The HTTP parser of `serve`: a bound on headers, and problem details for what never reaches the application."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.problems import HEADERS_TOO_LARGE, MEDIA_TYPE, NOT_HTTP, ProblemDetail, details

MAX_HEAD_BYTES = 64 * 1024
"""What a request line with its headers may take, or trailers; up to one read of the socket (256 KiB) more may pass."""

_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large"}


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's own, which would keep headers without an end in memory, and says what is no HTTP as plain text."""

    _unread = 0
    """Bytes that have come since the last piece of a body, or the last end of headers or of a request."""

    def data_received(self, data: bytes) -> None:
        """Takes what has come. A connection that is over the limit is answered and closed."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD_BYTES and not self.transport.is_closing():
            detail = f"The request line and headers are over {MAX_HEAD_BYTES} bytes."
            self._refuse(ProblemDetail(HEADERS_TOO_LARGE, detail, "Send less."))

    def on_headers_complete(self) -> None:
        """The request begins."""
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of its body, which `service.limits` counts."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has ended."""
        self._unread = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The answer to what cannot be parsed."""
        fix = "Send HTTP/1.1 with one Content-Length or Transfer-Encoding, in a path and headers without bare bytes."
        self._refuse(ProblemDetail(NOT_HTTP, msg, fix))

    def _refuse(self, fault: ProblemDetail) -> None:
        body = details(fault, instance="", request_id=None)
        status = fault.kind.status
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
