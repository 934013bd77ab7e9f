"""What all commands share: reading files, and faults of users as messages instead of tracebacks."""

from __future__ import annotations

import errno
import functools
import gzip
import sys
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

from compiler.errors import CompilerError

P = ParamSpec("P")
R = TypeVar("R")

FAULT = 2
"""Exit code for input that cannot be used."""

_GZIP = b"\x1f\x8b"
"""How files begin that gzip has made (RFC 1952)."""

MOST_UNZIPPED_BYTES = 1 << 28
"""Hundreds of times the largest artifact."""

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
    """An error on stderr: its notes (the file or case it is in), then its lines; of a file, what the system refused."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror is not None:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        where = "" if error.filename is None else f"{error.filename}: "
        text = f"{where}{error.strerror}. {'Make room' if is_full else 'Look at that path'}, or name another place."
    for line in [*getattr(error, "__notes__", []), *text.splitlines()]:
        typer.echo(f"error: {line}", err=True)


def read_text(path: Path, wanted: str) -> str:
    """The text of a file, compressed by gzip or not, or of standard input for `-`. Raises UsageFault; `wanted` says
    what to name instead."""
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return _unzipped(content).decode()
    except UnicodeDecodeError:
        reason = "not UTF-8 text"
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"damaged: {error}"
    except OSError as error:
        reason = error.strerror or str(error)
    raise UsageFault(f"{path}: cannot be read ({reason}). Name {wanted}.")


def _unzipped(content: bytes) -> bytes:
    if not content.startswith(_GZIP):
        return content
    with gzip.open(BytesIO(content)) as file:
        text = file.read(MOST_UNZIPPED_BYTES + 1)
    if len(text) > MOST_UNZIPPED_BYTES:
        raise EOFError(f"more than {MOST_UNZIPPED_BYTES >> 20} MiB when it is unzipped")
    return text
