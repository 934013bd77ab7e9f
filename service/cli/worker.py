"""`worker`: tune on this machine's GPU what the service is asked for; without one, compile for a card."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fusetune.errors import UnusableKey
from search.cli.faults import UsageFault, reports_faults
from service import log
from service.cli.given import settings_of
from service.cli.options import DatabaseUrl, DataDir, JobsUrl, LogFormat
from service.db.engine import DatabaseFault
from service.jobs.presence import FolderRefused, WorkerRefused
from service.jobs.queue import QueueUnavailable
from service.jobs.worker import run_worker

Device = Literal["auto", "fake", "none"]


@reports_faults
def worker(
    database_url: DatabaseUrl = None,
    jobs_url: JobsUrl = None,
    data_dir: DataDir = None,
    worker_id: Annotated[
        str | None, typer.Option(help="Must stay the same over restarts. Default: HOST-0.", metavar="ID")
    ] = None,
    device: Annotated[
        Device | None, typer.Option(help="auto: the GPU, else compile only. none: compile only.", metavar="auto|none")
    ] = None,
    gpu: Annotated[int | None, typer.Option(help="Which GPU of this machine. Default: 0.", min=0)] = None,
    card: Annotated[
        str | None, typer.Option(help="GPU model to wait for, and to compile for without it.", metavar="NAME")
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Take tunings from the queue of this machine's card, one at a time.

    SIGTERM or Ctrl-C stops within seconds; the running tuning goes on with the next start of this id.
    """
    settings = settings_of(
        database_url=database_url,
        jobs_url=jobs_url,
        data_dir=data_dir,
        worker_id=worker_id,
        device=device,
        gpu=gpu,
        card=card,
        log_format=log_format,
    )
    log.configure(settings.log_format)
    try:
        code = run_worker(settings)
    except (DatabaseFault, QueueUnavailable, UnusableKey, WorkerRefused, FolderRefused) as error:
        raise UsageFault(str(error)) from None
    raise typer.Exit(code)
