"""The engine and its transactions: SQLite in WAL mode, or PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from service.db.instant import Instant
from service.db.types import loads
from service.db.unready import is_damaged

PATIENT_MS = 30_000
"""How long a SQLite writer waits for another one, where nobody waits for it."""

PROMPT_MS = 1_500
"""The same where somebody waits for an answer: ours hold the file for milliseconds, so then it is somebody else."""

_ASK_AGAIN_S = 0.01
"""How soon the switch to WAL is tried again: it takes other users well under a millisecond."""

_CONNECT_S = 10
"""How long a PostgreSQL server may take to accept a connection, unless the URL says otherwise."""

_IMMEDIATE = "fusetune_immediate"

_WRONG_URL = "write sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME."


class DatabaseFault(Exception):
    """The database cannot be used: `url` without its password, and `reason`."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"database {self.url}: {self.reason}"


class NoDatabase(DatabaseFault):
    """There is no such file yet."""


class Database:
    """An engine with the two kinds of transaction that the queries need."""

    def __init__(self, url: str, *, must_exist: bool = False, busy_ms: int = PATIENT_MS) -> None:
        """Nothing is connected yet. A SQLite file is made at its first use, unless it `must_exist`.

        Raises DatabaseFault for a URL that names no database of ours, NoDatabase for a file that is missing and must
        not be.
        """
        self.engine = _engine(url, must_exist, busy_ms)
        self.writing = self.engine.execution_options(**{_IMMEDIATE: True})
        """The engine whose SQLite transactions take the write lock at their start."""
        self.instant = Instant(self.engine)
        """For the few statements that every request makes."""
        is_sqlite = self.engine.dialect.name == "sqlite"  # there, a transaction always is one snapshot
        self._reading = self.engine if is_sqlite else self.engine.execution_options(**_SNAPSHOT)

    @property
    def url(self) -> str:
        """For people: the password is hidden."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session on one snapshot; nothing is written."""
        with Session(self._reading, autoflush=False, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits at the end of the block, and takes all back if the block raises.

        On SQLite it takes the write lock at its start: a transaction that has read could not always take it later.
        """
        with Session(self.writing, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Says what the database itself refuses in this block as a DatabaseFault: for commands and checks of health."""
        try:
            yield
        except DBAPIError as error:
            raise DatabaseFault(self.url, _reason(error)) from None

    def ping(self) -> None:
        """Raises DatabaseFault if the database does not answer."""
        with self.faults(), self.engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")

    def prove_writable(self) -> None:
        """Commits a transaction that changes nothing that anybody reads. Raises SQLAlchemyError if that cannot be.

        A lock alone would tell nothing of a full disk: only a commit writes.
        """
        with self.writing.begin() as connection:
            if self.engine.dialect.name == "sqlite":
                number = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
                connection.exec_driver_sql(f"PRAGMA user_version = {int(number)}")
            else:  # a lock on a row is written, and refused where nothing may be
                connection.exec_driver_sql("SELECT version_num FROM alembic_version FOR NO KEY UPDATE")

    def close(self) -> None:
        """Closes every connection."""
        self.instant.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}


def _reason(error: DBAPIError) -> str:
    lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
    first = lines[0].rstrip(".")
    if first == "file is not a database":
        return "the file is not a SQLite database. Name another file."
    if is_damaged(error):
        return f"{first}. Restore it from a backup."
    return f"{first}. Look whether it exists, is up, and may be used by this user."


def _engine(text: str, must_exist: bool, busy_ms: int) -> Engine:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise DatabaseFault("(unreadable URL)", _WRONG_URL) from None
    hidden = url.render_as_string(hide_password=True)
    match url.drivername:
        case "sqlite" | "sqlite+pysqlite":
            return _sqlite(url, hidden, must_exist, busy_ms)
        case "postgresql" | "postgresql+psycopg":
            return _postgresql(url)
        case other:
            raise DatabaseFault(hidden, f"found {other}, expected sqlite or postgresql+psycopg: {_WRONG_URL}")


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False)  # NaN is not JSON: PostgreSQL refuses it, and so would every reader


def _postgresql(url: URL) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        json_serializer=_json,
        connect_args={} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_S},
    )


def _sqlite(url: URL, hidden: str, must_exist: bool, busy_ms: int) -> Engine:
    path = url.database
    if not path or path == ":memory:" or path.startswith("file:"):
        raise DatabaseFault(hidden, "SQLite needs a plain file: several processes share it. Write sqlite:///PATH.")
    if must_exist and not Path(path).exists():
        raise NoDatabase(hidden, "there is no such file. Make it with `python -m service db upgrade`.")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseFault(hidden, f"its folder cannot be made ({error.strerror}). Choose another path.") from None
    # PostgreSQL reads what it stores of JSON; SQLite stores any text.
    engine = create_engine(url, json_serializer=_json, json_deserializer=loads)
    event.listen(engine, "connect", partial(_prepare_sqlite, busy_ms))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(busy_ms: int, connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver would begin transactions on its own, and not always
    connection.execute(f"PRAGMA busy_timeout={busy_ms}").close()
    _switch_to_wal(connection, busy_ms)
    for pragma in (
        "synchronous=NORMAL",  # a killed process loses nothing; a power cut may lose the last transactions, whole
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _switch_to_wal(connection: sqlite3.Connection, busy_ms: int) -> None:
    """Waits for its turn where others use the file: SQLite itself does so only at most of the moments.

    The switch reads the file's header and then wants the whole file. Of two connections that read and want more, SQLite
    refuses one at once, whatever `busy_timeout` says, since to wait would be a deadlock (SQLite, sqlite3_busy_handler).
    The refused one has let go of the file and may ask again. Raises sqlite3.OperationalError after `busy_ms`.
    """
    deadline = time.monotonic() + busy_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as refused:
            is_busy = refused.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte: extended codes tell why
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(_ASK_AGAIN_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options: Any = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_IMMEDIATE) else "BEGIN")
