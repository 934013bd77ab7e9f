"""What a key may do: its scope, its end, its rate and its quotas."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import func, select

from service.access import SCOPES, KeyScope, allows, needed
from service.auth import KeyRing
from service.db import keys
from service.db.keys import Terms
from service.db.models import ApiKeyRow, TuningRow
from service.db.types import now
from service.rates import Rates
from tests.service.api.test_malformed import check
from tests.service.api.world import ADD, REQUEST, World, changed, world

OPERATOR = "an-operators-key-of-some-length"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, host="0.0.0.0", api_key=OPERATOR) as found:
        yield found


def bearer(service: World, name: str = "ci", **terms: Any) -> dict[str, str]:
    with service.db.write() as session:
        return {"Authorization": f"Bearer {keys.create(session, name, Terms(**terms))}"}


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/v1/kernels", "read"),
        ("HEAD", "/", "read"),
        ("GET", "/metrics", "read"),
        ("POST", "/v1/kernels/lookup", "read"),
        ("POST", "/v1/spaces", "read"),
        ("POST", "/logout", "read"),
        ("POST", "/v1/tunings", "tune"),
        ("DELETE", "/v1/tunings/a", "tune"),
        ("POST", "/tunings/a/cancel", "tune"),
        ("GET", "/v1/audit", "admin"),
        ("DELETE", "/v1/kernels/a", "admin"),
        ("DELETE", "/v1/fusions/a", "admin"),
        ("POST", "/v1/tunings_of_tomorrow", "admin"),
        ("DELETE", "/v1/kernels/lookup", "admin"),
        ("POST", "/v1/nothing", "admin"),
    ],
)
def test_what_a_request_needs(method: str, path: str, scope: KeyScope) -> None:
    assert needed(method, path) == scope
    assert [allows(one, scope) for one in SCOPES] == [n >= SCOPES.index(scope) for n in range(3)]
    assert not allows("root", scope)


def test_a_scope_too_small_is_refused_before_anything_is_done(guarded: World) -> None:
    row = guarded.kernel()
    reader, tuner = bearer(guarded, "reader", scope="read"), bearer(guarded, "tuner")
    assert guarded.client.get(f"/v1/kernels/{row.id}", headers=reader).status_code == 200
    refused = guarded.post(REQUEST, **reader)
    check(refused, 403, "forbidden")
    assert refused.json()["detail"] == "This needs the scope tune; the key of reader has read."
    assert guarded.post(REQUEST, **tuner).status_code == 200
    check(guarded.client.delete(f"/v1/kernels/{row.id}", headers=tuner), 403, "forbidden")
    check(guarded.client.get("/v1/audit", headers=tuner), 403, "forbidden")
    assert (
        guarded.client.delete(f"/v1/kernels/{row.id}", headers=bearer(guarded, "a", scope="admin")).status_code == 204
    )


def test_a_key_that_has_expired_opens_nothing(guarded: World) -> None:
    held = bearer(guarded, expires_at=now() + timedelta(days=1))
    assert guarded.client.get("/v1/cards", headers=held).status_code == 200
    with guarded.db.write() as session:
        session.scalars(select(ApiKeyRow)).one().expires_at = now() - timedelta(seconds=1)
        session.flush()
        assert keys.usable(session) == 0
    check(guarded.client.get("/v1/cards", headers=held), 401, "unauthorized")


def test_last_use_is_stored_a_little_later(guarded: World) -> None:
    held = bearer(guarded)
    guarded.client.get("/v1/cards", headers=held)
    ring: KeyRing = guarded.client.app.state.ring  # type: ignore[attr-defined]  # Starlette's client says less of its app
    for _ in range(2):
        ring.write_down_uses()
    with guarded.db.read() as session:
        used = session.scalars(select(ApiKeyRow.last_used_at)).one()
    assert used is not None
    assert now() - used < timedelta(minutes=5)


def test_a_bucket_fills_evenly() -> None:
    clock = [0.0]
    rates = Rates(lambda: clock[0])
    assert [rates.wait_s("k", 2) for _ in range(4)] == [0, 0, 30, 30]
    assert rates.wait_s("other", 2) == 0
    clock[0] = 29.0
    assert rates.wait_s("k", 2) == pytest.approx(1)
    clock[0] = 30.0
    assert rates.wait_s("k", 2) == 0
    clock[0] = 10_000.0
    assert [rates.wait_s("k", 2) for _ in range(3)] == [0, 0, 30]


def test_who_asks_too_often_is_told_when_to_ask(guarded: World) -> None:
    held = bearer(guarded, requests_a_minute=2)
    with patch("service.rates.time.monotonic", lambda: 0.0):
        answers = [guarded.client.get("/v1/cards", headers=held) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    check(answers[2], 429, "rate-limited")
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert guarded.client.get("/v1/cards", headers=bearer(guarded, "other")).status_code == 200


def another(n: int, **fields: Any) -> dict[str, Any]:
    """A request of another fusion."""
    return {**REQUEST, "fusion": changed(ADD, "inputs", 0, "shape", 1, value=64 * n) | {"inputs": _inputs(n)}, **fields}


def _inputs(n: int) -> list[dict[str, Any]]:
    return [{**one, "shape": ["M", 64 * n]} for one in ADD["inputs"]]


def test_tunings_of_a_day(guarded: World) -> None:
    held = bearer(guarded, tunings_a_day=2)
    guarded.worker(attached=True)
    assert [guarded.post(another(n), **held).status_code for n in (1, 2)] == [202, 202]
    assert guarded.post(another(1), **held).status_code == 202  # joins its own
    refused = guarded.post(another(3), **held)
    check(refused, 429, "quota-spent")
    assert "2 of 2 tunings within 24 hours" in refused.json()["detail"]
    assert 86_000 < int(refused.headers["retry-after"]) <= 86_400
    assert guarded.post(another(3), Authorization=f"Bearer {OPERATOR}").status_code == 202
    with guarded.db.write() as session:
        first = session.scalars(select(TuningRow).order_by(TuningRow.created_at)).first()
        assert first is not None
        first.created_at -= timedelta(hours=24)
    assert guarded.post(another(4), **held).status_code == 202


def test_gpu_seconds_of_a_day(guarded: World) -> None:
    held = bearer(guarded, gpu_s_a_day=100)
    guarded.worker(attached=True)
    check(guarded.post(another(1, budget_s=101), **held), 422, "over-limit")
    first = guarded.post(another(1, budget_s=60), **held).json()["id"]
    refused = guarded.post(another(2, budget_s=41), **held)
    check(refused, 429, "quota-spent")
    assert "60 of 100 GPU seconds, and this asks for 41" in refused.json()["detail"]
    check(guarded.post(another(1, budget_s=101), **held), 422, "over-limit")  # more of the one in flight
    assert guarded.post(another(1, budget_s=80), **held).status_code == 202
    check(guarded.post(another(2, budget_s=40), **held), 429, "quota-spent")
    with guarded.db.write() as session:  # it has ended early
        row = session.get_one(TuningRow, first)
        assert (row.payer, row.budget_s) == (session.scalars(select(ApiKeyRow.id)).one(), 80)
        row.state, row.spent_s = "done", 12.0
    assert guarded.post(another(2, budget_s=40), **held).status_code == 202


def test_who_has_a_search_go_on_pays_for_it(guarded: World) -> None:
    one, other = bearer(guarded, "one", gpu_s_a_day=100), bearer(guarded, "other", gpu_s_a_day=70)
    guarded.worker(attached=True)
    guarded.post(another(1, budget_s=60), **one)
    assert guarded.post(another(1, budget_s=60), **other).status_code == 202
    assert guarded.post(another(1, budget_s=70), **other).status_code == 202
    check(guarded.post(another(2, budget_s=1), **other), 429, "quota-spent")
    assert guarded.post(another(2, budget_s=100), **one).status_code == 202


def test_what_a_worker_without_a_gpu_takes_is_no_gpus(guarded: World) -> None:
    held = bearer(guarded, gpu_s_a_day=60)
    guarded.worker(attached=False)
    assert [guarded.post(another(n, budget_s=60), **held).status_code for n in (1, 2)] == [202, 202]


def test_a_priority_comes_with_the_key(guarded: World) -> None:
    guarded.worker(attached=True)
    usual, urgent = bearer(guarded, "usual"), bearer(guarded, "urgent", priority=1)
    late = guarded.post(another(1), **usual).json()
    early = guarded.post(another(2), **urgent).json()
    assert early["ahead"] == 0
    assert guarded.client.get(f"/v1/tunings/{late['id']}", headers=usual).json()["ahead"] == 1
    assert guarded.queue.priorities == [5, 1]


def test_the_audit_log_by_page_and_filter(guarded: World) -> None:
    guarded.worker(attached=True)
    admin = bearer(guarded, "root", scope="admin")
    for n in (1, 2, 3):
        guarded.post(another(n), **admin)
    first = guarded.client.get("/v1/audit?limit=2&action=tuning.opened", headers=admin).json()
    rest = guarded.client.get(f"/v1/audit?action=tuning.opened&before={first['next']}", headers=admin).json()
    found = [*first["items"], *rest["items"]]
    assert [one["actor"] for one in found] == ["root"] * 3
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)
    assert rest["next"] is None
    assert guarded.client.get("/v1/audit?actor=nobody", headers=admin).json() == {"items": [], "next": None}
    check(guarded.client.get("/v1/audit?before=x", headers=admin), 422, "invalid-request")
    with guarded.db.read() as session:
        assert session.scalar(select(func.count()).select_from(TuningRow)) == 3


def test_on_loopback_who_needs_no_key_may_do_all_and_elsewhere_not(tmp_path: Path) -> None:
    for host, status in (("127.0.0.1", 200), ("0.0.0.0", 403)):
        with world(tmp_path, host=host, require_key=False) as found:
            assert found.client.get("/v1/audit").status_code == status
