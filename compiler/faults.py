"""What all commands share: reading files, and faults of users as messages instead of tracebacks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

from compiler.errors import CompilerError

P = ParamSpec("P")
R = TypeVar("R")

FAULT = 2
"""Exit code for input that cannot be used."""

STDIN = Path("-")
"""Stands for standard input on a command line."""


class UsageFault(CompilerError):
    """A command line, or a file it names, that cannot be used: where, what was found, and how to mend it."""


def reporting(*faults: type[Exception]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a command: `faults` go to stderr, without a traceback, and the command exits with 2."""

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return command(*args, **kwargs)
            except faults as error:
                say(error)
                raise typer.Exit(FAULT) from None

        return run

    return decorate


def say(error: Exception) -> None:
    """An error on stderr: its notes (the file or case it is in), then its lines."""
    for line in [*getattr(error, "__notes__", []), *str(error).splitlines()]:
        typer.echo(f"error: {line}", err=True)


def read_text(path: Path, wanted: str) -> str:
    """The text of a file, or of standard input for `-`. Raises UsageFault; `wanted` says what to name instead."""
    try:
        return sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageFault(f"{path}: cannot be read ({reason}). Name {wanted}.") from None
