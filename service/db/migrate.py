"""Migrations: bring a database to the tables of `service.db.models`, or say why it is not there.

Alembic is configured here, not in a file: `migrations/` is found beside this package from any working directory.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import CheckConstraint, Connection, inspect, text

from service.db.engine import Database, DatabaseFault
from service.db.models import Base
from service.db.rendering import SCHEMA_OPTIONS, in_words

FOLDER = Path(__file__).resolve().parents[2] / "migrations"
UPGRADE = "python -m service db upgrade"

_VERSIONS = "alembic_version"
"""Alembic's table, whose one row is the revision."""

_LOCK = int.from_bytes(hashlib.sha256(b"fusetune migrations").digest()[:8], "big", signed=True)
"""PostgreSQL's advisory lock that a migrating process holds; the number only has to be ours."""

_one_thread = threading.Lock()
"""Alembic keeps the migration that runs in module globals: two threads would run each other's."""

Standing = Literal["empty", "behind", "current", "ahead", "foreign"]
"""How a database stands to this version: without tables; of an earlier, this, a later version; somebody else's."""


def head() -> str:
    """The revision of `service.db.models`."""
    found = _scripts().get_current_head()
    if found is None:
        raise DatabaseFault(str(FOLDER), "there are no migrations: this tree is incomplete. Get it again.")
    return found


def current(database: Database) -> str | None:
    """The revision that the database is at, None if it has none. Raises DatabaseFault if it cannot be read."""
    with database.faults(), database.engine.connect() as connection:
        return _revision(connection)


def is_current(database: Database) -> bool:
    """True if the database is at `head()`. Raises DatabaseFault if it cannot be read."""
    return current(database) == head()


def standing(database: Database) -> Standing:
    """How the database stands to this version. Raises DatabaseFault if it cannot be read."""
    with database.faults(), database.engine.connect() as connection:
        return _standing(connection)


def fault_of(database: Database, found: Standing) -> DatabaseFault:
    """Why a database of that standing is not used, and what to do. Raises DatabaseFault if it cannot be read."""
    with database.faults(), database.engine.connect() as connection:
        return _fault(database, connection, found)


def upgrade(database: Database) -> str | None:
    """Bring the database to `head()`, in one transaction; returns the revision it was at, None if it was empty.

    Of several processes at once, one does it and the others wait. Raises DatabaseFault, with nothing changed, if the
    database cannot be written, is ahead of this version, or is somebody else's.
    """
    with database.faults(), _exclusive(database) as connection:
        before, found = _revision(connection), _standing(connection)
        if found in ("ahead", "foreign"):
            raise _fault(database, connection, found)
        if found != "current":
            command.upgrade(_config(connection), "head")
        return before


def downgrade(database: Database, revision: str) -> None:
    """Take the database back to `revision`, or to nothing with "base": for tests. Data of later tables is lost."""
    with database.faults(), _exclusive(database) as connection:
        command.downgrade(_config(connection), revision)


def check(database: Database) -> list[str]:
    """What differs between this version and the database, a line each: revision, columns, types, keys, indexes.

    Raises DatabaseFault if the database cannot be read.
    """
    with database.faults(), database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=SCHEMA_OPTIONS)
        revision = _revision(connection)
        first = [] if revision == head() else [f"revision is {revision}, expected {head()}"]
        return first + in_words(compare_metadata(context, Base.metadata)) + list(_beyond_alembic(connection))


def ensure_ready(database: Database) -> None:
    """An empty database gets its tables; one of this version is left alone.

    Raises DatabaseFault for all others, and for a database that cannot be read: an operator upgrades by a command, with
    a copy kept, never by starting a process.
    """
    with database.faults(), database.engine.connect() as connection:
        found = _standing(connection)
        if found in ("behind", "ahead", "foreign"):
            raise _fault(database, connection, found)
    if found == "empty":
        upgrade(database)


