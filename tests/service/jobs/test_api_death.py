"""The API process is killed in the middle of a tuning: the worker goes on, and the next API process finds it all."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest

from search.tuning.trial import TrialState
from tests.nursery import Forked
from tests.service.jobs.sites import BINDING, DEADLINE_S, Site, fusion_of, until

SERVE = """
import socket, sys, uvicorn
from service.app import create_app
from service.settings import Settings
config = uvicorn.Config(create_app(Settings()), log_level="warning")
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""


class Api:
    """The service at one address, whichever process answers there."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._process: Forked | None = None
        host, port = self._socket.getsockname()
        self.client = httpx2.Client(base_url=f"http://{host}:{port}", timeout=DEADLINE_S)

    def start(self) -> None:
        """Answers once the process is up: until then requests wait in the socket's queue."""
        environment = {
            **self._site.environment(),
            "FUSETUNE_HEARTBEAT_S": "5",  # a worker that is busy starting is not taken for dead
        }
        fd = self._socket.fileno()
        files = {1: 1, 2: 2, fd: fd}
        self._process = self._site.nursery.process(SERVE, [str(fd)], environment, self._site.folder, files)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            assert self._process.wait() == -signal.SIGKILL
            self._process = None

    def get(self, path: str) -> Any:
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        self.client.close()
        self.kill()
        self._socket.close()


@pytest.fixture
def api(site: Site) -> Iterator[Api]:
    with closing(Api(site)) as api:
        yield api


def test_a_tuning_survives_the_death_of_the_api(site: Site, api: Api) -> None:
    site.worker()
    api.start()
    until(lambda: [worker for card in api.get("/v1/cards")["items"] for worker in card["workers"]], "the worker")
    request = {"fusion": fusion_of("square"), "binding": BINDING, "budget_s": 12, "trials": 14}
    posted = api.client.post("/v1/tunings", json=request)
    assert posted.status_code == 202, posted.text
    tuning_id = posted.json()["id"]
    seen = site.at_least(3, tuning_id)
    api.kill()

    row = site.ended(tuning_id)
    assert (row.state, row.error) == ("done", None)
    found = site.trials(tuning_id)
    assert [(t.number, t.candidate, t.state) for t in found[: len(seen)]] == [
        (t.number, t.candidate, t.state) for t in seen
    ]

    api.start()
    view = api.get(f"/v1/tunings/{tuning_id}")
    assert (view["state"], view["kernel"]) == ("done", row.kernel_id)
    assert view["trials"]["measured"] == sum(trial.state is TrialState.MEASURED for trial in found)
    answer = api.client.post("/v1/tunings", json=request)
    assert (answer.status_code, answer.json()["id"]) == (200, row.kernel_id)
