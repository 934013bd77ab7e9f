"""Server-sent events: what a watcher is told, and when it stops."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import structlog
from sqlalchemy.exc import OperationalError

from fusetune.wire.service import TuningView
from service.db import tunings
from service.db.models import TuningRow
from service.operations import tunings as operations
from service.operations.context import Context
from service.operations.events import event_of, latest
from tests.service.api.test_looking import record_trials
from tests.service.api.test_tunings import opened
from tests.service.api.world import World


def events(service: World, id: str, query: str = "", **headers: str) -> list[dict[str, str]]:
    """All events until the stream ends."""
    path = f"/v1/tunings/{id}/events{query}"
    response = service.client.get(path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in response.text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def in_a_while(service: World, *steps: Any) -> threading.Thread:
    """Does `steps` one after another, many polls apart: a loaded machine misses some."""

    def run() -> None:
        for step in steps:
            threading.Event().wait(30 * service.settings.poll_s)
            step()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_watcher_sees_each_change_and_the_end(service: World) -> None:
    id = opened(service)["id"]

    def begin() -> None:
        with service.db.write() as session:
            tunings.start(session, id, "w")

    def end() -> None:
        with service.db.write() as session:
            tunings.finish(session, id, "done", ended="budget", note="nothing was found")

    thread = in_a_while(service, begin, lambda: record_trials(service, id), end)
    seen = events(service, id)
    thread.join()
    assert [event["event"] for event in seen] == ["progress", "progress", "progress", "end"]
    views = [json.loads(event["data"]) for event in seen]
    assert [view["state"] for view in views] == ["queued", "running", "running", "done"]
    assert views[2]["trials"]["measured"] == 2
    assert views[3]["note"] == "nothing was found"
    assert len({event["id"] for event in seen}) == 4


def test_the_stream_of_a_tuning_that_is_deleted_ends(service: World) -> None:
    id = opened(service)["id"]

    def delete() -> None:
        with service.db.write() as session:
            session.delete(session.get_one(TuningRow, id))

    thread = in_a_while(service, delete)
    with structlog.testing.capture_logs() as lines:
        assert [event["event"] for event in events(service, id)] == ["progress"]
    assert [line["event"] for line in lines] == ["request"]
    thread.join()
    assert service.client.get(f"/v1/tunings/{id}/events").status_code == 404


def test_what_has_changed_is_all_that_is_sent_between_the_first_event_and_the_last(service: World) -> None:
    id = opened(service)["id"]

    def begin() -> None:
        with service.db.write() as session:
            tunings.start(session, id, "w")

    def end() -> None:
        with service.db.write() as session:
            tunings.finish(session, id, "done", ended="budget", note="nothing was found")

    thread = in_a_while(service, begin, lambda: record_trials(service, id), end)
    seen = events(service, id, query="?changes=true")
    thread.join()
    assert [event["event"] for event in seen] == ["progress", "change", "change", "end"]
    first, begun, tried, last = (json.loads(event["data"]) for event in seen)
    assert set(begun) == {"state", "phase", "worker", "started_at"}
    assert set(tried) == {"trials", "best"}
    whole = first | begun | tried
    assert set(last) == set(whole) == set(TuningView.model_fields)
    assert {name for name, value in last.items() if whole[name] != value} == {
        "state",
        "phase",
        "ended",
        "note",
        "ended_at",
    }


def test_what_has_ended_is_one_event(service: World) -> None:
    id = opened(service)["id"]
    service.client.delete(f"/v1/tunings/{id}")
    (event,) = events(service, id)
    assert (event["event"], json.loads(event["data"])["state"]) == ("end", "cancelled")
    assert events(service, id, Last_Event_ID=event["id"]) == [event], "a watcher that comes back is told of the end"


def test_a_watcher_that_comes_back_is_not_told_again(service: World) -> None:
    id = opened(service)["id"]
    seen = event_of(latest_view(service, id))
    thread = in_a_while(service, lambda: service.client.delete(f"/v1/tunings/{id}"))
    assert [event["event"] for event in events(service, id, Last_Event_ID=seen.id)] == ["end"]
    thread.join()


def latest_view(service: World, id: str) -> Any:
    return operations.get(context(service), id)


def context(service: World) -> Any:
    app: Any = service.client.app
    return app.state.context


def test_the_id_of_an_event_is_that_of_its_content(service: World) -> None:
    id = opened(service)["id"]
    assert latest(context(service), id) == latest(context(service), id)


def test_a_stream_outlives_a_restart_of_the_database(service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    id = opened(service)["id"]
    whole, calls = operations.get, []

    def sometimes(context: Context, id: str) -> TuningView:
        calls.append(id)
        if 2 <= len(calls) <= 4:
            raise OperationalError("SELECT", {}, Exception("connection refused"))
        return whole(context, id)

    monkeypatch.setattr(operations, "get", sometimes)
    thread = in_a_while(service, lambda: service.client.delete(f"/v1/tunings/{id}"))
    assert [event["event"] for event in events(service, id)] == ["progress", "end"]
    thread.join()
    assert len(calls) > 4


def test_many_watchers_are_one_question(service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    id = opened(service)["id"]
    whole, calls = operations.get, []

    def counted(context: Context, id: str) -> TuningView:
        calls.append(id)
        return whole(context, id)

    monkeypatch.setattr(operations, "get", counted)
    seen: list[list[str]] = []
    watchers = [
        threading.Thread(target=lambda: seen.append([event["event"] for event in events(service, id)]))
        for _ in range(20)
    ]
    for watcher in watchers:
        watcher.start()
    threading.Event().wait(10 * service.settings.poll_s)
    service.client.delete(f"/v1/tunings/{id}")
    for watcher in watchers:
        watcher.join()
    assert seen == [["progress", "end"]] * 20
    # Each asks once when it comes, and `delete` once. Alone they would ask 10 times each.
    assert len(calls) < 20 + 60


def test_a_stream_ends_when_the_server_stops(service: World) -> None:
    id = opened(service)["id"]
    app: Any = service.client.app
    thread = in_a_while(service, app.state.stopping.set)
    assert [event["event"] for event in events(service, id)] == ["progress"]
    thread.join()
