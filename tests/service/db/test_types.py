"""A value means the same on both databases, or is refused on both."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import text
from sqlalchemy.exc import StatementError

from service.db import cards, fusions, kernels, keys, trials, tunings
from service.db.engine import Database
from service.db.models import AuditRow, FusionRow, TuningRow
from service.db.pages import cursor_of
from service.db.types import now
from tests.service.db.rows import CARD, DOCUMENT, digest, kernel, opened, posted


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(datetime(2026, 3, 29, 2, 30, 0, 1, UTC), id="utc"),
        pytest.param(datetime(2026, 3, 29, 2, 30, 0, 999999, timezone(timedelta(hours=5, minutes=45))), id="east"),
        pytest.param(datetime(2026, 12, 31, 23, 59, 59, 0, timezone(timedelta(hours=-8))), id="west-of-new-year"),
    ],
)
def test_a_moment_comes_back_as_the_same_moment_in_utc(database: Database, moment: datetime) -> None:
    with database.write() as session:
        session.add(FusionRow(fingerprint=digest("f"), document=DOCUMENT, text="", created_at=moment))
    with database.read() as session:
        kept = session.get_one(FusionRow, digest("f")).created_at
        assert (kept, kept.tzinfo) == (moment, UTC)


def test_the_zone_of_a_postgresql_session_changes_nothing(database: Database) -> None:
    moment = now()
    with database.write() as session:
        session.add(FusionRow(fingerprint=digest("f"), document=DOCUMENT, text="", created_at=moment))
    with database.read() as session:
        if database.engine.dialect.name == "postgresql":
            session.execute(text("SET TIME ZONE 'Asia/Kathmandu'"))
        assert session.get_one(FusionRow, digest("f")).created_at == moment
        assert fusions.page(session, cursor_of(moment + timedelta(microseconds=1), ""), 5).rows
        assert not fusions.page(session, cursor_of(moment, digest("f")), 5).rows


def test_a_moment_without_a_zone_is_refused(database: Database) -> None:
    with pytest.raises(StatementError, match="needs a time zone"), database.write() as session:
        session.add(FusionRow(fingerprint="f", document=DOCUMENT, text="", created_at=datetime(2026, 1, 1)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused_and_nothing_is_kept(database: Database, value: float) -> None:
    with pytest.raises(StatementError, match="expected a finite number"), database.write() as session:
        opened(session, budget_s=value)
    with pytest.raises((StatementError, ValueError), match="not JSON compliant"), database.write() as session:
        session.add(AuditRow(actor="a", action="b", subject="c", detail={"deep": [value]}))
    with database.read() as session:
        assert not tunings.page(session, None, 5).rows


def test_json_comes_back_as_it_was_written(database: Database) -> None:
    detail = {"z": -0.0, "a": [1e16, 1e-300, 2**70, 1, 1.0, True, None, ""], "nul": "\x00", "half": "\ud800", "é": {}}
    with database.write() as session:
        session.add(AuditRow(actor="a", action="b", subject="c", detail=detail))
    with database.read() as session:
        kept = session.query(AuditRow).one().detail
        assert repr(kept) == repr(detail)


def test_none_in_a_json_column_is_null(database: Database) -> None:
    with database.write() as session:
        opened(session, refused=None)
    with database.read() as session:
        assert session.query(TuningRow).where(TuningRow.refused.is_(None)).count() == 1


def test_text_that_no_database_holds_is_mended(database: Database) -> None:
    with database.write() as session:
        id = opened(session, note="before\x00after \ud800 é 🚀").id
    with database.read() as session:
        assert session.get_one(TuningRow, id).note == "before\ufffdafter \ufffd é 🚀"


@pytest.mark.parametrize(
    "id", [pytest.param("a\x00b", id="nul"), pytest.param("x" * 100_000, id="long"), pytest.param("\ud800", id="half")]
)
def test_an_id_that_cannot_exist_is_not_found(database: Database, id: str) -> None:
    with database.read() as session:
        assert fusions.get(session, id) is None
        assert fusions.get_binding(session, id, id) is None
        assert cards.get(session, id) is None
        assert not cards.named(session, id)
        assert tunings.get(session, id) is None
        assert tunings.by_idempotency_key(session, id) is None
        assert not tunings.page(session, cursor_of(now(), id), 5, state=id, fingerprint=id).rows
        assert kernels.get(session, id) is None
        assert kernels.current(session, (id, id, id, id)) is None
        assert not kernels.page(session, None, 5, id, id, [id]).rows
        assert trials.page(session, id, None, 5, [id]) == ([], None)
        if id != "\ud800":  # a header cannot carry one, and a hash needs bytes
            assert keys.holder(session, id) is None
    with database.write() as session:
        assert not keys.revoke(session, id)
        assert tunings.request_cancel(session, id) is None


@pytest.mark.parametrize("number", [-(2**70), -1, 2**31 - 1, 2**31, 2**70])
def test_a_trial_number_that_cannot_exist_is_not_found(database: Database, number: int) -> None:
    with database.write() as session:
        id = opened(session).id
        trials.record(session, id, {"number": 0, "scheduler": "flat", "point": {}, "state": "illegal"})
    with database.read() as session:
        assert trials.samples(session, id, number) == []
        rows, after = trials.page(session, id, number, 5)
        assert ([row.number for row in rows], after) == ([0] if number < 0 else [], None)


def test_counts_and_seeds_go_beyond_32_bits(database: Database) -> None:
    with database.write() as session:
        id = opened(session, seed=2**32 - 1).id
        tunings.set_space(session, id, 2**62, 2**40, {"rule": 2**62}, {"rule": "why"})
    with database.read() as session:
        row = session.get_one(TuningRow, id)
        assert (row.seed, row.points, row.legal, row.refused) == (2**32 - 1, 2**62, 2**40, {"rule": 2**62})


def test_the_longest_names_are_kept(database: Database) -> None:
    with database.write() as session:
        key = posted(session, name="n" * 80)
        id = opened(session, name="n" * 80, idempotency_key="k" * 255).id
        tunings.start(session, id, "w" * 120)
        tunings.advance(session, id, "p" * 500, 1.0)
        worker = cards.Presence("w" * 120, "h" * 255, 1, cards.card_id(CARD), False, why="y" * 5000)
        cards.announce(session, worker)
        kernels.publish(session, kernel(session, key, generator="g" * 64, driver="d" * 64))
    with database.read() as session:
        row = session.get_one(TuningRow, id)
        assert (row.phase, row.worker_id) == ("p" * 80, "w" * 120)
        assert cards.workers(session)[0].why == "y" * 5000
