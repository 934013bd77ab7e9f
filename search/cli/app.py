"""The command line: one module a command."""

from __future__ import annotations

import typer

from search.cli.measure import measure
from search.cli.prepare import prepare
from search.cli.rank import rank
from search.cli.space import space
from search.cli.trace import trace
from search.cli.tune import tune
from search.cli.watch import watch

app = typer.Typer(
    help="Search the schedules of a fusion for the fastest correct kernel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (tune, space, trace, prepare, measure, watch):
    app.command()(command)
app.add_typer(rank, name="rank")
