"""What is deleted or pruned is answered by no process any more, whatever it has in memory."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from service.db import kernels, retention, tunings
from service.db.models import ArtifactRow, AuditRow, Base, KernelRow, TuningRow
from service.db.types import now
from tests.service.api.test_again import BODY, ask, warm
from tests.service.api.world import REQUEST, World, store_kernel, world


def served_by(service: World, row: KernelRow) -> list[int]:
    """The status of every way to a kernel by its id: the artifact, each part, its view, its page."""
    paths = [f"/v1/kernels/{row.id}{tail}" for tail in ("", "/cubin", "/source", "/ptx", "/schedule", "/info")]
    return [service.client.get(path).status_code for path in (*paths, f"/kernels/{row.id}")]


def looked_up(service: World, row: KernelRow) -> Any:
    key = {"fingerprint": row.fingerprint, "binding": row.binding, "card": row.card_id}
    return service.client.post("/v1/kernels/lookup", json={"keys": [key]}).json()["kernels"][0]


@pytest.fixture
def two(tmp_path: Path) -> Any:
    """Two processes on one database, each of which has the kernel of BODY in all its caches."""
    with world(tmp_path) as one, world(tmp_path) as other:
        row = one.kernel()
        for process in (one, other):
            warm(process)
            assert looked_up(process, row)["id"] == row.id
            assert served_by(process, row)[:6] == [200] * 6
        yield one, other, row


def test_no_process_answers_with_a_deleted_kernel(two: tuple[World, World, KernelRow]) -> None:
    one, other, row = two
    etag = other.client.get(f"/v1/kernels/{row.id}").headers["etag"]
    assert one.client.delete(f"/v1/kernels/{row.id}").status_code == 204
    for process in (one, other):
        answer, is_told_again = ask(process)
        assert (answer.status_code, is_told_again) == (202, False)
        assert looked_up(process, row) is None
        assert served_by(process, row) == [410] * 7
        assert process.client.get(f"/v1/kernels/{row.id}", headers={"If-None-Match": etag}).status_code == 410
    told = one.client.delete(f"/v1/kernels/{row.id}")
    assert (told.status_code, told.json()["type"]) == (410, "urn:fusetune:problem:gone")
    assert "was deleted on" in told.json()["detail"]
    with one.db.read() as session:
        assert session.scalars(select(AuditRow.action).where(AuditRow.subject == row.id)).all() == ["kernel.deleted"]
        assert session.get(ArtifactRow, row.artifact_sha256) is None


def test_a_deleted_kernel_does_not_come_back_by_being_found_again(service: World) -> None:
    row = service.kernel()
    service.client.delete(f"/v1/kernels/{row.id}")
    with pytest.raises(kernels.DeletedKernel):
        service.kernel()
    assert looked_up(service, row) is None
    other = service.kernel(source="// another")
    assert looked_up(service, row)["id"] == other.id


def test_a_deleted_kernel_comes_back_by_a_search_that_is_asked_for_since(service: World) -> None:
    before = service.client.post("/v1/tunings", json=REQUEST).json()["id"]
    row = service.kernel(tuning_id=before)
    service.client.delete(f"/v1/kernels/{row.id}")
    with pytest.raises(kernels.DeletedKernel):
        service.kernel(tuning_id=before)
    with service.db.write() as session:
        tunings.finish(session, before, "done", ended="budget", note="")
    since = service.client.post("/v1/tunings", json={**REQUEST, "refresh": True}).json()["id"]
    assert service.kernel(tuning_id=since).id == row.id
    assert looked_up(service, row)["id"] == row.id
    assert service.client.get(f"/v1/kernels/{row.id}").status_code == 200


def test_the_kernel_before_does_not_answer_in_its_place(service: World) -> None:
    slow, fast = service.kernel(), service.kernel(source="// faster", median_us=5.0)
    service.client.delete(f"/v1/kernels/{fast.id}")
    assert looked_up(service, fast) is None
    assert service.client.get(f"/v1/kernels/{slow.id}").status_code == 200


@pytest.mark.parametrize("path", ["/v1/kernels/nothing", "/v1/kernels/%00", f"/v1/fusions/{'0' * 64}", "/v1/fusions/x"])
def test_what_is_not_there_is_not_deleted(service: World, path: str) -> None:
    assert service.client.delete(path).status_code == 404


def test_a_fusion_goes_with_all_that_is_known_of_it(service: World) -> None:
    row = service.kernel()
    warm(service)
    opened, _ = ask(service, {**BODY, "refresh": True})
    tuning = opened.json()["id"]
    refused = service.client.delete(f"/v1/fusions/{row.fingerprint}")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:fusetune:problem:in-use")
    assert tuning in refused.json()["detail"]
    service.client.delete(f"/v1/tunings/{tuning}")
    gone = service.client.delete(f"/v1/fusions/{row.fingerprint}")
    assert gone.json() == {"fingerprint": row.fingerprint, "kernels": 1, "tunings": 1, "trials": 0}
    with service.db.read() as session:
        kept = {
            table.name
            for table in Base.metadata.sorted_tables
            if session.scalar(select(func.count()).select_from(table))
        }
    assert kept == {"audit", "cards", "deleted_kernels"}
    assert service.client.get(f"/v1/fusions/{row.fingerprint}").status_code == 404
    assert served_by(service, row) == [410] * 7
    answer, is_told_again = ask(service)
    assert (answer.status_code, is_told_again) == (202, False)


KEEP = retention.Keep(90, 30, 7, 7)


def replaced(service: World, days: float) -> tuple[KernelRow, KernelRow]:
    """A kernel that another one took the place of so long ago, and that one."""
    old, new = service.kernel(), service.kernel(source="// faster", median_us=5.0)
    with service.db.write() as session:
        session.get_one(KernelRow, old.id).superseded_at = now() - timedelta(days=days)
    return old, new


@pytest.mark.parametrize(("days", "pruned"), [(89.9, 0), (90.1, 1)])
def test_code_of_replaced_kernels_is_pruned(service: World, days: float, pruned: int) -> None:
    old, new = replaced(service, days)
    assert served_by(service, old)[0] == 200
    would = retention.prunable(service.db, KEEP)
    assert retention.prune(service.db, KEEP) == would
    assert (would.code, would.code_bytes > 0) == (pruned, bool(pruned))
    assert retention.prune(service.db, KEEP) == retention.Pruned()
    status = 410 if pruned else 200
    assert served_by(service, old) == [status] * 5 + [200, status]
    assert served_by(service, new) == [200] * 7
    if pruned:
        assert "was pruned on" in service.client.get(f"/v1/kernels/{old.id}").json()["detail"]
        store_kernel(service.db)  # the very same once more
        assert served_by(service, old)[0] == 410


def test_forever_keeps_code(service: World) -> None:
    replaced(service, 10_000)
    assert retention.prune(service.db, retention.Keep(None, None, None, None)) == retention.Pruned()


def test_a_key_that_was_pruned_is_free_again(service: World) -> None:
    first = service.post(BODY, Idempotency_Key="k")
    assert service.post({**BODY, "budget_s": 7}, Idempotency_Key="k").status_code == 409
    with service.db.write() as session:
        row = session.get_one(TuningRow, first.json()["id"])
        row.state, row.ended_at = "done", now() - timedelta(days=8)
    assert retention.prune(service.db, KEEP).idempotency_keys == 1
    assert service.post({**BODY, "budget_s": 7}, Idempotency_Key="k").status_code == 202
