"""Settings from the options of a command: an option wins over its variable."""

from __future__ import annotations

import getpass
import os
from typing import Any

from pydantic import ValidationError

from compiler.faults import UsageFault
from service.settings import Settings


def settings_of(**options: Any) -> Settings:
    """The settings with the options that are not None. Raises UsageFault for values that cannot be used."""
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        fix = "Correct the option, or the variable FUSETUNE_NAME."
        raise UsageFault(f"The settings cannot be used: {faults}. {fix}") from None


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
