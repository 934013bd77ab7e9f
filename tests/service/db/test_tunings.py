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
from service.views import tuning_views
from tests.service.db.rows import CARD_ID, at_once, digest, opened, posted, tuning

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


# In whose hand it is -------------------------------------------------------------------------------------------------


def test_a_tuning_is_in_the_hand_of_the_run_that_started_it_last(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id
        assert not tunings.is_held(session, id, "first")
        tunings.start(session, id, "worker", "first")
        assert tunings.is_held(session, id, "first")
        assert not tunings.advance(session, id, "searching", 5.0, "first")
    with database.write() as session:
        tunings.start(session, id, "worker", "second")  # of the same worker's id: the process is another
        assert not tunings.is_held(session, id, "first")
        assert tunings.is_held(session, id, "second")
        assert tunings.advance(session, id, "late", 9.0, "first")
        assert not tunings.advance(session, id, "searching", 4.0, "second")
        tunings.let_go(session, id, "first")
        assert tunings.is_held(session, id, "second")
    with database.read() as session:
        row = session.get_one(TuningRow, id)
        assert (row.phase, row.spent_s, row.worker_id) == ("searching", 5.0, "worker")


def test_a_tuning_that_has_ended_is_in_nobodys_hand(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id
        tunings.start(session, id, "worker", "run")
        tunings.finish(session, id, "done")
        assert not tunings.is_held(session, id, "run")
        assert not tunings.is_held(session, "nobody", "run")
        tunings.let_go(session, id, "run")
        assert session.get_one(TuningRow, id).worker_id == "worker"  # whose work it was


def test_deaths_are_counted_until_a_trial_is_kept(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id

    def deaths(*runs: str) -> list[int]:
        found = []
        for name in runs:
            with database.write() as session:
                row = tunings.start(session, id, "worker", name)
                assert row is not None
                found.append(row.deaths)
        return found

    assert deaths("a", "a", "b", "b", "c") == [0, 0, 1, 1, 2]
    with database.write() as session:
        tunings.let_go(session, id, "c")
    assert deaths("d", "e") == [2, 3]  # in good order it costs nothing
    with database.write() as session:
        tunings.note_life(session, id)
    assert deaths("e", "f") == [0, 1]


def test_what_was_let_go_waits_for_a_worker(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id
        tunings.start(session, id, "worker", "run")
        tunings.let_go(session, id, "run")
        row = session.get_one(TuningRow, id)
        assert (row.state, row.phase, row.worker_id) == ("running", "interrupted, waiting for a worker", None)


WORKERS = [
    pytest.param(tunings.SILENT_S - 5, False, False, False, id="lives"),
    pytest.param(tunings.SILENT_S + 5, False, False, True, id="silent"),
    pytest.param(0, True, False, True, id="took-leave"),
    pytest.param(0, False, True, True, id="let-go"),
]
"""How long a worker has been silent, whether it has stopped, whether it let go; whether its tuning is left."""


@pytest.mark.parametrize(
    ("silent_s", "stopped", "let_go", "is_left"),
    WORKERS,
)
def test_what_was_begun_and_is_left_is_told_from_what_only_waits(
    database: Database, silent_s: float, stopped: bool, let_go: bool, is_left: bool
) -> None:
    with database.write() as session:
        waits, id = opened(session, "waits"), opened(session).id
        cards.announce(session, cards.Presence("worker", "host", 1, CARD_ID, attached=True))
        worker = cards.worker(session, "worker")
        assert worker is not None
        worker.heartbeat_at = now() - timedelta(seconds=silent_s)
        worker.stopped_at = now() if stopped else None
        tunings.start(session, id, "worker", "run")
        if let_go:
            tunings.let_go(session, id, "run")
        one, other = tuning_views(session, [session.get_one(TuningRow, id), waits])
    assert (one.state, one.interrupted) == ("running", is_left)
    assert one.phase == ("interrupted, waiting for a worker" if is_left else "starting")
    assert (other.state, other.interrupted, other.phase) == ("queued", False, "waiting for a worker")


@pytest.mark.parametrize(
    ("silent_s", "stopped", "let_go", "ends"),
    WORKERS,
)
def test_a_cancelled_tuning_ends_at_once_where_no_worker_would_hear_of_it(
    database: Database, silent_s: float, stopped: bool, let_go: bool, ends: bool
) -> None:
    with database.write() as session:
        id = opened(session).id
        cards.announce(session, cards.Presence("worker", "host", 1, CARD_ID, attached=True))
        worker = cards.worker(session, "worker")
        assert worker is not None
        worker.heartbeat_at = now() - timedelta(seconds=silent_s)
        worker.stopped_at = now() if stopped else None
        tunings.start(session, id, "worker", "run")
        if let_go:
            tunings.let_go(session, id, "run")
    with database.write() as session:
        row = tunings.request_cancel(session, id)
        assert row is not None
        assert (row.state, row.phase) == (("cancelled", "") if ends else ("running", "stopping"))
        assert row.note.startswith("Cancelled while no worker had it in hand" if ends else "")
        assert tunings.advance(session, id, "searching", 1.0, "run")


def test_the_generator_of_the_trials_is_remembered(database: Database) -> None:
    with database.write() as session:
        id = opened(session).id
        answers = [tunings.set_generator(session, id, generator) for generator in ("1", "1", "2", "2")]
    assert answers == [None, None, "1", None]


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


@pytest.mark.parametrize("state", STATES)
def test_only_an_active_tuning_that_nobody_cancelled_is_joined(database: Database, state: str) -> None:
    joins = state in ("queued", "running")
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
