"""The one place where the errors of users become a message on stderr and exit code 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from compiler.errors import CompilerError, InvalidFusion, UnknownArch, UnknownCard, Unsupported
from fusetune.wire.problems import InvalidDocument
from search.journal import JournalError
from search.measure.device import DeviceLost
from search.prepared import PreparedError

P = ParamSpec("P")
R = TypeVar("R")

BROKEN = 1
"""Exit code where the machine failed, not the input."""

FAULT = 2
"""Exit code for input that cannot be used."""


class UsageFault(CompilerError):
    """A command line, or a file it names, that cannot be used: where, what was found, and how to mend it."""


_FAULTS = (
    InvalidFusion,
    InvalidDocument,
    Unsupported,
    UnknownArch,
    UnknownCard,
    UsageFault,
    JournalError,
    PreparedError,
)


def reports_faults(command: Callable[P, R]) -> Callable[P, R]:
    """A command that says what is wrong with its input, without a traceback, and exits with 2 (1 for a lost device)."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except _FAULTS as error:
            _say(error)
            raise typer.Exit(FAULT) from None
        except DeviceLost as error:
            _say(error)
            typer.echo("What was measured is kept: the same command goes on from there.", err=True)
            raise typer.Exit(BROKEN) from None

    return run


def _say(error: Exception) -> None:
    for line in [*getattr(error, "__notes__", []), *str(error).splitlines()]:
        typer.echo(f"error: {line}", err=True)
