"""Readiness is a commit that went through, and a file that somebody else holds is told of soon."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import URL
from sqlalchemy.exc import OperationalError, SQLAlchemyError

import fusetune
from compiler.generator import GENERATOR
from service.db.engine import PROMPT_MS, Database
from tests.service.api.world import REQUEST, World, world
from tests.service.databases import created


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[World]:
    """A service as `serve` runs it, but for how long it waits."""
    with patch("tests.service.api.world.Database", lambda url: Database(url, busy_ms=100)), world(tmp_path) as found:
        yield found


def test_while_somebody_else_writes_it_is_not_ready_and_says_so_soon(prompt: World) -> None:
    prompt.kernel()
    path = prompt.settings.db_url.removeprefix("sqlite:///")
    assert prompt.client.get("/readyz").json()["checks"]["database"] == "ok"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ready = prompt.client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "takes no write")
        refused = prompt.post({**REQUEST, "card": "H200", "refresh": True})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert prompt.post({**REQUEST, "card": "H200"}).status_code == 200, "what is only read goes on"
        assert prompt.client.get("/healthz").status_code == 200
    assert prompt.client.get("/readyz").status_code == 200
    assert PROMPT_MS < 2000


def test_a_full_disk_is_named(shared: World) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    with patch.object(Database, "prove_writable", side_effect=OperationalError("", {}, full)):
        ready = shared.client.get("/readyz")
    assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "its disk is full")


def test_readiness_changes_nothing_that_is_stored(shared: World) -> None:
    def version(becomes: int) -> object:
        """What it was, of the file, and has it be another."""
        with shared.db.writing.begin() as connection:
            was = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
            connection.exec_driver_sql(f"PRAGMA user_version = {becomes}")
            return was

    version(7)
    assert shared.client.get("/readyz").status_code == 200
    assert version(0) == 7


def test_a_postgresql_that_only_reads_takes_no_write(postgres: URL, postgres_template: str) -> None:
    with created(postgres, postgres_template) as url:
        with Database(url) as db:
            db.prove_writable()
            with db.engine.begin() as connection:
                name = db.engine.url.database
                connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        with Database(url) as db, pytest.raises(SQLAlchemyError, match="read-only"):
            db.prove_writable()


def test_there_is_one_version(shared: World) -> None:
    """What a wheel is called is read from the same line (`tool.hatch.version`)."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    path = Path(__file__).parents[3] / project["tool"]["hatch"]["version"]["path"]
    assert f'VERSION = "{fusetune.__version__}"' in path.read_text().splitlines()
    assert "version" in project["project"]["dynamic"]
    told = [shared.client.get(path).json() for path in ("/healthz", "/readyz")]
    assert [(one["version"], one["generator"]) for one in told] == [(fusetune.__version__, GENERATOR)] * 2
    assert shared.client.get("/openapi.json").json()["info"]["version"] == fusetune.__version__
