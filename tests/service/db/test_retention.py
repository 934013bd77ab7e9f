"""What is kept for a time goes after it, no sooner, in both databases; what later searches learn from stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db import cards, deletion, kernels, retention, trials
from service.db.cards import Presence
from service.db.engine import Database
from service.db.models import KernelRow, SampleRow, TrialRow, TuningRow, WorkerRow
from service.db.retention import Keep, Pruned
from service.db.types import now
from tests.service.db.rows import at_once, kernel, opened, posted

KEEP = Keep(code_days=90, samples_days=30, workers_days=7, idempotency_days=7)


def ago(days: float) -> datetime:
    return now() - timedelta(days=days)


def tuned(session: Session, days: float | None) -> str:
    """A tuning with two measured trials under an Idempotency-Key, ended so long ago; one that goes on for None."""
    row = opened(session, idempotency_key="k")
    for number in (0, 1):
        trials.record(session, row.id, TRIAL | {"number": number})
    if days is not None:
        row.state, row.ended_at = "done", ago(days)
    return row.id


TRIAL: dict[str, Any] = {
    "state": "measured", "scheduler": "flat", "point": {"vector": 8}, "predicted_us": 3.0,
    "predicted_terms": {"dram": 2.0}, "median_us": 4.0, "p10_us": 3.9, "p90_us": 4.1, "samples_us": [4.0, 4.1],
    "seconds": {"measure": 1.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("days", "pruned"),
    [
        pytest.param(None, Pruned(), id="it-goes-on"),
        pytest.param(6.9, Pruned(), id="all-is-kept"),
        pytest.param(7.1, Pruned(idempotency_keys=1), id="its-key-goes"),
        pytest.param(29.9, Pruned(idempotency_keys=1), id="its-samples-stay"),
        pytest.param(30.1, Pruned(idempotency_keys=1, samples=2), id="its-samples-go"),
    ],
)
def test_a_tuning_loses_samples_and_key_and_nothing_else(
    database: Database, days: float | None, pruned: Pruned
) -> None:
    with database.write() as session:
        id = tuned(session, days)
        before = [trials.as_json(row, ()) for row in session.scalars(select(TrialRow).order_by(TrialRow.number))]
    assert retention.prunable(database, KEEP) == pruned
    assert retention.prune(database, KEEP) == pruned
    with database.read() as session:
        rows = session.scalars(select(TrialRow).order_by(TrialRow.number))
        assert [trials.as_json(row, ()) for row in rows] == before
        assert len(session.scalars(select(SampleRow)).all()) == 2 - pruned.samples
        assert (session.get_one(TuningRow, id).idempotency_key is None) == bool(pruned.idempotency_keys)


def announce(session: Session, id: str, days: float, **columns: Any) -> None:
    key = posted(session)
    cards.announce(session, Presence(id, "host", 1, key[2], attached=False))
    row = session.get_one(WorkerRow, id)
    row.heartbeat_at = ago(days)
    for name, value in columns.items():
        setattr(row, name, value)


def busy(session: Session) -> None:
    announce(session, "old", 8)
    row = opened(session)
    row.state, row.worker_id = "running", "old"


@pytest.mark.parametrize(
    ("prepare", "pruned"),
    [
        pytest.param(lambda s: announce(s, "old", 6.9), 0, id="heard-of"),
        pytest.param(lambda s: announce(s, "old", 7.1), 1, id="not-heard-of"),
        pytest.param(lambda s: announce(s, "old", 7.1, stopped_at=ago(7.1)), 1, id="stopped"),
        pytest.param(busy, 0, id="a-tuning-names-it"),
        pytest.param(lambda s: announce(s, "old", 7.1, attached=True), 0, id="its-card-is-meant-by-who-names-none"),
    ],
)
def test_workers_long_gone_go(database: Database, prepare: Callable[[Session], None], pruned: int) -> None:
    with database.write() as session:
        announce(session, "last", 7.05)
        prepare(session)
        if pruned == 0 and prepare is not busy:
            announce(session, "last", 0)
    assert retention.prunable(database, KEEP).workers == pruned
    assert retention.prune(database, KEEP).workers == pruned
    with database.read() as session:
        assert (cards.worker(session, "old") is None) == bool(pruned)
        assert cards.worker(session, "last") is not None


def test_a_worker_whose_row_was_pruned_is_told(database: Database) -> None:
    with database.write() as session:
        announce(session, "w", 0)
        assert cards.beat(session, "w", None)
        session.delete(session.get_one(WorkerRow, "w"))
        session.flush()
        assert not cards.beat(session, "w", None)


def test_two_who_prune_take_it_away_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    with database.write() as session:
        key = posted(session)
        for n in range(4):
            kernels.publish(session, kernel(session, key, b"%d" % n, median_us=10.0 - n))
        for row in session.scalars(select(KernelRow).where(KernelRow.superseded_at.is_not(None))):
            row.superseded_at = ago(91)
    at_once(2, lambda _: retention.prune(database, KEEP))
    with database.read() as session:
        assert retention.prunable(database, KEEP) == Pruned()
        answering = kernels.current(session, key)
        assert answering is not None
        assert kernels.artifact(session, answering.artifact_sha256) == b"3"


def test_of_a_delete_and_a_publish_at_once_the_delete_stands(database: Database) -> None:
    with database.write() as session:
        key = posted(session)
        id = kernels.publish(session, kernel(session, key)).id

    def act(number: int) -> None:
        with database.write() as session:
            if number % 2:
                deletion.delete_kernel(session, id)
            else:
                try:
                    with session.begin_nested():
                        kernels.publish(session, kernel(session, key))
                except kernels.DeletedKernel:
                    pass

    at_once(6, act)
    with database.read() as session:
        assert kernels.get(session, id) is None
        assert kernels.current(session, key) is None
        assert deletion.deleted(session, id) is not None


def test_a_fusion_is_deleted_once_its_tunings_have_ended(database: Database) -> None:
    with database.write() as session:
        id = tuned(session, None)
        row = session.get_one(TuningRow, id)
        kernels.publish(session, kernel(session, (row.fingerprint, row.binding, row.card_id, row.policy), tuning_id=id))
        fingerprint = row.fingerprint
        with pytest.raises(deletion.InUse, match=id):
            deletion.delete_fusion(session, fingerprint)
        row.state = "done"
        session.flush()
        assert deletion.delete_fusion(session, fingerprint) == deletion.DeletedFusion(1, 1, 2)
        assert deletion.delete_fusion(session, fingerprint) is None
