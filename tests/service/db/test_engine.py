"""URLs, transactions, and several writers at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from service.db import fusions, keys
from service.db.engine import Database, DatabaseFault
from service.db.models import AuditRow
from tests.nursery import ROOT, Nursery
from tests.service.db.rows import DOCUMENT, at_once

WRITER = """
import sys
from service.db import keys, migrate
from service.db.engine import Database

with Database(sys.argv[1]) as database:
    migrate.ensure_ready(database)
    for number in range(int(sys.argv[2])):
        with database.write() as session:
            if not keys.every(session):  # a read first: what makes a deferred transaction fail
                keys.audit(session, "first", "wrote", str(number))
            keys.audit(session, sys.argv[3], "wrote", str(number))
"""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("nonsense", "unreadable URL", id="no-url"),
        pytest.param("postgresql://host:port/name", "unreadable URL", id="port"),
        pytest.param("mysql://host/name", "found mysql, expected sqlite or postgresql+psycopg", id="mysql"),
        pytest.param("postgresql+asyncpg://host/name", "found postgresql+asyncpg", id="driver"),
        pytest.param("sqlite+aiosqlite:///x.db", "found sqlite+aiosqlite", id="sqlite-driver"),
        pytest.param("sqlite://", "plain file", id="memory"),
        pytest.param("sqlite:///:memory:", "plain file", id="named-memory"),
        pytest.param("sqlite:///file:x?mode=memory&uri=true", "plain file", id="sqlite-uri"),
        pytest.param("sqlite:////dev/null/x.db", "its folder cannot be made", id="folder"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(DatabaseFault) as caught:
        Database(url)
    assert words in str(caught.value)


def test_no_message_shows_a_password() -> None:
    with pytest.raises(DatabaseFault) as caught:
        Database("mysql://me:secret@host/name")
    assert "secret" not in str(caught.value)
    with Database("postgresql://me:secret@127.0.0.1:1/name") as database:
        assert "secret" not in database.url
        with pytest.raises(DatabaseFault) as unreachable:
            database.ping()
    assert "secret" not in str(unreachable.value)
    assert "onnection refused" in str(unreachable.value)


def test_a_database_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(DatabaseFault, match="no such file"):
        Database(f"sqlite:///{tmp_path}/new/fusetune.db", must_exist=True)
    assert not list(tmp_path.iterdir())


def test_a_file_of_something_else_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes. " * 100)
    with Database(f"sqlite:///{path}") as database, pytest.raises(DatabaseFault, match="not a SQLite database"):
        database.ping()
    assert path.read_text() == "These are my notes. " * 100


def test_a_good_database_answers(database: Database) -> None:
    database.ping()


def test_a_block_that_raises_writes_nothing(database: Database) -> None:
    def fail() -> None:
        with database.write() as session:
            keys.audit(session, "a", "b", "c")
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.read() as session:
        assert session.query(AuditRow).count() == 0


def test_a_read_sees_one_moment(database: Database) -> None:
    with database.read() as session:
        assert session.query(AuditRow).count() == 0
        with database.write() as other:
            keys.audit(other, "a", "b", "c")
        assert session.query(AuditRow).count() == 0
    with database.read() as session:
        assert session.query(AuditRow).count() == 1


def test_foreign_keys_hold(database: Database) -> None:
    with pytest.raises(IntegrityError), database.write() as session:
        fusions.put_binding(session, "nowhere", "binding", {})


def test_two_threads_that_post_the_same_fusion_make_one_row(database: Database) -> None:
    def post(number: int) -> int:
        with database.write() as session:
            fusions.put(session, "f", DOCUMENT, "text", f"name{number}")
            return int(fusions.put_binding(session, "f", "b", {"number": number}).document["number"])

    kept = at_once(8, post)
    assert len(set(kept)) == 1
    with database.read() as session:
        assert len(fusions.page(session, None, 10).rows) == 1


@pytest.mark.parametrize("processes", [2, pytest.param(6, marks=pytest.mark.long)])
def test_processes_that_open_a_fresh_file_and_write_never_find_it_locked(
    tmp_path: Path, processes: int, nursery: Nursery
) -> None:
    url = f"sqlite:///{tmp_path / 'fusetune.db'}"
    names = [f"process{number}" for number in range(processes)]
    logs = [tmp_path / f"{name}.log" for name in names]
    writers = [nursery.fork(WRITER, [url, "60", name], {}, ROOT, log) for name, log in zip(names, logs, strict=True)]
    assert [(one.wait(), log.read_text()) for one, log in zip(writers, logs, strict=True)] == [(0, "")] * processes
    with Database(url) as database, database.read() as session:
        assert session.query(AuditRow).where(AuditRow.actor != "first").count() == processes * 60


def test_threads_that_open_a_fresh_file_at_once_all_get_in(tmp_path: Path) -> None:
    """SQLite switches to WAL at the first use: the one moment at which all want the whole file."""
    for attempt in range(4):
        url = f"sqlite:///{tmp_path / f'{attempt}.db'}"

        def use(_: int, url: str = url) -> None:
            with Database(url) as database:
                database.ping()

        at_once(8, use)


@pytest.fixture
def writing_elsewhere(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An open transaction elsewhere, on a file that is not in WAL mode yet: the switch is refused without a wait."""
    other = sqlite3.connect(tmp_path / "shared.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE theirs (number INTEGER)")
    yield other
    other.close()


def test_the_switch_to_wal_waits_for_a_writer(tmp_path: Path, writing_elsewhere: sqlite3.Connection) -> None:
    done = threading.Timer(0.2, lambda: writing_elsewhere.execute("COMMIT"))
    done.start()
    with Database(f"sqlite:///{tmp_path / 'shared.db'}") as database, database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    done.join()


def test_the_switch_to_wal_gives_up_in_the_end(tmp_path: Path, writing_elsewhere: sqlite3.Connection) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with Database(url, busy_ms=50) as database, pytest.raises(DatabaseFault, match="is locked"):
        database.ping()
    assert writing_elsewhere.in_transaction
