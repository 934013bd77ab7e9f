"""`audit`: who did what."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from service.cli.database import database_of, reports_faults
from service.cli.options import DatabaseUrl, DataDir
from service.db import keys, migrate


@reports_faults
def audit(
    actor: Annotated[str | None, typer.Option(help="Only what NAME did.", metavar="NAME")] = None,
    action: Annotated[
        str | None, typer.Option(help="Only such actions: kernel.deleted, say.", metavar="ACTION")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only what was done to this id or name.", metavar="ID")] = None,
    limit: Annotated[int, typer.Option(help="Lines at most.", min=1, max=100_000)] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Show who did what, the newest first."""
    with database_of(database_url, data_dir) as database:
        migrate.ensure_there(database)
        with database.read() as session:
            rows, _ = keys.audit_page(session, None, limit, actor, action, subject)
    if as_json:
        for row in rows:
            entry = {"at": row.at.isoformat(), "actor": row.actor, "action": row.action, "subject": row.subject}
            typer.echo(json.dumps({**entry, "detail": row.detail}))
        return
    for row in rows:  # no table: what was done to which id is never cut short
        detail = f"  {json.dumps(row.detail)}" if row.detail else ""
        typer.echo(f"{row.at:%Y-%m-%d %H:%M:%S} UTC  {row.actor}  {row.action}  {row.subject}{detail}")
