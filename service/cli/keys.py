"""`keys`: make, list and revoke the keys that requests carry."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from compiler.faults import UsageFault, reporting
from fusetune.wire.service import Name
from service.access import SCOPES, KeyScope
from service.cli.database import database_of
from service.cli.given import actor
from service.cli.options import DatabaseUrl, DataDir
from service.db import keys as rows
from service.db import migrate
from service.db.engine import DatabaseFault
from service.db.models import NORMAL, ApiKeyRow
from service.db.types import now

_reports_faults = reporting(UsageFault, DatabaseFault, rows.NameTaken)

KeyName = Annotated[str, typer.Argument(help="Who holds the key: letters, digits and _ . + -", metavar="NAME")]

keys = typer.Typer(help="The keys that requests carry: make one, list them, revoke one.", no_args_is_help=True)


@keys.command()
@_reports_faults
def create(
    name: KeyName,
    scope: Annotated[
        KeyScope,
        typer.Option(help="read: look at what is stored; tune: search, too; admin: all.", metavar="|".join(SCOPES)),
    ] = "tune",
    expires_days: Annotated[
        float | None, typer.Option(help="Accepted for so many days. Default: until it is revoked.", metavar="DAYS")
    ] = None,
    priority: Annotated[
        int, typer.Option(help="Of its tunings that wait: 1 comes first, 9 last.", min=1, max=9)
    ] = NORMAL,
    tunings_a_day: Annotated[int | None, typer.Option(help="Tunings within 24 hours. Default: any.", min=1)] = None,
    gpu_s_a_day: Annotated[
        float | None, typer.Option(help="Seconds of a GPU within 24 hours. Default: any.", min=1, metavar="S")
    ] = None,
    requests_a_minute: Annotated[int | None, typer.Option(help="Requests a minute. Default: any.", min=1)] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it, this once: only its hash is kept. Makes the database if there is none."""
    terms = rows.Terms(scope, _moment(expires_days), priority, tunings_a_day, gpu_s_a_day, requests_a_minute)
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise UsageFault(f"NAME: found {name!r:.100}, expected 1 to 80 letters, digits and _ . + -") from None
    with database_of(database_url, data_dir, must_exist=False) as database:
        migrate.ensure_there(database)
        with database.write() as session:
            key = rows.create(session, name, terms)
            told = {word: str(value) for word, value in asdict(terms).items() if value is not None}
            rows.audit(session, actor(), "key.created", name, told)
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
    heads = ("name", "scope", "made (UTC)", "last used", "expires", "revoked", "priority", "limits")
    table = Table(*heads, box=None, pad_edge=False)
    for row in found:
        moments = (row.created_at, row.last_used_at, row.expires_at, row.revoked_at)
        table.add_row(row.name, row.scope, *map(_minute, moments), str(row.priority), _limits(row))
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
            rows.audit(session, actor(), "key.revoked", name)
    typer.echo(f"The key of {name} is accepted no more.")


def _minute(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _moment(days: float | None) -> datetime | None:
    """So many days from now. Raises UsageFault."""
    if days is None:
        return None
    if not 0 < days <= _MOST_DAYS:
        raise UsageFault(f"--expires-days: found {days:g}, expected a number above 0 and at most {_MOST_DAYS}.")
    return now() + timedelta(days=days)


_MOST_DAYS = 36_500


def _limits(row: ApiKeyRow) -> str:
    limits = (
        (row.tunings_a_day, "tunings a day"),
        (row.gpu_s_a_day, "GPU s a day"),
        (row.requests_a_minute, "requests a minute"),
    )
    return ", ".join(f"{value:g} {what}" for value, what in limits if value is not None)
