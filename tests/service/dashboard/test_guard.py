"""What pages are sent with, what they do with hostile text, and who may cancel."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from service.auth import COOKIE
from service.dashboard.guard import is_same_origin
from service.db import cards, kernels, trials, tunings
from service.db.engine import Database
from service.db.models import FusionRow, TrialRow, TuningRow, WorkerRow
from tests.service.dashboard.html_page import HtmlPage
from tests.service.dashboard.seed import Seeded
from tests.service.dashboard.site import ORIGIN

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
OURS = {"sec-fetch-site": "same-origin", "origin": ORIGIN}


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        pytest.param({"sec-fetch-site": "same-origin"}, True, id="fetch-metadata-same"),
        pytest.param({"sec-fetch-site": "same-site"}, False, id="fetch-metadata-sibling"),
        pytest.param(
            {"sec-fetch-site": "cross-site", "origin": "http://h:1", "host": "h:1"}, False, id="metadata-wins"
        ),
        pytest.param({"sec-fetch-site": "none"}, False, id="typed"),
        pytest.param({"origin": "http://h:1", "host": "h:1"}, True, id="origin-same"),
        pytest.param({"origin": "https://h", "host": "h"}, True, id="tls-ended-by-a-proxy"),
        pytest.param({"origin": "http://h:2", "host": "h:1"}, False, id="other-port"),
        pytest.param({"origin": "http://evil", "host": "h"}, False, id="origin-other"),
        pytest.param({"origin": "null", "host": "h"}, False, id="origin-null"),
        pytest.param({"host": "h"}, False, id="no-browser"),
    ],
)
def test_same_origin(headers: dict[str, str], allowed: bool) -> None:
    assert is_same_origin(Headers(headers)) is allowed


@pytest.mark.parametrize("path", ["/", "/tunings", "/cards", "/tunings/abc", "/?card=<"])
def test_every_page_forbids_foreign_and_inline_code(reader: TestClient, path: str) -> None:
    headers = reader.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert "script-src" not in policy
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-cache"


def test_hostile_text_is_text(database: Database, client: TestClient, ids: Seeded) -> None:
    with database.write() as session:
        session.get_one(FusionRow, ids.fusion).name = HOSTILE
        for state in (ids.done, ids.failed, ids.running, ids.queued):
            row = session.get_one(TuningRow, state)
            row.name, row.note, row.error, row.phase, row.worker_id = (HOSTILE,) * 5
            row.refused = {HOSTILE: 3}
        worker = session.get_one(WorkerRow, "builder-0")
        worker.why = worker.host = HOSTILE
        trial = session.get_one(TrialRow, (ids.done, 0))
        trial.reason, trial.state, trial.point = HOSTILE, "illegal", {HOSTILE: HOSTILE}
        trial.violations = [
            {"rule": HOSTILE, "where": HOSTILE, "found": HOSTILE, "limit": HOSTILE, "fix": HOSTILE, "message": ""}
        ]
        kernel = kernels.get(session, ids.kernel)
        assert kernel is not None
        key = (kernel.fingerprint, kernel.binding, kernel.card_id, kernel.policy)
        kernels.put_baseline(session, key, "<img src=x>", 5.0, [5.0], {})
    paths = [
        "/", f"/?q={HOSTILE}", "/tunings", "/cards", f"/fusions/{ids.fusion}", f"/kernels/{ids.kernel}",
        *(f"/tunings/{id}" for id in (ids.done, ids.failed, ids.running, ids.queued)),
        f"/tunings/{ids.done}?state=illegal", f"/tunings/{ids.done}/live",
    ]  # fmt: skip
    for path in paths:
        source = client.get(path).text
        assert "<script>alert" not in source, path
        assert "<img src=x" not in source, path
    assert HOSTILE in HtmlPage(client.get(f"/tunings/{ids.failed}").text).one("section", id="status").text
    names = [trace["name"] for trace in client.get(f"/tunings/{ids.done}/chart.json").json()["data"]]
    assert any("&lt;img" in name for name in names)
    assert not any("<img" in name for name in names)


def state_of(database: Database, id: str) -> tuple[str, bool]:
    with database.read() as session:
        row = session.get_one(TuningRow, id)
        return row.state, row.cancel_requested


def test_cancelling_a_queued_tuning_ends_it(database: Database, client: TestClient, ids: Seeded) -> None:
    response = client.post(f"/tunings/{ids.queued}/cancel", headers=OURS)
    assert (response.status_code, response.headers["location"]) == (303, f"/tunings/{ids.queued}")
    assert state_of(database, ids.queued) == ("cancelled", True)


def test_cancelling_a_running_tuning_asks_its_worker(database: Database, client: TestClient, ids: Seeded) -> None:
    client.post(f"/tunings/{ids.running}/cancel", headers=OURS)
    assert state_of(database, ids.running) == ("running", True)
    page = HtmlPage(client.get(f"/tunings/{ids.running}").text)
    assert page.one("section", id="status").all("span", class_="badge")[0].text == "stopping"
    assert not page.all("button", id="cancel")


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {}],
    ids=["fetch", "origin", "none"],
)
def test_others_cannot_cancel(database: Database, client: TestClient, ids: Seeded, headers: dict[str, str]) -> None:
    assert client.post(f"/tunings/{ids.queued}/cancel", headers=headers).status_code == 403
    assert state_of(database, ids.queued) == ("queued", False)


def test_cancelling_what_is_not_there(client: TestClient) -> None:
    assert client.post("/tunings/" + "0" * 32 + "/cancel", headers=OURS).status_code == 404


def test_a_reader_who_has_seen_it_gets_nothing_again(database: Database, client: TestClient, ids: Seeded) -> None:
    path = f"/tunings/{ids.running}/live"
    with database.write() as session:  # ages are shown in seconds only below a minute
        row = session.get_one(TuningRow, ids.running)
        row.created_at = row.started_at = row.created_at.replace(year=2025)
    first = HtmlPage(client.get(path).text)
    seen = first.one("input", id="seen", value=first.all("input", id="seen")[-1].attrs["value"]).attrs["value"]
    assert len(seen) == 16
    assert client.get(path, params={"seen": seen}).status_code == 204
    assert client.get(path, params={"seen": seen, "state": "measured"}).status_code == 200
    with database.write() as session:
        trials.record(session, ids.running, {"number": 900, "scheduler": "s", "point": {}, "state": "pruned"})
        tunings.advance(session, ids.running, "settling the leaders", 50.0)
    second = HtmlPage(client.get(path, params={"seen": seen}).text)
    assert "settling the leaders" in second.text
    assert second.one("section", id="trials").attrs["hx-swap-oob"] == "true"


def test_a_tuning_that_no_worker_can_take_says_so(database: Database, client: TestClient, ids: Seeded) -> None:
    def callouts() -> list[str]:
        return HtmlPage(client.get(f"/tunings/{ids.queued}").text).texts("p", class_="callout")

    assert callouts() == []
    with database.write() as session:
        cards.leave(session, "hopper-0")
    assert callouts()[0].startswith("No worker for this card is alive.")


def test_who_holds_a_key_is_offered_to_log_out(client: TestClient) -> None:
    assert "Log out" not in client.get("/cards").text
    client.cookies.set(COOKIE, "key")
    page = client.get("/cards").text
    assert '<form method="post" action="/logout"' in page
    assert "Log out" in page
    client.cookies.clear()
    assert "Log out" not in client.get("/cards").text


def test_an_address_that_nothing_has_is_a_page_for_browsers_only(client: TestClient) -> None:
    page = client.get("/nonsense", headers={"accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/nonsense").headers["content-type"] == "application/problem+json"
    posted = client.post("/nonsense", headers={"accept": "text/html", **OURS})
    assert posted.headers["content-type"] == "application/problem+json"
