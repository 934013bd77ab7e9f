"""Which errors of the search are the user's, to become a message on stderr and exit code 2 (see `compiler.faults`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

from compiler.errors import InvalidFusion, UnknownArch, UnknownCard, Unsupported
from compiler.faults import UsageFault, reporting, say
from fusetune.wire.problems import InvalidDocument
from search.cost.ranker import RankerError
from search.measure.device import DeviceLost
from search.tuning.journal import JournalError
from search.tuning.prepared import PreparedError
from search.tuning.results import ResultsError
from search.tuning.timed import TimedError

__all__ = ["BROKEN", "UsageFault", "reports_faults"]

P = ParamSpec("P")
R = TypeVar("R")

BROKEN = 1
"""Exit code where the machine failed, not the input."""

_FAULTS = (
    InvalidFusion,
    InvalidDocument,
    Unsupported,
    UnknownArch,
    UnknownCard,
    UsageFault,
    JournalError,
    PreparedError,
    ResultsError,
    RankerError,
    TimedError,
)


def reports_faults(command: Callable[P, R]) -> Callable[P, R]:
    """A command that says what is wrong with its input, without a traceback, and exits with 2.

    It exits with 1 where the machine failed: a GPU that is lost, a disk that is full.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (DeviceLost, OSError) as error:
            say(error)
            typer.echo("What was kept so far stays: the same command goes on from there.", err=True)
            raise typer.Exit(BROKEN) from None

    return reporting(*_FAULTS)(run)
