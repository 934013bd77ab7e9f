"""While the service starts: it lives, it is not ready, and it says what it is at."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx2
import pytest

import fusetune
from service.starting import Starting


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def test_a_probe_tells_starting_from_broken(listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Starting(listener) as starting, httpx2.Client(base_url=url) as client:
        starting.at("the database")
        alive, ready = client.get("/healthz"), client.get("/readyz")
        assert (alive.status_code, ready.status_code, ready.headers["retry-after"]) == (200, 503, "2")
        assert alive.json() == ready.json()
        assert (ready.json()["status"], ready.json()["checks"]) == ("starting", {"start": "the database"})
        assert ready.json()["version"] == fusetune.__version__
        starting.at("the job queue")
        asked = client.post("/v1/tunings", json={})
        assert (asked.status_code, asked.json()["checks"]) == (503, {"start": "the job queue"})
        assert client.head("/readyz").content == b""
        assert [client.request(method, "/").status_code for method in ("PUT", "PATCH", "OPTIONS")] == [503] * 3
        with fusetune.Client(url, store=None) as ours:
            assert ours.health().status == "starting"


def test_whoever_comes_next_has_the_address(listener: socket.socket) -> None:
    with Starting(listener) as starting:
        starting.end()
    with socket.create_connection(listener.getsockname()):
        listener.settimeout(5)
        accepted, _ = listener.accept()
        accepted.close()


def test_what_is_refused_at_the_start_leaves_no_thread(listener: socket.socket) -> None:
    with pytest.raises(ValueError, match="no key"), Starting(listener) as starting:
        raise ValueError("no key")
    assert not starting._thread.is_alive()
