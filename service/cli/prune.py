"""`prune`: take away what is kept for a time only."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from service.cli.database import reports_faults
from service.cli.given import actor, settings_of
from service.cli.options import DatabaseUrl, DataDir
from service.db import keys, migrate
from service.db.engine import Database
from service.db.retention import Keep, Pruned, prunable
from service.db.retention import prune as prune_rows
from service.settings import FOREVER, Days, Settings

_DAYS = "DAYS|forever"


@reports_faults
def prune(
    code: Annotated[
        str | None, typer.Option(help="Source and cubin of kernels that another replaced. Default: 90.", metavar=_DAYS)
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Single times of trials, after their tuning. Default: 30.", metavar=_DAYS)
    ] = None,
    workers: Annotated[
        str | None, typer.Option(help="Workers that are not heard of any more. Default: 7.", metavar=_DAYS)
    ] = None,
    idempotency: Annotated[
        str | None, typer.Option(help="Idempotency-Keys, after their tuning. Default: 7.", metavar=_DAYS)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; take nothing away.")] = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Take away what is older than it is kept. Knobs, predictions, times and states of trials always stay."""
    settings = settings_of(
        database_url=database_url,
        data_dir=data_dir,
        keep_code_days=code,
        keep_samples_days=samples,
        keep_workers_days=workers,
        keep_idempotency_days=idempotency,
    )
    keep = _keep(settings)
    with Database(settings.db_url, must_exist=True) as database, database.faults():
        migrate.ensure_there(database)
        if dry_run:
            typer.echo(f"Would go: {_in_words(prunable(database, keep))}. Nothing was changed.")
            return
        gone = prune_rows(database, keep)
        if gone != Pruned():
            with database.write() as session:
                keys.audit(session, actor(), "pruned", "database", asdict(gone))
    typer.echo(f"Gone: {_in_words(gone)}.")


def _keep(settings: Settings) -> Keep:
    return Keep(
        code_days=_days(settings.keep_code_days),
        samples_days=_days(settings.keep_samples_days),
        workers_days=_days(settings.keep_workers_days),
        idempotency_days=_days(settings.keep_idempotency_days),
    )


def _days(kept: Days) -> float | None:
    return None if kept == FOREVER else float(kept)


def _in_words(gone: Pruned) -> str:
    return (
        f"code of {gone.code} replaced kernels ({gone.code_bytes / 2**20:.1f} MiB), samples of {gone.samples} trials, "
        f"{gone.workers} workers, {gone.idempotency_keys} Idempotency-Keys"
    )
