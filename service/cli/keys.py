"""`keys`: make, list and revoke the keys that requests carry."""

from __future__ import annotations

import getpass
import os
from datetime import datetime
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from compiler.faults import UsageFault, reporting
from fusetune.wire.service import Name
from service.cli.database import DatabaseUrl, DataDir, database_of
from service.db import keys as rows
from service.db import migrate
from service.db.engine import DatabaseFault

_reports_faults = reporting(UsageFault, DatabaseFault, rows.NameTaken)

KeyName = Annotated[str, typer.Argument(help="Who holds the key: letters, digits and _ . + -", metavar="NAME")]

keys = typer.Typer(help="The keys that requests carry: make one, list them, revoke one.", no_args_is_help=True)


@keys.command()
@_reports_faults
def create(name: KeyName, database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Make a key and print it, this once: only its hash is kept. Makes the database if there is none."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise UsageFault(f"NAME: found {name!r:.100}, expected 1 to 80 letters, digits and _ . + -") from None
    with database_of(database_url, data_dir, must_exist=False) as database:
        migrate.ensure_there(database)
        with database.write() as session:
            key = rows.create(session, name)
            rows.audit(session, _actor(), "key.created", name)
    typer.echo(key)
    typer.echo(f"This is the key of {name}. Keep it now: it is not shown again.", err=True)


@keys.command("list")
@_reports_faults
def list_keys(database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """List the keys by name, revoked ones included. The keys themselves are kept nowhere."""
    with database_of(database_url, data_dir) as database:
        migrate.ensure_there(database)
        with database.read() as session:
            found = rows.every(session)
    if not found:
        typer.echo("There are no keys. Make one with `python -m service keys create NAME`.")
        return
    table = Table("name", "made (UTC)", "revoked (UTC)", box=None, pad_edge=False)
    for row in found:
        table.add_row(row.name, _minute(row.created_at), "" if row.revoked_at is None else _minute(row.revoked_at))
    Console(highlight=False, soft_wrap=True).print(table)


@keys.command()
@_reports_faults
def revoke(name: KeyName, database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Accept the key of that name no more. Revoking it again does nothing."""
    with database_of(database_url, data_dir) as database:
        migrate.ensure_there(database)
        with database.write() as session:
            if not rows.revoke(session, name):
                raise UsageFault(f"there is no key named {name!r:.100}. See `python -m service keys list`.")
            rows.audit(session, _actor(), "key.revoked", name)
    typer.echo(f"The key of {name} is accepted no more.")


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _actor() -> str:
    """The user of this process, for the audit trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number only
        user = str(os.getuid())
    return f"command:{user}"[:120]
