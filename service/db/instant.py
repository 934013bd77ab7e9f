"""Statements that many requests make, run as short as can be: compiled once, without a session, on a connection kept.

On SQLite a row by its index takes some ten microseconds, less than the way to another thread and back, so it is read
where it is asked for, by the event loop. Nothing may wait there: a file that somebody else locks is `Held`. PostgreSQL
is asked for all who wait at once (`service.db.pipeline`).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Connection, Engine, Select

if TYPE_CHECKING:
    from service.db.pipeline import Pipeline

Rows = Sequence[tuple[Any, ...]]
"""Values as the driver has them: good to be compared, not to be read."""


class Held(Exception):
    """The database does not answer at once, or not at all: ask in the way that waits, and tells why."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """`text` is SQL for the driver; `names` of its parameters in order, None where it takes them by name."""

    text: str
    constants: Mapping[str, Any]
    names: tuple[str, ...] | None
    processors: Mapping[str, Callable[[Any], Any]]

    def bound(self, values: Mapping[str, Any]) -> Any:
        found = {**self.constants, **values}
        for name, process in self.processors.items():
            found[name] = process(found[name])
        return found if self.names is None else tuple(found[name] for name in self.names)


class Instant:
    """One for each database. Each statement sees the newest commit, and is a snapshot of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._prepared: dict[Select[Any], _Prepared] = {}
        self._lock = threading.Lock()
        self._kept: sqlite3.Connection | None = None
        self._pipeline: Pipeline | None = None

    async def rows(self, statement: Select[Any], values: Mapping[str, Any]) -> Rows:
        """What the statement finds for these values of its parameters. Raises Held."""
        if self._is_sqlite:
            return self.rows_now(statement, values)
        from service.db.pipeline import Unanswered  # with the driver, which SQLite has no use for

        self._pipeline = self._pipeline or _pipeline(self._engine)
        prepared = self._of(statement)
        try:
            return await self._pipeline.rows(prepared.text, prepared.bound(values))
        except Unanswered as error:
            raise Held from error

    def rows_now(self, statement: Select[Any], values: Mapping[str, Any]) -> Rows:
        """The same, in this thread."""
        if not self._is_sqlite:
            with self._single.connect() as connection:
                return self.rows_in(connection, statement, values)
        prepared = self._of(statement)
        with self._lock:
            try:
                cursor = self._sqlite().execute(prepared.text, prepared.bound(values))
                return cursor.fetchall()
            except sqlite3.Error as error:
                self._drop()
                raise Held from error

    def rows_in(self, connection: Connection, statement: Select[Any], values: Mapping[str, Any]) -> Rows:
        """The same values, as the transaction of `connection` sees them."""
        prepared = self._of(statement)
        return [tuple(row) for row in connection.exec_driver_sql(prepared.text, prepared.bound(values))]

    def close(self) -> None:
        """Closes the connections that are kept."""
        with self._lock:
            self._drop()
        if self._pipeline is not None:
            self._pipeline.close()

    def _of(self, statement: Select[Any]) -> _Prepared:
        found = self._prepared.get(statement)
        if found is None:
            found = self._prepared[statement] = _prepare(self._engine, statement)
        return found

    def _sqlite(self) -> sqlite3.Connection:
        if self._kept is None:
            pooled = self._engine.raw_connection()
            kept = cast(sqlite3.Connection, pooled.driver_connection)
            pooled.detach()  # it never goes back: another user would not expect it to be impatient
            kept.execute("PRAGMA busy_timeout=0").close()
            self._kept = kept
        return self._kept

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _pipeline(engine: Engine) -> Pipeline:
    """To the engine's server, on a connection that is not of its pool: that one is for threads."""
    from psycopg import AsyncConnection

    from service.db.pipeline import Pipeline

    positional, named = engine.dialect.create_connect_args(engine.url)

    async def connect() -> AsyncConnection[Any]:
        return await AsyncConnection.connect(*positional, **named, autocommit=True)

    return Pipeline(connect)


def _prepare(engine: Engine, statement: Select[Any]) -> _Prepared:
    compiled = statement.compile(dialect=engine.dialect, compile_kwargs={"render_postcompile": True})
    constants = compiled.construct_params(_check=False)
    processors = {}
    for name in constants:
        kind = compiled.binds[name].type
        if process := kind.dialect_impl(engine.dialect).bind_processor(engine.dialect):
            processors[name] = process
    names = tuple(compiled.positiontup or ()) if compiled.positional else None
    return _Prepared(str(compiled), constants, names, processors)
