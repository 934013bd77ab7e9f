"""Settings from the options of a command: an option wins over its variable."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from compiler.faults import UsageFault
from fusetune.wire.parse import problem_of
from fusetune.wire.problems import Problem
from service.settings import Settings

_SECRETS = ("api_key", "database_url", "jobs_url")
"""Settings that hold passwords."""


def settings_of(**options: Any) -> Settings:
    """The settings with the options that are not None. Raises UsageFault for values that cannot be used."""
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        raise UsageFault("\n".join(_in_words(error))) from None


def _in_words(error: ValidationError) -> Iterator[str]:
    """A line for each setting, by its variable. What was given stands there only if no secret can be in it."""
    faults: dict[str, list[Problem]] = {}
    for one in error.errors():
        name = str(one["loc"][0])
        faults.setdefault(name, []).append(problem_of(one, f"FUSETUNE_{name.upper()}"))
    for name, found in faults.items():
        expected = " or ".join(dict.fromkeys(fault.expected.removeprefix("Value error, ") for fault in found))
        given = "what cannot be used" if name in _SECRETS else found[0].found
        fix = "Correct the variable, or the option if it came by one."
        yield f"{found[0].where}: found {given}, expected {expected}. {fix}"


def actor() -> str:
    """The user of this process, for the audit trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number only
        user = str(os.getuid())
    return f"command:{user}"[:120]


def as_environment(**options: Any) -> dict[str, str]:
    """The variables that give another process the same options."""
    return {f"FUSETUNE_{name.upper()}": str(value) for name, value in options.items() if value is not None}
