"""Reading files of explicit schedules: one case, or a list of cases."""

from __future__ import annotations

import json
from pathlib import Path

from compiler.faults import UsageFault, read_text

WANTED = "a case or a list of cases (docs/contracts.md), or - for standard input"
_MAX_DIGITS = 400
"""Of an integer; Python refuses to read much longer ones."""


def read_documents(file: Path) -> list[object]:
    """The documents of a file as parsed JSON, not looked at yet. Raises UsageFault where it cannot be read."""
    return documents_in(file, read_text(file, WANTED))


def documents_in(file: Path, text: str) -> list[object]:
    """The same of the text of a file."""
    try:
        found = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise UsageFault(f"{file}: arrays or objects nested too deeply. Name {WANTED}.") from None
    except ValueError as error:
        raise UsageFault(f"{file}: not JSON ({error}). Name {WANTED}.") from None
    return found if isinstance(found, list) else [found]


def plain(text: str) -> str:
    """A text of a document as one may print it: what is no printable character is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _integer(digits: str) -> int | str:
    """One that is too long stays text, so that its case is refused and no other."""
    return int(digits) if len(digits) <= _MAX_DIGITS else f"an integer of {len(digits)} digits"
