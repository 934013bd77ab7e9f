"""Answers that are told again: never after what they stand on has changed, by whatever way and whoever changed it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import text, update

from fusetune.wire.artifact import VERIFIER
from service.db import cards, kernels
from service.db.engine import Database
from service.db.instant import Held
from service.db.models import CardRow, FusionRow, KernelRow, WorkerRow
from service.db.types import now
from service.operations.answers import Answers
from service.settings import Settings
from tests.service.api.world import ADD, REQUEST, World, store_kernel, world
from tests.service.databases import KINDS, created

BODY = {**REQUEST, "card": "H200"}


def ask(service: World, body: Any = BODY, **headers: str) -> tuple[Any, bool]:
    """The answer, and whether it was told again."""
    told: list[bytes | None] = []
    again = Answers.again

    async def noted(self: Answers, *arguments: Any) -> bytes | None:
        told.append(await again(self, *arguments))
        return told[-1]

    with patch.object(Answers, "again", noted):
        response = service.post(body, **headers)
    return response, bool(told and told[-1])


def warm(service: World, body: Any = BODY) -> Any:
    """Asked until it is told again; returns that answer."""
    first, _ = ask(service, body)
    again, is_told_again = ask(service, body)
    assert is_told_again, first.text
    assert (again.status_code, again.content) == (200, first.content)
    return again.json()


def test_an_answer_told_again_is_the_same_with_the_headers_of_any_other(service: World) -> None:
    service.kernel()
    first, _ = ask(service)
    again, is_told_again = ask(service)
    assert is_told_again
    assert again.content == first.content
    assert {**again.headers, "x-request-id": ""} == {**first.headers, "x-request-id": ""}
    assert 'route="/v1/tunings",status="200"} 2.0' in service.client.get("/metrics").text


def _publish(service: World) -> None:
    """From another connection, as a worker in another process would."""
    with Database(service.settings.db_url) as other:
        store_kernel(other, "// faster", median_us=5.0)


def _execute(statement: Any) -> Callable[[World], None]:
    def change(service: World) -> None:
        with Database(service.settings.db_url) as other, other.write() as session:
            session.execute(statement)

    return change


def _baseline(service: World) -> None:
    with service.db.write() as session:
        row = session.query(KernelRow).one()
        key = (row.fingerprint, row.binding, row.card_id, row.policy)
        kernels.put_baseline(session, key, "eager", 20.0, [20.0], {})


CHANGES = {
    "a faster kernel": _publish,
    "refuted": _execute(update(KernelRow).values(refuted="wrong", superseded_at=now())),
    "superseded": _execute(update(KernelRow).values(superseded_at=now())),
    "an older verifier's": _execute(update(KernelRow).values(verifier=VERIFIER - 1)),
    "provisional": _execute(update(KernelRow).values(provisional={"at_most": 0.5})),
    "worse proven": _execute(update(KernelRow).values(correct="verified_emulated")),
    "another driver": _execute(update(CardRow).values(driver="999.1")),
    "another name": _execute(update(FusionRow).values(name="renamed")),
    "a baseline": _baseline,
    "changed by hand": _execute(text("UPDATE kernels SET median_us = 1.5")),
    "deleted": _execute(text("DELETE FROM kernels")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_after_a_change_an_answer_is_worked_out_again(service: World, change: Callable[[World], None]) -> None:
    service.kernel()
    before = warm(service)
    change(service)
    after, is_told_again = ask(service)
    assert not is_told_again
    assert after.json() != before
    looked_up = service.client.post("/v1/kernels/lookup", json={"keys": [_key(before)]}).json()["kernels"]
    assert looked_up == [after.json() if after.status_code == 200 else None]


def _key(view: Any) -> dict[str, str]:
    return {"fingerprint": view["fingerprint"], "binding": view["binding"], "card": "H200"}


def spelled(prefix: str, **more: Any) -> dict[str, Any]:
    """BODY in other words: its tensors, results and symbol have other names, its fields another order."""
    renamed = json.dumps(ADD)
    for name in ("x", "y", "z", "out", "M"):
        renamed = renamed.replace(f'"{name}"', f'"{prefix}{name}"')
    fusion = dict(reversed(json.loads(renamed.replace(f'"{prefix}out": ', '"out": ')).items()))
    return {"binding": {"sizes": {f"{prefix}M": 128}}, "fusion": fusion, "card": "H200", **more}


@pytest.mark.parametrize("inline_bytes", [2048, pytest.param(0, id="read by a thread")])
def test_the_same_in_other_words_is_told_at_once(service: World, inline_bytes: int) -> None:
    service.kernel()
    first, _ = ask(service)
    for _ in range(2):
        with patch("service.again._INLINE_BYTES", inline_bytes):
            other, is_told_again = ask(service, spelled("a_"))
        assert is_told_again
        assert other.content == first.content


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_after_a_change_it_is_worked_out_again_in_other_words_too(
    service: World, change: Callable[[World], None]
) -> None:
    service.kernel()
    warm(service)
    change(service)
    in_other_words, is_told_again = ask(service, spelled("a_"))
    assert not is_told_again
    assert in_other_words.json() == ask(service)[0].json() or in_other_words.status_code == 202


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"binding": {"sizes": {"a_M": 256}}}, 202),
        ({"binding": {"sizes": {"M": 128}}}, 422),
        ({"card": "H100"}, 202),
        ({"card": "no such card"}, 422),
        ({"refresh": True}, 202),
        ({"budget_s": 1e6}, 422),
        ({"accept": {"correct": ["verified_emulated"], "time": ["predicted"]}}, 202),
        ({"speed": "high"}, 422),
    ],
)
def test_what_is_not_quite_the_same_is_not_told(service: World, more: dict[str, Any], status: int) -> None:
    service.kernel()
    warm(service)
    response, is_told_again = ask(service, spelled("a_", **more))
    assert (response.status_code, is_told_again) == (status, False)


def test_what_has_nothing_to_do_with_an_answer_leaves_it(service: World) -> None:
    service.kernel()
    warm(service)
    service.worker(attached=False)
    _execute(update(WorkerRow).values(heartbeat_at=now()))(service)
    assert ask(service)[1]


def test_without_a_card_the_living_worker_decides_at_every_request(service: World) -> None:
    service.kernel()
    service.worker(attached=True)
    with service.db.read() as session:
        [row] = session.query(KernelRow).all()
        attached = cards.alive(session, now() - timedelta(seconds=60))[0].card_id
    body = {**REQUEST, "accept": {"correct": ["verified_on_gpu"], "time": ["measured"]}}
    if row.card_id != attached:  # the kernel is of the table's card
        _execute(update(KernelRow).values(card_id=attached))(service)
    warm(service, body)
    with service.db.write() as session:
        cards.beat(session, "w", None)
    assert ask(service, body)[1], "a heartbeat changes nothing"
    with service.db.write() as session:
        cards.leave(session, "w")
    assert not ask(service, body)[1]


def test_an_idempotency_key_that_opened_a_tuning_keeps_its_answer(service: World) -> None:
    key = uuid.uuid4().hex
    opened, _ = ask(service, idempotency_key=key)
    assert opened.status_code == 202
    service.kernel()
    warm(service)
    assert ask(service, idempotency_key=uuid.uuid4().hex)[1]
    repeated, is_told_again = ask(service, idempotency_key=key)
    assert not is_told_again
    assert repeated.json()["id"] == opened.json()["id"]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({**BODY, "refresh": True}, {}),
        (BODY, {"idempotency_key": "with blanks in it"}),
        (BODY, {"idempotency_key": "k" * 256}),
        (BODY, {"content_type": "text/plain"}),
    ],
)
def test_what_is_unusual_goes_to_its_route(service: World, body: Any, headers: dict[str, str]) -> None:
    service.kernel()
    warm(service)
    response, is_told_again = ask(service, body, **headers)
    assert not is_told_again
    assert response.status_code in (202, 415, 422)


def test_a_query_that_no_route_knows_is_refused_still(service: World) -> None:
    service.kernel()
    warm(service)
    assert service.client.post("/v1/tunings?fast=1", json=BODY).status_code == 422


def test_while_another_process_holds_the_file_nothing_is_guessed(service: World) -> None:
    service.kernel()
    warm(service)

    async def held(*_: object) -> None:
        raise Held

    with patch("service.db.instant.Instant.rows", held):
        response, is_told_again = ask(service)
    assert (response.status_code, is_told_again) == (200, False)


def test_many_keys_are_told_in_their_order_each_as_it_is_alone(service: World) -> None:
    service.kernel()
    view = warm(service)
    unknown = {**_key(view), "binding": "0" * 64}
    answer = service.client.post("/v1/kernels/lookup", json={"keys": [unknown, _key(view), _key(view)]})
    assert json.loads(answer.content)["kernels"] == [None, view, view]
    of_emulator = {"keys": [_key(view)], "accept": {"correct": ["verified_emulated"], "time": ["measured"]}}
    assert service.client.post("/v1/kernels/lookup", json=of_emulator).json()["kernels"] == [None]


@pytest.mark.parametrize("kind", KINDS)
def test_both_databases_read_the_same_way(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        with world(tmp_path) as service:
            _told_again_until_published(service)
        return
    template: str = request.getfixturevalue("postgres_template")
    with created(request.getfixturevalue("postgres"), template) as url:
        settings = Settings(data_dir=tmp_path)
        assert settings.db_url.startswith("sqlite")
        with world(tmp_path, database_url=url) as service:
            _told_again_until_published(service)


def _told_again_until_published(service: World) -> None:
    service.kernel()
    before = warm(service)
    _publish(service)
    after, is_told_again = ask(service)
    assert not is_told_again
    assert (before["median_us"], after.json()["median_us"]) == (10.0, 5.0)
    assert service.client.post("/v1/kernels/lookup", json={"keys": [_key(before)]}).json()["kernels"] == [after.json()]
