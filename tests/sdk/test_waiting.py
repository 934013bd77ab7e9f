from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from fusetune import errors
from fusetune.client import Client
from fusetune.waiting import Pace, events
from fusetune.wire.service import TuningView
from tests.sdk.fake_service import URL, FakeService, bias_gelu, event, problem

FUSION = bias_gelu()
QUICK = Pace(silence_s=1.0, poll_s=0.001, patience_s=0.2)
CUT = httpx2.ReadError("cut")


def wait(service: FakeService, pace: Pace = QUICK, **settings: Any) -> list[TuningView]:
    """Tunes; returns the states that were told."""
    seen: list[TuningView] = []
    with Client(URL, store=None, transport=service.transport(), pace=pace) as client:
        client.tune(FUSION, binding={"M": 8}, progress=seen.append, **settings)
    return seen


def asked_for(service: FakeService, what: str) -> int:
    """How often the event stream (`events`) or the tuning itself (`tuning`) was asked for."""
    return sum(path.endswith("/events") is (what == "events") for path in service.asked() if "/v1/tunings/" in path)


def test_a_whole_stream_is_enough() -> None:
    service = FakeService()
    assert [view.state for view in wait(service)] == ["queued", "running", "done"]
    assert (asked_for(service, "events"), asked_for(service, "tuning")) == (1, 0)


def test_what_has_changed_is_taken_over_what_was_there() -> None:
    service = FakeService()

    def changes(request: httpx2.Request) -> None:
        if request.url.path.endswith("/events"):
            assert request.url.query == b"changes=true"
            tuning = next(iter(service.requests))
            change = 'event: change\ndata: {"state": "running", "phase": "timing", "spent_s": 2.5}\n\n'
            service.streams = [[event(service._step(tuning, 0)), change, event(service._step(tuning, 2), "end")]]

    service.meddle = changes
    seen = wait(service)
    assert [(view.state, view.phase, view.spent_s) for view in seen[:2]] == [
        ("queued", "", 0.0),
        ("running", "timing", 2.5),
    ]
    assert seen[1].card == seen[0].card
    assert seen[-1].state == "done"


@pytest.mark.parametrize(
    "end", [pytest.param([CUT], id="error"), pytest.param([], id="closed"), pytest.param(["event: pro"], id="half")]
)
def test_a_cut_stream_is_opened_again(end: list[str | Exception]) -> None:
    service = FakeService()
    service.steps += [{"state": "running", "phase": f"phase {i}"} for i in range(3)]
    meddled: list[str] = []

    def cut_after_one(request: httpx2.Request) -> None:
        if request.url.path.endswith("/events") and not meddled:
            meddled.append("cut")
            tuning = next(iter(service.requests))
            service.streams = [[": hi\n\n", event(service._step(tuning, 1)), *end]]
        elif request.url.path.endswith("/events"):
            service.streams = None

    service.meddle = cut_after_one
    seen = wait(service)
    assert seen[-1].state == "done"
    assert asked_for(service, "events") == 2


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(lambda: problem(404, "not-found"), id="no-such-route"),
        pytest.param(lambda: httpx2.Response(200, text="<html>"), id="no-stream"),
        pytest.param(
            lambda: httpx2.Response(200, text="data: {}\n\n", headers={"content-type": "text/event-stream"}),
            id="no-tuning",
        ),
    ],
)
def test_where_there_is_no_stream_the_tuning_is_asked_for(stream: Callable[[], httpx2.Response]) -> None:
    service = FakeService(lambda request: stream() if request.url.path.endswith("/events") else None)
    service.steps += [{"state": "running", "phase": f"phase {i}"} for i in range(3)]
    assert [view.phase for view in wait(service)] == ["", "timing", "phase 0", "phase 1", "phase 2", ""]
    assert asked_for(service, "events") == 1


def test_streams_that_bring_nothing_are_given_up() -> None:
    service = FakeService()
    service.steps += [{"state": "running", "phase": f"phase {i}"} for i in range(8)]
    service.streams = [[CUT]] * 100
    assert wait(service)[-1].state == "done"
    assert asked_for(service, "events") == 3


def test_a_service_that_restarts_meanwhile_is_waited_for() -> None:
    service = FakeService()
    away = iter(range(6))

    def restarting(request: httpx2.Request) -> httpx2.Response | None:
        if request.method == "GET" and "/tunings/" in request.url.path and next(away, None) is not None:
            raise httpx2.ConnectError("refused")
        return None

    service.meddle = restarting
    assert wait(service)[-1].state == "done"
    assert next(away, None) is None
    assert service.asked()[-3].endswith("/events")  # and its streams are used again


def test_a_service_that_stays_away_is_an_error_in_the_end() -> None:
    service = FakeService()

    def gone(request: httpx2.Request) -> None:
        if request.method == "GET":
            raise httpx2.ConnectError("refused")

    service.meddle = gone
    started = time.monotonic()
    with pytest.raises(errors.ServerUnreachable, match="GET /v1/tunings") as caught:
        wait(service)
    assert 0.2 <= time.monotonic() - started < 5
    assert "goes on in the service" in caught.value.__notes__[0]


@pytest.mark.parametrize("streams", [pytest.param(True, id="stream"), pytest.param(False, id="questions")])
def test_the_deadline_ends_the_wait_and_not_the_tuning(streams: bool) -> None:
    service = FakeService()
    service.ends = {"state": "running", "phase": "still"}

    class Comments(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            while True:
                time.sleep(0.005)
                yield b": keep-alive\n\n"

    def meddle(request: httpx2.Request) -> httpx2.Response | None:
        if not request.url.path.endswith("/events"):
            return None
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, stream=Comments(), headers=headers) if streams else problem(404, "not-found")

    service.meddle = meddle
    with pytest.raises(errors.TuningTimedOut, match=r"Client\.wait") as caught:
        wait(service, timeout_s=0.1)
    assert (caught.value.tuning_id, caught.value.after_s) == (next(iter(service.requests)), 0.1)
    assert "DELETE" not in " ".join(service.asked())


def test_ctrl_c_leaves_the_tuning_running_and_names_it() -> None:
    def interrupt(view: TuningView) -> None:
        if view.state == "running":
            raise KeyboardInterrupt

    service = FakeService()
    with (
        Client(URL, store=None, transport=service.transport(), pace=QUICK) as client,
        pytest.raises(KeyboardInterrupt) as caught,
    ):
        client.tune(FUSION, binding={"M": 8}, progress=interrupt)
    tuning = next(iter(service.requests))
    assert f"Client.wait('{tuning}')" in caught.value.__notes__[0]
    assert "DELETE" not in " ".join(service.asked())


def test_a_tuning_that_is_forgotten_is_refused() -> None:
    service = FakeService()
    service.meddle = lambda request: problem(404, "not-found") if "/tunings/" in request.url.path else None
    with pytest.raises(errors.ServerRefused, match="not found"):
        wait(service)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("data: a\n\ndata: b\n\n", ["a", "b"]),
        ("event: end\nid: 7\ndata:a\n\n", ["a"]),
        ("data: a\ndata: b\n\n", ["a\nb"]),
        ("data:  a\n\n", [" a"]),
        (": comment\n\n\n\ndata: a\n\n", ["a"]),
        pytest.param("data: a\n\ndata: half", ["a"], id="cut-in-a-line"),
        pytest.param("data: a\n\ndata: half\n", ["a"], id="cut-in-an-event"),
        ("retry: 5\n\n", []),
    ],
)
def test_events_of_a_stream(text: str, found: list[str]) -> None:
    assert list(events(text.splitlines())) == found
