"""A database at the newest revision, on SQLite and on PostgreSQL, without rows for every test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import URL, delete

from service.db.engine import Database
from service.db.models import Base
from tests.service.databases import KINDS, created, new_file


@pytest.fixture(scope="session")
def postgres_at_head(postgres: URL, postgres_template: str) -> Iterator[Database]:
    """One database for all tests that change no table; each leaves it without rows."""
    with created(postgres, postgres_template) as url, Database(url) as database:
        yield database


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
            url = new_file(tmp_path)
        else:
            template: str = request.getfixturevalue("postgres_template")
            url = stack.enter_context(created(request.getfixturevalue("postgres"), template))
        yield stack.enter_context(Database(url))


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with all tables and no rows."""
    if request.param == "sqlite":
        yield new_file(tmp_path)
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
