"""What every answer has, how much a request may send, and what is noted of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import structlog
from sqlalchemy.exc import DatabaseError, OperationalError
from starlette.requests import ClientDisconnect

from service.dashboard.pages import tunings as dashboard_tunings
from service.db.cards import FAKE_CARD
from service.operations import health
from service.operations import tunings as operations
from tests.service.api.test_gate import BEARER, KEY
from tests.service.api.test_looking import record_trials
from tests.service.api.test_malformed import check
from tests.service.api.test_tunings import opened
from tests.service.api.world import H200, REQUEST, World, world

LIMIT = 2048
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("small"), max_body_bytes=LIMIT) as found:
        yield found


def padded(size: int) -> bytes:
    """JSON of that many bytes."""
    return b'{"a": "' + b"x" * (size - 9) + b'"}'


def chunks(body: bytes) -> Iterator[bytes]:
    """The same without a Content-Length."""
    for start in range(0, len(body), 100):
        yield body[start : start + 100]


@pytest.mark.parametrize("streamed", [False, True], ids=["declared", "chunked"])
@pytest.mark.parametrize(
    ("size", "status"), [pytest.param(LIMIT, 422, id="fits"), pytest.param(LIMIT + 1, 413, id="one-over")]
)
@pytest.mark.parametrize("path", ["/v1/tunings", "/v1/kernels/lookup", "/v1/spaces"])
def test_body_sizes(small: World, path: str, size: int, status: int, streamed: bool) -> None:
    body = padded(size)
    response = small.client.post(path, content=chunks(body) if streamed else body, headers=JSON)
    check(response, status, "body-too-large" if status == 413 else "invalid-request")


def test_a_declared_size_is_enough_to_refuse(small: World) -> None:
    response = small.client.post("/v1/tunings", content=b"{}", headers={**JSON, "Content-Length": str(10**30)})
    check(response, 413, "body-too-large")


def test_a_form_has_the_same_limit(small: World) -> None:
    response = small.client.post("/login", content=chunks(b"key=" + b"x" * LIMIT))
    assert response.status_code in (401, 413)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    check(small.client.post("/login", content=chunks(b"key=" + b"x" * LIMIT), headers=form), 413, "body-too-large")


@pytest.mark.parametrize("path", ["/v1/cards", "/v1/nothing", "/healthz", "/", "/static/nothing.js", "/login"])
def test_headers_of_every_answer(shared: World, path: str) -> None:
    headers = shared.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert re.fullmatch(r"[0-9a-f]{32}", headers["x-request-id"])


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        pytest.param("job-17.a_B", True, id="plain"),
        pytest.param("x" * 65, False, id="long"),
        pytest.param("a b", False, id="blank"),
        pytest.param("<script>", False, id="markup"),
    ],
)
def test_the_client_may_name_its_request(shared: World, given: str, is_kept: bool) -> None:
    found = shared.client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert (found == given) is is_kept


# Faults of ours -----------------------------------------------------------------------------------------------------


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(operations, "page", fail)


def test_a_fault_of_ours_says_only_where_the_log_has_it(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, RuntimeError("swordfish"))
    with structlog.testing.capture_logs() as lines:
        response = shared.client.get("/v1/tunings")
    problem = check(response, 500, "internal")
    assert "swordfish" not in response.text
    assert "Traceback" not in response.text
    assert problem["request_id"] in problem["detail"]
    failed, request = lines
    assert (failed["event"], failed["request_id"], failed["exc_info"]) == (
        "request failed",
        problem["request_id"],
        True,
    )
    assert request["status"] == 500


def test_a_database_that_does_not_answer(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, OperationalError("SELECT secret", {}, Exception("connection refused")))
    with structlog.testing.capture_logs() as lines:
        response = shared.client.get("/v1/tunings")
    check(response, 503, "not-ready")
    assert "SELECT" not in response.text
    assert response.headers["retry-after"] == "2"
    assert [(line["event"], line["why"]) for line in lines] == [("request", "connection refused")]


def no_room_in_sqlite(folder: Path) -> Exception:
    """What SQLite says where it may not grow."""
    with sqlite3.connect(folder / "small.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA max_page_count=2")
        with pytest.raises(sqlite3.OperationalError, match="full") as caught:
            connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    return caught.value


def no_room_in_postgresql(_: Path) -> Exception:
    return psycopg.errors.DiskFull("could not extend file")


def locked(_: Path) -> Exception:
    return sqlite3.OperationalError("database is locked")


@pytest.mark.parametrize(
    ("cause", "is_full"), [(no_room_in_sqlite, True), (no_room_in_postgresql, True), (locked, False)]
)
def test_a_full_disk_is_told_from_a_database_that_is_away(
    shared: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cause: Callable[[Path], Exception], is_full: bool
) -> None:
    fail_with(monkeypatch, OperationalError("SELECT secret", {}, cause(tmp_path)))
    problem = check(shared.client.get("/v1/tunings"), 503, "not-ready")
    assert ("disk of the database is full" in problem["detail"]) is is_full
    assert ("Make room" in problem["fix"]) is is_full


BROWSER = {"Accept": "text/html,application/xhtml+xml"}


def test_a_page_that_fails_is_a_page(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("swordfish")

    monkeypatch.setattr(dashboard_tunings, "tuning_list", fail)
    with structlog.testing.capture_logs() as lines:
        response = shared.client.get("/tunings", headers=BROWSER)
    assert (response.status_code, response.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "swordfish" not in response.text
    assert response.headers["x-request-id"] in response.text
    assert [line["event"] for line in lines] == ["request failed", "request"]
    check(shared.client.get("/tunings"), 500, "internal")


def test_a_row_that_is_no_json_is_named(tmp_path: Path) -> None:
    """Where the database keeps any text: on PostgreSQL there is no such row."""
    with world(tmp_path) as service:
        id = opened(service)["id"]
        with service.db.writing.begin() as connection:
            connection.exec_driver_sql("UPDATE tunings SET refused = '{bad'")
        problem = check(service.client.get(f"/v1/tunings/{id}"), 500, "damaged-row")
        assert "'{bad' in a column that holds JSON (Expecting property name" in problem["detail"]
        assert "backup" in problem["fix"]
        page = service.client.get(f"/tunings/{id}", headers=BROWSER)
        assert page.status_code == 500
        assert "The database is damaged" in page.text


def test_a_file_that_sqlite_cannot_read_is_named(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cause = sqlite3.DatabaseError("database disk image is malformed")
    cause.sqlite_errorcode = sqlite3.SQLITE_CORRUPT | 1 << 8  # SQLITE_CORRUPT_VTAB
    fail_with(monkeypatch, DatabaseError("SELECT swordfish", {}, cause))
    problem = check(shared.client.get("/v1/tunings"), 500, "damaged-row")
    assert "malformed" in problem["detail"]
    assert "backup" in problem["fix"]
    assert "swordfish" not in str(problem)


def test_readiness_is_that_of_the_database(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared.client.get("/readyz").json()["checks"]["database"] == "ok"
    monkeypatch.setattr(health, "is_current", lambda _: False)
    response = shared.client.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "unavailable")
    assert shared.client.get("/healthz").status_code == 200


def test_a_client_that_leaves_is_no_fault(shared: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ClientDisconnect())
    with structlog.testing.capture_logs() as lines:
        shared.client.get("/v1/tunings")
    assert [line["event"] for line in lines] == ["request"]


@pytest.mark.parametrize("path", ["/healthz", "/v1/cards", "/metrics", "/openapi.json", "/v1/tunings/0", "/", "/v1/no"])
def test_a_head_is_that_of_the_answer_to_get(shared: World, path: str) -> None:
    whole, head = shared.client.get(path), shared.client.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    changing = ("x-request-id", "content-length") if path == "/metrics" else ("x-request-id",)
    assert [(k, v) for k, v in head.headers.items() if k not in changing] == [
        (k, v) for k, v in whole.headers.items() if k not in changing
    ]


def test_the_head_of_a_stream_ends(service: World) -> None:
    head = service.client.head(f"/v1/tunings/{opened(service)['id']}/events")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert metric(service, 'fusetune_requests_total{method="HEAD",route="/v1/tunings/{tuning_id}/events",status="200"}')


# The log and the metrics --------------------------------------------------------------------------------------------


def test_one_line_a_request_and_no_secret_in_it(tmp_path: Path) -> None:
    with world(tmp_path, require_key=True, api_key=KEY) as service:
        with structlog.testing.capture_logs() as lines:
            service.client.get("/v1/tunings?state=done&after=a", headers=BEARER)
            service.client.get("/healthz")
        (line,) = lines
        assert {k: line[k] for k in ("event", "method", "path", "status", "actor")} == {
            "event": "request", "method": "GET", "path": "/v1/tunings", "status": 422, "actor": "operator",
        }  # fmt: skip
        assert KEY not in str(lines)


def metric(service: World, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", service.client.get("/metrics").text, re.MULTILINE)
    assert found, f"no {line}"
    return float(found.group(1))


def test_metrics_count_by_template_not_by_path(service: World) -> None:
    ids = [opened(service)["id"], "0" * 32]
    for id in ids:
        service.client.get(f"/v1/tunings/{id}")
    service.client.get("/v1/nothing/at/all")
    service.client.request("BREW", "/v1/cards")
    for labels in (
        'method="GET",route="/v1/tunings/{tuning_id}",status="200"',
        'method="GET",route="/v1/tunings/{tuning_id}",status="404"',
        'method="POST",route="/v1/tunings",status="202"',
        'method="GET",route="(none)",status="404"',
        'method="other",route="/v1/cards",status="405"',
    ):
        assert metric(service, f"fusetune_requests_total{{{labels}}}") == 1
    assert metric(service, 'fusetune_request_seconds_count{method="POST",route="/v1/tunings"}') == 1
    assert ids[0] not in service.client.get("/metrics").text


def test_metrics_of_what_is_stored(service: World) -> None:
    service.worker(attached=True)
    id = opened(service)["id"]
    record_trials(service, id)
    assert metric(service, 'fusetune_tunings{state="queued"}') == 1
    assert metric(service, "fusetune_queue_length") == 1
    assert metric(service, 'fusetune_trials{state="measured"}') == 2
    assert metric(service, 'fusetune_workers{attached="true"}') == 1
    assert metric(service, 'fusetune_build_info{generator="fusetune 0.8",policy="graph_rotating_v1"}') == 1


def test_a_worker_that_invents_times_has_no_gpu(service: World) -> None:
    service.worker(attached=True, id="gpu")
    service.worker(attached=True, card=replace(H200, name=FAKE_CARD), id="rehearsal")
    assert metric(service, 'fusetune_workers{attached="true"}') == 1
    assert metric(service, 'fusetune_workers{attached="false"}') == 1


def test_two_applications_count_apart(service: World, shared: World) -> None:
    service.post(REQUEST)
    shared.client.get("/v1/cards")
    assert 'route="/v1/cards"' not in service.client.get("/metrics").text
