"""Options that commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

DatabaseUrl = Annotated[
    str | None, typer.Option(help="Our tables. Default: fusetune.db in the data folder.", metavar="URL")
]
JobsUrl = Annotated[
    str | None, typer.Option(help="The job queue's tables. Default: jobs.db in the data folder.", metavar="URL")
]
DataDir = Annotated[Path | None, typer.Option(help="Default: fusetune-data.", metavar="DIR")]
LogFormat = Annotated[Literal["console", "json"] | None, typer.Option(help="Default: console.")]