def ensure_there(database: Database) -> None:
    """What a process does that starts: as `ensure_ready`, but an empty PostgreSQL is left alone. A SQLite file is the
    service's own; a server's database that is empty may be the wrong one, and is set up only when somebody says so.
    """
    if database.engine.dialect.name != "sqlite" and (found := standing(database)) == "empty":
        raise fault_of(database, found)
    ensure_ready(database)


def _scripts() -> ScriptDirectory:
    return _scripts_in(FOLDER)


@cache
def _scripts_in(folder: Path) -> ScriptDirectory:
    """Read once: they change with the version, and reading them takes longer than asking the database."""
    return ScriptDirectory(str(folder))


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))  # the parser substitutes %(…)s
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _exclusive(database: Database) -> Iterator[Connection]:
    """A connection in a transaction that no other migrating process is in at the same time."""
    with _one_thread, database.writing.connect() as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        driver: Any = connection.connection.driver_connection
        if is_sqlite:
            # A table is changed there by making it anew, and dropping the old one would touch the rows that refer to
            # it. The switch works outside a transaction only (sqlite.org/lang_altertable.html, section 7).
            driver.execute("PRAGMA foreign_keys=OFF").close()
        try:
            with connection.begin():
                if not is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                yield connection
                if is_sqlite and (broken := connection.exec_driver_sql("PRAGMA foreign_key_check").first()):
                    raise DatabaseFault(database.url, f"a row of {broken[0]} refers to no row of {broken[2]}.")
        finally:
            if is_sqlite:
                driver.execute("PRAGMA foreign_keys=ON").close()


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSIONS):
        return None
    return MigrationContext.configure(connection).get_current_revision()


def _standing(connection: Connection) -> Standing:
    tables = set(inspect(connection).get_table_names())
    revision = _revision(connection)
    if revision is None:
        return "foreign" if tables - {_VERSIONS} else "empty"
    try:
        _scripts().get_revision(revision)
    except CommandError:
        # Every version of ours has had this table.
        return "ahead" if "fusions" in tables else "foreign"
    return "current" if revision == head() else "behind"


def _fault(database: Database, connection: Connection, found: Standing) -> DatabaseFault:
    if found == "empty":
        return DatabaseFault(database.url, f"has no tables yet. Make them with `{UPGRADE}`.")
    if found == "foreign":
        tables = sorted(inspect(connection).get_table_names())
        shown = ", ".join(tables[:3]) + (", …" if len(tables) > 3 else "")
        return DatabaseFault(database.url, f"holds tables that are not fusetune's ({shown}). Name an empty one.")
    revision = _revision(connection)
    if found == "ahead":
        reason = f"is at revision {revision}, made by a newer version of fusetune than this ({head()}). Run that one."
    else:
        # Of a file the whole command can be said; a server's URL is shown without its password.
        url = f" --database-url {database.url}" if database.engine.dialect.name == "sqlite" else ""
        reason = f"is at revision {revision}, this version needs {head()}. Keep a copy, then run `{UPGRADE}{url}`."
    return DatabaseFault(database.url, reason)


def _beyond_alembic(connection: Connection) -> Iterator[str]:
    """What Alembic does not compare: check constraints by name, and whether an index is over a part of the rows."""
    database = inspect(connection)
    for table in Base.metadata.sorted_tables:
        if not database.has_table(table.name):
            continue
        wanted = {str(one.name) for one in table.constraints if isinstance(one, CheckConstraint)}
        held = {str(one["name"]) for one in database.get_check_constraints(table.name)}
        yield from (f"{table.name}: check constraint {name} is missing" for name in sorted(wanted - held))
        yield from (f"{table.name}: check constraint {name} is not ours" for name in sorted(held - wanted))
        option = f"{connection.dialect.name}_where"
        partial = {one["name"] for one in database.get_indexes(table.name) if option in one.get("dialect_options", {})}
        for index in table.indexes:
            if (index.name in partial) != (index.dialect_kwargs.get(option) is not None):
                yield f"{table.name}: index {index.name} covers other rows"
