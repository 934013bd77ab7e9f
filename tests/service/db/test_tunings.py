"""A tuning is opened once for a key, and goes through its states one way only."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.orm import Session

from compiler.arch import card_named
from service.db import cards, fusions, tunings
from service.db.engine import Database
from service.db.models import TuningRow
from service.db.types import now
from tests.service.db.rows import at_once, digest, opened, posted, tuning

STATES = ("queued", "running", "stopping", "done", "failed", "cancelled")
"""`stopping` is a running one that somebody has cancelled."""


def in_state(session: Session, state: str) -> str:
    """The id of a tuning in that state."""
    id = opened(session).id
    if state in ("running", "stopping"):
        tunings.start(session, id, "worker")
    if state == "stopping":
        tunings.request_cancel(session, id)
    if state in ("done", "failed", "cancelled"):
        tunings.start(session, id, "worker")
        tunings.finish(session, id, state, ended="first end", note="first note")
    return id


@pytest.mark.parametrize(
    ("state", "is_started", "after"),
    [
        ("queued", True, "running"),
        ("running", True, "running"),
        ("stopping", False, "cancelled"),
        ("done", False, "done"),
        ("failed", False, "failed"),
        ("cancelled", False, "cancelled"),
    ],
)
def test_start(database: Database, state: str, is_started: bool, after: str) -> None:
    with database.write() as session:
        id = in_state(session, state)
    with database.write() as session:
        row = tunings.start(session, id, "second")
        assert (row is not None) == is_started
    with database.read() as session:
        kept = session.get_one(TuningRow, id)
        assert kept.state == after
        assert (kept.worker_id == "second") == is_started
        assert (kept.ended_at is None) == (after == "running")


def test_a_second_start_keeps_the_moment_of_the_first(database: Database) -> None:
    with database.write() as session:
        id = in_state(session, "running")
        first = session.get_one(TuningRow, id).started_at
        again = tunings.start(session, id, "second")
        assert first is not None
        assert again is not None
        assert again.started_at == first


@pytest.mark.parametrize(
    ("state", "shall_stop", "phase", "spent_s"),
    [
        ("queued", True, "waiting for a worker", 0.0),
        ("running", False, "searching", 2.5),
        ("stopping", True, "stopping", 2.5),
        ("done", True, "", 0.0),
        ("failed", True, "", 0.0),
        ("cancelled", True, "", 0.0),
    ],
)
def test_advance(database: Database, state: str, shall_stop: bool, phase: str, spent_s: float) -> None:
    with database.write() as session:
        id = in_state(session, state)
    with database.write() as session:
        assert tunings.advance(session, id, "searching", 2.5) == shall_stop
    with database.read() as session:
        kept = session.get_one(TuningRow, id)
        assert (kept.phase, kept.spent_s) == (phase, spent_s)


@pytest.mark.parametrize(
    ("state", "after", "asked", "phase"),
    [
        ("queued", "cancelled", True, ""),
        ("running", "running", True, "stopping"),
        ("stopping", "running", True, "stopping"),
        ("done", "done", False, ""),
        ("failed", "failed", False, ""),
        ("cancelled", "cancelled", False, ""),
    ],
)
def test_request_cancel(database: Database, state: str, after: str, asked: bool, phase: str) -> None:
    with database.write() as session:
        id = in_state(session, state)
    with database.write() as session:
        row = tunings.request_cancel(session, id)
        assert row is not None
        assert row.state == after
    with database.read() as session:
        kept = session.get_one(TuningRow, id)
        assert (kept.state, kept.cancel_requested, kept.phase) == (after, asked, phase)
        assert (kept.ended_at is None) == (after == "running")
        assert bool(kept.note) == (after != "running")


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
@pytest.mark.parametrize("state", STATES)
def test_finish(database: Database, state: str, end: str) -> None:
    with database.write() as session:
        id = in_state(session, state)
    with database.write() as session:
        tunings.finish(session, id, end, ended="second end", note="n", error="e", kernel_id="k")
    with database.read() as session:
        kept = session.get_one(TuningRow, id)
        if state in ("done", "failed", "cancelled"):
            assert (kept.state, kept.ended, kept.note, kept.kernel_id) == (state, "first end", "first note", None)
        else:
            assert (kept.state, kept.ended, kept.note, kept.error) == (end, "second end", "n", "e")
            assert (kept.kernel_id, kept.phase) == ("k", "")
        assert kept.ended_at is not None


def test_a_tuning_ends_in_an_end(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id
    with pytest.raises(ValueError, match="found state running"), database.write() as session:
        tunings.finish(session, id, "running")
    with pytest.raises(NoResultFound), database.write() as session:
        tunings.finish(session, "nobody", "done")


def test_what_does_not_exist_is_none(database: Database) -> None:
    with database.write() as session:
        assert tunings.start(session, "nobody", "worker") is None
        assert tunings.request_cancel(session, "nobody") is None
        assert tunings.advance(session, "nobody", "searching", 1.0)


def test_many_requests_at_once_make_one_tuning(database: Database) -> None:
    with database.write() as session:
        key = posted(session)

    def request(_: int) -> tuple[str, bool]:
        with database.write() as session:
            row, is_new = tunings.open_or_join(session, tuning(key))
            return row.id, is_new

    answers = at_once(12, request)
    assert len({id for id, _ in answers}) == 1
    assert [is_new for _, is_new in answers].count(True) == 1


@pytest.mark.parametrize(
    ("state", "joins"),
    [("queued", True), ("running", True), ("stopping", True), ("done", False), ("failed", False), ("cancelled", False)],
)
def test_only_an_active_tuning_is_joined(database: Database, state: str, joins: bool) -> None:
    with database.write() as session:
        id = in_state(session, state)
        row, is_new = tunings.open_or_join(session, tuning(posted(session)))
        assert (row.id == id, is_new) == (joins, not joins)


@pytest.mark.parametrize("part", range(4), ids=["fingerprint", "binding", "card", "policy"])
def test_tunings_of_different_keys_do_not_meet(database: Database, part: int) -> None:
    with database.write() as session:
        key = posted(session)
        posted(session, "g")
        fusions.put_binding(session, key[0], "other", {})
        others = (digest("g"), "other", cards.put(session, card_named("H100 SXM"), attached=False).id, "other")
        tunings.open_or_join(session, tuning(key))
        fingerprint, binding, card_id, policy = (others[i] if i == part else key[i] for i in range(4))
        _, is_new = tunings.open_or_join(session, tuning((fingerprint, binding, card_id, policy)))
        assert is_new


def test_an_idempotency_key_is_used_once(database: Database) -> None:
    with database.write() as session:
        first = opened(session, "f", idempotency_key="again")
    with pytest.raises(IntegrityError), database.write() as session:
        opened(session, "g", idempotency_key="again")
    with database.read() as session:
        found = tunings.by_idempotency_key(session, "again")
        assert found is not None
        assert found.id == first.id
        assert tunings.by_idempotency_key(session, "never") is None


def test_a_cancel_and_a_start_at_once_agree(database: Database) -> None:
    """Whoever comes first: the tuning either ends before it began, or runs and knows that it shall stop."""
    for attempt in range(8):
        with database.write() as session:
            id = opened(session, f"fusion {attempt}").id

        def act(number: int, id: str = id) -> None:
            with database.write() as session:
                if number:
                    tunings.start(session, id, "worker")
                else:
                    tunings.request_cancel(session, id)

        at_once(2, act)
        with database.read() as session:
            row = session.get_one(TuningRow, id)
            assert row.cancel_requested
            assert (row.state, row.ended_at is None) in (("cancelled", False), ("running", True))


def test_the_line_before_a_tuning(database: Database) -> None:
    start = now()
    with database.write() as session:
        rows = [opened(session, f"f{n}", created_at=start + timedelta(seconds=n)) for n in range(5)]
        other = opened(session, "elsewhere", queue="another", created_at=start + timedelta(seconds=9))
        tunings.start(session, rows[0].id, "worker")  # runs: those behind it wait for it
        tunings.start(session, rows[1].id, "worker")
        tunings.finish(session, rows[1].id, "done")  # has ended: nobody waits for it
    with database.read() as session:
        found = tunings.ahead_of(session, [*rows, other])
        assert [found[row.id] for row in rows] == [0, 0, 1, 2, 3]
        assert found[other.id] == 0
        assert tunings.ahead(session, rows[4]) == 3
        assert tunings.ahead_of(session, []) == {}


def test_tunings_are_counted_and_listed_by_state(database: Database) -> None:
    with database.write() as session:
        ids = [opened(session, f"f{n}").id for n in range(4)]
        tunings.start(session, ids[0], "worker")
        tunings.request_cancel(session, ids[3])
    with database.read() as session:
        assert tunings.counts_by_state(session) == {"queued": 2, "running": 1, "cancelled": 1}
        assert tunings.queued(session) == 2
        assert [row.id for row in tunings.unfinished(session)] == ids[:3]
        assert {row.id for row in tunings.page(session, None, 10, state="queued").rows} == set(ids[1:3])
        assert tunings.page(session, None, 10, fingerprint=digest("f2")).rows[0].id == ids[2]
