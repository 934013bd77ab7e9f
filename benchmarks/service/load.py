"""A load of HTTP requests over plain sockets: the client shall take little of the two cores that it shares."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Thread

_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a load: answers a second, and percentiles of their times in milliseconds."""

    rate: float
    p50_ms: float
    p99_ms: float
    wrong: int
    """Answers with another status than 200."""


class Connection:
    """One connection that is kept alive."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a whole request; status and body of the answer. Raises ConnectionError."""
        self._socket.sendall(request)
        found = bytearray()
        while (end := found.find(b"\r\n\r\n")) < 0:
            found += self._some()
        head = bytes(found[:end]).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(found) < end + 4 + length:
            found += self._some()
        return int(head[9:12]), bytes(found[end + 4 :])

    def _some(self) -> bytes:
        part = self._socket.recv(_READ)
        if not part:
            raise ConnectionError("the server has closed the connection")
        return part

    def close(self) -> None:
        """Ends it."""
        self._socket.close()


def post(path: str, body: object, key: str) -> bytes:
    """A request with a body, as it goes over the wire."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


def get(path: str, key: str) -> bytes:
    """A request without one."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def zipf(count: int, draws: int, seed: int) -> list[int]:
    """Numbers below `count`, number k drawn with a weight of 1 / (k + 1)."""
    weights = [1 / (k + 1) for k in range(count)]
    return random.Random(seed).choices(range(count), weights, k=draws)


def run(host: str, port: int, connections: int, seconds: float, requests: Callable[[int], Sequence[bytes]]) -> Told:
    """So many connections ask for so long, each its own `requests(connection)` in turn, one at a time."""
    times: list[list[float]] = [[] for _ in range(connections)]
    wrong = [0] * connections

    def ask(number: int) -> None:
        asked, connection = requests(number), Connection(host, port)
        until, n = time.perf_counter() + seconds, 0
        while (began := time.perf_counter()) < until:
            status, _ = connection.ask(asked[n % len(asked)])
            times[number].append(time.perf_counter() - began)
            wrong[number] += status != 200
            n += 1
        connection.close()

    threads = [Thread(target=ask, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    every = sorted(one for each in times for one in each)
    at = [1000 * every[min(len(every) - 1, int(len(every) * share))] for share in (0.5, 0.99)]
    return Told(len(every) / seconds, at[0], at[1], sum(wrong))
