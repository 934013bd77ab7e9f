"""Databases with all tables and no rows, made by copying: migrating one for each test would take most of the time."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import URL, create_engine

from service.db.engine import Database
from service.db.migrate import ensure_ready

KINDS = ("sqlite", "postgresql")


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fusetune.db"
        with Database(f"sqlite:///{path}") as db:
            ensure_ready(db)
        return path.read_bytes()


def new_file(folder: Path) -> str:
    """The URL of a new SQLite database in `folder`, under the name that the service gives its own."""
    path = folder / "fusetune.db"
    path.write_bytes(_migrated())
    return f"sqlite:///{path}"


@contextmanager
def created(server: URL, template: str = "template0") -> Iterator[str]:
    """The URL of a new PostgreSQL database, dropped afterwards; a copy of another, to which nobody is connected."""
    name = f"fusetune_{uuid.uuid4().hex}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        # Files copied as files: from 15 on the server would log each of their pages, which takes twice as long.
        version = connection.dialect.server_version_info or (0,)
        how = "STRATEGY FILE_COPY" if version >= (15,) else ""
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template} {how}")
        try:
            yield server.set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()
