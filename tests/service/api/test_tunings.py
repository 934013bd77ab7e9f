"""Tunings: opened, joined, answered from the cache, handed over, cancelled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from compiler.arch import Card, card_named
from fusetune.store import FAKE_CARD as STORED_FAKE
from fusetune.wire import binding_hash, fingerprint
from fusetune.wire.artifact import VERIFIER
from fusetune.wire.fusion import FORMAT
from fusetune.wire.infer import MAX_OPS
from fusetune.wire.parse import parse_binding, parse_fusion
from search.measure.fake import FACTS
from service.db import cards, fusions, tunings
from service.db.cards import FAKE_CARD
from service.db.models import AuditRow, TuningRow
from service.jobs.queue import OTHER_CARDS
from service.operations.handover import Handover
from service.settings import Settings
from tests.service.api.test_malformed import check
from tests.service.api.world import ADD, BINDING, H200, REQUEST, World, changed, world

A100 = card_named("A100")
FAKE = replace(H200, name=FAKE_CARD, power_w=1)
RENAMED: dict[str, Any] = {
    "fusion": {
        "format": "fusetune.fusion/1",
        "inputs": [{"name": n, "shape": ["rows", 64], "dtype": "f32"} for n in "ab"],
        "ops": [{"op": "add", "in": ["a", "b"], "out": "c"}, {"op": "relu", "in": ["c"], "out": "d"}],
        "outputs": [{"name": "d"}],
    },
    "binding": {"sizes": {"rows": 128}, "inputs": [{"strides": [64, 1]}, {"align": 16}]},
}
"""REQUEST in other words."""


def opened(service: World, body: Any = REQUEST, **headers: str) -> dict[str, Any]:
    response = service.post(body, **headers)
    assert response.status_code == 202, response.text
    view: dict[str, Any] = response.json()
    return view


def other(rows: int) -> dict[str, Any]:
    """REQUEST at another size."""
    return changed(REQUEST, "binding", "sizes", "M", value=rows)


def audit(service: World) -> list[tuple[str, str, str]]:
    with service.db.read() as session:
        return [(r.actor, r.action, r.subject) for r in session.scalars(select(AuditRow).order_by(AuditRow.id))]


def test_a_new_tuning_says_what_was_asked_and_where_to_look(service: World) -> None:
    body = {**REQUEST, "budget_s": 30, "trials": 7, "name": "mine", "card": "h200"}
    response = service.post(body)
    view = response.json()
    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/tunings/{view['id']}"
    assert service.client.get(response.headers["location"]).json() == view
    assert view["fingerprint"] == fingerprint(parse_fusion(ADD))
    assert view["binding"] == binding_hash(parse_fusion(ADD), parse_binding(BINDING))
    facts = {k: view[k] for k in ("state", "budget_s", "trials_limit", "name", "kernel")}
    assert facts == {"state": "queued", "budget_s": 30, "trials_limit": 7, "name": "mine", "kernel": None}
    assert view["card"]["name"] == "H200"
    assert audit(service) == [("local", "tuning.opened", view["id"])]


SCALED: dict[str, Any] = {
    "fusion": {
        "format": FORMAT,
        "inputs": [{"name": "x", "shape": ["M"], "dtype": "f32"}],
        "scalars": [{"name": "scale", "dtype": "f64"}],
        "ops": [{"op": "mul", "in": ["x", "scale"], "out": "y"}],
        "outputs": [{"name": "y"}],
    },
    "binding": {"sizes": {"M": 4096}},
}


def test_a_fusion_of_scalars_is_one_tuning_whatever_they_are_called(service: World) -> None:
    view = opened(service, SCALED)
    renamed = changed(SCALED, "fusion", "scalars", 0, "name", value="lr")
    again = opened(service, changed(renamed, "fusion", "ops", 0, "in", value=["x", "lr"]))
    assert (again["id"], again["fingerprint"]) == (view["id"], view["fingerprint"])
    with service.db.read() as session:
        stored = fusions.get(session, view["fingerprint"])
    assert stored is not None
    assert parse_fusion(stored.document).numbers[0].dtype == "f64"
    assert service.client.post("/v1/spaces", json=SCALED).json()["schedulers"]
    wrong = changed(SCALED, "fusion", "inputs", 0, "dtype", value="i32")
    check(service.post(wrong), 422, "invalid-request", "fusion.ops[0].in[1]")


def test_what_is_stored_is_what_a_worker_can_bind_again(service: World) -> None:
    view = opened(service)
    with service.db.read() as session:
        fusion = fusions.get(session, view["fingerprint"])
        binding = fusions.get_binding(session, view["fingerprint"], view["binding"])
    assert fusion is not None
    assert binding is not None
    graph, bound = parse_fusion(fusion.document), parse_binding(binding.document)
    assert fingerprint(graph) == view["fingerprint"]
    assert binding_hash(graph, bound) == view["binding"]


def test_a_provisional_kernel_answers_who_wants_the_first_and_others_join_its_search(service: World) -> None:
    view = opened(service, {**REQUEST, "want": "first"})
    assert (view["want"], view["first"]) == ("first", None)
    kernel = service.kernel(provisional={"at_most": 0.25, "expected": 0.02, "error": 0.04})
    joined = opened(service)
    assert (joined["id"], joined["want"]) == (view["id"], "first")
    answer = service.post({**REQUEST, "want": "first"})
    assert answer.status_code == 200
    assert (answer.json()["id"], answer.json()["provisional"]["at_most"]) == (kernel.id, 0.25)
    key = {"fingerprint": kernel.fingerprint, "binding": kernel.binding, "card": "H200"}
    asked = [{"keys": [key]}, {"keys": [key], "want": "first"}]
    found = [service.client.post("/v1/kernels/lookup", json=body).json()["kernels"][0] for body in asked]
    assert found[0] is None
    assert found[1]["id"] == kernel.id
    assert service.client.get("/v1/kernels").json()["items"] == []


def test_who_joins_may_want_the_first_kernel(service: World) -> None:
    assert opened(service)["want"] == "best"
    assert opened(service, {**REQUEST, "want": "first"})["want"] == "first"
    check(service.post({**REQUEST, "want": "any"}), 422, "invalid-request", "want")


def test_a_search_has_enough_once_all_have_who_wait_for_it(service: World) -> None:
    near, nearer = {"within_floor": 0.1, "improvement": 0.01}, {"within_floor": 0.05}
    assert opened(service, {**REQUEST, "enough": near})["enough"] == near
    joined = opened(service, {**REQUEST, "enough": nearer})
    assert joined["enough"] == {"within_floor": 0.05, "improvement": None}
    assert opened(service)["enough"] is None
    assert opened(service, {**REQUEST, "enough": near})["enough"] is None
    check(service.post({**REQUEST, "enough": {}}), 422, "invalid-request", "enough")
    check(service.post({**REQUEST, "enough": {"improvement": -1}}), 422, "invalid-request", "enough.improvement")


def test_an_equal_request_in_other_words_joins(service: World) -> None:
    first = opened(service)
    assert opened(service, RENAMED)["id"] == first["id"]
    assert [row[1:] for row in audit(service)] == [("tuning.opened", first["id"]), ("tuning.joined", first["id"])]


@pytest.mark.parametrize(
    ("second", "budget_s", "trials"),
    [
        pytest.param({"budget_s": 600, "trials": 90}, 600, 90, id="asks-for-more"),
        pytest.param({"budget_s": 2, "trials": 3}, 30, 7, id="asks-for-less"),
        pytest.param({"budget_s": 30}, 30, None, id="sets-no-limit-of-trials"),
    ],
)
def test_who_joins_raises_the_budget(service: World, second: dict[str, int], budget_s: int, trials: int | None) -> None:
    first = opened(service, {**REQUEST, "budget_s": 30, "trials": 7})
    joined = opened(service, {**REQUEST, **second})
    assert (joined["id"], joined["budget_s"], joined["trials_limit"]) == (first["id"], budget_s, trials)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(other(256), id="other-sizes"),
        pytest.param({**REQUEST, "card": "A100"}, id="other-card"),
        pytest.param(changed(REQUEST, "fusion", "ops", 1, "op", value="exp"), id="other-fusion"),
    ],
)
def test_another_request_does_not_join(service: World, body: Any) -> None:
    assert opened(service, body)["id"] != opened(service)["id"]


def test_an_ended_tuning_is_not_joined(service: World) -> None:
    first = opened(service)
    with service.db.write() as session:
        tunings.finish(session, first["id"], "failed", error="the GPU is gone")
    assert opened(service)["id"] != first["id"]


def test_equal_requests_at_once_are_one_tuning(service: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = {view["id"] for view in pool.map(lambda _: opened(service), range(16))}
    assert len(ids) == 1


# The cache ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [pytest.param(REQUEST, id="the-same"), pytest.param(RENAMED, id="in-other-words")])
def test_a_kernel_of_the_cache_is_the_answer(service: World, body: Any) -> None:
    kernel = service.kernel()
    response = service.post(body)
    assert (response.status_code, response.json()["id"]) == (200, kernel.id)
    assert service.queue.handed == []


@pytest.mark.parametrize(
    ("columns", "extra", "status"),
    [
        pytest.param({"time": "none", "median_us": None}, {}, 202, id="not-measured"),
        pytest.param({"correct": "verified_emulated"}, {}, 202, id="not-verified-on-a-gpu"),
        pytest.param(
            {"time": "none", "median_us": None}, {"accept": {"time": ["none"]}}, 200, id="not-measured-is-fine"
        ),
        pytest.param({}, {"accept": {"time": ["none"]}}, 202, id="measured-was-not-asked-for"),
        pytest.param({}, {"refresh": True}, 202, id="asked-to-search-again"),
        pytest.param({}, {"card": "A100"}, 202, id="another-card"),
        pytest.param({"policy": "other_v1"}, {}, 202, id="timed-in-another-way"),
        pytest.param({"generator": "an older one"}, {}, 200, id="stale-is-served"),
        pytest.param({"verifier": VERIFIER - 1}, {}, 202, id="proven-by-an-older-verifier"),
        pytest.param({"verifier": VERIFIER + 1}, {}, 200, id="proven-by-a-newer-verifier"),
    ],
)
def test_which_kernels_answer(service: World, columns: Any, extra: Any, status: int) -> None:
    service.kernel(**columns)
    assert service.post({**REQUEST, **extra}).status_code == status


@pytest.mark.parametrize("asks", [[False], [True], [False, True], [True, False]])
def test_that_somebody_wants_a_search_stands_in_the_tuning(service: World, asks: list[bool]) -> None:
    ids = {opened(service, {**REQUEST, "refresh": refresh})["id"] for refresh in asks}
    (id,) = ids
    with service.db.read() as session:
        assert session.get_one(TuningRow, id).refresh is any(asks)


# Cards --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "word", "name"),
    [
        pytest.param([], None, "H200", id="default"),
        pytest.param([(A100, False)], None, "A100", id="that-of-the-worker"),
        pytest.param([(A100, False), (H200, True)], None, "H200", id="one-with-a-gpu-first"),
        pytest.param([(FAKE, True), (H200, False)], None, "H200", id="a-rehearsal-last"),
        pytest.param([(FAKE, True)], None, "fake", id="a-rehearsal-alone"),
        pytest.param([(FAKE, True), (H200, True)], "fake", "fake", id="a-rehearsal-by-name"),
        pytest.param([(A100, True)], "H200", "H200", id="the-one-named"),
        pytest.param([], "nvidia h200", "H200", id="alias"),
    ],
)
def test_which_card_is_meant(service: World, workers: Any, word: str | None, name: str) -> None:
    for number, (card, attached) in enumerate(workers):
        service.worker(attached=attached, card=card, id=f"w{number}")
    body = REQUEST if word is None else {**REQUEST, "card": word}
    assert opened(service, body)["card"]["name"] == name


def test_an_equal_request_joins_while_the_only_worker_starts_again(service: World) -> None:
    service.worker(attached=True, card=A100, id="w0")
    first = opened(service)
    with service.db.write() as session:
        cards.leave(session, "w0")
    again = opened(service)
    assert (again["id"], again["card"]["name"]) == (first["id"], "A100")


def test_of_workers_that_have_all_gone_the_last_one_heard_of_counts(service: World) -> None:
    for id, card in (("w0", A100), ("w1", H200)):
        service.worker(attached=True, card=card, id=id)
        with service.db.write() as session:
            cards.beat(session, id, None)
            cards.leave(session, id)
    assert opened(service)["card"]["name"] == "H200"


def test_readiness_counts_no_rehearsal_as_a_gpu(service: World) -> None:
    service.worker(attached=True, id="w0")
    service.worker(attached=True, card=FAKE, id="w1")
    assert service.client.get("/readyz").json()["checks"]["workers"] == "2 alive, 1 with a GPU, 1 inventing times"


def test_the_fake_card_is_the_one_that_invents() -> None:
    assert FACTS.name == FAKE_CARD == STORED_FAKE


def test_a_card_is_named_by_its_id_too(service: World) -> None:
    card_id = service.worker(attached=True, card=A100)
    assert opened(service, {**REQUEST, "card": card_id})["card"]["id"] == card_id


def test_a_card_read_off_a_gpu_wins_over_the_table(service: World) -> None:
    in_table = opened(service)["card"]["id"]
    read = service.worker(attached=True, card=replace(H200, power_w=600))
    assert read != in_table
    assert opened(service, {**REQUEST, "card": "NVIDIA H200"})["card"]["id"] == read


# Handing over -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attached", "prefix"),
    [
        pytest.param([True], "tune-", id="gpu"),
        pytest.param([False], "prepare-", id="compile-only"),
        pytest.param([False, True], "tune-", id="both"),
    ],
)
def test_the_queue_is_that_of_a_living_worker(service: World, attached: list[bool], prefix: str) -> None:
    for number, one in enumerate(attached):
        card_id = service.worker(attached=one, id=f"w{number}")
    view = opened(service)
    assert service.queue.handed == [(view["id"], prefix + card_id)]


B200 = card_named("B200")


@pytest.mark.parametrize(
    ("asked", "workers", "queue"),
    [
        pytest.param((B200, False), [(H200, False)], OTHER_CARDS, id="a-worker-without-a-gpu-compiles-for-it"),
        pytest.param((B200, False), [(H200, True)], OTHER_CARDS, id="and-so-does-one-that-has-another-gpu"),
        pytest.param((B200, False), [(H200, True), (B200, False)], "prepare-", id="its-own-worker-before-others"),
        pytest.param((B200, True), [(H200, True)], None, id="a-gpu-that-is-only-away-is-waited-for"),
        pytest.param((B200, False), [(FAKE, True)], None, id="invented-results-are-for-nobody-else"),
        pytest.param((FAKE, False), [(H200, True)], None, id="nor-does-anybody-compile-for-the-fake-card"),
        pytest.param((B200, False), [], None, id="nobody-is-there"),
    ],
)
def test_a_card_that_nobody_has(
    service: World, asked: tuple[Card, bool], workers: list[tuple[Card, bool]], queue: str | None
) -> None:
    with service.db.write() as session:
        card_id = cards.put(session, asked[0], attached=asked[1]).id
    for number, (card, attached) in enumerate(workers):
        service.worker(attached=attached, card=card, id=f"w{number}")
    view = opened(service, REQUEST | {"card": asked[0].name})
    expected = [] if queue is None else [(view["id"], queue + card_id if queue == "prepare-" else queue)]
    assert service.queue.handed == expected


def test_without_a_worker_it_waits_for_whichever_comes(service: World) -> None:
    view = opened(service)
    handover = Handover(service.db, service.queue, service.settings)
    assert (handover.run(), service.queue.handed) == (0, [])
    card_id = service.worker(attached=False)
    assert handover.run() == 1
    assert handover.run() == 0
    assert service.queue.handed == [(view["id"], f"prepare-{card_id}")]
    with service.db.read() as session:
        row = tunings.get(session, view["id"])
    assert row is not None
    assert row.queue == f"prepare-{card_id}"


def test_a_queue_that_is_down_costs_nothing_but_time(service: World) -> None:
    card_id = service.worker(attached=True)
    service.queue.is_down = True
    view = opened(service)
    handover = Handover(service.db, service.queue, service.settings)
    assert handover.run() == 0
    service.queue.is_down = False
    assert handover.run() == 1
    assert (view["id"], f"tune-{card_id}") in service.queue.handed


def test_what_the_last_run_left_is_handed_over_at_the_start(tmp_path: Path) -> None:
    with world(tmp_path) as before:
        card_id = before.worker(attached=True)
        view = opened(before)
        left = opened(before, other(256))
        with before.db.write() as session:
            tunings.start(session, left["id"], "w")
    with world(tmp_path) as after:
        for _ in range(200):
            if after.queue.handed:
                break
            after.client.get("/healthz")
        assert after.queue.handed == [(view["id"], f"tune-{card_id}")]


# Idempotency --------------------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_its_tuning_even_when_that_has_ended(service: World) -> None:
    first = opened(service, Idempotency_Key="k1")
    with service.db.write() as session:
        tunings.finish(session, first["id"], "failed", error="the GPU is gone")
    assert opened(service, Idempotency_Key="k1")["id"] == first["id"]
    assert opened(service, Idempotency_Key="k2")["id"] != first["id"]


def test_a_key_belongs_to_one_body(service: World) -> None:
    opened(service, Idempotency_Key="k1")
    problem = check(service.post({**REQUEST, "budget_s": 61}, Idempotency_Key="k1"), 409, "idempotency-conflict")
    assert "'k1'" in problem["detail"]


def test_a_key_that_is_taken_meanwhile_is_looked_at_again(service: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests under one key at once: on PostgreSQL both may find it free, and one of them inserts too late."""
    opener, calls = tunings.open_or_join, []

    def too_late(session: Session, row: TuningRow) -> tuple[TuningRow, bool]:
        calls.append(row.idempotency_key)
        if len(calls) == 1:
            raise IntegrityError("INSERT", {}, Exception("duplicate key"))
        return opener(session, row)

    monkeypatch.setattr(tunings, "open_or_join", too_late)
    opened(service, Idempotency_Key="k1")
    assert calls == ["k1", "k1"]


