"""`emulate`: a stored kernel run on the CPU under a sanitizer."""

from __future__ import annotations

from typing import Annotated

import typer

from compiler.cli.emulate import AsJson, Order, Save, Seed, finish
from compiler.cli.emulate import reports_faults as reports_kernel_faults
from compiler.emulate.launch import Completion
from compiler.emulated_runs import Subject, of_artifact
from compiler.faults import UsageFault, reporting
from compiler.wire import artifact_from_json
from service.cli.database import database_of, reports_faults
from service.cli.options import DatabaseUrl, DataDir
from service.db import kernels, migrate
from service.db.engine import Database

KernelId = Annotated[str, typer.Argument(help="Id of a kernel, as the dashboard and the API show it.", metavar="ID")]


@reporting(kernels.DamagedArtifact, kernels.PrunedArtifact)
@reports_kernel_faults
@reports_faults
def emulate(
    kernel_id: KernelId,
    order: Order = Completion.EAGER,
    seed: Seed = 0,
    save: Save = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
) -> None:
    """Run a stored kernel on the CPU, inputs random and outputs poisoned, and report its faults. Needs no GPU.

    Exits with 0 if there are none, 1 if there are, 2 for a kernel that is not there or cannot be run.
    """
    with database_of(database_url, data_dir) as database:
        subject = _subject(database, kernel_id)
    finish(subject, order, seed, save, as_json)


def _subject(database: Database, kernel_id: str) -> Subject:
    """The stored kernel. Raises UsageFault where there is none of that id, DamagedArtifact."""
    standing = migrate.standing(database)
    if standing != "current":
        raise migrate.fault_of(database, standing)
    with database.read() as session:
        row = kernels.get(session, kernel_id)
        if row is None:
            raise UsageFault(f"there is no kernel {kernel_id!r:.100}. See GET /v1/kernels, or the dashboard.")
        content = kernels.artifact(session, row.artifact_sha256)
    return of_artifact(artifact_from_json(content.decode()))
