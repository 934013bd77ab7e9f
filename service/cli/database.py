"""`db`: upgrade the database, say at which revision it is, hold its tables against the models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from compiler.faults import UsageFault, reporting
from service.cli.given import settings_of
from service.cli.options import DatabaseUrl, DataDir
from service.db import migrate
from service.db.engine import Database, DatabaseFault

NOT_CURRENT = 1
"""Exit code of `db current` and `db check` for a database that can be read and is not as it should be."""

reports_faults = reporting(UsageFault, DatabaseFault)
"""Decorates a command: a database that cannot be used is one message on stderr, and exit code 2."""

db = typer.Typer(help="The database: upgrade it, look at its revision, check its tables.", no_args_is_help=True)


@contextmanager
def database_of(database_url: str | None, data_dir: Path | None, *, must_exist: bool = True) -> Iterator[Database]:
    """The database that the options name. Raises UsageFault for them, DatabaseFault for a database not to be used."""
    url = settings_of(database_url=database_url, data_dir=data_dir).db_url
    with Database(url, must_exist=must_exist) as database, database.faults():
        yield database


@db.command()
@reports_faults
def upgrade(database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Make the database, or bring its tables to this version. Nothing is changed if that fails."""
    with database_of(database_url, data_dir, must_exist=False) as database:
        before, head = migrate.upgrade(database), migrate.head()
        if before == head:
            typer.echo(f"{database.url} is at revision {head} already.")
        elif before is None:
            typer.echo(f"{database.url} was made, at revision {head}.")
        else:
            typer.echo(f"{database.url} was upgraded from revision {before} to {head}.")


@db.command()
@reports_faults
def current(database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Say at which revision the database is. Exit code 1 if it is not the one of this version."""
    with database_of(database_url, data_dir) as database:
        standing = migrate.standing(database)
        if standing == "current":
            typer.echo(f"{database.url} is at revision {migrate.head()}, the one of this version.")
            return
        fault = migrate.fault_of(database, standing)
        if standing == "foreign":
            raise fault
        typer.echo(fault)
        raise typer.Exit(NOT_CURRENT)


@db.command()
@reports_faults
def check(database_url: DatabaseUrl = None, data_dir: DataDir = None) -> None:
    """Hold the tables of the database against this version: a line and exit code 1 for differences."""
    with database_of(database_url, data_dir) as database:
        standing = migrate.standing(database)
        if standing in ("empty", "foreign"):
            raise migrate.fault_of(database, standing)
        differences = migrate.check(database)
        for line in differences:
            typer.echo(line)
        if differences:
            typer.echo(f"{database.url}: {len(differences)} differences from revision {migrate.head()}.", err=True)
            raise typer.Exit(NOT_CURRENT)
        typer.echo(f"{database.url} has the tables of revision {migrate.head()}.")
