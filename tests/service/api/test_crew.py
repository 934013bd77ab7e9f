"""`serve --workers`: each process tells what any of them has acknowledged; where one dies the others answer."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest

from service import crew
from service.db.engine import Database
from tests.nursery import Forked, Nursery
from tests.service.api.test_serve import is_running, serving, wait_for
from tests.service.api.world import REQUEST, store_kernel, world
from tests.service.databases import KINDS, created, new_file

WORKERS = 2


def processes(parent: int) -> list[int]:
    """Those that answer: the children of the process that was started."""
    tasks = Path(f"/proc/{parent}/task")
    found = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return sorted(map(int, found))


@contextmanager
def only(pid: int, among: list[int]) -> Iterator[None]:
    """Nobody but `pid` runs, so a connection that is opened now is its own."""
    others = [one for one in among if one != pid]
    for one in others:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in others:
            os.kill(one, signal.SIGCONT)


@contextmanager
def connected(parent: int, url: str) -> Iterator[list[httpx2.Client]]:
    """A connection to each process."""
    every = processes(parent)
    assert len(every) == WORKERS
    with ExitStack() as stack:
        clients = []
        for pid in every:
            client = stack.enter_context(httpx2.Client(base_url=url, timeout=30))
            with only(pid, every):
                assert client.get("/healthz").status_code == 200
            clients.append(client)
        yield clients


@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.long)])
def test_what_is_published_is_what_every_process_answers(
    tmp_path: Path, nursery: Nursery, kind: str, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        url = new_file(tmp_path)
        if kind == "postgresql":
            template: str = request.getfixturevalue("postgres_template")
            url = stack.enter_context(created(request.getfixturevalue("postgres"), template))
        db = stack.enter_context(Database(url))
        row = store_kernel(db)
        options = ("--workers", str(WORKERS), "--database-url", url)
        process, address = stack.enter_context(serving(nursery, tmp_path, *options))
        clients = stack.enter_context(connected(process.pid, address))
        key = {"fingerprint": row.fingerprint, "binding": row.binding, "card": "H200"}
        for round in range(10):
            row = store_kernel(db, f"// {round}", median_us=9.0 - round / 2)  # acknowledged: the commit is back
            for client in clients:
                assert told(client.post("/v1/tunings", json=REQUEST)) == row.id
                assert told(client.post("/v1/kernels/lookup", json={"keys": [key]}))[0]["id"] == row.id
                assert told(client.get("/v1/kernels"))[0]["id"] == row.id
                assert client.get(f"/v1/kernels/{row.id}").status_code == 200
        for client in clients:
            counted = re.findall(r'requests_total\{method="POST",route="/v1/tunings".*\} (\S+)', metrics(client))
            assert [float(one) for one in counted] == [10 * WORKERS]
        every = processes(process.pid)
        process.kill()
        wait_for(lambda: not any(map(is_running, every)))  # nobody is left behind


@dataclass(frozen=True, slots=True)
class Crew:
    """A service of several processes, what it said of its health while it started, and its folder."""

    process: Forked
    url: str
    seen: list[tuple[str, str]]
    folder: Path


@pytest.fixture(scope="module")
def crew_of_two(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """The last test that uses it ends it."""
    folder = tmp_path_factory.mktemp("crew")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    seen: list[tuple[str, str]] = []

    def look() -> None:
        while not seen or seen[-1][0] != "ok":
            with suppress(httpx2.ConnectError):  # only before there is an address
                health = httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=60).json()
                seen.append((health["status"], health.get("checks", {}).get("start", "")))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        with serving(nursery, folder, "--port", str(port), "--workers", str(WORKERS)) as (process, url):
            looking.join(60)
            yield Crew(process, url, [*seen], folder)
    finally:
        seen.append(("ok", ""))  # whatever has happened, nobody looks any longer
        looking.join(60)


def test_until_the_first_process_answers_it_is_said_that_they_start(crew_of_two: Crew) -> None:
    assert ("starting", "the processes that answer") in crew_of_two.seen
    assert {status for status, _ in crew_of_two.seen} == {"starting", "ok"}
    assert crew_of_two.seen[-1][0] == "ok"


def test_who_outlives_the_one_that_started_it_still_answers(tmp_path: Path) -> None:
    heard, ready = os.pipe()
    os.close(heard)
    crew._tell(ready)  # nobody listens any more
    with world(tmp_path) as service, patch("prometheus_client.Counter.labels", side_effect=FileNotFoundError):
        assert service.client.get("/healthz").status_code == 200  # although the folder of the metrics is gone


def told(answer: httpx2.Response) -> Any:
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found.get("id") or found.get("kernels") or found.get("items")


def metrics(client: httpx2.Client) -> str:
    return client.get("/metrics").text


def test_a_process_that_dies_is_replaced_and_counted_on_while_the_others_answer(crew_of_two: Crew) -> None:
    process, url = crew_of_two.process, crew_of_two.url
    first, second = processes(process.pid)
    with connected(process.pid, url) as clients:
        before = asked_for_health(clients[0])
        os.kill(first, signal.SIGKILL)
        assert clients[1].get("/healthz").status_code == 200
        wait_for(lambda: len(set(processes(process.pid)) - {first}) == WORKERS)
        with httpx2.Client(base_url=url, timeout=60) as client, only(first, [second]):
            assert client.get("/healthz").status_code == 200  # the new one: nobody else runs
            assert asked_for_health(client) == before + 2
    every = processes(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert not any(map(is_running, every))
    said = (crew_of_two.folder / "stderr").read_text()
    assert re.search(r"answering process \d ended, it is started again", said)
    assert "Traceback" not in said


def asked_for_health(client: httpx2.Client) -> float:
    """How often all processes have answered that since the start."""
    found = re.search(r'route="/healthz",status="200"\} (\S+)', said := metrics(client))
    assert found, said
    return float(found[1])
