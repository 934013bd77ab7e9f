"""`delete`: kernels and fusions, taken out for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from compiler.faults import UsageFault, reporting
from service.cli.database import database_of, reports_faults
from service.cli.given import actor
from service.cli.options import DatabaseUrl, DataDir
from service.db import deletion, keys, migrate
from service.db.engine import Database

delete = typer.Typer(
    help="Take a kernel, or a fusion with all that is known of it, out for good.", no_args_is_help=True
)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@delete.command()
@reports_faults
def kernel(
    kernel_id: Annotated[str, typer.Argument(help="Id of a kernel.", metavar="ID")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Delete a kernel with its code. It is not served again, unless a search finds it that is asked for after this."""
    with _database(database_url, data_dir) as database:
        _ask(yes, f"kernel {kernel_id:.64}")
        with database.write() as session:
            row = deletion.delete_kernel(session, kernel_id)
            if row is None:
                was = deletion.deleted(session, kernel_id)
                when = "" if was is None else f" It was deleted on {was.deleted_at:%Y-%m-%d %H:%M} UTC."
                raise UsageFault(f"there is no kernel {kernel_id!r:.100}.{when} See GET /v1/kernels, or the dashboard.")
            told = {"fingerprint": row.fingerprint, "binding": row.binding, "card": row.card_id}
            keys.audit(session, actor(), "kernel.deleted", kernel_id, told)
    typer.echo(f"Kernel {kernel_id} is deleted.")


@delete.command()
@reporting(deletion.InUse)
@reports_faults
def fusion(
    fingerprint: Annotated[str, typer.Argument(help="Fingerprint of a fusion.", metavar="FINGERPRINT")],
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Delete a fusion with its bindings, kernels, tunings and trials. Its tunings must have ended."""
    with _database(database_url, data_dir) as database:
        _ask(yes, f"fusion {fingerprint:.64} with its kernels, tunings and trials")
        with database.write() as session:
            gone = deletion.delete_fusion(session, fingerprint)
            if gone is None:
                raise UsageFault(f"there is no fusion {fingerprint!r:.100}. See GET /v1/fusions, or the dashboard.")
            keys.audit(session, actor(), "fusion.deleted", fingerprint, asdict(gone))
    typer.echo(
        f"Fusion {fingerprint} is deleted, with {gone.kernels} kernels, {gone.tunings} tunings, {gone.trials} trials."
    )


@contextmanager
def _database(database_url: str | None, data_dir: Path | None) -> Iterator[Database]:
    with database_of(database_url, data_dir) as database:
        migrate.ensure_there(database)
        yield database


def _ask(yes: bool, what: str) -> None:
    """Raises UsageFault where nobody says yes."""
    try:
        is_sure = yes or typer.confirm(f"Delete {what}?")
    except typer.Abort:  # nobody is there to answer
        is_sure = False
    if not is_sure:
        raise UsageFault("nothing was deleted. Say --yes, or answer y.")
