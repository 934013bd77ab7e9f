"""The command line: one module a command, loaded when it is called.

The API's container has no torch, no CUDA and no Optuna: `serve` must not load what only a worker has.
"""

from __future__ import annotations

import os
from importlib import import_module
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

COMMANDS = {
    "serve": ("service.cli.serve", "serve", "The REST API and the dashboard."),
    "worker": ("service.cli.worker", "worker", "Tune what the service is asked for, on this machine's GPU."),
    "ci": ("service.ci.command", "ci", "Hold a folder of fusions against a lock file."),
    "emulate": ("service.cli.emulate", "emulate", "Run a stored kernel on the CPU under a sanitizer."),
    "cards": ("service.cli.cards", "cards", "GPUs: attached here, known, and what the database has of each."),
    "db": ("service.cli.database", "db", "The database: upgrade, current, check."),
    "delete": (
        "service.cli.delete",
        "delete",
        "Take a kernel, or a fusion with all that is known of it, out for good.",
    ),
    "prune": ("service.cli.prune", "prune", "Take away what is kept for a time: code of replaced kernels, samples, …"),
    "audit": ("service.cli.audit", "audit", "Who did what, the newest first."),
    "signing": (
        "service.cli.signing",
        "signing",
        "The key that kernels are signed with: create, public, sign, forget.",
    ),
    "pack": ("service.cli.pack", "pack", "Kernels in one file: export, import, sign."),
    "keys": ("service.cli.keys", "keys", "API keys: create, list, revoke."),
}
"""Name: module, function or app in it, and its line in the list of commands."""

_SAY_SO = ("serve", "worker")
"""Commands that take seconds to load, and are left alone while they do: what watches them shall see that they began."""


class LazyGroup(TyperGroup):
    """The commands of the table above. `Any`: typer brings a click of its own, whose types it keeps private."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the table."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was called; one that is slow to load says so first."""
        if args and args[0] in _SAY_SO and "--help" not in args:
            from service import log  # what other commands need not load

            log.say_early("starting: loading", "json" if _wants_json(args) else "console", command=args[0])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, its module loaded now."""
        return command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list, without loading what it lists."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])


def _wants_json(args: list[str]) -> bool:
    """Whether the log is to be JSON, as the options say, which nobody has read yet, or else the environment."""
    said = [after for option, after in pairwise(args) if option == "--log-format"]
    said += [arg.partition("=")[2] for arg in args if arg.startswith("--log-format=")]
    return (said[-1] if said else os.environ.get("FUSETUNE_LOG_FORMAT", "")) == "json"


def command(name: str) -> Any:
    """The click command of one name of the table."""
    module, attribute, _ = COMMANDS[name]
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        return get_command(found)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(found)
    return get_command(alone)


app = typer.Typer(
    cls=LazyGroup,
    help="Tune fusions as a service: API, workers, database.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _service() -> None:
    """Without a callback typer takes a group without commands of its own for a mistake."""
