"""Tunings, trials, fusions and cards by page, and tunings that are cancelled."""

from __future__ import annotations

from datetime import timedelta

from fusetune.wire.t4 import read
from service.db import trials, tunings
from service.db.models import WorkerRow
from service.db.types import now
from tests.service.api.test_malformed import check
from tests.service.api.test_tunings import A100, RENAMED, audit, opened, other
from tests.service.api.world import H200, REQUEST, World, changed

# Looking and cancelling ---------------------------------------------------------------------------------------------


def test_pages_show_every_tuning_once_the_newest_first(service: World) -> None:
    ids = [opened(service, other(rows))["id"] for rows in range(1, 8)]
    shown: list[str] = []
    after: str | None = None
    while True:
        query = {"limit": "3"} | ({} if after is None else {"after": after})
        page = service.client.get("/v1/tunings", params=query).json()
        shown += [item["id"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert shown == ids[::-1]


def test_filters(service: World) -> None:
    first = opened(service)
    opened(service, changed(REQUEST, "fusion", "ops", 1, "op", value="exp"))
    by_fusion = service.client.get("/v1/tunings", params={"fingerprint": first["fingerprint"]}).json()["items"]
    assert [item["id"] for item in by_fusion] == [first["id"]]
    assert len(service.client.get("/v1/tunings?state=queued").json()["items"]) == 2
    assert service.client.get("/v1/tunings?state=done").json()["items"] == []


def record_trials(service: World, id: str) -> None:
    with service.db.write() as session:
        for number, state in enumerate(["measured", "illegal", "duplicate", "measured"]):
            times = {"median_us": 10.0 - number, "samples_us": [1.0]} if state == "measured" else {}
            data = {"number": number, "state": state, "scheduler": "flat", "point": {"vector": 4}, **times}
            trials.record(session, id, data)


def test_the_history_of_a_tuning_is_t4(service: World) -> None:
    view = opened(service)
    with service.db.write() as session:
        for number, state in enumerate(("measured", "crashed", "cancelled")):
            one = {"number": number, "scheduler": "flat", "point": {"vector": number}, "state": state}
            timed = {"median_us": 12.5, "samples_us": [12.0, 13.0]} if state == "measured" else {}
            trials.record(session, view["id"], {**one, **timed})
    document = service.client.get(f"/v1/tunings/{view['id']}/history.t4.json").json()
    assert document["metadata"]["device"] == "H200"
    assert [(one.us, one.invalidity) for one in read(document)] == [(12.5, "correct"), (None, "runtime")]
    assert document["results"][0]["times"]["runtimes"] == [0.012, 0.013]
    check(service.client.get("/v1/tunings/none/history.t4.json"), 404, "not-found")


def test_trials_by_page_and_state(service: World) -> None:
    id = opened(service)["id"]
    record_trials(service, id)
    page = service.client.get(f"/v1/tunings/{id}/trials?limit=3").json()
    assert ([t["number"] for t in page["items"]], page["next"]) == ([0, 1, 2], 2)
    rest = service.client.get(f"/v1/tunings/{id}/trials?limit=3&after=2").json()
    assert ([t["number"] for t in rest["items"]], rest["next"]) == ([3], None)
    some = service.client.get(f"/v1/tunings/{id}/trials?state=illegal&state=duplicate").json()
    assert [t["state"] for t in some["items"]] == ["illegal", "duplicate"]
    view = service.client.get(f"/v1/tunings/{id}").json()
    assert view["trials"] == {"duplicate": 1, "illegal": 1, "measured": 2}
    assert (view["best"]["number"], view["best"]["median_us"]) == (3, 7.0)


def test_cancelling_what_no_worker_has_begun_ends_it(service: World) -> None:
    id = opened(service)["id"]
    first = service.client.delete(f"/v1/tunings/{id}")
    again = service.client.delete(f"/v1/tunings/{id}")
    assert (first.status_code, first.json()["state"]) == (202, "cancelled")
    assert (again.status_code, again.json()) == (200, first.json())
    assert service.queue.cancelled == [id]
    assert [row[1] for row in audit(service)] == ["tuning.opened", "tuning.cancelled"]


def test_cancelling_a_running_one_asks_its_worker(service: World) -> None:
    id = opened(service)["id"]
    with service.db.write() as session:
        tunings.start(session, id, "w")
    for _ in range(2):
        response = service.client.delete(f"/v1/tunings/{id}")
        view = response.json()
        assert (response.status_code, view["state"], view["cancel_requested"]) == (202, "running", True)
    assert service.queue.cancelled == []
    assert [row[1] for row in audit(service)] == ["tuning.opened", "tuning.cancelled"]


def test_a_cancelled_one_is_cancelled_with_the_queue_down(service: World) -> None:
    id = opened(service)["id"]
    service.queue.is_down = True
    assert service.client.delete(f"/v1/tunings/{id}").json()["state"] == "cancelled"


def test_how_many_come_before(service: World) -> None:
    first, second = opened(service), opened(service, other(256))
    assert (first["ahead"], second["ahead"]) == (0, 1)


def test_fusions_are_listed_as_they_were_understood(service: World) -> None:
    view = opened(service, {**RENAMED, "name": "relu-of-sum"})
    opened(service, other(256))
    (fusion,) = service.client.get("/v1/fusions").json()["items"]
    assert (fusion["name"], fusion["tunings"], fusion["kernels"]) == ("relu-of-sum", 2, 0)
    assert fusion["document"]["inputs"][0]["name"] == "i0"
    assert fusion == service.client.get(f"/v1/fusions/{view['fingerprint']}").json()


def test_cards_and_workers(service: World) -> None:
    service.worker(attached=True, card=A100)
    opened(service, {**REQUEST, "card": "H200"})
    a100, h200 = service.client.get("/v1/cards").json()["items"]
    assert (a100["card"]["name"], h200["card"]["name"]) == ("A100", "H200")
    assert [(w["id"], w["alive"], w["attached"]) for w in a100["workers"]] == [("w", True, True)]
    assert h200["workers"] == []


def test_a_worker_that_is_not_heard_of_is_not_alive(service: World) -> None:
    service.worker(attached=False, card=A100)
    with service.db.write() as session:
        session.get_one(WorkerRow, "w").heartbeat_at = now() - timedelta(minutes=5)
    assert not service.client.get("/v1/cards").json()["items"][0]["workers"][0]["alive"]
    service.worker(attached=False, card=H200, id="living")
    assert opened(service)["card"]["name"] == "H200"
