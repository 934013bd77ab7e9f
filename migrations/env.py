"""Alembic runs this for every command. The service hands its connection over (`service.db.migrate`).

Without one, as when a developer asks for a new revision, it is the database of the settings.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from service.db.engine import Database
from service.db.models import Base
from service.db.rendering import SCHEMA_OPTIONS
from service.settings import Settings


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=connection.dialect.name == "sqlite",  # it changes a table by making it anew
        transactional_ddl=True,
        **SCHEMA_OPTIONS,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    _run(given)
else:
    with Database(Settings().db_url) as database, database.writing.begin() as own:
        _run(own)
