"""`python -m compiler emit`: the CUDA C++ of explicit schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compiler.arch import arch_named
from compiler.cli.explicit import emit_cases
from compiler.emit.cuda import kernel_only
from compiler.errors import UnknownArch
from compiler.faults import UsageFault, reporting


@reporting(UsageFault, UnknownArch)
def emit(
    schedule: Annotated[
        Path,
        typer.Option("--schedule", help="A case or a list of cases (JSON); - reads stdin.", metavar="FILE"),
    ],
    case: Annotated[str | None, typer.Option("--case", help="The case of that name alone.", metavar="NAME")] = None,
    arch: Annotated[
        str | None, typer.Option("--arch", help="Compile target. Default: sm_90a, or what the case needs.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="CUDA with the device pieces before the kernel.")] = False,
) -> None:
    """Print the CUDA of explicit schedules beside their steps. Needs no GPU.

    Exits with 2 where a case is illegal or has no lowering, with the reason on stderr.
    """
    target = None if arch is None else arch_named(arch)
    for text in emit_cases(schedule, case, target):
        typer.echo((text if full or (text.startswith("//") and "\n" not in text) else kernel_only(text)).rstrip("\n"))