# Limits -------------------------------------------------------------------------------------------------------------


def test_a_full_queue_takes_only_those_that_join(tmp_path: Path) -> None:
    with world(tmp_path, max_queued=1) as service:
        first = opened(service)
        refused = service.post(other(256))
        check(refused, 429, "queue-full")
        assert refused.headers["retry-after"] == "30"
        assert opened(service)["id"] == first["id"]


def test_the_setting_is_never_above_what_a_fusion_may_have() -> None:
    assert Settings().max_ops == MAX_OPS
    with pytest.raises(ValidationError, match="max_ops"):
        Settings(max_ops=MAX_OPS + 1)


def test_a_graph_over_the_limit(tmp_path: Path) -> None:
    with world(tmp_path, max_ops=1) as service:
        problem = check(service.post(REQUEST), 422, "over-limit")
        assert "2 operators, at most 1" in problem["detail"]
        assert "FUSETUNE_MAX_OPS" in problem["fix"]
        assert opened(service, {"fusion": {**ADD, "ops": [dict(ADD["ops"][0], out="out")]}, "binding": BINDING})


def test_nobody_is_told_to_raise_the_most_that_there_is(shared: World) -> None:
    negations = [{"op": "neg", "in": [f"v{n}" if n else "x"], "out": f"v{n + 1}"} for n in range(MAX_OPS + 1)]
    inputs, outputs = [{"name": "x", "shape": [4], "dtype": "f32"}], [{"name": f"v{MAX_OPS + 1}"}]
    fusion = {"format": "fusetune.fusion/1", "inputs": inputs, "ops": negations, "outputs": outputs}
    assert check(shared.post({"fusion": fusion}), 422, "over-limit")["fix"] == "Split the fusion."
