"""The command line of the compiler: one module a command."""

from __future__ import annotations

import typer

from compiler.cli.check import check
from compiler.cli.emit import emit
from compiler.cli.emulate import emulate
from compiler.cli.explain import explain
from compiler.cli.show import ShownStage, show

__all__ = ["ShownStage", "app"]

app = typer.Typer(
    help="The compiler: schedules of GPU fusions, judged, explained, and turned into CUDA C++ and machine code.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (show, check, explain, emit, emulate):
    app.command()(command)
