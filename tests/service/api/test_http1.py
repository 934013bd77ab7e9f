"""What never reaches the application: bytes that are no HTTP, and headers without an end."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from service.http1 import MAX_HEAD_BYTES, BoundedHttp

READ = 256 * 1024
"""asyncio reads a socket by so much at once."""


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers 200 with the length of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
        if message["type"] == "http.disconnect":
            return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(str(size)))]})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(echo, http=BoundedHttp, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def exchange(port: int, *parts: bytes) -> tuple[int, bytes, bytes]:
    """Status, headers and body of the answer to bytes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is closed on us, as it should be: the answer has been sent before
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head.lower(), body


START = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="tls"),
        pytest.param(b"BREW /pot HTTP/1.1\r\n\r\n", id="method"),
        pytest.param(START + b"Content-Length: 99999999999999999999999\r\n\r\n", id="length-beyond-64-bits"),
        pytest.param(START + b"Content-Length: -1\r\n\r\n", id="negative-length"),
        pytest.param(START + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="two-lengths"),
    ],
)
def test_what_is_no_http_is_a_problem_too(port: int, sent: bytes) -> None:
    status, head, body = exchange(port, sent)
    assert status == 400
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["type"] == "urn:fusetune:problem:not-http"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"GET / HTTP/1.1\r\nX-A: ", id="header"),
        pytest.param(b"GET /", id="path"),
        pytest.param(CHUNKED + b"1\r\na\r\n0\r\nX-A: ", id="trailer"),
        pytest.param(CHUNKED + b"1;", id="chunk-extension"),
    ],
)
def test_headers_have_an_end(port: int, start: bytes) -> None:
    piece = b"a" * 8192
    status, head, body = exchange(port, start, *[piece] * ((MAX_HEAD_BYTES + 4 * READ) // len(piece)))
    # A client that goes on sending may be cut off before it has read the answer.
    assert status in (0, 400, 431)
    if status == 431:
        assert json.loads(body)["type"] == "urn:fusetune:problem:headers-too-large"
        assert b"connection: close" in head


def test_one_that_stops_at_the_limit_reads_the_answer(port: int) -> None:
    status, _, body = exchange(port, b"GET / HTTP/1.1\r\nX-A: " + b"a" * MAX_HEAD_BYTES)
    assert (status, json.loads(body)["status"]) == (431, 431)


def test_what_is_within_the_limit_passes(port: int) -> None:
    assert exchange(port, START + b"X-A: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\nContent-Length: 0\r\n\r\n")[0] == 200


@pytest.mark.parametrize("size", [0, MAX_HEAD_BYTES + 1, 20 * MAX_HEAD_BYTES])
def test_a_body_may_be_larger(port: int, size: int) -> None:
    sent = START + b"Content-Length: %d\r\n\r\n" % size
    assert exchange(port, sent, b"x" * size)[::2] == (200, str(size).encode())


def test_a_body_in_many_small_chunks(port: int) -> None:
    count = MAX_HEAD_BYTES // 4
    assert exchange(port, CHUNKED, b"1\r\na\r\n" * count, b"0\r\n\r\n")[::2] == (200, str(count).encode())
